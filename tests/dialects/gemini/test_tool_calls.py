"""Which call a part belongs to, and what contradicts it."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.frames import decode, function_call, message, parts

from streamnorm import Completed, Failed, Note, Opaque, ToolCall

CALL = {"functionCall": {"id": "c1", "name": "tide", "args": {"port": "Wick"}}}

CODE = {"executableCode": {"language": "PYTHON", "code": "6*7"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}}


def entry(path: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text, **fields}


def arguments(*frames: bytes) -> list[tuple[str, str]]:
    found = message(*frames, parts(finishReason="STOP"))
    return [(b.name, b.arguments) for b in found.blocks if isinstance(b, ToolCall)]


STARTED = function_call(
    id="c1", name="f", partialArgs=[entry("$.a", "x", willContinue=True)], willContinue=True
)
REST = [entry("$.a", "y")]


@pytest.mark.parametrize(
    "named", [{}, {"id": "c1"}, {"name": "f"}, {"id": "c1", "name": "f"}], ids=str
)
def test_fragment_that_names_the_open_call_continues_it(named: dict[str, str]) -> None:
    assert arguments(STARTED, function_call(partialArgs=REST, **named)) == [("f", '{"a":"xy"}')]
    goes_on = function_call(partialArgs=REST, willContinue=True, **named)
    assert arguments(STARTED, goes_on, function_call(**named)) == [("f", '{"a":"xy"}')]


def test_fragments_of_a_call_without_an_id_may_repeat_its_name() -> None:
    first = function_call(name="f", partialArgs=[entry("$.a", "x")], willContinue=True)
    more = function_call(name="f", partialArgs=[entry("$.b", "y")], willContinue=True)
    assert arguments(first, more, function_call()) == [("f", '{"a":"x","b":"y"}')]
    # A start has nothing to add.
    begun = function_call(name="f", willContinue=True)
    assert arguments(first, function_call(), begun, function_call()) == [
        ("f", '{"a":"x"}'),
        ("f", ""),
    ]
    assert arguments(begun, begun, function_call()) == [("f", "{"), ("f", "")]
    whole = function_call(name="f", args={"b": 1})
    assert arguments(first, whole) == [("f", '{"a":"x"'), ("f", '{"b": 1}')]


OTHER = function_call(id="c2", name="g", willContinue=True)


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        ([STARTED, OTHER, function_call(id="c1", partialArgs=REST)], "the id of another call than"),
        (
            [STARTED, OTHER, function_call(id="c1", name="f", partialArgs=REST)],
            "the id of another call",
        ),
        (
            [STARTED, OTHER, function_call(name="f", partialArgs=REST)],
            "arguments for a call that",
        ),
        (
            [STARTED, function_call(id="c1", name="g", partialArgs=REST)],
            "another name for the call",
        ),
        (
            [STARTED, function_call(id="c1", name="f", args={"a": "xy"})],
            "whole arguments for a call",
        ),
        ([STARTED, function_call(args={"a": "xy"})], "whole arguments for a call"),
        (
            [function_call(id="c1", name="f", args={"a": 1}, partialArgs=REST)],
            "whole arguments beside",
        ),
        (
            [parts(CALL), function_call(**{**CALL["functionCall"], "args": {}})],
            "the id of another call",
        ),
        (
            [parts(CALL), function_call(**{**CALL["functionCall"], "name": "g"})],
            "the id of another call",
        ),
        # It may be the result of either.
        ([parts(CODE, CODE), parts(RESULT)], "a result without an id after 2 calls"),
    ],
)
def test_part_that_contradicts_its_call_is_malformed(frames: list[bytes], found: str) -> None:
    outcome = decode(*frames, parts(finishReason="STOP")).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.kind == "malformed"
    assert outcome.error.message.startswith(f"function call with {found}")


def test_fragment_that_contradicts_the_fragments_before_it_is_malformed() -> None:
    outcome = decode(STARTED, function_call(partialArgs=[entry("$.b", "z")])).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.kind == "malformed"


def test_call_that_came_before_is_a_repetition() -> None:
    decoded = decode(parts(CALL), parts(CALL), parts(finishReason="STOP"))
    assert decoded.events == decode(parts(CALL), parts(finishReason="STOP")).events
    assert decoded.notes == (Note("resent_call", "tool call"),)
    late = decode(parts(CALL), parts(finishReason="STOP"), parts(CALL))
    assert isinstance(late.outcome, Completed)


def test_server_call_and_result_that_came_before_are_repetitions() -> None:
    call = {"toolCall": {"id": "s1", "toolType": "GOOGLE_MAPS", "args": {}}}
    result = {"toolResponse": {"id": "s1", "toolType": "GOOGLE_MAPS", "response": {}}}
    decoded = decode(parts(call, result), parts(call, result), parts(finishReason="STOP"))
    assert decoded.events == decode(parts(call, result), parts(finishReason="STOP")).events
    assert decoded.notes == (
        Note("resent_call", "server tool call"),
        Note("resent_result", "tool result"),
    )


def test_whole_call_without_an_id_is_another_than_the_open_one() -> None:
    found = arguments(STARTED, function_call(name="f", args={"b": 1}))
    assert found == [("f", '{"a":"x'), ("f", '{"b": 1}')]


def test_empty_arguments_beside_fragments_are_none() -> None:
    started = function_call(id="c1", name="f", args={}, willContinue=True)
    more = function_call(args={}, partialArgs=[entry("$.a", "x")])
    assert arguments(started, more) == [("f", '{"a":"x"}')]


def test_unknown_field_of_a_fragment_is_opaque() -> None:
    more = function_call(partialArgs=REST, news=1)
    found = decode(STARTED, more, parts(finishReason="STOP")).events
    assert [event.data for event in found if isinstance(event, Opaque)] == ['{"news":1}']
