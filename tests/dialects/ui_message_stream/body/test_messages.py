"""Histories as UI messages, by `UIMessage` of npm `ai` 7.0.173 (`src/ui/ui-messages.ts`)."""

from __future__ import annotations

from typing import Any

from support.ui_message_stream.pages import CAT, UI

from streamnorm import (
    Audio,
    CacheMark,
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
    Usage,
    Video,
    decode_request,
)
from streamnorm.frontend import encode_messages

STEP = {"type": "step-start"}
HI = InputMessage("user", (Text("Hi"),))


def parts_of(*blocks: InputBlock, role: Any = "assistant") -> tuple[list[dict[str, Any]], set[str]]:
    """Return the parts of one message, and the names of its losses."""
    written = encode_messages((InputMessage(role, blocks),), UI)
    (message,) = written.messages
    return message["parts"], {loss.feature for loss in written.losses}


def written_part(block: InputBlock) -> dict[str, Any]:
    (step, part), losses = parts_of(block)
    assert (step, losses) == (STEP, set())
    return part


def test_steps_of_an_answer_are_one_message_with_the_results_in_their_calls() -> None:
    history = (
        InputMessage("system", (Text("Be brief."),)),
        HI,
        InputMessage("assistant", (Text("I look."), ToolCall("c1", "f", '{"a":1}'))),
        InputMessage("user", (ToolResult("c1", (Text('{"t":20}'),), value='{"t":20}'),)),
        InputMessage("assistant", (Text("20"),)),
        InputMessage("user", (Text("Thanks"),)),
    )
    done = {"state": "done"}
    call = {"type": "tool-f", "toolCallId": "c1", "state": "output-available"}
    written = encode_messages(history, UI)
    assert written.messages == [
        {
            "id": "message-0",
            "role": "system",
            "parts": [{"type": "text", "text": "Be brief.", **done}],
        },
        {"id": "message-1", "role": "user", "parts": [{"type": "text", "text": "Hi", **done}]},
        {
            "id": "message-2",
            "role": "assistant",
            "parts": [
                STEP,
                {"type": "text", "text": "I look.", **done},
                {**call, "input": {"a": 1}, "output": {"t": 20}},
                STEP,
                {"type": "text", "text": "20", **done},
            ],
        },
        {"id": "message-3", "role": "user", "parts": [{"type": "text", "text": "Thanks", **done}]},
    ]
    assert written.losses == ()
    assert decode_request({"messages": written.messages}, UI).messages == history


def test_answer_has_the_id_and_metadata_of_its_stream() -> None:
    answer = Message("a", "gpt-5", (Text("Hi"),), "end_turn", usage=Usage(3, 2))
    bare = Message("", "", (Text("Ho"),))
    first, _, second = encode_messages((answer, HI, bare), UI).messages
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    assert (first["id"], first["metadata"]) == ("a", {"model": "gpt-5", "usage": usage})
    assert second.keys() == {"id", "role", "parts"}
    # Several answers are steps of one message, whose usage none of them has.
    (message,) = encode_messages((answer, answer), UI).messages
    assert message["id"] == "a"
    assert "metadata" not in message
    one, _, two, _, three = encode_messages((answer, HI, answer, HI, bare), UI).messages
    assert len({one["id"], two["id"], three["id"]}) == 3
    named = Message("message-1", "", (Text("Hi"),))
    assert [each["id"] for each in encode_messages((named, HI), UI).messages] == [
        *("message-1", "message-1-")
    ]


def test_calls_by_their_result() -> None:
    call = ToolCall("c1", "f", "")
    part = {"type": "tool-f", "toolCallId": "c1", "state": "input-available", "input": {}}
    assert written_part(call) == part
    result = ToolResult("c1", (Text("no"),), is_error=True)
    failed = {**part, "state": "output-error", "errorText": "no"}
    assert parts_of(call, result) == ([STEP, failed], set())
    image = ToolResult("c1", (Text("a"), Image("image/png", CAT)))
    shown = {**part, "state": "output-available", "output": "a"}
    assert parts_of(call, image) == ([STEP, shown], {"result_media"})
    broken = ToolResult("c1", (Text("{"),), value="{")
    assert parts_of(call, broken)[0][1]["output"] == "{"


def test_call_that_is_not_whole_has_failed() -> None:
    broken = {"type": "tool-f", "toolCallId": "c1", "state": "output-error", "input": '{"a'}
    filled = {"result_filled"}  # what the part shows comes back as a result
    shown = {**broken, "errorText": "the arguments of the call are no JSON"}
    assert parts_of(ToolCall("c1", "f", '{"a')) == ([STEP, shown], filled)
    unfinished = {**broken, "errorText": "the arguments of the call ended early"}
    call = ToolCall("c1", "f", '{"a', is_unfinished=True)
    assert parts_of(call) == ([STEP, unfinished], filled)
    shown = {**unfinished, "errorText": "not run"}
    result = ToolResult("c1", (Text("not run"),))
    assert parts_of(call, result) == ([STEP, shown], {"result_as_error"})
    failed = ToolResult("c1", (Text("not run"),), is_error=True)
    assert parts_of(call, failed) == ([STEP, shown], set())


def test_second_result_of_the_provider_for_a_call_is_lost_by_name() -> None:
    """A page refuses two calls of one id in a step."""
    once, twice = ServerToolResult("s", "k", 1), ServerToolResult("s", "k", 2)
    for blocks in ((ServerToolCall("s", "k"), once, twice), (once, twice)):
        (_, part), losses = parts_of(*blocks)
        assert (part["output"], losses) == (1, {"duplicate_result"})


def test_free_text_of_a_custom_tool_is_a_string() -> None:
    part = written_part(ToolCall("c1", "run", "print(1)", "custom"))
    assert (part["state"], part["input"]) == ("input-available", "print(1)")
    # Of a call that fails nothing else tells it from arguments that are no JSON.
    assert part["callProviderMetadata"] == {"streamnorm": {"kind": "custom"}}
    signed = ToolCall("c1", "f", '"x"', signature="s", issuer="google")
    assert written_part(signed)["callProviderMetadata"] == {
        "google": {"thoughtSignature": "s"},
        "streamnorm": {"kind": "function"},
    }


def test_calls_of_the_provider_say_so() -> None:
    call = ServerToolCall("c1", "web_search", '{"q":"x"}')
    part = {
        "type": "tool-web_search",
        "toolCallId": "c1",
        "providerExecuted": True,
        "state": "input-available",
        "input": {"q": "x"},
    }
    assert written_part(call) == part
    result = ServerToolResult("c1", "web_search", [1])
    answered = {**part, "state": "output-available", "output": [1]}
    assert parts_of(call, Text("Hm."), result)[0][1] == answered
    alone = {**answered, "type": "tool-web_search", "input": {}}
    assert parts_of(result) == ([STEP, alone], set())
    kinds = {
        "callProviderMetadata": {"streamnorm": {"kind": "mcp_tool_use"}},
        "resultProviderMetadata": {"streamnorm": {"kind": "mcp_tool_result"}},
    }
    call = ServerToolCall("c1", "web_search", '{"q":"x"}', "mcp_tool_use")
    result = ServerToolResult("c1", "mcp_tool_result", [1])
    assert parts_of(call, result) == ([STEP, {**answered, **kinds}], set())


def test_result_with_a_key_that_clients_refuse_is_its_text() -> None:
    """Such a key sets the prototype where a page copies the object."""
    text = '{"__proto__":{"a":1}}'
    of_provider = ServerToolCall("c", "f"), ServerToolResult("c", "f", {"__proto__": {"a": 1}})
    of_client = ToolCall("c", "f"), ToolResult("c", (Text(text),), value=text)
    for blocks in (of_provider, of_client):
        part = parts_of(*blocks)[0][1]
        assert (part["state"], part["output"]) == ("output-available", text)


def test_signatures_stand_where_the_packages_of_the_vendors_read_them() -> None:
    reasoning = {"type": "reasoning", "text": "Hm.", "state": "done"}
    signed = {**reasoning, "providerMetadata": {"anthropic": {"signature": "s"}}}
    assert written_part(Reasoning(("Hm.",), "s", "anthropic")) == signed
    redacted = {"anthropic": {"redactedData": "r"}}
    assert written_part(RedactedReasoning("r", "anthropic"))["providerMetadata"] == redacted
    google = {"google": {"thoughtSignature": "s"}}
    text = Text("Hi", signature="s", issuer="google")
    assert written_part(text)["providerMetadata"] == google
    call = ToolCall("c1", "f", "{}", signature="s", issuer="google")
    assert written_part(call)["callProviderMetadata"] == google
    assert written_part(Reasoning(("Hm.",))) == reasoning
    assert written_part(Reasoning()) == {**reasoning, "text": ""}
    stored = {"openai": {"itemId": "rs_1"}}
    assert written_part(Reasoning(("Hm.",), id="rs_1"))["providerMetadata"] == stored


def test_each_summary_names_its_item() -> None:
    """`@ai-sdk/openai` drops reasoning without an `itemId`."""
    parts, losses = parts_of(Reasoning(("One", "Two"), "s", "openai", "rs_1"))
    assert [part.get("providerMetadata") for part in parts[1:]] == [
        {"openai": {"itemId": "rs_1"}},
        {
            "openai": {"itemId": "rs_1", "reasoningEncryptedContent": "s"},
            "streamnorm": {"isContinued": False},
        },
    ]
    assert losses == set()
    parts, _ = parts_of(Reasoning(("One", "Two"), "s", "xai", "rs_1"))
    assert [part.get("providerMetadata") for part in parts[1:]] == [
        {"streamnorm": {"isContinued": True}},
        {"streamnorm": {"signature": "s", "issuer": "xai", "id": "rs_1", "isContinued": False}},
    ]


def test_parts_of_reasoning_without_an_item_are_marked() -> None:
    more = {"streamnorm": {"isContinued": True}}
    parts, losses = parts_of(Reasoning(("One", "Two"), "s", "anthropic"))
    assert [part.get("providerMetadata") for part in parts[1:]] == [
        more,
        {"anthropic": {"signature": "s"}},
    ]
    assert losses == set()
    unsigned = {"x": {"y": 1}}
    kept = Reasoning(("One", "Two"), extra={UI: {"providerMetadata": unsigned}})
    parts, _ = parts_of(kept)
    assert [part["providerMetadata"] for part in parts[1:]] == [more, unsigned]


def test_reasoning_that_is_read_as_a_part_of_the_next_is_a_loss() -> None:
    item = Reasoning(("Two",), "s", "openai", "rs_1")
    assert parts_of(Reasoning(("One",), id="rs_1"), item)[1] == {"reasoning_merged"}
    assert parts_of(Reasoning(("One",)), item)[1] == set()
    assert parts_of(Reasoning(("One",), "t", "anthropic"), item)[1] == set()


def test_sources_follow_their_text() -> None:
    cited = Text("See", (Citation("source-url", "https://a.example/", "A"),))
    parts, _ = parts_of(cited, cited)
    source = {"type": "source-url", "url": "https://a.example/", "title": "A"}
    assert [part for part in parts if "sourceId" in part] == [
        {**source, "sourceId": "source-0"},
        {**source, "sourceId": "source-1"},
    ]


def test_files() -> None:
    files = (
        Image("image/png", CAT, detail="low"),
        Image(None, url="https://a.example/x"),
        Document("application/pdf", CAT, title="a.pdf"),
        Document("text/plain", "cat"),
        Document(None, url="https://a.example/x"),
        Audio("audio/wav", CAT),
        Video("video/mp4", url="https://a.example/x"),
        Image("image/png", file_id="f", issuer="openai"),
        Image("image/png", CAT, signature="s", issuer="google"),
    )
    parts, losses = parts_of(*files, role="user")
    assert parts == [
        {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{CAT}"},
        {"type": "file", "mediaType": "image/*", "url": "https://a.example/x"},
        {
            "type": "file",
            "mediaType": "application/pdf",
            "url": f"data:application/pdf;base64,{CAT}",
            "filename": "a.pdf",
        },
        {"type": "file", "mediaType": "text/plain", "url": f"data:text/plain;base64,{CAT}"},
        {"type": "file", "mediaType": "application/octet-stream", "url": "https://a.example/x"},
        {"type": "file", "mediaType": "audio/wav", "url": f"data:audio/wav;base64,{CAT}"},
        {"type": "file", "mediaType": "video/mp4", "url": "https://a.example/x"},
        {
            "type": "file",
            "mediaType": "image/png",
            "url": "",
            "providerReference": {"openai": "f"},
        },
        {
            "type": "file",
            "mediaType": "image/png",
            "url": f"data:image/png;base64,{CAT}",
            "providerMetadata": {"google": {"thoughtSignature": "s"}},
        },
    ]
    assert losses == {"detail", "file_id"}
    _, losses = parts_of(Document("text/csv;header=present", "a,b"), role="user")
    assert losses == {"media_type_parameters"}


def test_what_a_page_sent_goes_back_to_it() -> None:
    data = '{"type":"data-chart","data":[1]}'
    metadata = {"openai": {"itemId": "msg_1"}}
    blocks = (
        OpaqueBlock(UI, "data-chart", data),
        OpaqueBlock(UI, "data-chart", "1"),
        Text("Hi", extra={UI: {"providerMetadata": metadata}}),
        ToolCall("c1", "f", "{}", extra={UI: {"callProviderMetadata": metadata}}),
        ToolResult("c1", (), extra={UI: {"resultProviderMetadata": metadata}}),
    )
    (_, chart, text, call), losses = parts_of(*blocks)
    assert chart == {"type": "data-chart", "data": [1]}
    assert text["providerMetadata"] == metadata
    assert (call["callProviderMetadata"], call["resultProviderMetadata"]) == (metadata, metadata)
    assert losses == set()


def test_half_a_character_is_replaced() -> None:
    """A body in UTF-8 cannot hold it."""
    (_, part), losses = parts_of(Text("a\ud800b"))
    assert (part["text"], losses) == ("a\ufffdb", {"half_character"})


def test_what_a_page_has_no_place_for_is_lost_by_name() -> None:
    spaced = ToolCall("c1", "f", "{}", namespace="db")
    history = (
        InputMessage("developer", (Text("Be kind."),), "d", {"openai_chat": {"x": 1}}),
        InputMessage("user", (Text("Hi", cache=CacheMark()), OpaqueBlock("gemini", "code", "{}"))),
        InputMessage("assistant", (Refusal("No."), spaced)),
        InputMessage("user", (OpaqueBlock("gemini", "code", "{}"), ToolResult("c9"))),
        InputMessage("user"),
    )
    written = encode_messages(history, UI)
    assert [message["role"] for message in written.messages] == ["system", "user", "assistant"]
    assert written.messages[2]["parts"][1]["text"] == "No."
    assert written.messages[2]["parts"][2]["type"] == "tool-db__f"
    assert {loss.feature: loss.count for loss in written.losses} == {
        "name": 1,
        "developer_role": 1,
        "x": 1,
        "cache_mark_dropped": 1,
        "opaque_block": 2,
        "refusal_as_text": 1,
        "namespace_flattened": 1,
        "empty_message_dropped": 2,
        "orphan_result": 1,
    }
