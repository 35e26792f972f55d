"""Streams of Amazon Bedrock: after a fault they are read and passed on as botocore's parser does.

Bytes are changed, messages dropped, repeated, swapped and cut, payloads and headers replaced under
right checksums.  Whatever a fault does: nothing but an outcome is raised, every chunking gives the
same events, what is completed has all of its events from botocore's parser, too, and what passes on
is whole messages that botocore reads, with an exception at the end of all that is no success.
"""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

from botocore.eventstream import EventStreamBuffer
from support.bedrock.chunks import chunk, exception, invoked, of_sse
from support.streams.content import DIALECTS
from support.streams.corpus import recordings

from streamnorm import Completed, Event, Outcome, Transcoder
from streamnorm.codec import EVENTSTREAM, INVOKE_CHUNKS, SSE, Framing, decoder
from streamnorm.eventstream import EventStreamDecoder, Message, encode_message

MAX_BYTES = 8  # of a seed
_MAX_STREAM_BYTES = 40_000


class Kind(NamedTuple):
    """A dialect in an AWS event stream.

    Attributes:
        dialect: The dialect.
        framing: Its framing.
        files: Pattern of the real streams.
    """

    dialect: str
    framing: Framing
    files: str


KINDS = (
    Kind("anthropic", INVOKE_CHUNKS, "*invoke*.eventstream"),
    Kind("bedrock_converse", EVENTSTREAM, "converse-stream*.eventstream"),
)


def samples() -> list[bytes]:
    """Return no inputs: any bytes are a seed."""
    return []


def check(data: bytes) -> None:
    """Inject one fault into a stream."""
    d = random.Random(data)  # noqa: S311 - no secret
    kind = d.choice(KINDS)
    fault, body = faulty(d.choice(streams(kind)), d.choice(streams(kind)), d)
    wrong = problem(kind, body, d)
    assert wrong is None, f"{fault}: {wrong}"


@cache
def streams(kind: Kind) -> list[list[Message]]:
    """Return real streams, if available, and the repository's recordings."""
    chunked = kind.framing is INVOKE_CHUNKS
    bodies = [of_sse(r.body) if chunked else r.body for r in recordings(kind.dialect)]
    if root := os.environ.get("STREAMNORM_CORPUS"):
        paths = sorted(Path(root, "bedrock").glob(kind.files))
        bodies += [path.read_bytes() for path in paths]
    found = [EventStreamDecoder().feed(body) for body in bodies if len(body) < _MAX_STREAM_BYTES]
    return [messages for messages in found if messages]


def faulty(messages: list[Message], donor: list[Message], d: random.Random) -> tuple[str, bytes]:
    """Inject a random fault; return its name and the bytes."""
    parts = [message.raw for message in messages]
    at, other = d.randrange(len(parts)), d.randrange(len(parts))
    fault = d.choice(
        ["bytes", "cut", "drop", "repeat", "swap", "splice", "payload", "headers", "error"]
    )
    if fault == "drop":
        del parts[at]
    elif fault == "repeat":
        parts.insert(other, parts[at])
    elif fault == "swap":
        parts[at], parts[other] = parts[other], parts[at]
    elif fault == "splice":
        parts.insert(at, d.choice(donor).raw)
    elif fault == "payload":
        parts[at] = chunk(d.randbytes(d.randrange(40)))
    elif fault == "headers":
        name = d.choice([":message-type", ":event-type", ":exception-type", "a"])
        headers = {key: str(value) for key, value in messages[at].headers.items()}
        value = d.choice(["", "event", "exception", "error", "chunk", "\N{SNOWMAN}"])
        parts[at] = encode_message({**headers, name: value}, messages[at].payload)
    elif fault == "error":
        kinds = ["throttlingException", "modelStreamErrorException", "newException"]
        status = d.choice([400, 503])
        parts.insert(at, exception(d.choice(kinds), message="m", originalStatusCode=status))
    data = b"".join(parts)
    if fault == "bytes" and data:
        changed = bytearray(data)
        for _ in range(d.randrange(1, 4)):
            changed[d.randrange(len(changed))] = d.randrange(256)
        data = bytes(changed)
    elif fault == "cut":
        data = data[: d.randrange(len(data) + 1)]
    return fault, data


def read(kind: Kind, data: bytes, sizes: list[int]) -> tuple[list[Event], Outcome | None]:
    """Return the events of a stream read in pieces of given sizes."""
    reader = decoder(kind.dialect, framing=kind.framing)
    events = [event for piece in pieces(data, sizes) for event in reader.feed(piece)]
    return events + reader.close(), reader.outcome


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    found, start = [], 0
    for number in range(len(data)):
        if start >= len(data):
            break
        end = start + sizes[number % len(sizes)]
        found.append(data[start:end])
        start = end
    return found


def lines_of(kind: Kind, data: bytes) -> bytes:
    """Return the events that botocore's parser finds, as server-sent events."""
    if kind.framing is INVOKE_CHUNKS:
        theirs = invoked(data)
        named = [*zip(map(name_of, theirs.events), theirs.payloads, strict=True)]
    else:
        buffer = EventStreamBuffer()
        buffer.add_data(data)
        named = [(m.headers[":event-type"].encode(), m.payload) for m in buffer]
    return b"".join([b"event: %b\ndata: %b\n\n" % (n, p.replace(b"\n", b" ")) for n, p in named])


def problem(kind: Kind, data: bytes, d: random.Random) -> str | None:
    """Return the problem in how a stream is read or passed on; None if there is none."""
    sizes = [d.randrange(1, 300) for _ in range(5)]
    events, outcome = read(kind, data, [len(data) or 1])
    if read(kind, data, sizes) != (events, outcome):
        return f"another reading in pieces of {sizes}"
    if outcome is None:
        return "no outcome"
    if isinstance(outcome, Completed):
        try:
            theirs = lines_of(kind, data)
        except Exception:  # noqa: BLE001 - what follows the end is not read, and may be anything
            return None
        plain = decoder(kind.dialect, framing=SSE)
        if plain.feed(theirs) + plain.close() != events:
            return "other events than botocore's parser has"
    passing = Transcoder(kind.dialect, kind.dialect, framing=kind.framing, to_framing=kind.framing)
    out = b"".join([p for piece in pieces(data, sizes) for p in passing.feed(piece)])
    out += b"".join(passing.close())
    check = EventStreamDecoder()
    found = check.feed(out)
    if check.failure is not None or check.unfinished_bytes:
        return "half a message passed on"
    ended = [m for m in found if m.text(":message-type") in ("exception", "error")]
    if not isinstance(outcome, Completed) and len(ended) != 1:
        return f"{len(ended)} exceptions for what is no success"
    target = d.choice([*DIALECTS, "bedrock_converse"])
    run = Transcoder(kind.dialect, target, framing=kind.framing)
    for piece in pieces(data, sizes):
        run.feed(piece)
    run.close()
    if isinstance(run.outcome, Completed) > isinstance(outcome, Completed):
        return f"a success in {target} alone"
    return None


def name_of(event: object) -> bytes:
    name = event.get("type") if isinstance(event, dict) else None
    return name.encode() if isinstance(name, str) else b"message"
