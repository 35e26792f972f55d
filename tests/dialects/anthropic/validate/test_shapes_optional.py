"""Optional fields of each event: absent or null, but of no other type."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.violations import (
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
)

from streamnorm.validation import Violation, validate

COUNT = "an integer from 0"
NULL_OR_COUNT = "an integer from 0 or null"
NULL_OR_TEXT = "a string or null"
NULL_OR_OBJECT = "an object or null"
NULL_OR_ARRAY = "an array or null"
UNKNOWN = "unknown in 1 characters, expected one of the protocol"

USAGE = {
    "cache_creation_input_tokens": NULL_OR_COUNT,
    "cache_read_input_tokens": NULL_OR_COUNT,
    "cache_creation": NULL_OR_OBJECT,
    "server_tool_use": NULL_OR_OBJECT,
    "output_tokens_details": NULL_OR_OBJECT,
    "iterations": NULL_OR_ARRAY,
    "service_tier": NULL_OR_TEXT,
    "inference_geo": NULL_OR_TEXT,
    "speed": NULL_OR_TEXT,
}
WITHIN_USAGE: list[tuple[Event, str]] = [
    (
        {"cache_creation": {"ephemeral_1h_input_tokens": 0}},
        f"cache_creation.ephemeral_5m_input_tokens is missing, expected {COUNT}",
    ),
    (
        {"cache_creation": {"ephemeral_5m_input_tokens": 0}},
        f"cache_creation.ephemeral_1h_input_tokens is missing, expected {COUNT}",
    ),
    (
        {"server_tool_use": {"web_search_requests": None}},
        f"server_tool_use.web_search_requests is null, expected {COUNT}",
    ),
    (
        {"server_tool_use": {"web_fetch_requests": None}},
        f"server_tool_use.web_fetch_requests is null, expected {COUNT}",
    ),
    (
        {"output_tokens_details": {}},
        f"output_tokens_details.thinking_tokens is missing, expected {COUNT}",
    ),
    ({"iterations": [None]}, "iterations[0] is null, expected an object"),
]


@pytest.mark.parametrize("name", USAGE)
def test_counts_may_be_null_but_of_no_other_type(name: str) -> None:
    wrong = f"usage.{name} is a boolean, expected {USAGE[name]}"
    for value, problems in [(None, []), (True, [wrong])]:
        usage = {"input_tokens": 1, "output_tokens": 1, name: value}
        start = [started(usage=usage), ending(), STOP]
        assert found(start) == [(0, f"message.{problem}") for problem in problems]
        assert found([started(), ending(**usage), STOP]) == [(1, problem) for problem in problems]


@pytest.mark.parametrize(("fields", "problem"), WITHIN_USAGE)
def test_parts_of_counts_must_be_counts(fields: Event, problem: str) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, **fields}
    assert found([started(usage=usage), ending(), STOP]) == [(0, f"message.usage.{problem}")]
    assert found([started(), ending(**usage), STOP]) == [(1, f"usage.{problem}")]


def test_input_tokens_may_be_null_at_the_end_alone() -> None:
    assert found([started(), ending(input_tokens=None), STOP]) == []
    assert found([started(), ending(input_tokens=True), STOP]) == [
        (1, f"usage.input_tokens is a boolean, expected {NULL_OR_COUNT}")
    ]


MESSAGE = {
    "stop_sequence": NULL_OR_TEXT,
    "stop_details": NULL_OR_OBJECT,
    "container": NULL_OR_OBJECT,
    "diagnostics": NULL_OR_OBJECT,
    "context_management": NULL_OR_OBJECT,
}
DELTA = {
    "stop_sequence": NULL_OR_TEXT,
    "stop_details": NULL_OR_OBJECT,
    "container": NULL_OR_OBJECT,
}
CONTAINERS: list[tuple[Event, str]] = [
    ({"expires_at": "2026-01-01T00:00:00Z"}, "container.id is missing, expected a string"),
    ({"id": "c"}, "container.expires_at is missing, expected a string"),
]


@pytest.mark.parametrize("name", MESSAGE)
def test_fields_of_a_message_may_be_null_but_of_no_other_type(name: str) -> None:
    problem = f"message.{name} is a boolean, expected {MESSAGE[name]}"
    assert found([started(**{name: None}), ending(), STOP]) == []
    assert found([started(**{name: True}), ending(), STOP]) == [(0, problem)]


def test_reason_at_the_start_must_be_known() -> None:
    start = started(content=[{"type": "text", "text": "a"}], stop_reason="tired")
    ((position, problem),) = found([start, STOP])
    assert position == 0
    assert problem.startswith("message.stop_reason is a string of 5 characters, expected end_turn")


@pytest.mark.parametrize("name", DELTA)
def test_fields_of_the_end_may_be_null_but_of_no_other_type(name: str) -> None:
    for value, problems in [(None, []), (True, [f"is a boolean, expected {DELTA[name]}"])]:
        last = ending("refusal")
        last["delta"][name] = value
        assert found([started(), last, STOP]) == [(1, f"delta.{name} {p}") for p in problems]


@pytest.mark.parametrize(("container", "problem"), CONTAINERS)
def test_container_must_have_its_fields(container: Event, problem: str) -> None:
    last = ending()
    last["delta"]["container"] = container
    assert found([started(container=container), ending(), STOP]) == [(0, f"message.{problem}")]
    assert found([started(), last, STOP]) == [(1, f"delta.{problem}")]


def test_context_management_of_the_end_is_an_object_or_null() -> None:
    last = {**ending(), "context_management": []}
    problem = "context_management is an array, expected an object or null"
    assert found([started(), last, STOP]) == [(1, problem)]


CALLER = "a boolean, expected an object or null"
BLOCKS: list[tuple[Event, str]] = [
    ({**TEXT, "citations": True}, "citations is a boolean, expected an array or null"),
    ({**TEXT, "citations": [{"type": "x"}]}, f"citations[0].type is {UNKNOWN}"),
    *(
        ({**TOOL, "type": kind, "server_name": "s", "caller": True}, f"caller is {CALLER}")
        for kind in ("tool_use", "server_tool_use", "mcp_tool_use")
    ),
    *(
        (
            {**TOOL, "caller": {"type": f"code_execution_{version}"}},
            "caller.tool_id is missing, expected a string",
        )
        for version in ("20250825", "20260120", "20260521")
    ),
    (
        {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {}, "caller": True},
        f"caller is {CALLER}",
    ),
    (
        {"type": "fallback", "from": {}, "to": {"model": "b"}, "trigger": {}},
        "from.model is missing, expected a string",
    ),
    (
        {"type": "fallback", "from": {"model": "a"}, "to": {}, "trigger": {}},
        "to.model is missing, expected a string",
    ),
    *(
        ({"type": "compaction", name: True}, f"{name} is a boolean, expected {expected}")
        for name, expected in {
            "content": NULL_OR_TEXT,
            "encrypted_content": NULL_OR_TEXT,
            "signature": NULL_OR_TEXT,
            "tool_changes": NULL_OR_ARRAY,
        }.items()
    ),
]


@pytest.mark.parametrize(("block", "problem"), BLOCKS)
def test_fields_of_a_block_may_be_absent_but_of_no_other_type(block: Event, problem: str) -> None:
    events = [started(), begin(0, block), OVERLOADED]
    assert found(events) == [(1, f"content_block.{problem}")]


def test_optional_field_of_a_block_may_be_null() -> None:
    for block in ({**TEXT, "citations": None}, {**TOOL, "caller": None}):
        assert found([started(), begin(0, block), OVERLOADED]) == []


PLACE = {"cited_text": "c", "start_block_index": 0, "end_block_index": 1}
CITATIONS: list[tuple[Event, str]] = [
    *(
        ({"type": "content_block_location", "document_index": 0, **PLACE, name: True}, name)
        for name in ("document_title", "file_id")
    ),
    (
        {
            "type": "web_search_result_location",
            "cited_text": "c",
            "url": "u",
            "encrypted_index": "E",
            "title": True,
        },
        "title",
    ),
    (
        {
            "type": "search_result_location",
            "search_result_index": 0,
            "source": "s",
            **PLACE,
            "title": True,
        },
        "title",
    ),
]


@pytest.mark.parametrize(("citation", "name"), CITATIONS)
def test_fields_of_a_citation_may_be_null_but_of_no_other_type(citation: Event, name: str) -> None:
    problem = f"delta.citation.{name} is a boolean, expected a string or null"
    assert found(with_delta("citations_delta", citation=citation)) == [(3, problem)]
    assert found(with_delta("citations_delta", citation={**citation, name: None})) == []


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        (
            *("thinking_delta", {"thinking": "a", "estimated_tokens": True}),
            "estimated_tokens is a boolean, expected an integer from 0 or null",
        ),
        ("compaction_delta", {"content": True}, "content is a boolean, expected a string or null"),
        (
            *("compaction_delta", {"encrypted_content": True}),
            "encrypted_content is a boolean, expected a string or null",
        ),
    ],
)
def test_fields_of_a_delta_may_be_null_but_of_no_other_type(
    kind: str, fields: Event, problem: str
) -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    block = block if kind == "thinking_delta" else {"type": "compaction"}
    events = [started(), begin(0, block), delta(0, kind, **fields), OVERLOADED]
    assert found(events) == [(2, f"delta.{problem}")]


def test_fields_of_an_error_may_be_null_but_of_no_other_type() -> None:
    error = OVERLOADED["error"]
    assert found([{**OVERLOADED, "request_id": 1}]) == [
        (0, "request_id is an integer, expected a string or null")
    ]
    assert found([{**OVERLOADED, "error": {**error, "details": 1}}]) == [
        (0, "error.details is an integer, expected an object or null")
    ]
    assert found([{**OVERLOADED, "request_id": None, "error": {**error, "details": None}}]) == []


ERRORS = (
    *("invalid_request_error", "authentication_error", "billing_error", "permission_error"),
    *("not_found_error", "conflict_error", "request_too_large", "rate_limit_error"),
    *("timeout_error", "api_error", "overloaded_error"),
)


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_of_the_vendor_is_known(kind: str) -> None:
    assert found([{"type": "error", "error": {"type": kind, "message": ""}}]) == []


def with_delta(kind: str, **fields: Any) -> list[Event | str]:
    return message(*text()[:2], delta(0, kind, **fields), end(0))


def found(events: list[Any]) -> list[tuple[int, str]]:
    """Return the violations of a stream, as pairs."""
    violations: list[Violation] = validate(sse(*events), "anthropic")
    return [(violation.position, violation.message) for violation in violations]
