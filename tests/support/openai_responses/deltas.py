"""Streams of consecutive deltas of Responses."""

from __future__ import annotations

from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["RESPONSES_DELTAS"]


class _Numbered:
    """Writer of events with sequence numbers."""

    def __init__(self, *, numbers: bool = True) -> None:
        self._numbers = numbers
        self._next = 0

    def __call__(self, type: str, **fields: Any) -> bytes:
        number = {"sequence_number": self._next} if self._numbers else {}
        self._next += 1
        return frame({"type": type, **number, **fields}, type)


_ITEMS: dict[str, dict[str, Any]] = {
    "output_text": {"type": "message", "role": "assistant"},
    "refusal": {"type": "message", "role": "assistant"},
    "function_call_arguments": {"type": "function_call", "name": "f"},
    "custom_tool_call_input": {"type": "custom_tool_call", "name": "f"},
    "reasoning_summary_text": {"type": "reasoning"},
    "reasoning_text": {"type": "reasoning"},
}
_FIELDS = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
_PARTS = {
    "output_text": ("content", "content_index", "text"),
    "refusal": ("content", "content_index", "refusal"),
    "reasoning_summary_text": ("summary", "summary_index", "text"),
    "reasoning_text": ("content", "content_index", "text"),
}
"""Where an item has its parts, what numbers them, and where each has its text."""


def _responses(
    count: int,
    kind: str,
    items: int = 1,
    parts: int = 1,
    *,
    numbers: bool = True,
    repeats: bool = True,
) -> DeltaStream:
    """Return a stream of some items' deltas.

    Args:
        count: Pieces of each text.
        kind: Type of the deltas.
        items: How many items there are.
        parts: How many parts each has.
        numbers: Whether events have sequence numbers.
        repeats: Whether each item is repeated whole behind the deltas.
    """
    write = _Numbered(numbers=numbers)
    ids = [f"item_{n}" for n in range(items)]
    called = [{"call_id": f"t{n}"} if kind in _FIELDS else {} for n in range(items)]
    named = [{**_ITEMS[kind], "id": id, **call} for id, call in zip(ids, called, strict=True)]
    opening = [write("response.created", response={"id": "resp_1", "model": "gpt"})]
    opening += [
        write("response.output_item.added", output_index=n, item={**item, **_content(kind, [])})
        for n, item in enumerate(named)
    ]
    words = arguments(count) if kind == "function_call_arguments" else texts(count)
    whole = [""] * parts
    deltas: list[bytes] = []
    for at, text in enumerate(words):
        part = at * parts // len(words)
        whole[part] += text
        place = {_PARTS[kind][1]: part} if kind in _PARTS else {}
        for n, id in enumerate(ids):
            fields = {"item_id": id, "output_index": n, **place, "delta": text}
            deltas.append(write(f"response.{kind}.delta", **fields))
    done = [
        write("response.output_item.done", output_index=n, item={**item, **_content(kind, whole)})
        for n, item in enumerate(named)
        if repeats
    ]
    response = {"id": "resp_1", "model": "gpt", "status": "completed", "output": []}
    usage = {"input_tokens": 9, "output_tokens": 4}
    end = write("response.completed", response={**response, "usage": usage})
    return DeltaStream("openai_responses", opening, deltas, [*done, end])


def _content(kind: str, whole: list[str]) -> dict[str, Any]:
    """Return the content of an item with several texts."""
    if kind in _FIELDS:
        return {_FIELDS[kind]: "".join(whole)}
    place, _, field = _PARTS[kind]
    type = {"refusal": "refusal", "reasoning_summary_text": "summary_text"}.get(kind, kind)
    return {place: [{"type": type, field: text} for text in whole]}


RESPONSES_DELTAS: dict[str, Make] = {
    "responses text": lambda count: _responses(count, "output_text"),
    "responses text, unnumbered": lambda count: _responses(
        count, "output_text", numbers=False, repeats=False
    ),
    "responses refusal": lambda count: _responses(count, "refusal"),
    "responses call": lambda count: _responses(count, "function_call_arguments"),
    "responses calls, interleaved": lambda count: _responses(count, "function_call_arguments", 3),
    "responses custom call": lambda count: _responses(count, "custom_tool_call_input"),
    "responses summary": lambda count: _responses(count, "reasoning_summary_text", parts=3),
    "responses summaries, interleaved": lambda count: _responses(
        count, "reasoning_summary_text", 2, 2
    ),
    "responses reasoning": lambda count: _responses(count, "reasoning_text"),
}
"""Streams by what they hold, of as many pieces as are asked for."""
