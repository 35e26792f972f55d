"""Strict validator of Responses streams: the fields of each item, and of events of some."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.violations import (
    Event,
    added,
    answer,
    cut,
    done,
    edited,
    of,
    settled,
    sse,
    with_more,
    without,
)

from streamnorm.validation import Violation, validate

STRING, NAME, OBJECT, ARRAY = "a string", "a string that is not empty", "an object", "an array"
COUNT, EMPTY, NOTHING = "an integer from 0", "an empty string", "an empty array"
ENDED, FAILED = "completed or incomplete", "completed or incomplete or failed"
ADDED_STATUS = "in_progress or completed or incomplete"
WHERE = "server or client"

Fields = dict[str, tuple[Any, str]]

# The required fields of each item at its start and when it is done: a value, what is expected.
ID: Fields = {"id": ("i", NAME)}
ASKED: Fields = {**ID, "call_id": ("c", NAME)}
CALL: Fields = {**ASKED, "name": ("look", NAME)}
SERVED: Fields = {**ID, "server_label": ("s", STRING)}
WORKING: Fields = {**ID, "status": ("in_progress", STRING)}
ASSISTANT: Fields = {**ID, "role": ("assistant", "assistant")}
ITEMS: dict[str, tuple[Fields, Fields]] = {
    "message": (
        {**ASSISTANT, "status": ("in_progress", ADDED_STATUS), "content": ([], NOTHING)},
        {**ASSISTANT, "status": ("completed", ENDED), "content": ([], ARRAY)},
    ),
    "reasoning": ({**ID, "summary": ([], NOTHING)}, {**ID, "summary": ([], ARRAY)}),
    "function_call": (
        {**CALL, "status": ("in_progress", ADDED_STATUS), "arguments": ("", EMPTY)},
        {**CALL, "status": ("completed", ENDED), "arguments": ("{}", STRING)},
    ),
    "custom_tool_call": ({**CALL, "input": ("", EMPTY)}, {**CALL, "input": ("la", STRING)}),
    "web_search_call": (
        WORKING,
        {**ID, "status": ("failed", FAILED), "action": ({"type": "search"}, OBJECT)},
    ),
    "file_search_call": (
        {**WORKING, "queries": ([], ARRAY)},
        {**ID, "status": ("completed", FAILED), "queries": (["q"], ARRAY)},
    ),
    "code_interpreter_call": (
        {**WORKING, "container_id": ("c", STRING)},
        {**ID, "status": ("completed", FAILED), "container_id": ("c", STRING)},
    ),
    "image_generation_call": (
        WORKING,
        {**ID, "status": ("generating", "completed or generating or failed")},
    ),
    "mcp_call": (
        {**SERVED, "name": ("look", STRING), "arguments": ("", EMPTY)},
        {**SERVED, "name": ("look", STRING), "arguments": ("{}", STRING)},
    ),
    "mcp_list_tools": ({**SERVED, "tools": ([], ARRAY)}, {**SERVED, "tools": ([{}], ARRAY)}),
    "mcp_approval_request": (
        {**SERVED, "name": ("look", STRING), "arguments": ("{}", STRING)},
        {**SERVED, "name": ("look", STRING), "arguments": ("{}", STRING)},
    ),
    "mcp_approval_response": (
        ID,
        {**ID, "approval_request_id": ("r", STRING), "approve": (True, "a boolean")},
    ),
    "computer_call": (
        {**ASKED, "status": ("in_progress", STRING)},
        {**ASKED, "status": ("completed", ENDED), "pending_safety_checks": ([], ARRAY)},
    ),
    "computer_call_output": (ASKED, {**ASKED, "output": ({}, OBJECT)}),
    "local_shell_call": (
        {**ASKED, "status": ("in_progress", STRING)},
        {**ASKED, "status": ("completed", ENDED), "action": ({}, OBJECT)},
    ),
    "local_shell_call_output": (ID, {**ID, "output": ("{}", STRING)}),
    "shell_call": (
        {**ASKED, "status": ("in_progress", STRING)},
        {**ASKED, "status": ("completed", ENDED), "action": ({"commands": []}, OBJECT)},
    ),
    "shell_call_output": (ASKED, {**ASKED, "output": ([{}], ARRAY)}),
    "apply_patch_call": (
        {**ASKED, "status": ("in_progress", STRING)},
        {**ASKED, "status": ("completed", "completed"), "operation": ({}, OBJECT)},
    ),
    "apply_patch_call_output": (ASKED, {**ASKED, "status": ("failed", "completed or failed")}),
    "tool_search_call": (
        WORKING,
        {
            **ID,
            "status": ("completed", ENDED),
            "arguments": (None, "anything"),
            "execution": ("server", WHERE),
        },
    ),
    "tool_search_output": (
        WORKING,
        {
            **ID,
            "status": ("completed", ENDED),
            "tools": ([], ARRAY),
            "execution": ("client", WHERE),
        },
    ),
    "additional_tools": (ID, {**ID, "role": ("developer", STRING), "tools": ([], ARRAY)}),
    "program": (ASKED, {**ASKED, "code": ("1", STRING), "fingerprint": ("f", STRING)}),
    "program_output": (
        ASKED,
        {**ASKED, "result": ("1", STRING), "status": ("incomplete", ENDED)},
    ),
    "compaction": (ID, {**ID, "encrypted_content": ("gAAA", STRING)}),
    "function_call_output": (ASKED, {**ASKED, "output": ("1", "a string or an array")}),
    "custom_tool_call_output": (ASKED, {**ASKED, "output": ([], "a string or an array")}),
}
REST = {
    "function_call": [
        of("function_call_arguments.delta", "i", delta="{}"),
        of("function_call_arguments.done", "i", arguments="{}"),
    ],
    "custom_tool_call": [
        of("custom_tool_call_input.delta", "i", delta="la"),
        of("custom_tool_call_input.done", "i", input="la"),
    ],
}


def values(fields: Fields) -> Event:
    return {name: value for name, (value, _) in fields.items()}


def item(type: str) -> list[Event | str]:
    """Return a response with an item of the required fields alone."""
    started, ended = (values(fields) for fields in ITEMS[type])
    events = [added(0, type, **started), *REST.get(type, []), done(0, type, **ended)]
    return cut(*events) if ended.get("status") == "incomplete" else answer(*events)


@pytest.mark.parametrize("type", ITEMS)
def test_item_needs_its_fields(type: str) -> None:
    events = item(type)
    assert validate(sse(*events), "openai_responses") == []
    for at, fields in zip((2, len(events) - 2), ITEMS[type], strict=True):
        for name, (_, expected) in fields.items():
            found = events[at]
            assert isinstance(found, dict)
            broken = settled([*events[:at], without(found, "item", name), *events[at + 1 :]])
            problem = f"item.{name} is missing, expected {expected}"
            violations = validate(sse(*broken), "openai_responses")
            assert violations[0] == Violation(at, problem)
            assert [
                violation for violation in violations if violation.position == at
            ] == violations[:1]


@pytest.mark.parametrize(
    ("type", "name", "value", "expected"),
    [
        ("message", "phase", "draft", "commentary or final_answer or null"),
        ("reasoning", "encrypted_content", 1, "a string or null"),
        ("reasoning", "content", "a", "an array or null"),
        ("reasoning", "status", "done", "in_progress or completed or incomplete or null"),
        ("function_call", "namespace", 1, "a string or null"),
        ("function_call", "caller", 1, "an object or null"),
        ("function_call", "async", 1, "a boolean or null"),
        ("custom_tool_call", "namespace", 1, "a string or null"),
        ("custom_tool_call", "caller", 1, "an object or null"),
        ("custom_tool_call", "async", 1, "a boolean or null"),
        ("file_search_call", "results", 1, "an array or null"),
        ("code_interpreter_call", "code", 1, "a string or null"),
        ("code_interpreter_call", "outputs", 1, "an array or null"),
        ("image_generation_call", "result", 1, "a string or null"),
        ("image_generation_call", "revised_prompt", 1, "a string or null"),
        ("mcp_call", "output", 1, "a string or null"),
        ("mcp_call", "approval_request_id", 1, "a string or null"),
        ("tool_search_call", "call_id", 1, "a string or null"),
        ("tool_search_output", "call_id", 1, "a string or null"),
    ],
)
def test_optional_field_may_be_null_but_not_of_a_wrong_type(
    type: str, name: str, value: object, expected: str
) -> None:
    events = item(type)
    at = len(events) - 2
    empty = settled(edited(events, at, "item", name, to=None))
    assert validate(sse(*empty), "openai_responses") == []
    violations = validate(
        sse(*settled(edited(events, at, "item", name, to=value))), "openai_responses"
    )
    assert len(violations) == 1
    assert violations[0].message.startswith(f"item.{name} is ")
    assert violations[0].message.endswith(f", expected {expected}")


@pytest.mark.parametrize(
    ("item_type", "valid", "name", "expected"),
    [
        (
            "image_generation_call",
            of(
                "image_generation_call.partial_image",
                "i",
                partial_image_index=0,
                partial_image_b64="",
            ),
            name,
            expected,
        )
        for name, expected in {"partial_image_index": COUNT, "partial_image_b64": STRING}.items()
    ]
    + [
        (
            "shell_call_output",
            of("shell_call_output_content.done", "i", command_index=0, output=[]),
            name,
            expected,
        )
        for name, expected in {"command_index": COUNT, "output": ARRAY, "item_id": NAME}.items()
    ],
)
def test_event_of_a_server_tool_needs_its_fields(
    item_type: str, valid: Event, name: str, expected: str
) -> None:
    for found in (valid, without(valid, name)):
        problem = Violation(3, f"{name} is missing, expected {expected}")
        events = with_more(item(item_type), 3, found)
        assert validate(sse(*events), "openai_responses") == ([] if found is valid else [problem])


def test_shell_output_needs_its_fields() -> None:
    output = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
    valid = of("shell_call_output_content.done", "i", command_index=0)
    for name in ("", "stdout", "stderr", "outcome"):
        found = without(output, name) if name else output
        events = with_more(item("shell_call_output"), 3, {**valid, "output": [found]})
        expected = OBJECT if name == "outcome" else STRING
        problem = Violation(3, f"output[0].{name} is missing, expected {expected}")
        assert validate(sse(*events), "openai_responses") == ([problem] if name else [])


STATES = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed", "failed"),
    "mcp_list_tools": ("in_progress", "completed", "failed"),
    "compaction": ("compacting",),
}


@pytest.mark.parametrize("type", STATES)
def test_progress_event_needs_its_own_item_type(type: str) -> None:
    for state in STATES[type]:
        valid = of(f"{type}.{state}", "i")
        assert validate(sse(*with_more(item(type), 3, valid)), "openai_responses") == []
        problem = f"response.{type}.{state} in item 0, expected an event of shell_call"
        events = with_more(item("shell_call"), 3, valid)
        assert validate(sse(*events), "openai_responses") == [Violation(3, problem)]


@pytest.mark.parametrize(
    ("type", "name", "value", "problem"),
    [
        (
            "web_search_call",
            "action",
            {"type": "search", "query": 1},
            "query is an integer, expected a string or null",
        ),
        (
            "web_search_call",
            "action",
            {"type": "search", "queries": 1},
            "queries is an integer, expected an array or null",
        ),
        (
            "web_search_call",
            "action",
            {"type": "open_page", "url": 1},
            "url is an integer, expected a string or null",
        ),
        (
            "web_search_call",
            "action",
            {"type": "find_in_page", "url": "u"},
            "pattern is missing, expected a string",
        ),
        (
            "web_search_call",
            "action",
            {"type": "find_in_page", "pattern": "p"},
            "url is missing, expected a string",
        ),
        (
            "web_search_call",
            "action",
            {"type": "odd"},
            "type is unknown in 3 characters, expected one of the protocol",
        ),
        ("function_call", "caller", {"type": "program"}, "caller_id is missing, expected a string"),
        (
            "function_call",
            "caller",
            {"type": "odd"},
            "type is unknown in 3 characters, expected one of the protocol",
        ),
        ("function_call", "caller", {"type": "direct"}, None),
        ("web_search_call", "action", {"type": "open_page", "url": None}, None),
        (
            "reasoning",
            "content",
            [{"type": "reasoning_text"}],
            "text is missing, expected a string",
        ),
    ],
)
def test_nested_field_needs_its_type(
    type: str, name: str, value: object, problem: str | None
) -> None:
    events = item(type)
    at = len(events) - 2
    violations = validate(
        sse(*settled(edited(events, at, "item", name, to=value))), "openai_responses"
    )
    where = f"item.{name}[0]" if isinstance(value, list) else f"item.{name}"
    assert violations[:1] == ([] if problem is None else [Violation(at, f"{where}.{problem}")])


def test_shell_output_delta_needs_its_types() -> None:
    valid = of("shell_call_output_content.delta", "i", command_index=0)
    for name in ("stdout", "stderr"):
        for value, kind in ((None, None), (1, "an integer")):
            events = with_more(item("shell_call_output"), 3, {**valid, "delta": {name: value}})
            problem = Violation(3, f"delta.{name} is {kind}, expected a string or null")
            assert validate(sse(*events), "openai_responses") == ([problem] if kind else [])
    done = of("shell_call_output_content.done", "i", command_index=0)
    output = {"stdout": "", "stderr": "", "outcome": {"type": "odd"}}
    events = with_more(item("shell_call_output"), 3, {**done, "output": [output]})
    problem = "output[0].outcome.type is a string of 3 characters, expected exit or timeout"
    assert validate(sse(*events), "openai_responses") == [Violation(3, problem)]
