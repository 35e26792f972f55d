"""Streams damaged as by networks, proxies and bugs."""

from __future__ import annotations

import re
from collections.abc import Callable

from support.draws import Draws

__all__ = ["chunked", "cut_anywhere", "damaged", "noise"]

_TOKENS = (
    *(
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b":",
        b" ",
        b"data: ",
        b"data:",
        b"event: error\n",
        b"id: 1\n",
    ),
    *(b"retry: 1\n", b"\xef\xbb\xbf", b"\0", b"\xff", b"\xf0\x9f", b"{", b"}", b"[", b"]", b'"'),
    *(b"[DONE]", b"null", b"NaN", b"-1", b"1e999", b"0", b"true", b'"a"', b",", b'"error"'),
    *(b'"choices":', b'"delta":', b'"index":', b'"content":', b'"tool_calls":', b'"function":'),
    *(b'"arguments":', b'"name":', b'"id":', b'"finish_reason":', b'"usage":', b'"message":'),
    *(b'"refusal":', b'"reasoning":', b'"reasoning_details":', b'"custom":', b'"logprobs":'),
    *(b'"function_call":', b'"annotations":', b'"\\ud83d"', b'"\\ude00"', b'"type":', b'"text"'),
    *(b"event: response.created\n", b'"response.completed"', b'"response":', b'"output_index":'),
    *(b'"item":', b'"item_id":', b'"part":', b'"output":', b'"status":', b'"sequence_number":'),
    *(b'"candidates":', b'"parts":', b'"functionCall":', b'"args":', b'"thoughtSignature":'),
    *(b'"thought":', b'"finishReason":', b'"STOP"', b'"partialArgs":', b'"willContinue":'),
)


def noise(d: Draws, most: int = 60) -> bytes:
    """Return random tokens of streams."""
    return b"".join(d.some(most, lambda: d.pick(_TOKENS)))


def chunked(data: bytes, size: int) -> list[bytes]:
    """Return bytes in chunks of one size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def cut_anywhere(d: Draws, data: bytes, most: int = 8) -> list[bytes]:
    """Return bytes in random pieces, possibly empty."""
    cuts = sorted(_anywhere(d, len(data)) for _ in range(d.below(most)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _anywhere(d: Draws, size: int) -> int:
    """Return a random number from 0 to `size`."""
    return (d.below(256) * 65536 + d.below(256) * 256 + d.below(256)) % (size + 1)


def damaged(d: Draws, body: bytes) -> bytes:
    """Return a stream with some damaged frames and bytes."""
    frames = re.findall(rb".*?(?:\n\n|\r\n\r\n|\r\r|\Z)", body, re.DOTALL)
    for _ in range(1 + d.below(3)):
        frames = d.pick(_FRAMES)(d, frames)
    data = bytearray(b"".join(frames))
    for _ in range(d.below(3)):
        d.pick(_BYTES)(d, data)
    return bytes(data)


def _same(d: Draws, frames: list[bytes]) -> list[bytes]:
    return frames


def _drop(d: Draws, frames: list[bytes]) -> list[bytes]:
    at = d.below(len(frames))
    return [*frames[:at], *frames[at + 1 :], b""]


def _duplicate(d: Draws, frames: list[bytes]) -> list[bytes]:
    at = d.below(len(frames))
    return [*frames[: at + 1], *frames[at:]]


def _swap(d: Draws, frames: list[bytes]) -> list[bytes]:
    a, b = d.below(len(frames)), d.below(len(frames))
    swapped = list(frames)
    swapped[a], swapped[b] = frames[b], frames[a]
    return swapped


def _shuffle(d: Draws, frames: list[bytes]) -> list[bytes]:
    return d.shuffled(frames)


def _join(d: Draws, frames: list[bytes]) -> list[bytes]:
    at = d.below(len(frames))
    return [*frames[:at], frames[at].rstrip() + b"\n", *frames[at + 1 :]]


def _flip(d: Draws, data: bytearray) -> None:
    if data:
        data[_anywhere(d, len(data) - 1)] ^= 1 << d.below(8)


def _truncate(d: Draws, data: bytearray) -> None:
    del data[_anywhere(d, len(data)) :]


def _insert(d: Draws, data: bytearray) -> None:
    at = _anywhere(d, len(data))
    data[at:at] = d.pick(_TOKENS)


def _overwrite(d: Draws, data: bytearray) -> None:
    at, token = _anywhere(d, len(data)), d.pick(_TOKENS)
    data[at : at + len(token)] = token


_FRAMES: tuple[Callable[[Draws, list[bytes]], list[bytes]], ...] = (
    *(_same, _drop, _duplicate, _swap, _shuffle, _join),
)
_BYTES: tuple[Callable[[Draws, bytearray], None], ...] = (_flip, _truncate, _insert, _overwrite)
