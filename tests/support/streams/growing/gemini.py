"""Streams of Gemini of any length."""

from __future__ import annotations

from collections.abc import Iterator

from support.gemini.frames import chunk, parts, text, thought

__all__ = ["END", "START", "STREAMS"]

START = b""
END = text("", finish="STOP")


def texts(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield text(" more")


def turns(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield text("a") if number % 2 else thought("b")


def whole_calls(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield parts({"functionCall": {"id": f"c{number}", "name": "f", "args": {"a": 1}}})


def partial_arguments(count: int) -> Iterator[bytes]:
    yield parts({"functionCall": {"id": "c", "name": "f", "willContinue": True}})
    for number in range(count):
        piece = {"jsonPath": f"$.a[{number}]", "numberValue": 1}
        yield parts({"functionCall": {"partialArgs": [piece], "willContinue": True}})
    yield parts({"functionCall": {}})


def signatures(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield text("a", thoughtSignature=f"{number:08}")


def sources(count: int) -> Iterator[bytes]:
    """Yield chunks that each repeat all sources and add one."""
    yield text("a" * 400)
    for number in range(0, count, 10):
        chunks = [{"web": {"uri": f"https://{n}"}} for n in range(number % 50)]
        place = {"segment": {"endIndex": 9}, "groundingChunkIndices": [*range(len(chunks))]}
        metadata = {"groundingChunks": chunks, "groundingSupports": [place]}
        yield parts({"text": "a"}, groundingMetadata=metadata)


def half_characters(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield text("a\ud83d")
        yield text("\ude00")


def nothing(count: int) -> Iterator[bytes]:
    yield text("a")
    for number in range(count):
        yield (b"\r\n", text(""), b": hi\r\n\r\n")[number % 3]


def usage(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield chunk(usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": number})


STREAMS = (
    *(texts, turns, whole_calls, partial_arguments, signatures, sources, half_characters),
    *(nothing, usage),
)
