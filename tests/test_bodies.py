"""Whole bodies of a dialect that is added from outside, by the public functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.example_dialect.bodies import codec
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import (
    Citation,
    Conversation,
    DecodeError,
    Encoded,
    EncodeError,
    InputMessage,
    Limits,
    Loss,
    LossyEncoding,
    Message,
    Reply,
    Request,
    StreamError,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    UnknownDialect,
    UpstreamError,
    Usage,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
    translate_message,
    translate_request,
)
from streamnorm._core.bodies.request import ToolName
from streamnorm._core.codec import BodyCodec
from streamnorm._registry import DIALECTS
from streamnorm.validation import validate_request

ASKED: dict[str, Any] = {
    "telegraph": "ask",
    "model": "fast-1",
    "say": [{"who": "user", "text": "Hello"}],
    "mood": "glad",
}
REQUEST = Request(model="fast-1", messages=(InputMessage("user", (Text("Hello"),)),))
ANSWERED: dict[str, Any] = {
    "telegraph": "answer",
    "id": "t1",
    "model": "fast-1",
    "blocks": [
        {"kind": "text", "text": "Hi"},
        {"kind": "call", "id": "c", "name": "f", "text": '{"a":1}'},
    ],
    "reason": "tool_use",
    "tokens": {"in": 3, "out": 2},
}
MESSAGE = Message(
    "t1", "fast-1", (Text("Hi"), ToolCall("c", "f", '{"a":1}')), "tool_use", "tool_use"
)
MESSAGE = structs.replace(MESSAGE, usage=Usage(3, 2))
FEW = Limits(max_blocks=5)
TEXT = {"type": "text", "text": "Hi"}


@pytest.fixture(autouse=True)
def telegraph() -> Iterator[None]:
    with registered(TELEGRAPH):
        yield


@pytest.mark.parametrize("dialect", ["telegraph", "wire", None])
def test_request_is_decoded(dialect: str | None) -> None:
    decoded = decode_request(json.dumps(ASKED), dialect)
    extra = {"telegraph": {"mood": "glad"}}
    assert structs.replace(decoded, source=None) == structs.replace(REQUEST, extra=extra)


def test_request_is_encoded_with_its_path_and_headers() -> None:
    encoded = encode_request(structs.replace(REQUEST, betas=("fast",), max_tokens=9), "wire")
    assert encoded.body == {
        "telegraph": "ask",
        "model": "fast-1",
        "say": [{"who": "user", "text": "Hello"}],
        "limit": 9,
    }
    assert (encoded.path, encoded.headers) == (
        "/telegraph/fast-1/send",
        {"x-telegraph-beta": "fast"},
    )
    assert encoded.losses == ()


def test_request_of_the_same_dialect_is_an_equal_body() -> None:
    assert translate_request(ASKED, to="telegraph").body == ASKED


@pytest.mark.parametrize("page", ["ui_message_stream", "ag_ui"])
def test_bound_of_a_page_s_messages_has_no_position_among_those_of_the_request(page: str) -> None:
    """A message of a page may be several of the request; a tool is one of both."""
    message = {"id": "1", "role": "user", "content": [TEXT] * 6, "parts": [TEXT] * 6}
    body = {"threadId": "t", "runId": "r", "messages": [message]}
    with pytest.raises(DecodeError, match=r"^\$\.messages: 6 blocks, expected at most 5"):
        decode_request(body, page, limits=FEW)
    tool = {"name": "x" * 600, "parameters": {}}
    with pytest.raises(DecodeError, match=r"^\$\.tools\[0\]\.name: 600 characters"):
        decode_request({**body, "messages": [], "tools": [tool]}, "ag_ui")


@pytest.mark.parametrize("value", [[1], None, 3, True, "[1]", b"null"])
def test_json_that_is_no_object_is_no_body(value: Any) -> None:
    """Routes pass on what their framework has decoded, and clients send any JSON."""
    for read in (decode_request, decode_message, Conversation.from_json, Conversation().append):
        with pytest.raises(DecodeError, match=r"^\$: no JSON object, expected one$"):
            read(value)
    with pytest.raises(DecodeError, match="no JSON object"):
        decode_request(value, "telegraph")
    with pytest.raises(DecodeError, match="no JSON object"):
        validate_request(value, "anthropic")


def test_path_decides_the_dialect_of_a_request() -> None:
    bare = {"model": "fast-1", "say": []}
    with pytest.raises(DecodeError, match="request of no known dialect, or of several, expected d"):
        decode_request(bare)
    for path in ("/v1/models", "/telegraph/fast-1/send?x=1"):
        with pytest.raises(DecodeError, match="request of no known dialect"):
            decode_request(bare, path=path)
    assert decode_request(bare, path="/telegraph/fast-1/send").model == "fast-1"
    assert translate_request(bare, to="wire", path="/telegraph/fast-1/send").body == bare


def test_reader_is_given_what_is_known_beside_the_body() -> None:
    known: list[Any] = []

    def noting() -> BodyCodec:
        def read_request(body: dict[str, Any], context: Any) -> Request:
            known.append((context.path, context.headers, context.limits))
            return REQUEST

        def read_response(body: dict[str, Any], context: Any) -> list[Any]:
            known.append((context.server, context.limits))
            return []

        return structs.replace(codec(), read_request=read_request, read_response=read_response)

    with registered(structs.replace(TELEGRAPH, name="noting", aliases=(), body=noting)):
        decode_request({}, "noting", path="/p", headers={"X-Beta": "b"}, limits=FEW)
        decode_request({}, "noting")
        decode_message({}, "noting", server="western", limits=FEW)
    assert known == [
        ("/p", {"x-beta": "b"}, FEW),
        ("", {}, Limits()),
        ("western", FEW),
    ]


def test_request_that_is_not_of_its_dialect_says_where() -> None:
    said = [{"who": "user", "text": "Hello"}, {"who": "user", "text": 1}]
    with pytest.raises(DecodeError, match=r"^\$\.say\[1\]\.text: .*, expected a string$"):
        decode_request({**ASKED, "say": said})


def test_losses_of_a_request_are_reported_or_refused() -> None:
    asked = structs.replace(REQUEST, temperature=1.0)
    loss = Loss("temperature", "request", 1, "dropped")
    assert encode_request(asked, "telegraph").losses == (loss,)
    with pytest.raises(LossyEncoding) as raised:
        encode_request(asked, "telegraph", strict=True)
    assert raised.value.losses == (loss,)


HALVES = Request(
    model="m",
    system=(Text("s\ud83d"),),
    messages=(
        InputMessage("user", (Text("a\ud83d"),)),
        InputMessage("assistant", (ToolCall("c", "f", '{"a":1}'),)),
        InputMessage("user", (ToolResult("c", (Text("\ude00b"),)),)),
    ),
    tools=(Tool("f", "d\ud83d", {"type": "object", "properties": {"a": {"enum": ["\ud83d"]}}}),),
)


@pytest.mark.parametrize("target", [name for name, known in DIALECTS.items() if known.codec])
def test_half_a_character_of_a_request_is_replaced_wherever_it_stands(target: str) -> None:
    """Providers refuse such JSON, and most clients of HTTP cannot write it."""
    encoded = encode_request(HALVES, target)
    text = json.dumps(encoded.body, ensure_ascii=False)
    text.encode()
    assert [text.count(part) for part in ("s\ufffd", "a\ufffd", "\ufffdb", "d\ufffd")] == [1] * 4
    assert Loss("half_character", "request", 1, "written as U+FFFD") in encoded.losses
    with pytest.raises(LossyEncoding):
        encode_request(Request(model="m", messages=HALVES.messages[:1]), target, strict=True)


def test_half_a_character_that_a_conversation_adds_is_replaced() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    chat = Conversation(decode_request(body, "openai_chat"))
    for text in ("\ud83d", "\U0001f600"):
        chat.append(InputMessage("user", (Text(text),)))
    encoded = chat.dump("openai_chat")
    assert [message["content"] for message in encoded.body["messages"]] == [
        "q",
        "\ufffd",
        "\U0001f600",
    ]


HALF_CHARACTER = Loss("half_character", "request", 1, "written as U+FFFD")


@pytest.mark.parametrize("target", [name for name, known in DIALECTS.items() if known.codec])
def test_half_a_character_of_a_body_is_a_loss_in_every_dialect(target: str) -> None:
    text = b'{"model":"m","messages":[{"role":"user","content":"a\\ud83db"}]}'
    body = {"model": "m", "messages": [{"role": "user", "content": "a\ud83db"}]}
    for asked in (text, text.decode(), body):
        encoded = translate_request(asked, to=target, dialect="openai_chat")
        assert json.dumps(encoded.body).count("a\\ufffdb") == 1
        assert HALF_CHARACTER in encoded.losses
        with pytest.raises(LossyEncoding):
            translate_request(asked, to=target, dialect="openai_chat", strict=True)


def test_half_a_character_of_a_body_is_a_loss_for_another_model_and_with_other_reasoning() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud83d"}]}
    request = structs.replace(decode_request(body, "openai_chat"), model="n")
    assert encode_request(request, "openai_chat").losses == (HALF_CHARACTER,)
    body |= {"reasoning_effort": "high", "thinking": {"type": "disabled"}}
    for server in ("deepseek", "openrouter", "zai", "vllm"):
        encoded = translate_request(body, to="openai_chat", dialect="openai_chat", server=server)
        assert HALF_CHARACTER in encoded.losses


def test_half_a_character_of_a_body_is_a_loss_of_its_conversation() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud83d"}]}
    chat = Conversation(decode_request(body, "openai_chat"))
    for known in (chat, Conversation.from_json(chat.to_json())):
        for target in ("openai_chat", "openai_responses"):
            assert HALF_CHARACTER in known.dump(target).losses


def test_half_a_character_of_arguments_is_a_loss_where_they_are_an_object() -> None:
    function = {"name": "f", "arguments": '{"s":"\\ud83d"}'}
    call = {"id": "c", "type": "function", "function": function}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ],
    }
    made = translate_request(body, to="anthropic", dialect="openai_chat")
    assert made.body["messages"][1]["content"][0]["input"] == {"s": "\ufffd"}
    assert Loss("half_character", "tool call", 1, "written as U+FFFD") in made.losses
    with pytest.raises(LossyEncoding):
        translate_request(body, to="bedrock_converse", dialect="openai_chat", strict=True)
    # As JSON text it is still the escape.
    made = translate_request(body, to="openai_responses", dialect="openai_chat")
    assert made.body["input"][1]["arguments"] == function["arguments"]
    assert "half_character" not in [loss.feature for loss in made.losses]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "gemini", "anthropic"])
@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": float("inf")}, "top_p"),
        ({"frequency_penalty": -float("inf")}, "frequency_penalty"),
        ({"presence_penalty": float("nan")}, "presence_penalty"),
        ({"logit_bias": {"7": 1.0, "8": float("nan")}}, "logit_bias.8"),
    ],
)
def test_numbers_of_a_program_that_no_json_has_are_refused(
    options: dict[str, Any], path: str, dialect: str
) -> None:
    asked = Request(model="m", messages=(InputMessage("user", (Text("Hi"),)),), **options)
    with pytest.raises(EncodeError, match="NaN or Infinity, expected a finite number") as caught:
        encode_request(asked, dialect)
    assert caught.value.path == path


def test_halves_that_a_program_joins_lose_nothing() -> None:
    asked = Request(model="m", messages=(InputMessage("user", (Text("\ud83d" + "\ude00"),)),))
    encoded = encode_request(asked, "openai_chat", strict=True)
    assert encoded.body["messages"][0]["content"] == "\U0001f600"
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud83d" + "\ude00"}]}
    encoded = translate_request(body, to="openai_chat", dialect="openai_chat", strict=True)
    assert encoded.body["messages"][0]["content"] == "\U0001f600"


def test_value_that_json_does_not_have_is_an_error() -> None:
    tool = Tool("f", None, {"type": "object", "default": object()})
    odd = Request(model="m", messages=(InputMessage("user", (Text("q"),)),), tools=(tool,))
    with pytest.raises(EncodeError, match="a value that JSON does not have, expected one of JSON"):
        encode_request(odd, "openai_chat")


def test_policy_for_arguments_reaches_the_writer() -> None:
    call = InputMessage("assistant", (ToolCall("c", "f", "[1]"),))
    result = InputMessage("user", (ToolResult("c", (Text("1"),)),))
    asked = structs.replace(REQUEST, messages=(call, result))
    with pytest.raises(EncodeError, match="arguments of 3 characters are no JSON object"):
        encode_request(asked, "telegraph")
    losses = encode_request(asked, "telegraph", arguments="raw").losses
    assert [loss.feature for loss in losses] == ["arguments_raw", "tool_call"]


@pytest.mark.parametrize("dialect", ["telegraph", "wire", None])
def test_message_is_decoded(dialect: str | None) -> None:
    assert decode_message(json.dumps(ANSWERED).encode(), dialect) == MESSAGE


def test_message_is_encoded() -> None:
    assert encode_message(MESSAGE, "telegraph").body == ANSWERED
    assert translate_message(ANSWERED, to="wire").body == ANSWERED


def test_model_of_an_encoded_message_can_be_named() -> None:
    renamed = {**ANSWERED, "model": "asked"}
    assert encode_message(MESSAGE, "telegraph", model="asked").body == renamed
    assert translate_message(ANSWERED, to="telegraph", model="asked").body == renamed


def test_answer_in_its_own_dialect_is_not_changed_unless_asked_to() -> None:
    own = {**ANSWERED, "mood": "glad"}
    reply = Reply({"f": ToolName("g")})
    assert translate_message(own, to="wire", reply=Reply()).body == own
    assert translate_message(own, to="telegraph", dialect="wire").body == own
    assert "mood" not in translate_message(own, to="telegraph", model="asked").body
    renamed = translate_message(own, to="telegraph", reply=reply).body
    assert [block.get("name") for block in renamed["blocks"]] == [None, "g"]


@pytest.mark.parametrize("target", ["anthropic", "gemini", "gemini_interactions"])
def test_other_answers_of_a_body_are_losses(target: str) -> None:
    said = {"role": "assistant", "content": "Hi"}
    choices = [{"index": n, "finish_reason": "stop", "message": said} for n in range(3)]
    body = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    losses = [each for each in translate_message(body, to=target).losses if "choice" in each.where]
    assert losses == [
        Loss("choices", "choice 1", 1, "dropped"),
        Loss("choices", "choice 2", 1, "dropped"),
    ]
    with pytest.raises(LossyEncoding):
        translate_message(body, to=target, strict=True)
    assert translate_message(body, to="openai_chat") == Encoded(body)
    message = decode_message(body)
    assert [each for each in encode_message(message, target).losses if "choice" in each.where]
    renamed = Encoded({**body, "model": "asked"})
    assert encode_message(message, "openai_chat", model="asked") == renamed
    assert translate_message(body, to="openai_chat", model="asked", strict=True) == renamed


def test_answer_without_the_calls_of_a_reply_is_not_written_anew() -> None:
    said = {"role": "assistant", "content": "Hi", "mood": "glad"}
    choices = [{"index": 0, "finish_reason": "stop", "message": said}]
    body = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    reply = Reply({"f": ToolName("g")})
    assert translate_message(body, to="openai_chat", reply=reply) == Encoded(body)


def test_losses_of_a_message_are_reported_or_refused() -> None:
    signed = structs.replace(MESSAGE, blocks=(Text("Hi", signature="s", issuer="i"),))
    (loss,) = encode_message(signed, "telegraph").losses
    assert loss.feature == "signature"
    with pytest.raises(LossyEncoding):
        encode_message(signed, "telegraph", strict=True)


@pytest.mark.parametrize("target", [name for name, known in DIALECTS.items() if known.codec])
def test_half_a_character_of_an_answer_is_replaced_as_a_loss(target: str) -> None:
    cited = Citation("url_citation", "https://a.b/\ud83d", start=0, end=1)
    call = ToolCall("c", "f", '{"a":"\ud83d"}')
    made = Message("m1", "m", (Text("a\ud83db", (cited,)), call), "tool_use", "tool_use")
    said = {"role": "assistant", "content": "a\ud83db"}
    choices = [{"index": 0, "finish_reason": "stop", "message": said}]
    answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    for encoded in (
        encode_message(made, target),
        encode_message(decode_message(answer), target, model="n"),
        translate_message(answer, to=target),
        translate_message(json.dumps(answer), to=target),
    ):
        written = json.dumps(encoded.body)
        assert "a\\ufffdb" in written
        assert "\\ud83d" not in written
        assert Loss("half_character", "response", 1, "written as U+FFFD") in encoded.losses
    with pytest.raises(LossyEncoding):
        translate_message(answer, to=target, strict=True)


def test_value_of_an_answer_that_json_does_not_have_is_not_searched() -> None:
    message = structs.replace(MESSAGE, extra={"mood": object()})
    assert encode_message(message, "telegraph").body == ANSWERED


def test_unfinished_message_has_no_legal_form() -> None:
    with pytest.raises(EncodeError):
        encode_message(structs.replace(MESSAGE, stop_reason=None), "telegraph")


def test_error_of_the_provider_is_raised_as_one() -> None:
    for translate in (decode_message, lambda body: translate_message(body, to="wire")):
        with pytest.raises(UpstreamError) as raised:
            translate({"telegraph": "fault", "message": "try later", "status": 529})
        assert (raised.value.message, raised.value.status) == ("try later", 529)
        assert raised.value.retryable


@pytest.mark.parametrize(
    "dialect",
    [
        *("openai_chat", "openai_responses", "anthropic", "gemini", "gemini_interactions"),
        *("telegraph", None),
    ],
)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "no key", "type": "authentication_error"}}, 401),
        ({"error": {"message": "no key", "code": 401, "status": "UNAUTHENTICATED"}}, 401),
        ({"type": "error", "error": {"type": "authentication_error", "message": "no key"}}, 401),
        ({"error": "no key"}, None),
    ],
    ids=["OpenAI", "Google", "Anthropic", "text"],
)
def test_error_body_is_an_error_of_the_provider_in_every_dialect(
    body: dict[str, Any], status: int | None, dialect: str | None
) -> None:
    with pytest.raises(UpstreamError) as raised:
        decode_message(body, dialect)
    assert (raised.value.message, raised.value.status) == ("no key", status)


def test_other_failure_of_an_answer_is_no_message() -> None:
    def failing() -> BodyCodec:
        failed = StreamError("malformed", "no answer")
        return structs.replace(codec(), read_response=lambda body, context: [failed])

    with (
        registered(structs.replace(TELEGRAPH, name="failing", aliases=(), body=failing)),
        pytest.raises(DecodeError, match=r"^\$: no answer$"),
    ):
        decode_message({}, "failing")


def test_response_of_no_known_dialect_is_refused() -> None:
    with pytest.raises(
        DecodeError, match="response of no known dialect, or of several, expected d"
    ):
        decode_message(ASKED)


def test_dialect_without_bodies_is_refused() -> None:
    with registered(structs.replace(TELEGRAPH, name="mute", aliases=(), body=None)):
        for use in (
            lambda: decode_request({}, "mute"),
            lambda: encode_request(REQUEST, "mute"),
            lambda: decode_message({}, "mute"),
            lambda: encode_message(MESSAGE, "mute"),
        ):
            with pytest.raises(
                UnknownDialect,
                match=r"^no whole bodies of dialect 'mute', expected one of .*telegraph$",
            ):
                use()
    with pytest.raises(UnknownDialect, match=r"^no dialect 'klingon', expected one of"):
        decode_request({}, "klingon")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("repair", "error, fill"),
        ("arguments", "error, raw, repair"),
        ("missing_tools", "error, drop"),
    ],
)
def test_unknown_policy_is_reported(option: str, expected: str) -> None:
    """Also where nothing in the request needs it."""
    policy: Any = {option: "eror"}
    error = f"{option} is 'eror', expected one of {expected}$"
    with pytest.raises(ValueError, match=error):
        encode_request(REQUEST, "openai_chat", **policy)
    with pytest.raises(ValueError, match=error):
        Conversation(REQUEST).dump("openai_chat", **policy)
