"""Tool calls: after a fault no fragment of arguments is in the wrong call.

Frames are dropped, repeated, swapped, moved, renumbered, and taken from other streams.  Whatever
a fault does, the arguments of each call of a completed stream are those that the frames give to
its place.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from support.streams.corpus import corpus, recordings
from support.streams.tool_call_readers import READERS, ToolCalls, frames_of, payload_of

import streamnorm
from streamnorm import Completed, Message, ServerToolCall, ToolCall

MAX_BYTES = 8  # of a seed
_MAX_STREAM_BYTES = 60_000
_MAX_FRAMES = 400
_PLACE = re.compile(
    rb'"(index|output_index|content_index|sequence_number|item_id|id|call_id|responseId)": ?'
    rb'("[^"\\]*"|\d+)'
)


@dataclass
class Stream:
    """A stream that the package decodes as the independent reader does."""

    name: str
    dialect: str
    server: str | None
    frames: list[bytes]


def samples() -> list[bytes]:
    """Return no inputs: any bytes are a seed."""
    return []


def check(data: bytes) -> None:
    """Inject one fault into a stream."""
    d = random.Random(data)  # noqa: S311 - no secret
    stream = d.choice(streams())
    fault, frames = faulty(stream, streams(), d)
    message, notes = read(stream, frames)
    if message is not None:
        expected = READERS[stream.dialect](map(payload_of, frames))
        wrong = problem(message, expected, notes)
        assert wrong is None, f"{fault} in {stream.name}: {wrong}"


def read(stream: Stream, frames: list[bytes]) -> tuple[Message | None, tuple[str, ...]]:
    """Return the message of a completed stream, and its kinds of notes."""
    reader = streamnorm.codec.decoder(stream.dialect, server=stream.server)
    events = [event for frame in frames for event in reader.feed(frame)] + reader.close()
    notes = tuple(note.kind for note in reader.notes)
    if not isinstance(reader.outcome, Completed):
        return None, notes
    return streamnorm.accumulate(events), notes


def problem(message: Message, expected: ToolCalls, notes: tuple[str, ...]) -> str | None:
    """Return the misplaced part of a message; None if there is none."""
    calls = list(expected.calls)
    for block in message.blocks:
        if not isinstance(block, ToolCall | ServerToolCall):
            continue
        for call in calls:
            is_same = call.id in ("", block.id) and call.name == block.name
            if is_same and call.may_be(block.arguments):
                calls.remove(call)
                break
        else:
            if isinstance(block, ToolCall):
                return f"call {block.name} {block.id[:12]} has {len(block.arguments)} characters"
    ids = Counter(b.id for b in message.blocks if isinstance(b, ToolCall) and b.id)
    if any(count > 1 for count in ids.values()):
        return "two calls of one id"
    if not {"unfinished_arguments"} & {*notes}:
        for block in message.blocks:
            if isinstance(block, ToolCall) and block.kind == "function" and block.arguments:
                try:
                    json.loads(block.arguments)
                except ValueError:
                    return f"call {block.name} is unfinished, which nothing says"
    return None


@cache
def streams() -> list[Stream]:
    """Return the streams with tool calls on which reader and package agree."""
    found = []
    for source in (s for kind in READERS for s in (*corpus(kind), *recordings(kind))):
        name = getattr(source, "name", None) or str(source)
        kind = source.dialect
        body = source.body
        if len(body) > _MAX_STREAM_BYTES:
            continue
        server = getattr(source, "provider", None) or getattr(source, "server", None)
        stream = Stream(f"{kind}/{name}", kind, server, frames_of(body))
        if len(stream.frames) > _MAX_FRAMES:
            continue
        try:
            expected = READERS[kind](map(payload_of, stream.frames))
        except (TypeError, AttributeError, KeyError):
            continue
        message, notes = read(stream, stream.frames)
        if message is None or expected.orphans or not expected.calls:
            continue
        if problem(message, expected, notes) is None:
            found.append(stream)
    return found


def faulty(stream: Stream, others: list[Stream], d: random.Random) -> tuple[str, list[bytes]]:
    """Inject a random fault; return its name and the frames."""
    frames = list(stream.frames)
    at, other = d.randrange(len(frames)), d.randrange(len(frames))
    fault = d.choice(["drop", "double", "repeat", "swap", "move", "renumber", "splice", "tail"])
    if fault == "drop":
        del frames[at]
    elif fault == "double":
        frames.insert(at, frames[at])
    elif fault == "repeat":
        frames.insert(other, frames[at])
    elif fault == "swap":
        frames[at], frames[other] = frames[other], frames[at]
    elif fault == "move":
        frames.insert(other, frames.pop(at))
    elif fault == "renumber":
        numbers = list(_PLACE.finditer(frames[at]))
        if numbers:
            match = d.choice(numbers)
            same = [m[2] for f in frames for m in _PLACE.finditer(f) if m[1] == match[1]]
            frames[at] = frames[at][: match.start(2)] + d.choice(same) + frames[at][match.end(2) :]
    else:
        donor = d.choice([s for s in others if s.dialect == stream.dialect])
        where = d.randrange(len(donor.frames))
        if fault == "splice":
            frames.insert(at, donor.frames[where])
        else:
            frames[at:] = donor.frames[where:]
    return fault, frames
