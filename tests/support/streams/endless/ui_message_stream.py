"""Endless UI message streams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

from support.streams.delta_pieces import frame

__all__ = ["START", "STREAMS"]


def _chunk(type: str, **fields: Any) -> bytes:
    return frame({"type": type, **fields})


START = [_chunk("start", messageId="m"), _chunk("start-step")]


def texts(piece: str) -> Iterator[bytes]:
    yield _chunk("text-start", id="0")
    yield from repeat(_chunk("text-delta", id="0", delta=piece))


def white_space(piece: str) -> Iterator[bytes]:
    yield from texts(" " * len(piece))


def thoughts(piece: str) -> Iterator[bytes]:
    yield _chunk("reasoning-start", id="0:0")
    yield from repeat(_chunk("reasoning-delta", id="0:0", delta=piece))


def summaries(piece: str) -> Iterator[bytes]:
    for number in count():
        id = f"0:{number}"
        yield _chunk("reasoning-start", id=id)
        yield _chunk("reasoning-delta", id=id, delta=piece)
        yield _chunk("reasoning-end", id=id)


def blocks(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _chunk("text-start", id=f"{number}")
        yield _chunk("text-delta", id=f"{number}", delta=piece)
        yield _chunk("text-end", id=f"{number}")


def empty_parts(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _chunk("reasoning-start", id=f"{number}", x=piece)


def metadata(piece: str) -> Iterator[bytes]:
    yield _chunk("text-start", id="0")
    for number in count():
        pm = {"a": {f"{number}": piece}}
        yield _chunk("text-delta", id="0", delta="", providerMetadata=pm)


def arguments(piece: str) -> Iterator[bytes]:
    yield _chunk("tool-input-start", toolCallId="c", toolName="f")
    yield _chunk("tool-input-delta", toolCallId="c", inputTextDelta='{"a":"')
    yield from repeat(_chunk("tool-input-delta", toolCallId="c", inputTextDelta=piece))


def whole_calls(piece: str) -> Iterator[bytes]:
    for number in count():
        call = {"toolCallId": f"c{number}", "toolName": "f"}
        yield _chunk("tool-input-available", **call, input={"a": piece})


def results(piece: str) -> Iterator[bytes]:
    yield _chunk("tool-input-available", toolCallId="c", toolName="f", input={})
    yield from repeat(_chunk("tool-output-available", toolCallId="c", output=piece))


def sources(piece: str) -> Iterator[bytes]:
    yield _chunk("text-start", id="0")
    for number in count():
        yield _chunk("source-url", sourceId=f"{number}", url=f"https://{number}", title=piece)


def files(piece: str) -> Iterator[bytes]:
    url = f"data:image/png;base64,{'AAAA' * len(piece)}"
    yield from repeat(_chunk("file", url=url, mediaType="image/png"))


def data_of_the_application(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _chunk(f"data-x{number}", data=piece)


def steps(piece: str) -> Iterator[bytes]:
    yield from repeat(_chunk("finish-step", x=piece) + _chunk("start-step", x=piece))


def message_metadata(piece: str) -> Iterator[bytes]:
    for number in count():
        usage = {"inputTokens": number, f"x{number}": piece}
        yield _chunk("message-metadata", messageMetadata={"usage": usage})


def after_the_end(piece: str) -> Iterator[bytes]:
    yield _chunk("finish", finishReason="stop")
    yield from texts(piece)


STREAMS = (
    *(texts, white_space, thoughts, summaries, blocks, empty_parts, metadata, arguments),
    *(whole_calls, results, sources, files, data_of_the_application, steps, message_metadata),
    after_the_end,
)
