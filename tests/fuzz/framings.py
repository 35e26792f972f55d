"""Framings: bytes are split into the same events in any pieces, and as independent readers do.

Of server-sent events the reader is a transcript of the WHATWG's algorithm, of event streams of AWS
botocore's, and of JSON arrays and of WebSocket messages Python's JSON parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from botocore.eventstream import EventStreamBuffer, ParserError
from support.streams.chunkings import cut_at_random
from support.streams.corpus import recordings

from streamnorm import Completed, Event, Outcome
from streamnorm.codec import EVENTSTREAM, SSE, WS_MESSAGE, Framing, decoder
from streamnorm.eventstream import EventStreamDecoder
from streamnorm.sse import Frame, SSEDecoder

MAX_BYTES = 4096
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_JSON_SPACE = re.compile(r"[ \t\n\r]*")


def samples() -> list[bytes]:
    """Return recordings of each framing."""
    found = [(0, body) for body in (b"id: 1\nretry: 9\nevent: a\n: b\ndata: c\ndata\n\n", _BOM)]
    for each in recordings(*_OF_KIND, arrays=True, framings=True):
        body = each.body
        if each.path is not None and each.path.suffix == ".json":
            found.append((2, body))
        elif each.framing is EVENTSTREAM:
            found.append((1, body))
        elif each.framing is WS_MESSAGE:
            found.append((3, body))
        else:
            found.append((0, body))
    return [bytes([kind, 7]) + body for kind, body in found if len(body) < MAX_BYTES - 2]


def check(data: bytes) -> None:
    """Read bytes; the first one is the framing, the second the seed of the pieces."""
    if len(data) > 2:
        body = data[2:]
        _KINDS[data[0] % len(_KINDS)](body, cut_at_random(body, str(data[1])))


def _check_sse(body: bytes, pieces: list[bytes]) -> None:
    assert _frames(pieces) == _frames([body])
    assert _frames([body]) == _whatwg_frames(body)


def _frames(pieces: list[bytes]) -> list[Frame]:
    reader = SSEDecoder()
    return [frame for piece in pieces for frame in reader.feed(piece)] + reader.close()


def _whatwg_frames(body: bytes) -> list[Frame]:
    """Interpret an event stream as section 9.2.6 of the HTML standard does."""
    frames: list[Frame] = []
    id, event, data, retry = "", "", list[str](), None
    *lines, _ = _LINE_END.split(body.removeprefix(_BOM))
    for line in lines:
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                frames.append(Frame(event or "message", "\n".join(data), id, retry))
                retry = None
            event, data = "", []
        elif name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value)
    return frames


def _check_eventstream(body: bytes, pieces: list[bytes]) -> None:
    found, failed = _messages([body])
    assert _messages(pieces) == (found, failed)
    theirs = EventStreamBuffer()
    theirs.add_data(body)
    expected = []
    try:
        for each in theirs:
            expected.append((dict(each.headers), each.payload))  # noqa: PERF401 - it may raise
    except (ParserError, ValueError, UnicodeDecodeError):
        assert failed
    # botocore reads the length of a message before its checksum has arrived.
    assert found == expected[: len(found)]
    assert failed or len(found) == len(expected)


def _messages(pieces: list[bytes]) -> tuple[list[tuple[Any, bytes]], bool]:
    reader = EventStreamDecoder()
    found = [message for piece in pieces for message in reader.feed(piece)]
    return [(each.headers, each.payload) for each in found], reader.failure is not None


def _check_array(body: bytes, pieces: list[bytes]) -> None:
    events, outcome = _decode("gemini", SSE, [body])
    assert _decode("gemini", SSE, pieces) == (events, outcome)
    elements = _elements(body)
    # An array that begins with an error or with another object is no stream.
    is_stream = isinstance(outcome, Completed)
    if is_stream and elements and b"\r" not in b"".join(elements):  # which ends a line of an event
        lines = b"".join(b"data: %b\n\n" % each.replace(b"\n", b"\ndata: ") for each in elements)
        assert _decode("gemini", SSE, [lines]) == (events, outcome)


def _elements(body: bytes) -> list[bytes]:
    """Return the objects of a JSON array; [] if the bytes are no such array."""
    try:
        value, text = json.loads(body), body.decode()
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return []
    found, at, read = [], text.index("[") + 1, json.JSONDecoder(strict=False).raw_decode
    for _ in value:
        start = _after_space(text, at)
        end = read(text, start)[1]
        found.append(text[start:end].encode())
        at = _after_space(text, end) + 1
    return found


def _after_space(text: str, at: int) -> int:
    space = _JSON_SPACE.match(text, at)
    return space.end() if space else at


def _check_messages(body: bytes, pieces: list[bytes]) -> None:
    events = _decode("openai_responses", WS_MESSAGE, [body])
    assert _decode("openai_responses", WS_MESSAGE, pieces) == events


def _decode(
    dialect: str, framing: Framing, pieces: list[bytes]
) -> tuple[list[Event], Outcome | None]:
    reader = decoder(dialect, framing=framing)
    return [e for piece in pieces for e in reader.feed(piece)] + reader.close(), reader.outcome


_KINDS: tuple[Callable[[bytes, list[bytes]], None], ...] = (
    *(_check_sse, _check_eventstream, _check_array, _check_messages),
)
_OF_KIND = ("openai_chat", "bedrock_converse", "gemini", "openai_responses")
