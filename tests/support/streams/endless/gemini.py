"""Endless streams of Gemini."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

from support.gemini import frames
from support.gemini.frames import chunk, parts, thought

__all__ = ["START", "STREAMS"]

START = [frames.text("a")]


def texts(text: str) -> Iterator[bytes]:
    yield from repeat(frames.text(text))


def texts_of_many_bytes(text: str) -> Iterator[bytes]:
    yield from repeat(frames.text("é" * len(text)))


def white_space(text: str) -> Iterator[bytes]:
    yield thought("a")
    yield from repeat(frames.text(" " * len(text)))


def thoughts(text: str) -> Iterator[bytes]:
    yield from repeat(thought(text))


def turns(text: str) -> Iterator[bytes]:
    for _ in count():
        yield frames.text(text) + thought(text)


def _call(path: str, value: str, **fields: Any) -> bytes:
    piece = {"jsonPath": path, "stringValue": value, **fields}
    return parts({"functionCall": {"partialArgs": [piece], "willContinue": True}})


def arguments(text: str) -> Iterator[bytes]:
    yield parts({"functionCall": {"id": "c", "name": "f", "willContinue": True}})
    yield from repeat(_call("$.a", text, willContinue=True))


def keys_of_arguments(text: str) -> Iterator[bytes]:
    yield parts({"functionCall": {"id": "c", "name": "f", "willContinue": True}})
    for number in count():
        yield _call(f"$.{text}{number}", "")


def whole_calls(text: str) -> Iterator[bytes]:
    for number in count():
        yield parts({"functionCall": {"id": f"c{number}", "name": "f", "args": {"a": text}}})


def code(text: str) -> Iterator[bytes]:
    yield from repeat(parts({"executableCode": {"language": "PYTHON", "code": text}}))


def signatures(text: str) -> Iterator[bytes]:
    for number in count():
        yield frames.text("a", thoughtSignature=f"{text}{number:08}")


def sources(text: str) -> Iterator[bytes]:
    for number in count():
        chunks = [{"web": {"uri": f"https://{number}", "title": text}}]
        place = {"segment": {"startIndex": 0, "endIndex": 1}, "groundingChunkIndices": [0]}
        metadata = {"groundingChunks": chunks, "groundingSupports": [place]}
        yield parts({"text": ""}, groundingMetadata=metadata)


def one_source_often(text: str) -> Iterator[bytes]:
    """Yield chunks that each repeat one large source."""
    chunks = [{"web": {"uri": "https://a", "title": text * 9}}]
    for number in count():
        place = {"startIndex": 0, "endIndex": 1}
        supports = [
            {"segment": place, "groundingChunkIndices": [0], "confidenceScores": [number + at / 50]}
            for at in range(50)
        ]
        metadata = {"groundingChunks": chunks, "groundingSupports": supports}
        yield parts({"text": ""}, groundingMetadata=metadata)


def recitations(text: str) -> Iterator[bytes]:
    for number in count():
        source = {"startIndex": 0, "endIndex": 1, "uri": f"https://{number}", "license": text}
        yield parts({"text": ""}, citationMetadata={"citations": [source]})


def metadata(text: str) -> Iterator[bytes]:
    for number in count():
        yield parts({"text": ""}, groundingMetadata={"webSearchQueries": [f"{text}{number}"]})


def logprobs(text: str) -> Iterator[bytes]:
    yield from repeat(parts({"text": ""}, logprobsResult={"avgLogprobs": -1.0, "a": text}))


def part_fields(text: str) -> Iterator[bytes]:
    yield from repeat(frames.text("", odd=text))


def chunk_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk(usageMetadata={}, **{f"odd{number}": text})


def candidate_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield parts({"text": ""}, **{f"odd{number}": text})


def candidate_fields_that_change(text: str) -> Iterator[bytes]:
    for number in count():
        yield parts({"text": ""}, odd=f"{text}{number}")


def usage_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk(usageMetadata={"promptTokenCount": 9, f"odd{number}": text})


def unknown_frames(text: str) -> Iterator[bytes]:
    yield from repeat(frames.frame({"odd": text}))


def unknown_parts(text: str) -> Iterator[bytes]:
    yield from repeat(parts({"odd": text}))


STREAMS = (
    *(texts, texts_of_many_bytes, white_space, thoughts, turns, arguments, keys_of_arguments),
    *(whole_calls, code, signatures, sources, one_source_often, recitations, metadata, logprobs),
    *(part_fields, chunk_fields, candidate_fields, candidate_fields_that_change, usage_fields),
    *(unknown_frames, unknown_parts),
)
