"""The bound on what is stored holds for many open calls, whose arguments are counted together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.kernels import COMPILED, kernel_of

from streamnorm import JSONDelta, Limits, StreamError
from streamnorm.codec import decoder
from streamnorm.dialects.openai_responses.decode import ResponsesRun

MIB = 1024 * 1024
BOUND = 2 * MIB
TEXT = "\U00020000" * 256  # the largest that the delta run takes in a batch
DELTAS = 60  # less than a batch


def chat_calls(number: int) -> Iterator[bytes]:
    """Yield parallel calls, each of which goes on after the next has begun."""

    def frame(index: int, **fields: Any) -> bytes:
        delta = {"tool_calls": [{"index": index, **fields}]}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        chunk = {"id": "c", "model": "m", "choices": [choice]}
        return b"data: %b\n\n" % json.dumps(chunk, ensure_ascii=False).encode()

    for index in range(number):
        name = {"name": "f", "arguments": ""}
        yield frame(index, id=f"k{index}", type="function", function=name)
        for text in ('{"a":"', "b", "cd"):
            yield frame(index, function={"arguments": text})
        if index:
            yield from [frame(index - 1, function={"arguments": TEXT})] * DELTAS


def responses_calls(number: int) -> Iterator[bytes]:
    """Yield calls that stay open."""
    at = 0

    def frame(kind: str, **fields: Any) -> bytes:
        nonlocal at
        payload = {"type": kind, **fields, "sequence_number": at}
        at += 1
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        return f"event: {kind}\ndata: {text}\n\n".encode()

    yield frame("response.created", response={"id": "r", "model": "m", "output": []})
    for index in range(number):
        item = {"id": f"f{index}", "type": "function_call", "name": "f", "call_id": f"c{index}"}
        yield frame("response.output_item.added", output_index=index, item=item)
        for _ in range(DELTAS):
            kind = "response.function_call_arguments.delta"
            yield frame(kind, delta=TEXT, item_id=item["id"], output_index=index)


def interactions_calls(number: int) -> Iterator[bytes]:
    """Yield calls whose steps stay open."""

    def frame(kind: str, **fields: Any) -> bytes:
        text = json.dumps({**fields, "event_type": kind}, ensure_ascii=False)
        return f"event: {kind}\ndata: {text}\n\n".encode()

    yield frame("interaction.created", interaction={"id": "v", "model": "m"})
    for index in range(number):
        step = {"type": "function_call", "id": f"c{index}", "name": "f"}
        yield frame("step.start", index=index, step=step)
        fragment = {"arguments": TEXT, "type": "arguments_delta"}
        yield from [frame("step.delta", index=index, delta=fragment)] * DELTAS


@pytest.mark.parametrize("compiled", [COMPILED, None], ids=["kernel", "twin"])
@pytest.mark.parametrize(
    ("dialect", "calls", "above"),
    [
        ("openai_chat", chat_calls, 0),
        ("openai_responses", responses_calls, 0),
        # The fragment that exceeds the bound precedes the error.
        ("gemini_interactions", interactions_calls, len(TEXT.encode())),
    ],
)
def test_arguments_of_many_open_calls_are_bounded(
    dialect: str, calls: Any, above: int, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResponsesRun, "has_templates", True)
    size = 0
    with kernel_of(compiled):
        reader = decoder(dialect, limits=Limits(max_accumulated_bytes=BOUND))
        for data in calls(100):
            for event in reader.feed(data):
                if isinstance(event, JSONDelta):
                    size += len(event.partial_json.encode())
                elif isinstance(event, StreamError):
                    assert event.kind == "too_large"
                    # With the names and ids: most of the bound, and no more than it.
                    assert BOUND - 256 * 1024 < size <= BOUND + above
                    return
    pytest.fail(f"{size} bytes of arguments, expected at most {BOUND}")
