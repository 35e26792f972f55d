"""Upstream answers for fuzzing: honest or recorded, with one kind of damage."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from support.bodies.mutations import damaged_body
from support.draws import Draws
from support.faults.upstream import Act, Drip, Pause, Step
from support.gateway.fuzz.requests import flipped
from support.http.echo_upstream import EchoedRequest, head_of, honest_steps
from support.streams.corpus import recordings
from support.streams.tool_call_readers import frames_of

__all__ = ["KEY", "wild_steps"]

KEY = "sk-canary/of-the-upstream-8e2b"
"""The key of each upstream, which no answer of the gateway may show."""

_MAX_BYTES = 60_000
_DRAWS = 400
_LAST = b"0\r\n\r\n"
_SILENT_S = 3.0
_SPELLINGS = (KEY, KEY.replace("/", "\\/"), "".join(f"\\u{ord(char):04x}" for char in KEY))


def wild_steps(rng: random.Random, request: EchoedRequest) -> Sequence[Step]:
    """Return the steps of an answer, damaged in three of four cases."""
    if rng.random() < 0.25:
        return honest_steps(request)
    playback = request.playback
    if "event-stream" not in playback.headers["content-type"]:
        return _wild_whole(rng, request)
    frames = [step.data for step in playback.steps if step.data]
    damage = rng.choice(_DAMAGES)
    return _send_frames(rng, head_of(playback), damage(rng, request, frames))


@cache
def _load_recorded(dialect: str) -> tuple[tuple[bytes, ...], ...]:
    """Return the frames of moderately sized recordings."""
    found = [recording.body for recording in recordings(dialect)]
    return tuple(tuple(frames_of(body)) for body in found if len(body) < _MAX_BYTES)


def _other_frames(rng: random.Random, request: EchoedRequest) -> Sequence[bytes]:
    dialect = request.playback.dialect or "openai_chat"
    return rng.choice(_load_recorded(dialect if _load_recorded(dialect) else "openai_chat"))


def _move_frames(rng: random.Random, request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """Damage by dropping, repeating, swapping and splicing frames."""
    if rng.random() < 0.5:
        frames = [*_other_frames(rng, request)]
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(frames)), rng.randrange(len(frames))
        match rng.randrange(5):
            case 0 if len(frames) > 1:
                del frames[at]
            case 1:
                frames.insert(other, frames[at])
            case 2:
                frames[at], frames[other] = frames[other], frames[at]
            case 3:
                frames.insert(at, rng.choice(_other_frames(rng, request)))
            case _:
                frames[at:at] = [frames[at]] * rng.choice((2, 50))
    return frames


def _change_bytes(rng: random.Random, request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """Damage by changing bytes."""
    if rng.random() < 0.3:
        frames = [*_other_frames(rng, request)]
    data = flipped(rng, b"".join(frames))
    return [data]


def _damage_json(rng: random.Random, request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """Damage by changing JSON values in a frame."""
    if rng.random() < 0.5:
        frames = [*_other_frames(rng, request)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(frames))
        before, name, data = frames[at].partition(b"data: ")
        try:
            value = json.loads(data)
        except ValueError:
            continue
        if isinstance(value, dict) and value:
            value = damaged_body(Draws(rng.randbytes(_DRAWS)), value)
            frames[at] = before + name + json.dumps(value).encode() + b"\n\n"
    return frames


def _quote_key(rng: random.Random, _request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """Damage by quoting the gateway's key in a text or error."""
    key = rng.choice(_SPELLINGS).encode()
    error = b'data: {"error":{"message":"no ' + key + b'","type":"server_error"}}\n\n'
    texts = [frame.replace(b"snow", key) for frame in frames]
    return rng.choice(
        (texts, [*frames[:2], error, *frames[2:]], [*frames[:1], b": " + key + b"\n\n", *texts[1:]])
    )


def _flood(rng: random.Random, _request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """Damage by adding comments, empty frames, and endless lines."""
    added = rng.choice(
        (
            *(b": x\n\n" * 3000, b"\n" * 9000, b"\r" * 9000, b"data\n" * 3000, b"data:\n\n" * 3000),
            *(
                b"event: ping\ndata: {}\n\n" * 500,
                b"x" * 200_000,
                b": " + b"x" * 400_000,
                b"id: \0\n",
            ),
            *(b"retry: 99999999999\n\n", b"data: [DONE]\n\n", b"data: " + b"[" * 9000 + b"\n\n"),
            b"data: " + b"x" * 300_000 + b"\n\n",
        )
    )
    at = rng.randrange(len(frames) + 1)
    return [*frames[:at], added, *frames[at:]]


def _keep_frames(_rng: random.Random, _request: EchoedRequest, frames: list[bytes]) -> list[bytes]:
    """No damage to frames; the HTTP framing is damaged instead."""
    return frames


_Damage = Callable[[random.Random, EchoedRequest, list[bytes]], list[bytes]]
_DAMAGES: tuple[_Damage, ...] = (
    _move_frames,
    _change_bytes,
    _damage_json,
    _quote_key,
    _flood,
    _keep_frames,
    _keep_frames,
)


def _send_frames(rng: random.Random, head: bytes, frames: list[bytes]) -> list[Step]:
    """Return steps that send frames in random pieces, often with wrong framing."""
    data = b"".join(frames)
    kind = rng.randrange(12)
    if kind <= 4:
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in _pieces(rng, data)]
        return _paused(rng, [head, *chunks, _LAST])
    if kind == 5:
        return [Drip((head + b"%x\r\n%b\r\n" % (len(data), data) + _LAST)[:20_000])]
    body = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames if frame)
    whole = head + body + _LAST
    match kind:
        case 6:
            end = rng.choice((Act.CLOSE, Act.RESET, Act.STALL))
            return [*_paused(rng, [whole[: rng.randrange(len(whole))]]), Pause(0.01), end]
        case 7:
            # Longer than the gateway waits, and not for ever: the answer may be whole all the same.
            return [flipped(rng, whole, 2), rng.choice((Act.CLOSE, Pause(_SILENT_S)))]
        case 8:  # a second answer in the segment with the end of the first
            return [
                whole
                + rng.choice((whole, whole[:40], b"HTTP/1.1 408 Late\r\n\r\n", b"\r\n", b"\0"))
            ]
        case 9:
            return _odd_heads(rng, data)
        case 10:
            packed = gzip.compress(data)
            packed = flipped(rng, packed) if rng.random() < 0.5 else packed
            coding = rng.choice(("gzip", "deflate", "br", "zstd", "identity", "x"))
            lines = f"content-encoding: {coding}\r\ncontent-length: {len(packed)}\r\n\r\n"
            return [head[: head.index(b"transfer-")] + lines.encode() + packed]
        case _:
            return [
                head
                + body
                + rng.choice((b"", b"zz\r\n", b"-1\r\n", b"0\r\nx: y\r\n\r\n", b"0\n\n")),
                Act.CLOSE,
            ]


def _odd_heads(rng: random.Random, data: bytes) -> list[Step]:
    status = rng.choice(
        ("200 OK", "204 No", "304 No", "101 Switch", "600 X", "999 X", "0 X", "200", "20 X")
    )
    line = rng.choice(
        (
            *("x: y", "x: " + "a" * 40_000, "x: \0", "location: http://other/", "set-cookie: a=b"),
            *(
                f"x-request-id: {KEY}",
                f"retry-after: {KEY}",
                "retry-after: nan",
                "content-length: -1",
            ),
            *(
                "transfer-encoding: chunked",
                "connection: upgrade",
                "content-type: \xff",
                "x : y",
                "",
            ),
        )
    )
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\n{line}\r\n"
    length = rng.choice((f"content-length: {len(data)}\r\n", "", "content-length: 5\r\n"))
    early = rng.choice((b"", b"", b"HTTP/1.1 103 Early\r\n\r\n" * 3, b"\r\n", b"\0"))
    return [early + f"{head}{length}\r\n".encode("latin-1") + data, Act.CLOSE]


def _wild_whole(rng: random.Random, request: EchoedRequest) -> list[Step]:
    playback = request.playback
    data = playback.body
    kind = rng.randrange(6)
    if kind <= 1:
        value = json.loads(data or b"{}") or {"a": 1}
        data = json.dumps(damaged_body(Draws(rng.randbytes(_DRAWS)), value)).encode()
    elif kind == 2:
        data = flipped(rng, data)
    elif kind == 3:
        data = data.replace(b"snow", rng.choice(_SPELLINGS).encode())
    else:
        return _send_frames(rng, head_of(playback), [data])
    status = rng.choice((200, 200, 200, 400, 401, 404, 408, 429, 503, 529, 599))
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\nx-request-id: {KEY}\r\n"
    return [f"{head}content-length: {len(data)}\r\n\r\n".encode(), *_pieces(rng, data)]


def _pieces(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted({rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 1, 3, 12)))})
    ends = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(ends) if data[start:end]]


def _paused(rng: random.Random, pieces: Sequence[bytes]) -> list[Step]:
    pause = rng.choice((None, None, Pause(0.0), Pause(0.003)))
    if pause is None:
        return [*pieces]
    return [step for piece in pieces for step in (piece, pause)]
