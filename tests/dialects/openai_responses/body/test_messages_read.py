"""Items of a request, as messages."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from support.openai_responses.requests import read, read_items

from streamnorm import DecodeError
from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, Source

OWN = "openai_responses"


def text(words: str) -> dict[str, Any]:
    """Return an easy message of the assistant."""
    return {"role": "assistant", "content": words}


def call(id: str) -> dict[str, Any]:
    """Return a call of a function."""
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}


def result(id: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"type": "function_call_output", "call_id": id, "output": "ok"}


def reasoning(words: str) -> dict[str, Any]:
    """Return a reasoning item."""
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": words}]}


HOSTED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}


def outline(*items: dict[str, Any]) -> list[str]:
    """Return the messages of items: the role, and a letter or the text of each block."""
    return [
        f"{message.role}: {' '.join(map(_outline, message.blocks))}"
        for message in read_items(*items)
    ]


def _outline(block: InputBlock) -> str:
    match block:
        case Text(words):
            return words
        case Reasoning(parts):
            return f"({'|'.join(parts)})"
        case ToolCall(id):
            return f"{id}?"
        case ToolResult(id):
            return f"{id}!"
        case _:
            return type(block).__name__


USER = {"role": "user", "content": "u"}


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ([USER, text("a"), text("b")], ["user: u", "assistant: a", "assistant: b"]),
        ([reasoning("r"), text("a"), call("c")], ["assistant: (r) a c?"]),
        ([text("a"), reasoning("r"), text("b")], ["assistant: a", "assistant: (r) b"]),
        ([HOSTED, text("a"), HOSTED], ["assistant: ServerToolCall a ServerToolCall"]),
        ([reasoning("r"), call("c"), call("d")], ["assistant: (r) c? d?"]),
        # Between a call and its result.
        (
            [text("a"), call("c"), text("b"), reasoning("r"), result("c")],
            ["assistant: a c? b (r)", "user: c!"],
        ),
        (
            [call("c"), call("d"), result("d"), text("a"), result("c"), text("b")],
            ["assistant: c? d? a", "user: d!", "user: c!", "assistant: b"],
        ),
        # An agent that runs calls one by one.
        (
            [call("c"), result("c"), call("d"), result("d"), text("a")],
            ["assistant: c?", "user: c!", "assistant: d?", "user: d!", "assistant: a"],
        ),
        # A call whose result never comes takes nothing in beyond a result or a message.
        (
            [call("c"), call("d"), result("d"), text("a")],
            ["assistant: c? d?", "user: d!", "assistant: a"],
        ),
        (
            [call("c"), USER, text("a"), result("c")],
            ["assistant: c?", "user: u", "assistant: a", "user: c!"],
        ),
        # Results without ids are those of the calls in order.
        (
            [call("c"), call("d"), result(""), text("a"), result(""), text("b")],
            ["assistant: c? d? a", "user: !", "user: !", "assistant: b"],
        ),
        ([result("x"), text("a")], ["user: x!", "assistant: a"]),
        ([text("a"), result("x"), text("b")], ["assistant: a", "user: x!", "assistant: b"]),
        ([text("a"), result(""), text("b")], ["assistant: a", "user: !", "assistant: b"]),
        ([call("c"), call("c"), result("c")], ["assistant: c? c?", "user: c!"]),
        (
            [call("c"), call("d"), result("c"), result(""), text("a")],
            ["assistant: c? d?", "user: c!", "user: !", "assistant: a"],
        ),
    ],
)
def test_consecutive_items_of_the_assistant_are_one_message(
    items: list[dict[str, Any]], messages: list[str]
) -> None:
    assert outline(*items) == messages


def test_message_of_the_assistant_is_written_from_all_its_items() -> None:
    items = [text("a"), call("c"), result("c")]
    first, second = read({"input": items}).messages
    assert first.source == Source(OWN, items[:2], InputMessage("assistant", first.blocks))
    assert second.source == Source(OWN, items[2:], InputMessage("user", second.blocks))


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_message_keeps_its_role_and_its_other_fields(role: Any) -> None:
    item = {"type": "message", "id": "msg_1", "role": role, "content": "a"}
    assert read_items(item) == (InputMessage(role, (Text("a"),), extra={OWN: {"id": "msg_1"}}),)


def test_content_may_be_null() -> None:
    assert read_items(
        {"role": "user", "content": None}, {"role": "assistant", "content": None}
    ) == (InputMessage("user"), InputMessage("assistant"))


def test_blocks_of_an_output_message_have_its_fields() -> None:
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "a", "annotations": [], "logprobs": [{"token": "a"}]},
            {"type": "refusal", "refusal": "no"},
            {"type": "output_audio", "data": ""},
        ],
    }
    fields = {"id": "msg_1", "status": "completed", "phase": "commentary"}
    data = '{"type":"output_audio","data":""}'
    (message,) = read_items(item)
    assert message.blocks == (
        Text("a", extra={OWN: {**fields, "part": {"logprobs": [{"token": "a"}]}}}),
        Refusal("no", extra={OWN: fields}),
        OpaqueBlock(OWN, "output_audio", data, extra={OWN: {**fields, "role": "assistant"}}),
    )


def test_part_alone_has_fields_of_its_own() -> None:
    """An answer without fields, of parts with some."""
    part = {"type": "input_text", "text": "a", "x": 1}
    (message,) = read_items({"role": "assistant", "content": [part, {"type": "x"}]})
    assert message.blocks == (
        Text("a", extra={OWN: {"part": {"x": 1}}}),
        OpaqueBlock(OWN, "x", '{"type":"x"}', extra={OWN: {"role": "assistant"}}),
    )


def test_part_of_an_unknown_type_is_no_item() -> None:
    (message,) = read_items({"role": "assistant", "content": [{"type": "x"}]})
    extra = {OWN: {"role": "assistant"}}
    assert message.blocks == (OpaqueBlock(OWN, "x", '{"type":"x"}', extra=extra),)


def test_calls_and_results() -> None:
    messages = read_items(
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "get",
            "namespace": "crm",
            "arguments": '{"a": 1}',
            "status": "completed",
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "exec", "input": "x"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "name": "get",
            "output": [{"type": "input_text", "text": "a"}],
            "id": "fco_1",
        },
        {"type": "custom_tool_call_output", "call_id": "c2", "output": ""},
    )
    extra = {OWN: {"id": "fc_1", "status": "completed"}}
    assert messages == (
        InputMessage(
            "assistant",
            (
                ToolCall("c1", "get", '{"a": 1}', namespace="crm", extra=extra),
                ToolCall("c2", "exec", "x", "custom"),
            ),
        ),
        InputMessage(
            "user", (ToolResult("c1", (Text("a"),), name="get", extra={OWN: {"id": "fco_1"}}),)
        ),
        InputMessage("user", (ToolResult("c2", (Text(""),)),)),
    )


@pytest.mark.parametrize(("arguments", "text"), [({"a": [1]}, '{"a":[1]}'), ({}, "{}"), (None, "")])
def test_arguments_that_are_no_text_are_made_one(arguments: Any, text: str) -> None:
    (message,) = read_items({**call("c"), "arguments": arguments})
    assert message.blocks == (ToolCall("c", "f", text),)


def test_call_without_a_call_id_has_the_id_of_its_item() -> None:
    item = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": ""}
    bare = {"type": "function_call", "name": "f", "arguments": ""}
    (message,) = read_items(item, bare)
    assert message.blocks == (
        ToolCall("fc_1", "f", extra={OWN: {"id": "fc_1"}}),
        ToolCall("", "f"),
    )


def test_result_of_a_custom_call_that_is_not_there_keeps_its_type() -> None:
    """As where the call is stored by the server."""
    item = {"type": "custom_tool_call_output", "call_id": "c", "output": "", "id": "ctco_1"}
    (message,) = read_items(item)
    extra = {OWN: {"id": "ctco_1", "type": "custom_tool_call_output"}}
    assert message.blocks == (ToolResult("c", (Text(""),), extra=extra),)


@pytest.mark.parametrize(
    ("output", "content", "is_error"),
    [
        ("<tool_error>no</tool_error>", "no", True),
        ("<tool_error></tool_error>", "", True),
        ("<tool_error>a</tool_error> b", "<tool_error>a</tool_error> b", False),
        ("<tool_error>a", "<tool_error>a", False),
        ("<tool_error", "<tool_error", False),
    ],
)
def test_marked_result_is_an_error(output: str, content: str, is_error: bool) -> None:
    (message,) = read_items({**result("c"), "output": output})
    assert message.blocks == (ToolResult("c", (Text(content),), is_error),)


def test_two_texts_are_no_marked_result() -> None:
    parts = [{"type": "input_text", "text": words} for words in ("<tool_error>", "</tool_error>")]
    (message,) = read_items({**result("c"), "output": parts})
    assert message.tool_results[0].is_error is False


HOSTED_ITEMS: dict[str, tuple[dict[str, Any], InputBlock]] = {
    "call": (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "x"}},
        ServerToolCall(
            "ws_1",
            "web_search_call",
            '{"action":{"type":"x"}}',
            "web_search_call",
            extra={OWN: {"status": "completed"}},
        ),
    ),
    "named call": (
        {"type": "mcp_call", "id": "mcp_1", "name": "read", "arguments": "{}"},
        ServerToolCall("mcp_1", "read", '{"name":"read","arguments":"{}"}', "mcp_call"),
    ),
    "call without fields": (
        {"type": "compaction"},
        ServerToolCall("", "compaction", "", "compaction"),
    ),
    "result": (
        {"type": "computer_call_output", "call_id": "c", "output": {}},
        ServerToolResult(
            "c",
            "computer_call_output",
            {"type": "computer_call_output", "call_id": "c", "output": {}},
        ),
    ),
    "unknown item": ({"type": "new", "x": 1}, OpaqueBlock(OWN, "new", '{"type":"new","x":1}')),
    "reference": (
        {"type": "item_reference", "id": "msg_1"},
        OpaqueBlock(OWN, "item_reference", '{"type":"item_reference","id":"msg_1"}'),
    ),
    "reference without a type": (
        {"id": "msg_1"},
        OpaqueBlock(OWN, "item_reference", '{"id":"msg_1"}'),
    ),
}


@pytest.mark.parametrize(("item", "block"), HOSTED_ITEMS.values(), ids=HOSTED_ITEMS)
def test_item_of_the_server(item: dict[str, Any], block: InputBlock) -> None:
    assert read_items(item) == (InputMessage("assistant", (block,)),)


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}, "user"),
        ({"type": "compaction_trigger"}, "user"),
        ({"type": "configuration_update", "reasoning": {"effort": "low"}}, "developer"),
        ({"type": "additional_tools", "role": "developer", "tools": []}, "developer"),
    ],
)
def test_item_of_the_client_is_a_message(item: dict[str, Any], role: Any) -> None:
    before, message, after = read_items(text("a"), item, text("b"))
    assert (before.text, after.text, message.role) == ("a", "b", role)
    (block,) = message.blocks
    assert isinstance(block, OpaqueBlock)
    assert block.kind == item["type"]


HEAD = {"type": "input_text", "text": "Message Type: NEW_TASK\nPayload:\n"}


def agent_message(payload: str) -> dict[str, Any]:
    """Return Codex's message of one agent to another."""
    content = [HEAD, {"type": "encrypted_content", "encrypted_content": payload}]
    return {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": content}


@pytest.mark.parametrize("payload", ["Look at it.", "gAAAA", f"gAAAA {'x' * 100}"])
def test_message_between_agents_is_the_user_s(payload: str) -> None:
    """Codex takes an argument of a call for encrypted, which only OpenAI's models encrypt."""
    before, message, after = read_items(text("a"), agent_message(payload), text("b"))
    assert (before.text, after.text, message.role) == ("a", "b", "user")
    assert message.blocks == (Text("Message Type: NEW_TASK\nPayload:\n"), Text(payload))


def test_encrypted_message_between_agents_stays_opaque() -> None:
    token = base64.urlsafe_b64encode(b"\x80" + bytes(72)).decode()
    (message,) = read_items(agent_message(token))
    head, payload = message.blocks
    assert head == Text("Message Type: NEW_TASK\nPayload:\n")
    assert isinstance(payload, OpaqueBlock)
    assert payload.kind == "encrypted_content"


SEARCH = {"type": "custom_tool_call", "call_id": "x", "name": "x_keyword_search", "input": "a"}
EXEC = {"type": "custom", "name": "exec"}


@pytest.mark.parametrize(
    ("items", "tools", "is_hosted"),
    [
        ([SEARCH], [EXEC], True),
        ([SEARCH], [], False),
        ([SEARCH], [{"type": "tool_search"}, EXEC], False),
        ([SEARCH], [{"type": "tool_search", "execution": "client"}, EXEC], False),
        ([SEARCH], [{"type": "web_search"}], True),
        ([{**SEARCH, "name": "exec"}], [EXEC], False),
        ([{**SEARCH, "namespace": "n"}], [EXEC], False),
        ([SEARCH, {**result("x"), "type": "custom_tool_call_output"}], [EXEC], False),
        ([{"type": "additional_tools", "role": "developer", "tools": []}, SEARCH], [EXEC], False),
    ],
)
def test_custom_call_of_no_tool_of_the_client_is_the_servers(
    items: list[dict[str, Any]], tools: list[dict[str, Any]], is_hosted: bool
) -> None:
    """xAI's searches are custom calls, which clients send back."""
    blocks = [b for message in read_items(*items, tools=tools) for b in message.blocks]
    kinds = {type(b) for b in blocks if isinstance(b, ToolCall | ServerToolCall)}
    assert kinds == {ServerToolCall if is_hosted else ToolCall}


@pytest.mark.parametrize(
    ("item", "path", "problem"),
    [
        (5, "$.input[1]", "an integer, expected an object"),
        ({"type": 5}, "$.input[1].type", "an integer, expected a string"),
        ({"role": 5}, "$.input[1].role", "an integer, expected a string"),
        (
            {"role": "tool", "content": "a"},
            "$.input[1].role",
            "a string of 4 characters, expected user, assistant, system or developer",
        ),
        ({**call("c"), "arguments": 5}, "$.input[1].arguments", "an integer, expected a string"),
        (
            {"type": "function_call", "arguments": "{}", "call_id": "c"},
            "$.input[1].name",
            "missing, expected a string",
        ),
        ({"type": "custom_tool_call"}, "$.input[1].input", "missing, expected a string"),
        (
            {"type": "function_call_output", "call_id": "c", "output": {}},
            "$.input[1].output",
            "an object, expected an array",
        ),
        (
            {"type": "reasoning", "summary": [{"text": 1}]},
            "$.input[1].summary[0].text",
            "an integer, expected a string",
        ),
        ({"type": "item_reference"}, "$.input[1].id", "missing, expected a string"),
        (
            {"type": "additional_tools", "tools": [{"type": "function"}]},
            "$.input[1].tools[0].name",
            "missing, expected a string",
        ),
    ],
)
def test_other_items_are_refused_with_their_path(item: Any, path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_items({"role": "user", "content": "a"}, item)
    assert (caught.value.path, caught.value.args[0]) == (path, problem)
