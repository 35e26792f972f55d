"""Messages, as items of a request."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_responses.requests import read, read_items, write, write_items

from streamnorm._core.blocks import (
    CacheMark,
    Citation,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, Request, Role
from streamnorm._core.losses import Loss, Losses

OWN = "openai_responses"


def answer(*blocks: InputBlock) -> list[dict[str, Any]]:
    """Return the items of a message of the assistant from another dialect."""
    items = write_items(InputMessage("assistant", blocks))
    assert problems(OWN, {"input": items}) == []
    return items


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_single_text_is_a_string(role: Role) -> None:
    assert write_items(InputMessage(role, (Text("a"),))) == [{"role": role, "content": "a"}]


def test_texts_and_files_are_parts() -> None:
    blocks = (
        Text("a"),
        Text("b", cache=CacheMark("12h")),
        Image("image/png", "iVBORw0=", cache=CacheMark()),
        Document(url="https://a/b.pdf", title="b.pdf"),
    )
    (item,) = write_items(InputMessage("user", blocks))
    explicit = {"mode": "explicit"}
    assert item == {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "a"},
            {
                "type": "input_text",
                "text": "b",
                "prompt_cache_breakpoint": {**explicit, "ttl": "12h"},
            },
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0=",
                "detail": "auto",
                "prompt_cache_breakpoint": explicit,
            },
            {"type": "input_file", "filename": "b.pdf", "file_url": "https://a/b.pdf"},
        ],
    }
    assert problems(OWN, {"input": [item]}) == []


def test_marked_text_alone_is_a_part() -> None:
    (item,) = write_items(InputMessage("user", (Text("a", cache=CacheMark()),)))
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert item["content"] == [{"type": "input_text", "text": "a", **mark}]


def test_results_and_other_content_are_items_in_order() -> None:
    blocks = (
        ToolResult("c1", (Text("a"),)),
        ToolResult("c2", (), name="f"),
        ToolResult("", (), name="f"),
        Text("b"),
        ToolResult("c3", (Text("c"), Text("d"))),
    )
    assert write_items(InputMessage("user", blocks)) == [
        {"type": "function_call_output", "call_id": "c1", "output": "a"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"type": "function_call_output", "name": "f", "output": ""},
        {"role": "user", "content": "b"},
        {
            "type": "function_call_output",
            "call_id": "c3",
            "output": [{"type": "input_text", "text": "c"}, {"type": "input_text", "text": "d"}],
        },
    ]


def test_each_text_of_an_answer_is_an_easy_message_among_its_calls() -> None:
    """The types have no output message without an id, and no two texts in an easy one."""
    call = ToolCall("c", "f", '{"a":1}')
    assert answer(Text("a"), Text("b"), call, Text("c")) == [
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
        {"role": "assistant", "content": "c"},
    ]


def test_calls() -> None:
    assert answer(
        ToolCall("c1", "f"), ToolCall("c2", "exec", "x", "custom", namespace="functions")
    ) == [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {
            "type": "custom_tool_call",
            "call_id": "c2",
            "name": "exec",
            "input": "x",
            "namespace": "functions",
        },
    ]


def test_result_of_a_custom_call_has_its_type_and_no_name() -> None:
    """The types of custom results have no name."""
    items = write_items(
        InputMessage("assistant", (ToolCall("c", "exec", "x", "custom"),)),
        InputMessage("user", (ToolResult("c", (Text("a"),), name="exec"),)),
    )
    assert items[1] == {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}
    assert problems(OWN, {"input": items}) == []


def test_new_result_of_a_custom_call_that_was_read_has_its_type() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "x"}
    request = read({"input": [custom]})
    result = InputMessage("user", (ToolResult("c", (Text("a"),)),))
    items = write(structs.replace(request, messages=(*request.messages, result)))["input"]
    assert items == [custom, {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}]


def test_error_is_marked_before_its_files() -> None:
    content = (Image("image/png", "iVBORw0="), Text("a"), Text("b"))
    result = ToolResult("c", content, is_error=True)
    losses = Losses()
    (item,) = write_items(InputMessage("user", (result,)), losses=losses)
    assert losses.list() == (Loss("order_lost", "messages", 1, "text written before the files"),)
    assert item["output"] == [
        {"type": "input_text", "text": "<tool_error>ab</tool_error>"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0="},
    ]


def test_result_without_an_id_has_none() -> None:
    (item,) = write_items(InputMessage("user", (ToolResult("", (Text("a"),)),)))
    assert item == {"type": "function_call_output", "output": "a"}


def test_refusal_is_an_output_message() -> None:
    assert answer(Text("a"), Refusal("no")) == [
        {"role": "assistant", "content": "a"},
        {
            "type": "message",
            "id": "msg_sn_0_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "refusal", "refusal": "no"}],
        },
    ]


def test_cited_text_is_an_output_message() -> None:
    citation = Citation("url_citation", "https://a", "A")
    (item,) = answer(Text("abc", (citation,)))
    annotation = {
        "type": "url_citation",
        "url": "https://a",
        "title": "A",
        "start_index": 0,
        "end_index": 3,
    }
    assert item["content"] == [{"type": "output_text", "text": "abc", "annotations": [annotation]}]


def test_reasoning_of_another_dialect_has_the_id_that_it_was_issued_with() -> None:
    (item, _) = answer(Reasoning(("One.", "Two."), "gAAA", "openai", "rs_1"), Text("a"))
    assert item == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "One."},
            {"type": "summary_text", "text": "Two."},
        ],
        "encrypted_content": "gAAA",
    }


def test_reasoning_whose_id_is_unknown_has_none() -> None:
    """The API refuses encrypted content under any other id; the types demand one."""
    (item,) = write_items(InputMessage("assistant", (Reasoning((), "gAAA", "openai"),)))
    assert item == {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


@pytest.mark.parametrize(
    ("block", "encrypted"),
    [
        (RedactedReasoning("gAAA", "openai"), "gAAA"),
        (RedactedReasoning("EqQB", "anthropic"), "sn1-redacted.anthropic.EqQB"),
        (Reasoning((), "EqQB", "anthropic"), "sn1.anthropic.EqQB"),
        (Reasoning((), "EqQB", "xai", "rs_1"), "sn1-id.xai.rs_1.EqQB"),
        (Reasoning(("a",)), None),
    ],
)
def test_encrypted_content(block: InputBlock, encrypted: str | None) -> None:
    (item,) = write_items(InputMessage("assistant", (block,)))
    assert item.get("encrypted_content") == encrypted
    assert "id" not in item


# Items that are written as they were read, also where no source says how.
ITEMS: dict[str, list[dict[str, Any]]] = {
    "message with an id": [{"type": "message", "id": "m", "role": "user", "content": "a"}],
    "easy message of the assistant": [{"role": "assistant", "content": "a", "phase": "commentary"}],
    "output message": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "incomplete",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [], "logprobs": [{}]},
                {"type": "refusal", "refusal": "no"},
                {"type": "output_audio", "x": 1},
            ],
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "b", "annotations": []}],
        },
    ],
    "unknown part in an easy message": [
        {
            "type": "message",
            "id": "msg_sn_0_0",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_audio", "x": 1}],
        }
    ],
    "reasoning and call": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c",
            "name": "f",
            "arguments": "{}",
            "status": "completed",
        },
    ],
    "reasoning text": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "a"}],
        }
    ],
    "redacted reasoning": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "sn1-redacted.anthropic.EqQB",
        }
    ],
    "results": [
        {"type": "function_call_output", "call_id": "c", "output": "a", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "b"},
        {"type": "function_call_output", "call_id": "e", "output": "<tool_error>c</tool_error>"},
    ],
    "hosted": [
        {"type": "web_search_call", "id": "ws_1", "status": "failed", "action": {"type": "x"}},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "mcp_call", "id": "mcp_1", "name": "a", "arguments": "{}", "status": "completed"},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "x"}},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "new", "x": 1},
    ],
    "items of the client": [
        {"role": "user", "content": "a"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "configuration_update", "text": {"verbosity": "low"}},
        {"type": "compaction_trigger"},
    ],
}


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
def test_items_without_a_source_are_written_as_they_were(items: list[dict[str, Any]]) -> None:
    messages = read_items(*items)
    assert write_items(*messages) == items


def test_hosted_call_of_a_response_has_a_status() -> None:
    """That of a message that was decoded from a response has none."""
    call = ServerToolCall("ws_1", "web_search_call", '{"action":{}}', "web_search_call")
    (item,) = write_items(InputMessage("assistant", (call,)))
    assert item == {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}


def test_result_of_a_hosted_call_is_its_item() -> None:
    value = {"type": "shell_call_output", "call_id": "c", "output": []}
    result = ServerToolResult("c", "shell_call_output", value)
    assert write_items(InputMessage("assistant", (result,))) == [value]


def test_message_without_content_is_no_item() -> None:
    assert write_items(InputMessage("user"), InputMessage("assistant")) == []


def test_blocks_that_no_item_of_the_assistant_holds_are_losses() -> None:
    losses = Losses()
    image = Image("image/png", "iVBORw0=")
    items = write_items(InputMessage("assistant", (image, Text("a"))), losses=losses)
    assert items == [{"role": "assistant", "content": "a"}]
    assert losses.list() == (Loss("Image", "messages", 1, "no item of the assistant has it"),)


def test_old_messages_are_written_as_they_were_when_new_ones_follow() -> None:
    """A prefix of a conversation never changes: `type`, order of keys and all."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"content": "b", "role": "assistant", "type": "message"},
    ]
    request = read({"input": items})
    longer = (*request.messages, InputMessage("user", (Text("c"),)))
    written = write(structs.replace(request, messages=longer))["input"]
    assert written == [*items, {"role": "user", "content": "c"}]
    assert [*map(str, written[:2])] == [*map(str, items)]


def test_opaque_block_among_the_texts_ends_their_message() -> None:
    fields = {"id": "msg_1", "status": "completed"}
    blocks = (
        Text("a", extra={OWN: fields}),
        OpaqueBlock(OWN, "new", '{"type":"new"}'),
        Text("b", extra={OWN: fields}),
    )
    items = write_items(InputMessage("assistant", blocks))
    assert [item["type"] for item in items] == ["message", "new", "message"]


@pytest.mark.parametrize(
    ("message_id", "call_id", "custom_id", "refused"),
    [
        ("msg_1", "fc_1", "ctc_1", 0),
        ("msg" + "x" * 61, "fc" + "x" * 62, "ctc" + "x" * 61, 0),
        ("", "", "", 0),
        # LiteLLM's messages have the id of the chunk, Copilot's have hundreds of characters.
        ("chatcmpl-1", "call_1", "fc_1", 3),
        ("msg" + "x" * 62, "fc" + "x" * 63, "ctc" + "x" * 62, 3),
    ],
)
def test_ids_that_openai_refuses_are_left_out(
    message_id: str, call_id: str, custom_id: str, refused: int
) -> None:
    def own(id: str) -> dict[str, dict[str, Any]]:
        return {OWN: {"id": id, "status": "completed"}}

    blocks = (
        Text("a", extra=own(message_id)),
        ToolCall("c1", "f", "{}", extra=own(call_id)),
        ToolCall("c2", "g", "x", "custom", extra=own(custom_id)),
    )
    losses = Losses()
    message, call, custom = write_items(InputMessage("assistant", blocks), losses=losses)
    if refused:
        assert message == {"role": "assistant", "content": "a"}
        assert call == {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        assert custom == {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}
        assert losses.list() == (Loss("item_id", "messages", refused, "dropped"),)
        return
    assert [message["id"], call["id"], custom["id"]] == [message_id, call_id, custom_id]
    assert losses.list() == ()


def test_request_without_messages_has_no_items() -> None:
    assert write(Request(model="m"))["input"] == []
