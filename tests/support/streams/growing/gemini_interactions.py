"""Streams of the Interactions API of any length."""

from __future__ import annotations

from collections.abc import Iterator

from support.gemini_interactions.frames import CREATED, completed, delta, start, step, stop

__all__ = ["END", "START", "STREAMS"]

START = CREATED
END = completed()


def texts(count: int) -> Iterator[bytes]:
    yield start(0, "model_output")
    for _ in range(count):
        yield delta(0, "text", text=" more")
    yield stop(0)


def thoughts(count: int) -> Iterator[bytes]:
    yield start(0, "thought")
    for _ in range(count):
        yield delta(0, "thought_summary", content={"type": "text", "text": " more"})
    yield stop(0)


def interleaved_calls(count: int) -> Iterator[bytes]:
    for number in range(2):
        yield start(number, "function_call", id=f"c{number}", name="f", arguments={})
        yield delta(number, "arguments_delta", arguments="[0")
    for _ in range(count):
        for number in range(2):
            yield delta(number, "arguments_delta", arguments=",1")
    for number in range(2):
        yield delta(number, "arguments_delta", arguments="]") + stop(number)


def citations(count: int) -> Iterator[bytes]:
    yield start(0, "model_output")
    for number in range(count):
        place = {"start_index": number, "end_index": number + 1}
        yield delta(0, "text", text="a")
        source = {"type": "url_citation", "url": f"https://{number}", **place}
        yield delta(0, "text_annotation_delta", annotations=[source])
    yield stop(0)


def steps(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield step("model_output", ("text", {"text": "a"}), number=number)


def half_characters(count: int) -> Iterator[bytes]:
    yield start(0, "model_output")
    for _ in range(count):
        yield delta(0, "text", text="a\ud83d")
        yield delta(0, "text", text="\ude00")
    yield stop(0)


STREAMS = (texts, thoughts, interleaved_calls, citations, steps, half_characters)
