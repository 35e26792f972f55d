"""What Anthropic's encoder writes back of Anthropic's own: its tools, sources and fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.anthropic.reader import frames

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RefusalDelta,
    ServerToolCall,
    ServerToolResult,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    encoder,
)

START = MessageStart("msg_1", "claude-1")


def encode(*events: Event, begun: MessageStart = START, **options: Any) -> list[dict[str, Any]]:
    """Return the payloads, those of `message_start` first."""
    writer = encoder("anthropic", **options)
    return list(frames(b"".join([*map(writer.encode, (begun, *events)), writer.close()])))


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_server_tool_call_is_written_with_its_type(kind: str) -> None:
    call = ServerToolCall("srv_1", "search", kind=kind)
    started, opened, piece, stopped = encode(
        BlockStart(0, call), JSONDelta(0, '{"q":1}'), BlockStop(0)
    )[1:]
    assert started["content_block"] == {"type": kind, "id": "srv_1", "name": "search", "input": {}}
    assert opened["delta"] == {"type": "input_json_delta", "partial_json": ""}
    assert piece["delta"] == {"type": "input_json_delta", "partial_json": '{"q":1}'}
    assert stopped == {"type": "content_block_stop", "index": 0}
    assert encode(BlockStart(0, call), BlockStop(0))[3]["delta"]["partial_json"] == "{}"


def test_server_tool_result_is_whole_in_its_start() -> None:
    result = ServerToolResult("srv_1", "web_search_tool_result", [{"url": "u", "title": None}])
    started, stopped = encode(BlockStart(0, result), BlockStop(0))[1:]
    assert started["content_block"] == {
        "type": "web_search_tool_result",
        "tool_use_id": "srv_1",
        "content": [{"url": "u", "title": None}],
    }
    assert stopped == {"type": "content_block_stop", "index": 0}


def test_citation_is_written_as_a_delta() -> None:
    source = Citation(
        "char_location", None, "D", "c", extra={"document_index": 0, "start_char_index": 3}
    )
    events = (BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, source))
    assert encode(*events)[-1]["delta"] == {
        "type": "citations_delta",
        "citation": {
            "type": "char_location",
            "document_title": "D",
            "file_id": None,
            "cited_text": "c",
            "document_index": 0,
            "start_char_index": 3,
        },
    }


# Fields that have no place in the events


def test_extra_fields_are_written_where_they_were_read() -> None:
    begun = MessageStart("msg_1", "claude-1", {"container": {"id": "c"}, "id": "forged"})
    stop_extra = {
        "stop_details": {"type": "refusal", "category": "cyber"},
        "container": {"id": "c"},
        "context_management": {"applied_edits": []},
        "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3},
    }
    called = BlockStart(0, ToolCall("t", "f"), extra={"caller": {"type": "direct"}, "name": "g"})
    events = (
        *(UsageUpdate(Usage(9, 4, extra={"speed": "fast", "input_tokens": 1})), called),
        *(BlockStop(0), MessageStop("refusal", extra=stop_extra)),
    )
    told = encode(*events, begun=begun, extras=True)
    message = told[0]["message"]
    assert (message["container"], message["id"]) == ({"id": "c"}, "msg_1")
    block = told[1]["content_block"]
    assert (block["caller"], block["name"]) == ({"type": "direct"}, "f")
    assert told[-2]["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        **{key: stop_extra[key] for key in ("stop_details", "container")},
    }
    assert told[-2]["context_management"] == {"applied_edits": []}
    assert (told[-2]["usage"]["speed"], told[-2]["usage"]["input_tokens"]) == ("fast", 9)
    assert told[-1] == {
        "type": "message_stop",
        "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3},
    }
    plain = json.dumps(encode(*events, begun=begun))
    for word in ("container", "caller", "speed", "cyber", "context_management", "bedrock"):
        assert word not in plain


@pytest.mark.parametrize(
    ("told", "written"),
    [("default", "standard"), ("priority", "priority"), ("standard", "standard"), ("flex", None)],
)
def test_service_tier_is_translated(told: str, written: str | None) -> None:
    said = {"service_tier": told}
    for begun, events in [
        (MessageStart("m", "c", said), [MessageStop("end_turn")]),
        (START, [UsageUpdate(Usage(1, 1, extra=said)), MessageStop("end_turn")]),
        (START, [MessageStop("end_turn", extra=said)]),
    ]:
        assert encode(*events, begun=begun)[-2]["usage"].get("service_tier") == written
    writer = encoder("anthropic")
    writer.encode(MessageStart("m", "c", said))
    lost = (Loss("service_tier", told, 1, "dropped"),) if written is None else ()
    assert writer.losses == lost


@pytest.mark.parametrize(
    ("raw", "reason", "word"),
    [
        ("compaction", "pause", "compaction"),
        ("model_context_window_exceeded", "max_tokens", "model_context_window_exceeded"),
        ("length", "max_tokens", "max_tokens"),
    ],
)
def test_stop_reason_of_anthropic_is_written_back(raw: str, reason: Any, word: str) -> None:
    assert encode(MessageStop(reason, raw))[-2]["delta"]["stop_reason"] == word


# Events that only Anthropic's clients know


def test_opaque_event_gets_the_wire_index_of_its_block() -> None:
    tone = '{"type":"tone","index":9,"n":[1]}'
    events = [
        *(BlockStart(0, Text()), BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "a")),
        *(Opaque("anthropic", "tone", tone, 1), Opaque("anthropic", "tone", tone)),
        *(Opaque("anthropic", "tone", '{"type":"tone"}', 1), BlockStop(1)),
    ]
    told = [event for event in encode(*events) if event["type"] == "tone"]
    # The first block is left out, and so the second is the first.
    assert told == [
        {"type": "tone", "index": 0, "n": [1]},
        {"type": "tone", "index": 9, "n": [1]},
        {"type": "tone"},
    ]


@pytest.mark.parametrize("data", ["{", '"text"', "[1]"])
def test_opaque_data_without_an_index_is_written_unchanged(data: str) -> None:
    writer = encoder("anthropic")
    for event in (START, BlockStart(0, Reasoning())):
        writer.encode(event)
    written = writer.encode(Opaque("anthropic", "tone", data, 0))
    assert written == f"event: tone\ndata: {data}\n\n".encode()


@pytest.mark.parametrize("name", ["a\nevent: message_stop", "a\rb", "a\0"])
def test_event_name_with_a_line_end_is_omitted(name: str) -> None:
    writer = encoder("anthropic")
    written = writer.encode(Opaque("anthropic", name, '{"type":"x",\n"n":1}'))
    assert written == b'data: {"type":"x",\ndata: "n":1}\n\n'


# What the projection keeps away


def test_refusal_must_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="refusal passed the projection"):
        encoder("anthropic").render(RefusalDelta(0, "no"))


def test_delta_writer_equals_render() -> None:
    for block, delta in [
        (Text(), TextDelta(0, 'a"é')),
        (Reasoning(), ReasoningDelta(0, 'a"é')),
        (ToolCall("c", "f"), JSONDelta(0, 'a"é')),
    ]:
        writer = encoder("anthropic")
        for event in (START, BlockStart(0, block), delta):
            writer.encode(event)
        assert writer.encode(delta) == writer.delta_writer(0)('a"é')
