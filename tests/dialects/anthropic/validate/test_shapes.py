"""Required fields of each event."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.violations import (
    CODE,
    OVERLOADED,
    STOP,
    TEXT,
    TOOL,
    Event,
    begin,
    delta,
    end,
    ending,
    message,
    sse,
    started,
    text,
    without,
)

from streamnorm.validation import Violation, validate

STRING, NAME, OBJECT = "a string", "a string that is not empty", "an object"
COUNT, ARRAY = "an integer from 0", "an array"

Required = dict[str, str]

# The required fields of each block, and what is expected of them.
CALL = {"id": NAME, "name": NAME, "input": OBJECT}
RESULT = {"tool_use_id": NAME, "content": OBJECT}
BLOCKS: dict[str, tuple[Event, Required]] = {
    "text": ({"text": "", "citations": None}, {"text": STRING}),
    "thinking": ({"thinking": "", "signature": ""}, {"thinking": STRING, "signature": STRING}),
    "redacted_thinking": ({"data": "R"}, {"data": STRING}),
    "tool_use": ({"id": "toolu_1", "name": "look", "input": {}, "caller": CODE}, CALL),
    "server_tool_use": ({"id": "srvtoolu_1", "name": "web_search", "input": {}}, CALL),
    "web_search_tool_result": (
        {"tool_use_id": "s", "content": [], "caller": {"type": "direct"}},
        {**RESULT, "content": "an array or an object"},
    ),
    "web_fetch_tool_result": ({"tool_use_id": "s", "content": {}, "caller": None}, RESULT),
    "code_execution_tool_result": ({"tool_use_id": "s", "content": {}}, RESULT),
    "bash_code_execution_tool_result": ({"tool_use_id": "s", "content": {}}, RESULT),
    "text_editor_code_execution_tool_result": ({"tool_use_id": "s", "content": {}}, RESULT),
    "tool_search_tool_result": ({"tool_use_id": "s", "content": {}}, RESULT),
    "advisor_tool_result": ({"tool_use_id": "s", "content": {}}, RESULT),
    "container_upload": ({"file_id": "f"}, {"file_id": STRING}),
    "mcp_tool_use": (
        {"id": "mcptoolu_1", "name": "look", "input": {}, "server_name": "s"},
        {**CALL, "server_name": STRING},
    ),
    "mcp_tool_result": (
        {"tool_use_id": "m", "is_error": False, "content": "a"},
        {"tool_use_id": NAME, "is_error": "a boolean", "content": "a string or an array"},
    ),
    "mcp_tool_listing": (
        {"mcp_server_name": "s", "tools": []},
        {"mcp_server_name": STRING, "tools": ARRAY},
    ),
    "compaction": ({"content": None, "encrypted_content": None, "signature": "S"}, {}),
    "fallback": (
        {"from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}},
        {"from": OBJECT, "to": OBJECT, "trigger": OBJECT},
    ),
}

CITED = {"cited_text": STRING}
IN_DOCUMENT = {**CITED, "document_index": COUNT}
DOCUMENT = {"cited_text": "c", "document_index": 0, "document_title": None, "file_id": "f"}
CITATIONS: dict[str, tuple[Event, Required]] = {
    "char_location": (
        {**DOCUMENT, "start_char_index": 0, "end_char_index": 1},
        {**IN_DOCUMENT, "start_char_index": COUNT, "end_char_index": COUNT},
    ),
    "page_location": (
        {**DOCUMENT, "start_page_number": 1, "end_page_number": 2},
        {**IN_DOCUMENT, "start_page_number": COUNT, "end_page_number": COUNT},
    ),
    "content_block_location": (
        {**DOCUMENT, "start_block_index": 0, "end_block_index": 1},
        {**IN_DOCUMENT, "start_block_index": COUNT, "end_block_index": COUNT},
    ),
    "web_search_result_location": (
        {"cited_text": "c", "url": "https://a.example", "title": None, "encrypted_index": "E"},
        {**CITED, "url": STRING, "encrypted_index": STRING},
    ),
    "search_result_location": (
        {
            "cited_text": "c",
            "source": "s",
            "title": "t",
            "search_result_index": 0,
            "start_block_index": 0,
            "end_block_index": 1,
        },
        {
            **CITED,
            "source": STRING,
            "search_result_index": COUNT,
            "start_block_index": COUNT,
            "end_block_index": COUNT,
        },
    ),
}

DELTAS: dict[str, tuple[Event, Required]] = {
    "text_delta": ({"text": "a"}, {"text": STRING}),
    "citations_delta": (
        {"citation": {"type": "char_location", **CITATIONS["char_location"][0]}},
        {"citation": OBJECT},
    ),
    "thinking_delta": ({"thinking": "a", "estimated_tokens": None}, {"thinking": STRING}),
    "signature_delta": ({"signature": "S"}, {"signature": STRING}),
    "input_json_delta": ({"partial_json": ""}, {"partial_json": STRING}),
    "compaction_delta": ({"content": "a", "encrypted_content": None}, {}),
}


def in_block(kind: str, block: Event) -> list[Event | str]:
    """Return a message of one whole block, and of a text."""
    events = [begin(0, {"type": kind, **block}), end(0)]
    if kind == "text":
        events.insert(1, delta(0, "text_delta", text="a"))
    return message(*events, *text(1), reason="tool_use" if kind == "tool_use" else "end_turn")


def in_delta(kind: str, fields: Event) -> list[Event | str]:
    """Return a message with a delta among its text, or in a block that takes it."""
    block = {
        "thinking_delta": {"type": "thinking", "thinking": "", "signature": ""},
        "signature_delta": {"type": "thinking", "thinking": "", "signature": ""},
        "input_json_delta": {**TOOL, "type": "server_tool_use"},
        "compaction_delta": {"type": "compaction"},
    }.get(kind, TEXT)
    return message(*text(), begin(1, block), delta(1, kind, **fields), *more(block), end(1))


def more(block: Event) -> list[Event]:
    return [delta(1, "text_delta", text="a")] if block is TEXT else []


def cited(kind: str, citation: Event) -> list[Event | str]:
    citation = {"type": kind, **citation}
    return message(*text()[:2], delta(0, "citations_delta", citation=citation), end(0))


EVERY_COUNT = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": None,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "server_tool_use": {"web_search_requests": 0},
    "output_tokens_details": {"thinking_tokens": 0},
    "iterations": [{"type": "message"}],
    "service_tier": "standard",
    "inference_geo": None,
    "speed": None,
    "a_new_field": "anything",
}

LEGAL: dict[str, list[Event | str]] = {
    **{kind: in_block(kind, block) for kind, (block, _) in BLOCKS.items()},
    **{kind: in_delta(kind, fields) for kind, (fields, _) in DELTAS.items()},
    **{kind: cited(kind, citation) for kind, (citation, _) in CITATIONS.items()},
    "text with citations": in_block("text", {"text": "", "citations": []}),
    "result of a server as an array": in_block(
        "mcp_tool_result", {"tool_use_id": "m", "is_error": True, "content": []}
    ),
    "error of a search": in_block("web_search_tool_result", {"tool_use_id": "s", "content": {}}),
    "every field of a message": [
        started(
            usage=EVERY_COUNT,
            container={"id": "c", "expires_at": "2026-01-01T00:00:00Z", "skills": None},
            stop_details=None,
            diagnostics=None,
            context_management={},
        ),
        {**ending(**{**EVERY_COUNT, "input_tokens": None}), "context_management": None},
        {**STOP, "amazon-bedrock-invocationMetrics": {}},
    ],
    "every field of an error": [
        {**OVERLOADED, "request_id": None, "error": {**OVERLOADED["error"], "details": {}}}
    ],
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_event_with_every_field_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "anthropic") == []


REASONS = (
    "end_turn or max_tokens or stop_sequence or tool_use or pause_turn or refusal or "
    "model_context_window_exceeded or compaction or null"
)
ERRORS = (
    "invalid_request_error or authentication_error or billing_error or permission_error or "
    "not_found_error or conflict_error or request_too_large or rate_limit_error or "
    "timeout_error or api_error or overloaded_error"
)
UNKNOWN = "expected one of the protocol"


def lacking(start: Event, at: int, where: str, required: Required, *path: str) -> dict[str, Any]:
    """Return the cases of an event that lacks one of its required fields."""
    return {
        f"{start['type']} {where or name}: no {name}": (
            *(without(start, *path, name), at),
            f"{where}{name} is missing, expected {expected}",
        )
        for name, expected in required.items()
    }


def one(event: Event) -> list[Event | str]:
    """Return a message that holds an event, without what follows from its block."""
    if event["type"] == "message_start":
        return [event, ending(), STOP]
    if event["type"] == "message_delta":
        return [started(), event, STOP]
    if event["type"] == "error":
        return [event]
    return [started(), event, OVERLOADED]


EVENTS: dict[str, tuple[Event, int, str]] = {
    **lacking(started(), 0, "", {"message": OBJECT}),
    **lacking(
        started(),
        0,
        "message.",
        {
            "id": STRING,
            "type": "message",
            "role": "assistant",
            "model": STRING,
            "content": ARRAY,
            "usage": OBJECT,
        },
        "message",
    ),
    **lacking(
        *(started(), 0, "message.usage.", {"input_tokens": COUNT, "output_tokens": COUNT}),
        *("message", "usage"),
    ),
    **lacking(begin(0, {"type": "text", "text": ""}), 1, "", {"content_block": OBJECT}),
    **lacking(begin(0, TEXT), 1, "content_block.", {"type": STRING}, "content_block"),
    **lacking(begin(0, TEXT), 1, "", {"index": COUNT}),
    **lacking(ending(), 1, "", {"delta": OBJECT, "usage": OBJECT}),
    **lacking(ending(), 1, "usage.", {"output_tokens": COUNT}, "usage"),
    **lacking(OVERLOADED, 0, "", {"error": OBJECT}),
    **lacking(OVERLOADED, 0, "error.", {"type": ERRORS, "message": STRING}, "error"),
    **{
        f"message.{problem}": (started(**fields), 0, f"message.{problem}")
        for fields, problem in [
            ({"id": None}, "id is null, expected a string"),
            ({"type": "text"}, "type is a string of 4 characters, expected message"),
            ({"role": "user"}, "role is a string of 4 characters, expected assistant"),
            ({"content": None}, "content is null, expected an array"),
            ({"stop_sequence": 1}, "stop_sequence is an integer, expected a string or null"),
            ({"stop_details": ""}, "stop_details is an empty string, expected an object or null"),
            ({"container": []}, "container is an array, expected an object or null"),
            ({"content": [{"type": "text"}]}, "content[0].text is missing, expected a string"),
            ({"content": ["a"]}, "content[0] is a string of 1 characters, expected an object"),
            (
                {"content": [{"type": "x"}]},
                f"content[0].type is unknown in 1 characters, {UNKNOWN}",
            ),
        ]
    },
    "negative count": (
        started(usage={"input_tokens": -1, "output_tokens": 1}),
        *(0, f"message.usage.input_tokens is a negative integer, expected {COUNT}"),
    ),
    "text for a count": (
        ending(output_tokens="5"),
        *(1, f"usage.output_tokens is a string of 1 characters, expected {COUNT}"),
    ),
    "unknown reason": (
        ending("tired"),
        *(1, f"delta.stop_reason is a string of 5 characters, expected {REASONS}"),
    ),
    "reason of another kind": (
        ending(["end_turn"]),
        *(1, f"delta.stop_reason is an array, expected {REASONS}"),
    ),
    "unknown error": (
        {"type": "error", "error": {"type": "internal_error", "message": "m"}},
        *(0, f"error.type is a string of 14 characters, expected {ERRORS}"),
    ),
    "negative index": (
        begin(-1, TEXT),
        *(1, f"index is a negative integer, expected {COUNT}"),
    ),
    "index of another kind": (
        end("0"),
        *(1, f"index is a string of 1 characters, expected {COUNT}"),
    ),
    "delta without an index": (
        without(delta(0, "text_delta", text="a"), "index"),
        *(1, f"index is missing, expected {COUNT}"),
    ),
    "unknown block": (
        begin(0, {"type": "hologram"}),
        *(1, f"content_block.type is unknown in 8 characters, {UNKNOWN}"),
    ),
    "null text": (
        begin(0, {"type": "text", "text": None}),
        *(1, "content_block.text is null, expected a string"),
    ),
    "input as text": (
        begin(0, {**TOOL, "input": ""}),
        *(1, "content_block.input is an empty string, expected an object"),
    ),
    "empty id": (
        begin(0, {**TOOL, "id": ""}),
        *(1, "content_block.id is an empty string, expected a string that is not empty"),
    ),
    "unknown caller": (
        begin(0, {**TOOL, "caller": {"type": "nobody"}}),
        *(1, f"content_block.caller.type is unknown in 6 characters, {UNKNOWN}"),
    ),
}


@pytest.mark.parametrize(("event", "position", "problem"), EVENTS.values(), ids=EVENTS)
def test_violation_in_a_field_names_its_path(event: Event, position: int, problem: str) -> None:
    assert validate(sse(*one(event)), "anthropic") == [Violation(position, problem)]


@pytest.mark.parametrize("kind", BLOCKS)
def test_block_must_start_with_all_its_fields(kind: str) -> None:
    block, required = BLOCKS[kind]
    for name, expected in required.items():
        body = sse(*in_block(kind, without(block, name)))
        problem = f"content_block.{name} is missing, expected {expected}"
        assert validate(body, "anthropic") == [Violation(1, problem)]


@pytest.mark.parametrize("kind", DELTAS)
def test_delta_must_have_its_field_and_not_null(kind: str) -> None:
    fields, required = DELTAS[kind]
    for name, expected in required.items():
        missing = Violation(5, f"delta.{name} is missing, expected {expected}")
        assert validate(sse(*in_delta(kind, without(fields, name))), "anthropic") == [missing]
        null = Violation(5, f"delta.{name} is null, expected {expected}")
        assert validate(sse(*in_delta(kind, {**fields, name: None})), "anthropic") == [null]


@pytest.mark.parametrize("kind", CITATIONS)
def test_citation_must_have_all_its_fields(kind: str) -> None:
    citation, required = CITATIONS[kind]
    for name, expected in required.items():
        body = sse(*cited(kind, without(citation, name)))
        problem = f"delta.citation.{name} is missing, expected {expected}"
        assert validate(body, "anthropic") == [Violation(3, problem)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": None}, "delta is null, expected an object"),
        ({"delta": {"type": []}}, "delta.type is an array, expected a string"),
        ({"delta": {"type": "smell"}}, f"delta.type is unknown in 5 characters, {UNKNOWN}"),
    ],
)
def test_delta_must_be_of_a_known_type(change: Event, message: str) -> None:
    event = {**delta(0, "text_delta", text="a"), **change}
    body = sse(started(), *text()[:2], event, end(0), ending(), STOP)
    assert validate(body, "anthropic") == [Violation(3, message)]


def test_citation_must_be_of_a_known_type() -> None:
    problem = f"delta.citation.type is unknown in 4 characters, {UNKNOWN}"
    assert validate(sse(*cited("moon", {})), "anthropic") == [Violation(3, problem)]
