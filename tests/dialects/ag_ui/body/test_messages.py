"""Histories as AG-UI's messages, by the schemas of `@ag-ui/core` 1.0.0 and 0.0.59."""

from __future__ import annotations

import base64
from typing import Any

from streamnorm import (
    Audio,
    Citation,
    Document,
    Image,
    InputBlock,
    InputMessage,
    Message,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
    decode_request,
)
from streamnorm.frontend import encode_messages

AG_UI = "ag_ui"
CAT = base64.b64encode(b"cat").decode()
HI = InputMessage("user", (Text("Hi"),))


def written(*blocks: InputBlock, role: Any = "assistant") -> tuple[list[dict[str, Any]], set[str]]:
    """Return the messages of one message without their ids, and the names of its losses."""
    made = encode_messages((InputMessage(role, blocks),), AG_UI)
    messages = [{k: v for k, v in each.items() if k != "id"} for each in made.messages]
    return messages, {loss.feature for loss in made.losses}


def call(id: str = "c1", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "type": "function",
        **fields,
        "function": {"name": "f", "arguments": arguments},
    }


def test_each_part_of_an_answer_is_a_message() -> None:
    history = (
        InputMessage("developer", (Text("Be "), Text("brief.")), "d"),
        HI,
        InputMessage(
            "assistant",
            (
                Reasoning(("Hm.",), "s", "anthropic"),
                Text("I look."),
                ToolCall("c1", "f", '{"a":1}'),
                ToolCall("c2", "f"),
            ),
            "bot",
        ),
        InputMessage("user", (ToolResult("c1", (Text("rain"),)), ToolResult("c2"))),
        InputMessage("assistant", (Text("It rains."),)),
    )
    made = encode_messages(history, AG_UI)
    assert made.messages == [
        {"id": "message-0", "role": "developer", "name": "d", "content": "Be brief."},
        {"id": "message-1", "role": "user", "content": "Hi"},
        {
            "id": "message-2",
            "role": "reasoning",
            "content": "Hm.",
            "encryptedValue": "sn1.anthropic.s",
        },
        {
            "id": "message-3",
            "role": "assistant",
            "content": "I look.",
            "name": "bot",
            "toolCalls": [call("c1", '{"a":1}'), call("c2")],
        },
        {"id": "message-4", "role": "tool", "toolCallId": "c1", "content": "rain"},
        {"id": "message-5", "role": "tool", "toolCallId": "c2", "content": ""},
        {"id": "message-6", "role": "assistant", "content": "It rains."},
    ]
    assert made.losses == ()
    body = {"threadId": "t", "runId": "r", "messages": made.messages}
    developer, *others = decode_request(body, AG_UI).messages
    assert developer == InputMessage("developer", (Text("Be brief."),), "d")
    assert others[1].tool_calls == (ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "f", "{}"))
    assert (others[0], *others[2:]) == (HI, *history[3:])


def test_ids_begin_with_that_of_the_answer() -> None:
    answer = Message("a", "gpt-5", (Text("Hi"), ToolCall("c1", "f")), "tool_use")
    made = encode_messages((answer, HI, answer), AG_UI).messages
    assert [each["id"] for each in made] == ["a-0", "message-1", "a-2"]
    named = Message("message-1", "", (Text("Hi"),))
    assert [each["id"] for each in encode_messages((named, HI), AG_UI).messages] == [
        *("message-1-0", "message-1")
    ]


def test_calls_keep_their_place_among_texts_and_reasoning() -> None:
    blocks = (
        ToolCall("c1", "f"),
        Text("One"),
        ToolCall("c2", "f"),
        Reasoning(("Hm.",)),
        ToolCall("c3", "f"),
    )
    assert written(*blocks) == (
        [
            {"role": "assistant", "toolCalls": [call()]},
            {"role": "assistant", "content": "One", "toolCalls": [call("c2")]},
            {"role": "reasoning", "content": "Hm."},
            {"role": "assistant", "toolCalls": [call("c3")]},
        ],
        set(),
    )


def test_signatures_and_redacted_reasoning_are_encrypted_values() -> None:
    blocks = (
        Reasoning(("One", "Two"), "s", "openai", "rs_1"),
        Reasoning(signature="t", issuer="google"),
        RedactedReasoning("r", "anthropic"),
        Text("Hi", signature="u", issuer="google"),
        ToolCall("c1", "f", "{}", signature="v", issuer="google"),
    )
    assert written(*blocks)[0] == [
        {"role": "reasoning", "content": "One", "metadata": {"isContinued": True}},
        {"role": "reasoning", "content": "Two", "encryptedValue": "sn1-id.openai.rs_1.s"},
        {"role": "reasoning", "content": "", "encryptedValue": "sn1.google.t"},
        {"role": "reasoning", "content": "", "encryptedValue": "sn1-redacted.anthropic.r"},
        {
            "role": "assistant",
            "content": "Hi",
            "encryptedValue": "sn1.google.u",
            "toolCalls": [call(encryptedValue="sn1.google.v")],
        },
    ]


def test_parts_of_reasoning_are_marked() -> None:
    messages, losses = written(Reasoning(("One", "Two"), "s", "anthropic"))
    assert messages == [
        {"role": "reasoning", "content": "One", "metadata": {"isContinued": True}},
        {"role": "reasoning", "content": "Two", "encryptedValue": "sn1.anthropic.s"},
    ]
    assert losses == set()
    messages, losses = written(Reasoning(("One", "Two"), id="rs_1"))
    assert [message.get("metadata") for message in messages] == [{"isContinued": True}, None]
    assert losses == {"item_id"}


def test_calls_of_the_provider_are_marked_and_answered() -> None:
    mark = {"providerExecuted": True, "kind": "web_search"}
    blocks = (
        ServerToolCall("c1", "f", "{}", "web_search"),
        ServerToolCall("c2", "f", "{}", "web_search"),
        ServerToolResult("c1", "web_search", {"hits": 1}),
        ServerToolResult("c9", "web_search", 1),
        Text("Found."),
    )
    messages, losses = written(*blocks)
    assert messages == [
        {"role": "assistant", "toolCalls": [call(metadata=mark), call("c2", metadata=mark)]},
        {
            "role": "tool",
            "toolCallId": "c1",
            "content": '{"hits":1}',
            "metadata": {**mark, "isJson": True},
        },
        {"role": "assistant", "content": "Found."},
        {
            "role": "tool",
            "toolCallId": "c2",
            "content": "",
            "metadata": {"providerExecuted": True, "isUnanswered": True},
        },
    ]
    assert losses == {"server_history_dropped"}


def test_result_that_is_an_error_says_why() -> None:
    blocks = (
        ToolCall("c1", "f"),
        ToolCall("c2", "f"),
        ToolResult("c1", (Text("no"), Image("image/png", CAT)), is_error=True),
        ToolResult("c2", is_error=True, extra={AG_UI: {"encryptedValue": "e"}}),
    )
    (_, *results), losses = written(*blocks)
    assert results == [
        {"role": "tool", "toolCallId": "c1", "content": "no", "error": "no"},
        {
            "role": "tool",
            "toolCallId": "c2",
            "content": "",
            "error": "the tool failed",
            "encryptedValue": "e",
        },
    ]
    assert losses == {"result_media"}


def test_json_of_a_result_is_marked() -> None:
    blocks = (
        ToolCall("c1", "f"),
        ToolCall("c2", "f"),
        ToolResult("c1", (Text('{"a":1}'),), value='{"a":1}'),
        ToolResult("c2", (Text("one"),), value='{"a":1}'),
    )
    (_, marked, plain), losses = written(*blocks)
    assert (marked["content"], marked["metadata"]) == ('{"a":1}', {"isJson": True})
    assert "metadata" not in plain
    assert losses == {"result_value"}


def test_text_without_content_is_no_message() -> None:
    assert written(Text(""), ToolCall("c1", "f"), Text("")) == (
        [{"role": "assistant", "toolCalls": [call()]}],
        {"empty_text_dropped"},
    )


def test_call_that_is_not_whole_has_failed() -> None:
    """A client executes a call without a result."""
    broken = ToolCall("c1", "f", '{"a')
    unfinished = ToolCall("c2", "f", "{}", is_unfinished=True)
    free = ToolCall("c3", "f", "x", "custom", is_unfinished=True)
    early = "the arguments of the call ended early"
    problems = {"c1": "the arguments of the call are no JSON", "c2": early, "c3": early}
    (_, *failed), losses = written(broken, unfinished, free, ToolCall("c4", "f"))
    assert failed == [
        {"role": "tool", "toolCallId": id, "content": problem, "error": problem}
        for id, problem in problems.items()
    ]
    assert losses == {"result_filled", "custom_tool_wrapped"}


def test_call_that_the_provider_has_answered_has_not_failed() -> None:
    messages, losses = written(ToolCall("c1", "f", '{"a'), ServerToolResult("c1", "f", "x"))
    assert [each["role"] for each in messages] == ["assistant", "tool"]
    assert losses == set()


def test_call_that_is_not_whole_may_have_a_result() -> None:
    history = (
        InputMessage("assistant", (ToolCall("c1", "f", '{"a'), ToolCall("c2", "f", '{"b'))),
        InputMessage("user", (ToolResult("c2", (Text("not run"),), is_error=True),)),
        HI,
        InputMessage("assistant", (ToolCall("c3", "f", '{"c'),)),
        InputMessage("assistant", (Text("Ah."),)),
    )
    made = encode_messages(history, AG_UI)
    roles = [(each["role"], each.get("toolCallId"), each.get("error")) for each in made.messages]
    assert roles == [
        ("assistant", None, None),
        ("tool", "c2", "not run"),
        ("tool", "c1", "the arguments of the call are no JSON"),
        ("user", None, None),
        ("assistant", None, None),
        ("tool", "c3", "the arguments of the call are no JSON"),
        ("assistant", None, None),
    ]
    assert [(loss.feature, loss.count) for loss in made.losses] == [("result_filled", 2)]


def test_citations_stand_in_the_metadata_of_their_text() -> None:
    cited = Text("See", (Citation("web", "https://a.example/", "A"), Citation("page", title="B")))
    (message,), losses = written(cited)
    entry = {"url": "https://a.example/", "title": "A"}
    assert (message["metadata"], losses) == ({"citations": [entry]}, {"citations"})
    (message,), _ = written(Text("See", (Citation("page", title="B"),)))
    assert message == {"role": "assistant", "content": "See"}


def test_files_of_the_user() -> None:
    files = (
        Text("See"),
        Image("image/png", CAT),
        Image(None, CAT),
        Document("text/plain", "cat", title="a.txt"),
        Audio(None, url="https://a.example/x"),
        Video("video/mp4", url="https://a.example/x"),
        Image("image/png", file_id="f", issuer="openai"),
        OpaqueBlock("gemini", "code", "{}"),
    )
    data = {"type": "data", "value": CAT}
    url = {"type": "url", "value": "https://a.example/x"}
    (message,), losses = written(*files, role="user")
    assert message["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {**data, "mimeType": "image/png"}},
        {"type": "image", "source": {**data, "mimeType": "image/png"}},
        {
            "type": "document",
            "source": {**data, "mimeType": "text/plain"},
            "metadata": {"filename": "a.txt"},
        },
        {"type": "audio", "source": url},
        {"type": "video", "source": {**url, "mimeType": "video/mp4"}},
    ]
    assert losses == {"file_id_dropped", "opaque_block"}


def test_what_a_thread_has_no_place_for_is_lost_by_name() -> None:
    history = (
        InputMessage("system", (Text("Be kind."), Image("image/png", CAT))),
        InputMessage("user"),
        InputMessage(
            "assistant",
            (
                Refusal("No."),
                Image("image/png", CAT),
                OpaqueBlock("gemini", "code", "{}"),
                ToolCall("c1", "run", "print(1)", "custom"),
            ),
        ),
        InputMessage("assistant", (Text("Ah."),)),
        InputMessage("user", (ToolResult("c9"),)),
    )
    made = encode_messages(history, AG_UI)
    assert [each["role"] for each in made.messages] == ["system", "assistant", "assistant"]
    assert made.messages[0]["content"] == "Be kind."
    (wrapped,) = made.messages[1]["toolCalls"]
    assert wrapped["function"] == {"name": "run", "arguments": '{"input":"print(1)"}'}
    assert {loss.feature: loss.count for loss in made.losses} == {
        "empty_message_dropped": 1,
        "refusal_as_text": 1,
        "image_dropped": 1,
        "opaque_block": 1,
        "custom_tool_wrapped": 1,
        "messages_merged": 1,
        "orphan_result": 1,
    }
