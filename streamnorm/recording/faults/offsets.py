"""The events of a body by their offsets, and changes of a playback at an offset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from streamnorm._core.limits import Limits
from streamnorm.recording.exchange import Playback, Step
from streamnorm.sse import Frame

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK = b" \t\r\n\xef\xbb\xbf"


class Located(Struct, frozen=True):
    """An event and its byte range in the body, with its blank line or its checksum.

    Attributes:
        start: Offset of its first byte.
        end: Offset after its last byte.
        frame: Its fields.
    """

    start: int
    end: int
    frame: Frame


def events_of(playback: Playback) -> list[Located]:
    """Return the events of a body; the last one may lack its blank line."""
    body, layout = playback.body, playback.framing.layout
    reader = layout.frame_reader(Limits())
    events: list[Located] = []
    start = 0
    for end in layout.find_event_ends(body):
        frames: Sequence[Frame | None] = reader.feed(body[start:end])
        if not frames and end == len(body):
            frames = [reader.unterminated()]
        events += [Located(start, end, frame) for frame in frames if frame is not None]
        start = end
    return events


def is_stream(body: bytes) -> bool:
    """Return whether a body may be an event stream: it starts as neither JSON nor HTML."""
    return body.lstrip(_BLANK)[:1] not in (b"{", b"[", b"<")


def find_event_boundary(playback: Playback, at: int) -> int:
    """Return the last offset up to `at` where an event may begin."""
    body, layout = playback.body, playback.framing.layout
    ends = layout.find_event_ends(body)
    if not layout.is_whole(body):
        del ends[-1]
    return max((end for end in ends if end <= at), default=0)


def find_line_end(body: bytes, default: bytes) -> bytes:
    """Return the first line end of a body, or the default if it has none."""
    found = _LINE_END.search(body)
    return default if found is None else found[0]


def split(steps: Iterable[Step], at: int) -> tuple[list[Step], list[Step]]:
    """Return the steps before and after an offset.

    A step across it becomes two, which arrive at the same time.
    """
    before: list[Step] = []
    after: list[Step] = []
    left = at
    for step in steps:
        size = len(step.data)
        if after or (size > left == 0):
            after.append(step)
        elif size <= left:
            before.append(step)
            left -= size
        else:
            before.append(structs.replace(step, data=step.data[:left]))
            after.append(Step(0.0, step.data[left:]))
            left = 0
    return before, after


def delay(playback: Playback, at: int, s: float) -> Playback:
    """Return a playback with a pause of `s` seconds at an offset."""
    before, after = split(playback.steps, at)
    # At the end of the body, the end itself is delayed.
    first, *rest = after or [Step(0.0, b"")]
    late = structs.replace(first, stall_s=first.stall_s + s)
    return structs.replace(playback, steps=(*before, late, *rest))


def insert(playback: Playback, at: int, data: bytes) -> Playback:
    """Return a playback with bytes inserted; they arrive with the bytes before them."""
    before, after = split(playback.steps, at)
    return structs.replace(playback, steps=(*before, Step(0.0, data), *after))


def insert_after(playback: Playback, event: Located, data: bytes) -> Playback:
    """Return a playback with an event inserted after another, which gets a missing blank line."""
    body = playback.body
    # Only lines can be an event without its end: half a message is none.
    if event.end == len(body) and not playback.framing.layout.is_whole(body):
        newline = find_line_end(body, b"\n")
        missing = newline if body.endswith((b"\r", b"\n")) else newline * 2
        data = missing + data
    return insert(playback, event.end, data)


def remove(playback: Playback, event: Located) -> Playback:
    """Return a playback without an event; later bytes arrive when they did."""
    before, rest = split(playback.steps, event.start)
    gone, after = split(rest, event.end - event.start)
    if after:
        first = after[0]
        after[0] = structs.replace(
            first,
            delay_s=first.delay_s + sum(step.delay_s for step in gone),
            stall_s=first.stall_s + sum(step.stall_s for step in gone),
        )
    return structs.replace(playback, steps=(*before, *after))
