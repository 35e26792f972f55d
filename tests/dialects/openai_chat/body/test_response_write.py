"""Whole responses, written for a client of the vendor."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest
from hypothesis import assume, given, reject
from msgspec import structs
from openai.types.chat import ChatCompletion
from support.bodies.samples import make_source
from support.draws import Draws, draws
from support.streams.content import decode, encode

from streamnorm import (
    Citation,
    EncodeError,
    Loss,
    LossyEncoding,
    Message,
    Opaque,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    Usage,
    accumulate,
    decode_message,
    encode_message,
    message_events,
    project,
    translate_message,
)
from streamnorm._core.bodies.request import ToolName


def read(body: dict[str, Any], **options: Any) -> Message:
    return decode_message(body, "openai_chat", **options)


EXAMPLE = Message(
    id="chatcmpl-sn-1",
    model="m",
    blocks=(
        Reasoning(("…",), "EqQB", "anthropic"),
        Text("Hi"),
        ToolCall("toolu_1", "f", '{"t":1}'),
    ),
    stop_reason="tool_use",
    raw_stop_reason="tool_use",
    usage=Usage(130, 40, 100),
)


def test_an_answer_of_another_vendor_is_written() -> None:
    encoded = encode_message(EXAMPLE, "openai_chat", created=1700000000.9)
    assert encoded.body == {
        "id": "chatcmpl-sn-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": None,
                "message": {
                    "role": "assistant",
                    "content": "Hi",
                    "refusal": None,
                    "reasoning_content": "…",
                    "tool_calls": [
                        {
                            "id": "toolu_1",
                            "type": "function",
                            "function": {"name": "f", "arguments": '{"t":1}'},
                        }
                    ],
                },
            }
        ],
        "usage": {
            "prompt_tokens": 130,
            "completion_tokens": 40,
            "total_tokens": 170,
            "prompt_tokens_details": {"cached_tokens": 100},
        },
    }
    assert [loss.feature for loss in encoded.losses] == ["signature"]


def written(*blocks: Any, **fields: Any) -> dict[str, Any]:
    """Return the only choice of a written message."""
    message = Message(blocks=blocks, **{"stop_reason": "end_turn", **fields})
    body = encode_message(message, "openai_chat").body
    ChatCompletion.model_validate(body, strict=True)
    (choice,) = body["choices"]
    return choice


def test_blocks_are_the_fields_of_one_message() -> None:
    assert written()["message"] == {"role": "assistant", "content": None, "refusal": None}
    assert written(Refusal("No."), stop_reason="refusal") == {
        "index": 0,
        "message": {"role": "assistant", "content": None, "refusal": "No."},
        "logprobs": None,
        "finish_reason": "stop",
    }
    custom = written(ToolCall("c", "p", "x", "custom"), stop_reason="tool_use")["message"]
    assert custom["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "p", "input": "x"}}
    ]
    bare = written(ToolCall("c", "f"), stop_reason="tool_use")["message"]
    assert bare["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_a_signed_call_is_written_with_its_signature() -> None:
    signed = ToolCall("c", "f", "{}", signature="c2ln", issuer="google")
    (call,) = written(signed, stop_reason="tool_use")["message"]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "c2ln"}}


def test_citations_are_annotations_of_the_whole_text() -> None:
    cited = Text("It rains.", (Citation("url_citation", "https://a.example", "A", end=2),))
    message = written(Text("Well. "), cited)["message"]
    assert message["content"] == "Well. It rains."
    assert message["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {
                "url": "https://a.example",
                "title": "A",
                "start_index": 6,
                "end_index": 8,
            },
        }
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause", "stop"),
        ("other", "stop"),
    ],
)
def test_every_stop_reason_has_a_finish_reason(reason: Any, finish: str) -> None:
    assert written(Text("Hi"), stop_reason=reason)["finish_reason"] == finish


def test_the_stop_sequence_stands_where_vllm_has_it() -> None:
    choice = written(Text("Hi"), stop_reason="stop_sequence", stop_sequence="END")
    assert choice["stop_reason"] == "END"


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"extra": {"service_tier": "flex"}}, "flex"),
        ({"usage": Usage(extra={"service_tier": "standard"})}, "default"),
        ({"extra": {"service_tier": "flex"}, "stop_extra": {"service_tier": "auto"}}, "auto"),
        ({"extra": {"service_tier": "batch"}}, None),
        ({"extra": {"service_tier": 5}}, None),
    ],
)
def test_the_tier_is_written_in_the_words_of_the_vendor(
    fields: dict[str, Any], tier: str | None
) -> None:
    message = Message(stop_reason="end_turn", **fields)
    body = encode_message(message, "openai_chat").body
    assert body.get("service_tier") == tier


@pytest.mark.parametrize(
    ("extra", "created"),
    [({"created": 17}, 17), ({"created_at": 18.0}, 18), ({"created": "x"}, 0), (None, 0)],
)
def test_the_time_is_that_of_the_answer(extra: Any, created: int) -> None:
    message = Message(stop_reason="end_turn", extra=extra)
    assert encode_message(message, "openai_chat").body["created"] == created
    assert encode_message(message, "openai_chat", created=5).body["created"] == 5


def test_an_unfinished_message_has_no_form() -> None:
    with pytest.raises(EncodeError, match="without a stop reason, expected a finished one"):
        encode_message(Message(blocks=(Text("Hi"),)), "openai_chat")


def test_losses_are_refused_where_none_are_allowed() -> None:
    sealed = Message(blocks=(RedactedReasoning("x", "anthropic"),), stop_reason="end_turn")
    assert encode_message(sealed, "openai_chat").losses
    with pytest.raises(LossyEncoding):
        encode_message(sealed, "openai_chat", strict=True)


def content(message: Message) -> dict[str, Any]:
    """Return what a client reads of a message, whatever its order of blocks."""
    return {
        "text": message.text,
        "reasoning": "".join(b.text for b in message.blocks if isinstance(b, Reasoning)),
        "refusal": "".join(b.text for b in message.blocks if isinstance(b, Refusal)),
        "calls": [
            (call.id, call.name, call.arguments or "{}", call.kind, call.signature)
            for call in message.tool_calls
        ],
        "stop": (message.stop_reason, message.stop_sequence),
        "usage": message.usage,
    }


def cited(message: Message) -> list[Any]:
    """Return the citations of a message, without their places in its blocks."""
    texts = [block for block in message.blocks if isinstance(block, Text)]
    return [(c.kind, c.url, c.title or "") for block in texts for c in block.citations]


@given(d=draws(320))
def test_a_body_is_read_as_the_stream_of_the_same_answer(d: Draws) -> None:
    source = d.pick(
        ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
    )
    message = accumulate(decode(make_source(d, source).frames, source).events)
    assume(message.stop_reason is not None)
    try:
        encoded = encode_message(message, "openai_chat")
    except EncodeError:  # a call that waits for the client in a form of its dialect
        reject()
    ChatCompletion.model_validate(encoded.body)
    stream, losses = encode(message_events(message), "openai_chat")
    assert {*encoded.losses} == {*losses}
    streamed = accumulate(decode([stream], "openai_chat").events)
    assert content(read(encoded.body)) == content(streamed)
    # A stream has the citations behind its calls, where they belong to no text any more.
    carried, _ = project(message_events(message), "openai_chat")
    assert cited(read(encoded.body)) == cited(accumulate(carried))


def token(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def test_data_of_the_dialect_stands_in_its_fields() -> None:
    first, second = {"type": "file", "file": {"name": "a"}}, {"type": "file", "file": {"name": "b"}}
    opaque = (
        Opaque("openai_chat", "logprobs", dumps({"content": [token("H")], "refusal": None}), 0),
        Opaque("openai_chat", "logprobs", dumps({"content": None}), 0),
        Opaque("openai_chat", "logprobs", dumps({"content": [token("i")]}), 0),
        Opaque("openai_chat", "annotations", dumps(first)),
        Opaque("openai_chat", "annotations", dumps(second)),
        Opaque("openai_chat", "audio", dumps({"id": "audio_1"}), 0),
        Opaque("openai_chat", "citations", dumps(["https://a"])),
    )
    message = Message("c", "m", (Text("Hi"),), "end_turn", opaque=opaque)
    encoded = encode_message(message, "openai_chat")
    assert encoded.losses == ()
    (choice,) = encoded.body["choices"]
    assert choice["logprobs"] == {"content": [token("H"), token("i")], "refusal": None}
    assert choice["message"]["annotations"] == [first, second]
    assert choice["message"]["audio"] == {"id": "audio_1"}
    assert encoded.body["citations"] == ["https://a"]


@pytest.mark.parametrize(
    ("pieces", "data"),
    [
        (["aGkh", "aGV5"], "aGkhaGV5"),
        (["aGk=", "aGV5"], "aGloZXk="),  # each piece with its padding: hi, hey
        (["aGk=", "é"], "aGk=é"),
        ([""], ""),
    ],
)
def test_sound_of_a_stream_is_whole_in_its_answer(pieces: list[str], data: str) -> None:
    """The deltas are those of gpt-audio: transcript, data and end of the sound."""
    deltas: list[dict[str, Any]] = [
        {"id": "audio_1", "transcript": "Sure"},
        {"transcript": "!"},
        *({"id": "audio_1", "data": piece, "transcript": None} for piece in pieces),
        {"expires_at": 1780070542},
    ]
    opaque = tuple(Opaque("openai_chat", "audio", dumps(delta)) for delta in deltas)
    body = encode_message(Message("c", "m", (), "end_turn", opaque=opaque), "openai_chat").body
    sound = body["choices"][0]["message"]["audio"]
    assert sound == {
        "id": "audio_1",
        "transcript": "Sure!",
        "data": data,
        "expires_at": 1780070542,
    }
    ChatCompletion.model_validate(body)


def test_event_without_a_field_in_a_body_is_a_loss() -> None:
    opaque = (Opaque("openai_chat", "queue.position", '{"position":3}'),)
    message = Message("c", "m", (Text("Hi"),), "end_turn", opaque=opaque)
    losses = encode_message(message, "openai_chat").losses
    assert losses == (Loss("opaque", "queue.position", 1, "no field, dropped"),)


def test_log_probabilities_are_lost_elsewhere() -> None:
    body = encode_message(EXAMPLE, "openai_chat").body
    body["choices"][0]["logprobs"] = {"content": [token("Hi")], "refusal": None}
    losses = translate_message(body, to="anthropic", dialect="openai_chat").losses
    assert Loss("opaque", "openai_chat logprobs", 1, "dropped") in losses


def test_body_is_revised_in_its_model_and_its_time() -> None:
    body = {**encode_message(EXAMPLE, "openai_chat").body, "moderation": None}
    message = read(body)
    assert encode_message(message, "openai_chat").body == body
    revised = encode_message(message, "openai_chat", model="mine", created=7.5).body
    assert revised == {**body, "model": "mine", "created": 7}


@pytest.mark.parametrize("index", [0, 0.0, "0", "0.0", "null", None])
def test_unknown_fields_of_a_choice_are_written_whatever_form_its_index_has(index: object) -> None:
    choice = {"index": index, "finish_reason": "stop", "message": {"content": "Hi"}, "mood": 1}
    message = structs.replace(read({"choices": [choice]}), id="c")
    (written,) = encode_message(message, "openai_chat").body["choices"]
    assert (written["index"], written["mood"]) == (0, 1)


def test_every_candidate_is_a_choice_with_its_own_finish_reason_and_losses() -> None:
    def candidate(index: int, reason: str, *parts: dict[str, Any]) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        return {"index": index, "content": content, "finishReason": reason}

    call = {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    body = {
        "responseId": "r",
        "modelVersion": "m",
        "candidates": [
            candidate(0, "STOP", {"text": "A"}),
            candidate(2, "STOP", call),
            candidate(1, "MAX_TOKENS", code, {"text": "B"}),
        ],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
    }
    encoded = translate_message(body, to="openai_chat", dialect="gemini")
    choices = ChatCompletion.model_validate(encoded.body).choices
    assert [(each.index, each.finish_reason, each.message.content) for each in choices] == [
        (0, "stop", "A"),
        (1, "length", "B"),
        (2, "tool_calls", None),
    ]
    assert [len(each.message.tool_calls or ()) for each in choices] == [0, 0, 1]
    assert encoded.body["usage"]["total_tokens"] == 5
    assert encoded.losses == (Loss("server_tool", "ServerToolCall", 1, "dropped"),)


@pytest.mark.parametrize("content", ["Hi", None])
def test_calls_get_the_names_of_the_client_beside_a_choice_without_calls(
    content: str | None,
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "crm__get", "arguments": "{}"}}
    said = {"role": "assistant", "content": content}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [
        {"index": 0, "finish_reason": "stop", "message": said},
        {"index": 1, "finish_reason": "tool_calls", "message": called},
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    body = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    reply = Reply(tools={"crm__get": ToolName("get", "crm")})
    written = translate_message({**body, "usage": usage}, to="openai_chat", reply=reply)
    message = written.body["choices"][1]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "get"


def test_calls_of_every_choice_get_the_names_of_the_client() -> None:
    def choice(index: int, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": "{}"}
        call = {"id": f"c{index}", "type": "function", "function": function}
        said = {"role": "assistant", "content": None, "tool_calls": [call], "mood": index}
        return {"index": index, "finish_reason": "tool_calls", "message": said, "tone": index}

    choices = [choice(0, "other"), choice(1, "crm__get")]
    body = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
    reply = Reply(tools={"crm__get": ToolName("get", "crm")})
    written = translate_message(body, to="openai_chat", reply=reply).body["choices"]
    calls = [each["message"]["tool_calls"][0]["function"]["name"] for each in written]
    assert calls == ["other", "get"]
    assert [(each["tone"], each["message"]["mood"]) for each in written] == [(0, 0), (1, 1)]


def test_data_of_a_later_choice_stands_in_that_choice() -> None:
    choices = [
        {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"},
        {
            "index": 1,
            "message": {"role": "assistant", "content": "b"},
            "finish_reason": "stop",
            "logprobs": {"content": [token("b")], "refusal": None},
        },
    ]
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    message = decode_message({**whole, "choices": choices}, "openai_chat")
    source = structs.replace(message.source, body=None)
    body = encode_message(structs.replace(message, source=source), "openai_chat").body
    assert body["choices"][1]["logprobs"] == choices[1]["logprobs"]
