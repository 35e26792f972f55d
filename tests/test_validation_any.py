"""Any bytes are judged: nothing is raised, no word of a payload told, in linear time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from support.anthropic import violations as strict_messages
from support.draws import Draws, draws
from support.gemini import violations as strict_gemini
from support.openai_chat import violations as strict_chat
from support.openai_responses import violations as strict_responses
from support.operation_counts import operations
from support.streams.mutations import cut_anywhere, damaged, noise

from streamnorm import Limits
from streamnorm.validation import Validator, validate

VALUES = (None, True, -1, 0, 1.5, 10**400, "", "a", [], [[]], {}, {"type": []}, {"index": 0}, ["a"])

RICH: dict[str, list[Any]] = {
    "anthropic": strict_messages.message(
        strict_messages.PING,
        *strict_messages.text(),
        *strict_messages.tool(1, "", '{"a": 1}'),
        *strict_messages.server(2, "srvtoolu_1"),
        *strict_messages.whole(3, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
        reason="tool_use",
    ),
    "openai_chat": strict_chat.answer(
        strict_chat.said(content="a", reasoning_details=[{"index": 0, "text": "b"}], extra=1),
        strict_chat.said(function_call={"name": "f", "arguments": "{}"}),
        strict_chat.call(),
        strict_chat.more(0, " "),
        reason="tool_calls",
    ),
    "openai_responses": strict_responses.answer(
        *strict_responses.reasoning(0),
        *strict_responses.text(1),
        *strict_responses.call(2),
    ),
    "gemini": [
        strict_gemini.text(),
        strict_gemini.call(name="f", partialArgs=[{"jsonPath": "$.a", "stringValue": ""}]),
        strict_gemini.parts(
            groundingMetadata={
                "groundingChunks": [{}],
                "groundingSupports": [{"groundingChunkIndices": [0]}],
            }
        ),
        strict_gemini.FINISH,
    ],
}


def named(frame: Any) -> str:
    """Return the name that an event has; those of some dialects have none."""
    kind = frame.get("type") if isinstance(frame, dict) else None
    return kind if isinstance(kind, str) else ""


def written(frames: list[Any]) -> bytes:
    """Return frames as bytes; text is a frame as it stands."""
    return "".join(
        frame if isinstance(frame, str) else f"event: {named(frame)}\ndata: {json.dumps(frame)}\n\n"
        for frame in frames
    ).encode()


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        ("anthropic", lambda n: strict_messages.sse(*strict_messages.text(0, *"a" * n))),
        ("anthropic", lambda n: strict_messages.sse(*strict_messages.tool(0, *"1" * n))),
        (
            "anthropic",
            lambda n: strict_messages.sse(
                *(strict_messages.begin(index, strict_messages.TEXT) for index in range(n))
            ),
        ),
        ("openai_chat", lambda n: strict_chat.sse(*(strict_chat.call(i) for i in range(n)))),
        ("openai_chat", lambda n: strict_chat.sse(*[strict_chat.more(0, "1")] * n)),
        (
            "openai_responses",
            lambda n: strict_responses.sse(*strict_responses.text(0, *"a" * n)),
        ),
        (
            "openai_responses",
            lambda n: strict_responses.sse(
                *(event for index in range(n) for event in strict_responses.call(index)[:1])
            ),
        ),
        (
            "openai_responses",
            lambda n: strict_responses.sse(*strict_responses.reasoning(0, *"a" * n)),
        ),
        ("gemini", lambda n: strict_gemini.sse(*[strict_gemini.text()] * n)),
        ("gemini", lambda n: strict_gemini.sse(strict_gemini.parts(*[{"text": "a"}] * n))),
        ("openai_chat", lambda n: b"data: 1\n" * n),
        ("openai_chat", lambda n: b"data: " + b'{"a":' * n + b"\n\n"),
    ],
    ids=[
        *("texts", "inputs", "open blocks", "calls", "arguments", "deltas", "items", "summaries"),
        *("chunks", "parts", "lines", "nesting"),
    ],
)
def test_validation_is_linear_in_bytes(dialect: str, stream: Callable[[int], bytes]) -> None:
    once, thrice = (
        operations(partial(validate, body, dialect)) for body in map(stream, (100, 300))
    )
    assert thrice < 3.3 * once


@given(draws())
def test_any_bytes_can_be_validated(d: Draws) -> None:
    body = noise(d)
    for dialect in RICH:
        found = validate(body, dialect)
        assert found
        assert found == sorted(found, key=lambda violation: violation.position)


@given(draws())
def test_violations_do_not_depend_on_the_reads(d: Draws) -> None:
    for dialect, frames in RICH.items():
        body = damaged(d, written(frames)) + noise(d)
        for limits in (Limits(), Limits(max_event_bytes=40)):
            validator = Validator(dialect, limits=limits)
            found = [v for read in cut_anywhere(d, body) for v in validator.feed(read)]
            found += validator.close()
            assert found == validate(body, dialect, limits=limits)


def test_oversized_line_is_not_stored() -> None:
    validator = Validator("openai_chat", limits=Limits(max_event_bytes=1000))
    tracemalloc.start()
    for _ in range(1000):
        validator.feed(b"data: " * 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert validator.close()[0].message == (
        "event of 6000001 bytes ends without a blank line, expected one"
    )


@given(draws())
def test_violations_quote_no_payload(d: Draws) -> None:
    for dialect, frames in RICH.items():
        body = damaged(d, written(frames).replace(b'"m"', b'"zyxw"'))
        for violation in validate(body, dialect):
            assert "zyxw" not in violation.message
            assert ", expected " in violation.message
            assert 0 <= violation.position <= len(body.splitlines())


def mutated(d: Draws, value: Any) -> Any:
    """Return a JSON value with another in one of its places, or with a field less."""
    if isinstance(value, dict) and value and d.flag():
        name = d.pick(list(value))
        if d.flag(4):
            return {other: field for other, field in value.items() if other != name}
        return {**value, name: mutated(d, value[name])}
    if isinstance(value, list) and value and d.flag():
        return [mutated(d, value[0]), *value[d.below(2) :]]
    return d.pick(VALUES)


@given(draws())
def test_payloads_of_any_shape_can_be_validated(d: Draws) -> None:
    for dialect, frames in RICH.items():
        frames = [
            mutated(d, frame) if isinstance(frame, dict) and d.flag(3) else frame
            for frame in frames
        ]
        for violation in validate(written(frames), dialect):
            assert ", expected " in violation.message
