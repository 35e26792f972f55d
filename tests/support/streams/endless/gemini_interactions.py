"""Endless streams of the Interactions API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from support.gemini_interactions.frames import CREATED, delta, event, start, stop

__all__ = ["START", "STREAMS"]

START = [CREATED]


def texts(text: str) -> Iterator[bytes]:
    yield start(0, "model_output")
    yield from repeat(delta(0, "text", text=text))


def white_space(text: str) -> Iterator[bytes]:
    yield start(0, "model_output")
    yield from repeat(delta(0, "text", text=" " * len(text)))


def thoughts(text: str) -> Iterator[bytes]:
    yield start(0, "thought")
    yield from repeat(delta(0, "thought_summary", content={"type": "text", "text": text}))


def arguments(text: str) -> Iterator[bytes]:
    yield start(0, "function_call", id="c", name="f")
    yield delta(0, "arguments_delta", arguments='{"a":"')
    yield from repeat(delta(0, "arguments_delta", arguments=text))


def server_arguments(text: str) -> Iterator[bytes]:
    yield start(0, "google_search_call", id="c")
    yield delta(0, "arguments_delta", arguments='{"a":"')
    yield from repeat(delta(0, "arguments_delta", arguments=text))


def calls(text: str) -> Iterator[bytes]:
    for number in count():
        fields = {"id": f"c{number}", "name": "f", "arguments": {"a": text}}
        yield start(number, "function_call", **fields) + stop(number)


def calls_in_deltas(text: str) -> Iterator[bytes]:
    for number in count():
        fields = {"id": f"c{number}", "name": "f", "arguments": {"a": text}}
        yield start(number, "function_call") + delta(number, "function_call", **fields)
        yield stop(number)


def results(text: str) -> Iterator[bytes]:
    yield start(0, "google_search_result", call_id="c")
    yield from repeat(delta(0, "google_search_result", result=[{"title": text}]))


def signatures(text: str) -> Iterator[bytes]:
    yield start(0, "thought")
    for number in count():
        yield delta(0, "thought_signature", signature=f"{text}{number:08}")


def citations(text: str) -> Iterator[bytes]:
    yield start(0, "model_output") + delta(0, "text", text="a")
    for number in count():
        place = {"start_index": 0, "end_index": 1}
        source = {"type": "url_citation", "url": f"https://{number}", "title": text, **place}
        yield delta(0, "text_annotation_delta", annotations=[source])


def open_steps(text: str) -> Iterator[bytes]:
    for number in count():
        yield start(number, "model_output") + delta(number, "text", text="é" * len(text))


def empty_steps(text: str) -> Iterator[bytes]:
    for number in count():
        yield start(number, "model_output") + stop(number)


def unknown_steps(text: str) -> Iterator[bytes]:
    for number in count():
        yield start(number, "odd", a=text) + stop(number)


def unknown_deltas(text: str) -> Iterator[bytes]:
    yield start(0, "model_output") + delta(0, "text", text="a")
    yield from repeat(delta(0, "odd", a=text))


def unknown_events(text: str) -> Iterator[bytes]:
    for number in count():
        yield event(f"odd{number}", a=text)


def usage_fields(text: str) -> Iterator[bytes]:
    for number in count():
        usage = {"total_input_tokens": 1, f"odd{number}": text}
        yield event("interaction.in_progress", interaction={"id": "v1", "usage": usage})


STREAMS = (
    *(texts, white_space, thoughts, arguments, server_arguments, calls, calls_in_deltas),
    *(results, signatures, citations, open_steps, empty_steps),
    *(unknown_steps, unknown_deltas, unknown_events, usage_fields),
)
