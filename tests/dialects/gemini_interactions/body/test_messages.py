"""Steps and contents of a request as messages and blocks, in both directions."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from msgspec import structs
from support.gemini_interactions.refusals import MODEL, call, request, result, said

from streamnorm import (
    Audio,
    Citation,
    DecodeError,
    Document,
    EncodeError,
    Image,
    InputBlock,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
    decode_request,
    encode_request,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.gemini_interactions.body.content import block_to_wire
from streamnorm.dialects.gemini_interactions.body.messages import input_items, messages_to_wire
from streamnorm.dialects.gemini_interactions.body.request import REQUEST_CAPABILITIES

OWN = "gemini_interactions"


def read(value: Any) -> list[InputMessage]:
    """Return the messages of an input, without their sources."""
    found = decode_request({"model": MODEL, "input": value}, OWN).messages
    return [structs.replace(message, source=None) for message in found]


def written(*messages: InputMessage) -> tuple[list[dict[str, Any]], list[str]]:
    """Return messages as steps, and the features that are lost."""
    losses = Losses()
    steps = messages_to_wire(messages, WriteContext(REQUEST_CAPABILITIES, losses))
    return steps, [loss.feature for loss in losses.list()]


def tagged(value: str) -> str:
    return b64encode(value.encode()).decode()


@pytest.mark.parametrize(
    "value",
    [
        "q",
        {"type": "text", "text": "q"},
        [{"type": "text", "text": "q"}],
        [{"type": "user_input", "content": [{"type": "text", "text": "q"}]}],
    ],
)
def test_question_has_four_forms(value: Any) -> None:
    assert read(value) == [InputMessage("user", (Text("q"),))]
    body = {"model": MODEL, "input": value}
    assert encode_request(decode_request(body, OWN), OWN).body == body


def test_steps_between_those_of_the_user_are_one_answer() -> None:
    steps = [
        said(),
        {"type": "thought", "summary": [{"type": "text", "text": "t"}], "signature": "QQ=="},
        {"type": "model_output", "content": [{"type": "text", "text": "a"}]},
        call(),
        call("c2", arguments={"a": 1}),
        result(),
        result("c2", name="f", is_error=True),
        {"type": "model_output", "content": [{"type": "text", "text": "b"}]},
    ]
    expected = [
        InputMessage("user", (Text("q"),)),
        InputMessage(
            "assistant",
            (
                Reasoning(("t",), "QQ==", "google"),
                Text("a"),
                ToolCall("c1", "f", "{}"),
                ToolCall("c2", "f", '{"a":1}'),
            ),
        ),
        InputMessage("user", (ToolResult("c1", (Text("r"),)),)),
        InputMessage("user", (ToolResult("c2", (Text("r"),), True, "f"),)),
        InputMessage("assistant", (Text("b"),)),
    ]
    assert read(steps) == expected
    assert written(*expected) == (steps, [])


BLOCKS: list[tuple[InputBlock, dict[str, Any]]] = [
    (Reasoning((), "QQ==", "google"), {"type": "thought", "signature": "QQ=="}),
    (
        Reasoning(("a", "b")),
        {
            "type": "thought",
            "summary": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ),
    (
        Reasoning(("a",), extra={OWN: {"n": 1}}),
        {"type": "thought", "summary": [{"type": "text", "text": "a"}], "n": 1},
    ),
    (
        OpaqueBlock(
            OWN, "thought", '{"type":"thought","summary":[{"type":"image","data":"AA=="}]}'
        ),
        {"type": "thought", "summary": [{"type": "image", "data": "AA=="}]},
    ),
    (
        ServerToolCall("s", "google_search", '{"queries":["a"]}', "google_search_call_step"),
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}},
    ),
    (
        ServerToolCall(
            "s", "f", "", "mcp_server_tool_call_step", extra={OWN: {"server_name": "x"}}
        ),
        {
            "type": "mcp_server_tool_call",
            "id": "s",
            "name": "f",
            "server_name": "x",
            "arguments": {},
        },
    ),
    (
        ServerToolResult("s", "url_context_result_step", {"call_id": "s", "result": []}),
        {"type": "url_context_result", "call_id": "s", "result": []},
    ),
    (OpaqueBlock(OWN, "memory", '{"type":"memory","n":1}'), {"type": "memory", "n": 1}),
]


@pytest.mark.parametrize(("block", "wire"), BLOCKS)
def test_step_of_an_answer_goes_both_ways(block: InputBlock, wire: dict[str, Any]) -> None:
    assert read([wire]) == [InputMessage("assistant", (block,))]
    assert written(InputMessage("assistant", (block,))) == ([wire], [])


def test_result_of_the_provider_that_is_no_object() -> None:
    block = ServerToolResult("s", "code_execution_result_step", "out")
    wire = {"type": "code_execution_result", "call_id": "s", "result": "out"}
    assert written(InputMessage("assistant", (block,))) == ([wire], [])


@pytest.mark.parametrize(
    ("kind", "fields", "lost"),
    [
        ("code_execution_result", {"is_error": True}, []),
        ("mcp_server_tool_result", {}, ["is_error"]),
    ],
)
def test_failed_result_of_the_provider_says_so_where_it_can(
    kind: str, fields: dict[str, bool], lost: list[str]
) -> None:
    for content in ("out", {"result": "out"}):
        block = ServerToolResult("s", f"{kind}_step", content, is_error=True)
        wire = {"type": kind, "call_id": "s", "result": "out", **fields}
        assert written(InputMessage("assistant", (block,))) == ([wire], lost)


def test_thought_without_text_signs_the_call_behind_it() -> None:
    steps = [{"type": "thought", "signature": "QQ=="}, call()]
    signed = ToolCall("c1", "f", "{}", signature="QQ==", issuer="google")
    assert read(steps) == [InputMessage("assistant", (signed,))]
    assert written(InputMessage("assistant", (signed,))) == (steps, [])


@pytest.mark.parametrize("parts", [(), ("Hm.",)])
def test_thought_is_written_once_if_the_call_has_its_signature_too(parts: tuple[str, ...]) -> None:
    """A client that sends thoughts and signed calls back got it on both."""
    signed = ToolCall("c1", "f", "{}", signature="QQ==", issuer="google")
    summary = {"summary": [{"type": "text", "text": text} for text in parts]} if parts else {}
    thought = {"type": "thought", **summary, "signature": "QQ=="}
    answer = InputMessage("assistant", (Reasoning(parts, "QQ==", "google"), signed))
    assert written(answer) == ([thought, call()], [])
    other = InputMessage("assistant", (Reasoning(parts, "Qg==", "google"), signed))
    found, _ = written(other)
    assert [step.get("signature") for step in found] == ["Qg==", "QQ==", None]


def test_signature_of_another_vendor_is_that_of_a_thought() -> None:
    steps = [{"type": "thought", "signature": tagged("sn1.anthropic.S")}, call()]
    thought, signed = read(steps)[0].blocks
    assert thought == Reasoning((), "S", "anthropic")
    assert signed == ToolCall("c1", "f", "{}")
    # Nobody but its issuer can verify it.
    found, lost = written(InputMessage("assistant", (thought, signed)))
    assert (found, lost) == ([{"type": "thought"}, call()], ["signature_dropped"])


def test_redacted_reasoning_is_a_thought() -> None:
    steps = [{"type": "thought", "signature": tagged("sn1-redacted.anthropic.D")}]
    assert read(steps) == [InputMessage("assistant", (RedactedReasoning("D", "anthropic"),))]
    own = RedactedReasoning("QQ==", "google")
    found, lost = written(InputMessage("assistant", (own,)))
    assert (found, lost) == ([{"type": "thought", "signature": "QQ=="}], [])


def test_unknown_fields_of_steps_are_written_back() -> None:
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "q"}], "n": 1},
        {"type": "model_output", "content": [{"type": "text", "text": "a"}], "error": {"code": 3}},
        call(x=1),
        result(y=2),
    ]
    found = read(steps)
    assert [message.extra for message in found] == [
        *({OWN: {"n": 1}}, {OWN: {"error": {"code": 3}}}, None)
    ]
    assert written(*found) == (steps, [])


CONTENTS: list[tuple[InputBlock, dict[str, Any]]] = [
    (Text("a", extra={OWN: {"n": 1}}), {"type": "text", "text": "a", "n": 1}),
    (
        Text("aé", (Citation("web", "u", "t", None, 0, 2),)),
        {
            "type": "text",
            "text": "aé",
            "annotations": [
                {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 3}
            ],
        },
    ),
    (
        Text("a", extra={OWN: {"annotations": [{"type": "word_info"}]}}),
        {"type": "text", "text": "a", "annotations": [{"type": "word_info"}]},
    ),
    (
        Image("image/png", "aGk=", detail="original"),
        {"type": "image", "data": "aGk=", "mime_type": "image/png", "resolution": "ultra_high"},
    ),
    (
        Image("image/png", "aGk=", extra={OWN: {"resolution": "medium"}}),
        {"type": "image", "data": "aGk=", "mime_type": "image/png", "resolution": "medium"},
    ),
    (
        Image(None, url="https://a.org/b", detail="low"),
        {"type": "image", "uri": "https://a.org/b", "resolution": "low"},
    ),
    (
        Image("image/png", file_id="gs://b", issuer="google"),
        {"type": "image", "uri": "gs://b", "mime_type": "image/png"},
    ),
    (
        Document("text/csv", "a,b"),
        {"type": "document", "data": "YSxi", "mime_type": "text/csv"},
    ),
    (
        Document("application/pdf", file_id="gs://b", issuer="google"),
        {"type": "document", "uri": "gs://b", "mime_type": "application/pdf"},
    ),
    (Audio("audio/wav", "aGk="), {"type": "audio", "data": "aGk=", "mime_type": "audio/wav"}),
    (Video(None, url="https://a.org/v"), {"type": "video", "uri": "https://a.org/v"}),
    (OpaqueBlock(OWN, "image", '{"type":"image"}'), {"type": "image"}),
    (
        OpaqueBlock(OWN, "document", '{"type":"document","data":"!","mime_type":"text/csv"}'),
        {"type": "document", "data": "!", "mime_type": "text/csv"},
    ),
]


@pytest.mark.parametrize(("block", "wire"), CONTENTS)
def test_content_goes_both_ways(block: InputBlock, wire: dict[str, Any]) -> None:
    step = {"type": "user_input", "content": [wire]}
    assert read([step]) == [InputMessage("user", (block,))]
    assert written(InputMessage("user", (block,))) == ([step], [])


def test_file_without_a_type_is_of_the_usual_one() -> None:
    (message,) = read([{"type": "image", "data": "aGk="}])
    assert message.blocks == (Image("image/jpeg", "aGk="),)
    found, lost = written(InputMessage("user", (Document(None, "JVBE", title="a.pdf"),)))
    content = {"type": "document", "data": "JVBE", "mime_type": "application/pdf"}
    assert found == [{"type": "user_input", "content": [content]}]
    assert lost == ["title"]


def test_content_of_an_unknown_type_in_a_result_is_opaque() -> None:
    (message,) = read([result(result=[{"type": "newer", "n": 1}])])
    assert message.tool_results[0].content == (OpaqueBlock(OWN, "newer", '{"type":"newer","n":1}'),)


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (ToolResult("c1"), ""),
        (ToolResult("c1", (Text('{"a":1}'),), value='{"a":1}'), {"a": 1}),
        (
            ToolResult("c1", (Text("a"), Image("image/png", "aGk="))),
            [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "aGk=", "mime_type": "image/png"},
            ],
        ),
    ],
)
def test_result_has_three_forms(block: ToolResult, wire: Any) -> None:
    assert read([result(result=wire)]) == [InputMessage("user", (block,))]
    assert written(InputMessage("user", (block,))) == ([result(result=wire)], [])


def test_files_beside_an_object_are_contents_after_its_json() -> None:
    content = (Text('{"a":1}'), Image("image/png", "aGk="))
    wire = [
        {"type": "text", "text": '{"a":1}'},
        {"type": "image", "data": "aGk=", "mime_type": "image/png"},
    ]
    found = written(InputMessage("user", (ToolResult("c1", content, value='{"a":1}'),)))
    assert found == ([result(result=wire)], [])


def test_result_without_a_value_is_empty() -> None:
    assert read([result(result=None)])[0].blocks == (ToolResult("c1"),)


def test_texts_and_results_of_one_message_are_steps_in_their_order() -> None:
    message = InputMessage("user", (ToolResult("c1", (Text("r"),)), Text("a"), Text("b")))
    both = {"type": "user_input", "content": [{"type": "text", "text": text} for text in "ab"]}
    assert written(message) == ([result(), both], [])


NEWER = {"type": "newer", "n": 1}


@pytest.mark.parametrize(
    ("steps", "role"),
    [
        ([{"type": "user_input", "content": [NEWER, {"type": "text", "text": "a"}]}], "user"),
        ([said("a"), {"type": "model_output", "content": [NEWER]}], "assistant"),
        ([said("a"), NEWER], "assistant"),
    ],
    ids=["content of the user", "content of the model", "step of the model"],
)
def test_content_of_an_unknown_type_is_no_step(steps: list[dict[str, Any]], role: str) -> None:
    *_, message = read(steps)
    assert message.role == role
    assert written(*read(steps)) == (steps, [])


def test_texts_beside_a_content_of_an_unknown_type_keep_their_order() -> None:
    contents = [{"type": "text", "text": "a"}, NEWER, {"type": "text", "text": "b"}]
    messages = read([{"type": "model_output", "content": contents}])
    steps, _ = written(*messages)
    assert [step["type"] for step in steps] == ["model_output"] * 3
    assert [content for step in steps for content in step["content"]] == contents
    assert read(steps) == messages


def test_message_of_another_role_and_block_without_a_form_are_refused() -> None:
    with pytest.raises(EncodeError, match="system message, expected one of user or assistant"):
        written(InputMessage("system", (Text("a"),)))
    with pytest.raises(EncodeError, match=r"Refusal, expected a text or a file") as caught:
        written(InputMessage("assistant", (Text("a"), Refusal("no"))))
    assert caught.value.path == "messages[0].blocks[1]"
    with pytest.raises(EncodeError, match="expected JSON"):
        written(InputMessage("user", (ToolResult("c", (), value="{"),)))
    context = WriteContext(REQUEST_CAPABILITIES, Losses())
    with pytest.raises(DecodeError, match="an integer, expected an object"):
        block_to_wire(OpaqueBlock(OWN, "image", "7"), context)


def test_history_of_another_vendor_is_translated() -> None:
    body = {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
    }
    made = encode_request(decode_request(body, "openai_chat"), OWN)
    assert made.body == {
        **request(said(), call(), result()),
        "system_instruction": "s",
        "store": False,
    }
    assert made.losses == ()


def test_growing_history_is_written_once() -> None:
    request_ = Request(model=MODEL, messages=(InputMessage("user", (Text("q"),)),))
    assert encode_request(request_, OWN).body["input"] == [said()]


@pytest.mark.parametrize(
    ("input", "steps"),
    [
        (None, []),
        ([], []),
        ("a", [{"type": "user_input", "content": [{"type": "text", "text": "a"}]}]),
        (
            {"type": "text", "text": "a"},
            [{"type": "user_input", "content": [{"type": "text", "text": "a"}]}],
        ),
        (
            [{"type": "text", "text": "a"}, {"type": "image", "uri": "u"}],
            [
                {
                    "type": "user_input",
                    "content": [{"type": "text", "text": "a"}, {"type": "image", "uri": "u"}],
                }
            ],
        ),
        ({"type": "thought"}, [{"type": "thought"}]),
        ([{"type": "thought"}, {"type": "text"}], [{"type": "thought"}, {"type": "text"}]),
    ],
)
def test_every_form_of_an_input_is_a_list_of_steps(input: Any, steps: list[Any]) -> None:
    assert input_items({"model": "m", "input": input}) == steps


@pytest.mark.parametrize(("input", "path"), [(7, "$.input"), ([{}, 7], "$.input[1]")])
def test_input_of_another_form_has_no_steps(input: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        input_items({"input": input})
    assert caught.value.path == path
