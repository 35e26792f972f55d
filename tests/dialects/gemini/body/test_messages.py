"""Contents as messages: roles, turns of the model, calls with their results."""

from __future__ import annotations

from base64 import b64encode
from operator import is_
from typing import Any

import pytest
from msgspec import structs
from support.gemini.bodies import Written, blocks_of, read, request_of, without_source

from streamnorm import (
    DecodeError,
    EncodeError,
    Image,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.text import tag_signature

PLACEHOLDER = "skip_thought_signature_validator"


@pytest.mark.parametrize(
    ("content", "role"),
    [
        ({"role": "user", "parts": []}, "user"),
        ({"role": "model", "parts": []}, "assistant"),
        ({"role": "", "parts": []}, "user"),
        ({"parts": []}, "user"),
        ({"role": None, "parts": None}, "user"),
        ({"role": "function", "parts": []}, "user"),
        ({"role": "tool", "parts": []}, "user"),
    ],
    ids=repr,
)
def test_roles_are_read(content: dict[str, Any], role: str) -> None:
    message = read({"contents": [content]}).messages[0]
    assert (message.role, message.blocks) == (role, ())


@pytest.mark.parametrize(
    "content",
    [
        {"role": "function", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "a"}], "other": 1},
    ],
    ids=repr,
)
def test_a_content_that_is_written_anew_keeps_its_fields(content: dict[str, Any]) -> None:
    request = without_source(read({"contents": [content]}))
    assert Written(request, typed=False).body == {"contents": [content]}


@pytest.mark.parametrize("role", ["system", "assistant", "Model", 1], ids=repr)
def test_other_roles_are_refused(role: object) -> None:
    with pytest.raises(DecodeError, match="expected user or model") as caught:
        read({"contents": [{"parts": []}, {"role": role, "parts": []}]})
    assert caught.value.path == "$.contents[1].role"


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"parts": "a"}, "$.contents[0].parts"),
        ({"parts": {"text": 1}}, "$.contents[0].parts[0].text"),
        ({"parts": [{"text": "a"}, "b"]}, "$.contents[0].parts[1]"),
        ({"parts": [{"text": 1}]}, "$.contents[0].parts[0].text"),
        ({"parts": [{"functionCall": {"name": 1}}]}, "$.contents[0].parts[0].functionCall.name"),
        ({"parts": [{"text": "a", "inlineData": {}}]}, "$.contents[0].parts[0]"),
    ],
    ids=repr,
)
def test_a_part_of_another_form_is_refused_with_its_path(
    content: dict[str, Any], path: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        read({"contents": [content]})
    assert caught.value.path == path


def test_messages_that_did_not_change_are_written_as_they_were() -> None:
    old = {"parts": [{"text": "a", "thought": False}], "role": "user"}
    request = read({"contents": [old, {"role": "user", "parts": [{"text": "b"}]}]})
    second = structs.replace(request.messages[1], blocks=(Text("c"),))
    changed = structs.replace(request, messages=(request.messages[0], second))
    contents = Written(changed).body["contents"]
    assert contents[0] is old
    assert contents[1] == {"role": "user", "parts": [{"text": "c"}]}


# Turns of the model: clients send back the pieces of the stream, one part each.


def test_pieces_of_one_text_are_one_block() -> None:
    parts = [{"text": "Hel"}, {"text": "lo"}, {"functionCall": {"name": "f"}}, {"text": "!"}]
    assert blocks_of(*parts, role="model") == (Text("Hello"), ToolCall("", "f"), Text("!"))


def test_parts_of_the_user_stay_apart() -> None:
    assert blocks_of({"text": "a"}, {"text": "b"}) == (Text("a"), Text("b"))


def test_pieces_of_one_thought_are_one_block_and_google_s_signature_stays_apart() -> None:
    parts = [
        {"text": "a", "thought": True},
        {"text": "b", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "c", "thought": True},
    ]
    assert blocks_of(*parts, role="model") == (
        Reasoning(("ab",)),
        Reasoning((), "c2ln", "google"),
        Reasoning(("c",)),
    )


def test_another_vendor_s_signature_belongs_to_the_thought_before_it() -> None:
    """The encoder of streams writes it on a part of its own."""
    tagged = b64encode(tag_signature("EqQB", "anthropic").encode()).decode()
    parts = [
        {"text": "a", "thought": True},
        {"text": "b", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": tagged},
        {"text": "c", "thought": True},
    ]
    assert blocks_of(*parts, role="model") == (
        Reasoning(("ab",), "EqQB", "anthropic"),
        Reasoning(("c",)),
    )
    assert blocks_of(*parts[2:3], *parts[2:3], role="model") == (
        Reasoning((), "EqQB", "anthropic"),
        Reasoning((), "EqQB", "anthropic"),
    )


def test_pieces_with_fields_of_their_own_stay_apart() -> None:
    parts = [{"text": "a"}, {"text": "b", "partMetadata": {}}, {"text": "c"}, {"text": "d"}]
    extra = {"gemini": {"partMetadata": {}}}
    assert blocks_of(*parts, role="model") == (Text("a"), Text("b", extra=extra), Text("cd"))


@pytest.mark.parametrize(
    "blocks",
    [
        (Text("a"), Text("b")),
        (Reasoning(("a",)), Reasoning(("b",))),
        (Reasoning(), Reasoning()),
    ],
    ids=repr,
)
def test_adjacent_pieces_are_a_loss_of_their_boundary(blocks: tuple[InputBlock, ...]) -> None:
    written = Written(request_of(*blocks, role="assistant"))
    assert written.lost == {"boundaries": 1}
    assert len(written.body["contents"][0]["parts"]) == 2
    assert len(read(written.body).messages[0].blocks) == 1


def test_texts_of_the_user_lose_no_boundary() -> None:
    assert Written(request_of(Text("a"), Text("b"))).lost == {}


def test_a_call_that_the_model_answers_itself_is_the_server_s() -> None:
    """With `mcpServers` the provider executes functions, and reports call and result."""
    called = {"name": "f", "args": {"a": 1}, "id": "1"}
    answered = {"name": "f", "id": "1", "response": {"output": "ok"}}
    by_name = {"name": "g", "response": {"output": "ok"}}
    parts = [
        {"text": "a"},
        {"functionCall": called, "thoughtSignature": "c2ln"},
        {"functionResponse": answered},
        {"function_call": {"name": "g"}},
        {"functionResponse": by_name},
        {"functionCall": {"name": "h"}},
    ]
    content = {"role": "model", "parts": parts}
    request = read({"contents": [content]})
    assert request.messages[0].blocks == (
        Text("a"),
        ServerToolCall(
            "1",
            "f",
            '{"name":"f","args":{"a":1},"id":"1"}',
            "functionCall",
            extra={"gemini": {"thoughtSignature": "c2ln"}},
        ),
        ServerToolResult("1", "functionResponse", answered),
        ServerToolCall("", "g", '{"name":"g"}', "functionCall"),
        ServerToolResult("", "functionResponse", by_name),
        ToolCall("", "h"),
    )
    written = Written(without_source(request), signature_placeholder=None).body["contents"][0]
    parts[3] = {"functionCall": {"name": "g"}}
    parts[5] = {"functionCall": {"name": "h", "args": {}}}
    assert written == content


# Chats of google-genai send back a content for each chunk of a stream.


def test_chunks_of_one_answer_are_one_message() -> None:
    tagged = b64encode(tag_signature("EqQB", "anthropic").encode()).decode()
    chunks: list[list[dict[str, Any]]] = [
        [{"text": "Let me", "thought": True}],
        [{"text": " look.", "thought": True}],
        [{"text": "", "thought": True, "thoughtSignature": tagged}],
        [{"text": "One"}],
        [{"text": " moment."}],
        [{"functionCall": {"name": "f", "id": "1"}}],
        [{"functionCall": {"name": "g", "id": "2"}}, {"text": ""}],
        [],
    ]
    answer = [{"role": "model", "parts": parts} for parts in chunks]
    asks = {"role": "user", "parts": [{"text": "a"}]}
    request = read({"contents": [asks, *answer, asks, answer[3]]})
    first, answered, second, last = request.messages
    assert (first.role, answered.role, second.role) == ("user", "assistant", "user")
    assert answered.blocks == (
        Reasoning(("Let me look.",), "EqQB", "anthropic"),
        Text("One moment."),
        ToolCall("1", "f"),
        ToolCall("2", "g"),
        Text(""),
    )
    assert last.blocks == (Text("One"),)


def test_chunks_that_did_not_change_are_written_as_they_were() -> None:
    chunks = [{"role": "model", "parts": [{"text": text}]} for text in ("One", " moment.")]
    request = read({"contents": [*chunks, {"role": "user", "parts": [{"text": "b"}]}]})
    changed = structs.replace(request, messages=(request.messages[0],))
    contents = Written(changed).body["contents"]
    assert all(map(is_, contents, chunks))
    assert len(contents) == len(chunks)


def test_contents_with_fields_of_their_own_and_of_the_user_stay_apart() -> None:
    contents = [
        {"role": "model", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}], "other": 1},
        {"role": "model", "parts": [{"text": "c"}]},
        {"role": "user", "parts": [{"text": "d"}]},
        {"role": "user", "parts": [{"text": "e"}]},
    ]
    assert [message.text for message in read({"contents": contents}).messages] == [*"abcde"]


def test_an_error_in_a_chunk_has_the_path_of_its_content() -> None:
    chunks = [{"role": "model", "parts": parts} for parts in ([{"text": "a"}], [{"text": 1}])]
    with pytest.raises(DecodeError) as caught:
        read({"contents": chunks})
    assert caught.value.path == "$.contents[1].parts[0].text"


def test_a_call_that_the_model_answers_in_another_chunk_is_the_server_s() -> None:
    answered = {"name": "f", "id": "1", "response": {"output": "ok"}}
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": "f", "id": "1"}},
        {"functionResponse": answered},
    ]
    contents = [{"role": "model", "parts": [part]} for part in parts]
    (message,) = read({"contents": contents}).messages
    assert message.blocks == (
        ServerToolCall("1", "f", '{"name":"f","id":"1"}', "functionCall"),
        ServerToolResult("1", "functionResponse", answered),
    )


# Calls and their results.


def test_the_first_unsigned_call_of_each_turn_gets_the_placeholder() -> None:
    calls = (ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}"))
    turn = InputMessage("assistant", (Text("a"), *calls))
    user = InputMessage("user", (Text("b"),))
    written = Written(Request(messages=(turn, user, turn)))
    assert written.lost == {"signature_placeholder": 2}
    for number in (0, 2):
        first, second = written.body["contents"][number]["parts"][1:]
        assert first["thoughtSignature"] == PLACEHOLDER
        assert "thoughtSignature" not in second
    assert read(written.body).messages[0].blocks[1:] == calls


def test_unsigned_images_of_the_model_get_the_placeholder() -> None:
    data = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    unsigned = Image("image/png", "iVBORw0KGgo=")
    signed = structs.replace(unsigned, signature="c2ln", issuer="google")
    linked = Image("image/png", file_id="gs://b/cat.png", issuer="google")
    user = InputMessage("user", (unsigned,))
    turn = InputMessage("assistant", (Text("a"), unsigned, signed, linked, ToolCall("1", "f")))
    written = Written(Request(messages=(user, turn)))
    assert written.lost == {"signature_placeholder": 2}
    asked, answered = written.body["contents"]
    assert asked["parts"] == [data]
    assert answered["parts"][1:4] == [
        {**data, "thoughtSignature": PLACEHOLDER},
        {**data, "thoughtSignature": "c2ln"},
        {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/cat.png"}},
    ]
    assert answered["parts"][4]["thoughtSignature"] == PLACEHOLDER
    blocks = read(written.body).messages[1].blocks
    assert blocks[:4] == turn.blocks[:4]
    older = Written(Request(messages=(user, turn)), signature_placeholder=None)
    assert older.body["contents"][1]["parts"][1] == data


@pytest.mark.parametrize("value", [PLACEHOLDER, "context_engineering_is_the_way_to_go", "", None])
def test_a_placeholder_is_no_signature(value: str | None) -> None:
    part = {"functionCall": {"name": "f"}, "thoughtSignature": value}
    assert blocks_of(part) == (ToolCall("", "f"),)


def test_no_placeholder_where_the_model_needs_none_or_the_call_is_signed() -> None:
    unsigned = request_of(ToolCall("1", "f"), role="assistant")
    plain = Written(unsigned, signature_placeholder=None)
    assert plain.lost == {}
    assert "thoughtSignature" not in plain.body["contents"][0]["parts"][0]
    call = ToolCall("1", "f", "{}", signature="c2ln", issuer="google")
    signed = Written(request_of(call, ToolCall("2", "g"), role="assistant"))
    assert signed.lost == {}
    assert signed.body["contents"][0]["parts"][0]["thoughtSignature"] == "c2ln"
    assert read(signed.body).messages[0].blocks[0] == call


def test_another_vendor_s_signature_of_a_call_is_dropped() -> None:
    call = ToolCall("1", "f", signature="x", issuer="anthropic")
    written = Written(request_of(call, role="assistant"))
    assert written.lost == {"signature_dropped": 1, "signature_placeholder": 1}


@pytest.mark.parametrize("cut", ["c2lnb", "c2l…", "c2=ln"])
def test_a_signature_that_was_cut_is_dropped(cut: str) -> None:
    """The API refuses the whole request for one that is no Base64."""
    call = ToolCall("1", "f", signature=cut, issuer="google")
    text = Text("a", signature=cut, issuer="google")
    written = Written(request_of(text, call, role="assistant"))
    assert written.lost == {"signature_dropped": 2, "signature_placeholder": 1}
    text_part, call_part = written.body["contents"][0]["parts"]
    assert text_part == {"text": "a"}
    assert call_part["thoughtSignature"] == PLACEHOLDER


def test_a_result_has_the_name_of_its_call() -> None:
    called = read(
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "id": "1"}}]}]}
    )
    result = ToolResult("1", (Text("ok"),), name="former")
    other = ToolResult("", (Text("ok"),), name="g")
    request = Request(messages=(*called.messages, InputMessage("user", (result, other))))
    assert Written(request).body["contents"][1]["parts"] == [
        {"functionResponse": {"id": "1", "name": "f", "response": {"output": "ok"}}},
        {"functionResponse": {"name": "g", "response": {"output": "ok"}}},
    ]


@pytest.mark.parametrize("id", ["", "1"])
def test_a_result_without_a_name_has_no_legal_form(id: str) -> None:
    calls = InputMessage("assistant", (ToolCall("", "f"), ToolCall("2", "f")))
    results = InputMessage("user", (Text("a"), ToolResult(id)))
    with pytest.raises(EncodeError, match="expected the name of its tool") as caught:
        Written(Request(messages=(calls, results)))
    assert caught.value.path == "messages[1].blocks[1]"


def test_broken_arguments_are_refused_with_their_path() -> None:
    with pytest.raises(EncodeError, match="no JSON object") as caught:
        Written(request_of(Text("a"), ToolCall("1", "f", "{"), role="assistant"))
    assert caught.value.path == "messages[0].blocks[1]"
    raw = Written(request_of(ToolCall("1", "f", "{"), role="assistant"), arguments="raw")
    assert raw.body["contents"][0]["parts"][0]["functionCall"]["args"] == {"_raw": "{"}


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_no_contents(role: str) -> None:
    with pytest.raises(EncodeError, match=f"{role} message") as caught:
        Written(request_of(Text("a"), role=role))
    assert caught.value.path == "messages[0]"


def test_an_image_of_the_model_is_written() -> None:
    image = Image("image/png", "iVBORw0=")
    written = Written(request_of(image, role="assistant"), signature_placeholder=None)
    assert written.body["contents"] == [
        {
            "role": "model",
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}],
        }
    ]


def test_an_answer_of_nothing_is_not_written() -> None:
    """Gemini refuses empty parts (bodies.md, section 4, rule 34)."""
    asks = InputMessage("user", (Text("Hi"),))
    written = Written(Request(messages=(asks, InputMessage("assistant"), asks)))
    assert written.body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}] * 2
    assert written.lost == {"empty_message_dropped": 1}


def test_call_that_is_no_object_stands_beside_a_response_of_the_model() -> None:
    response = {"functionResponse": {"id": "1", "name": "f", "response": {}}}
    body = {"contents": [{"role": "model", "parts": [{"functionCall": "odd"}, response]}]}
    odd, made = read(body).messages[0].blocks
    assert odd == OpaqueBlock("gemini", "functionCall", '"odd"')
    assert isinstance(made, ServerToolResult)
