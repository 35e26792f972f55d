"""The HTML page of one stream: its facts, blocks and frames, with script and style inline.

The page loads nothing, and its policy forbids it to: it holds the stream as data, frames as
deflated chunks that its script reads on demand, and shows all of it as text.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.events import (
    Completed,
    Event,
    JSONDelta,
    ReasoningDelta,
    TextDelta,
)
from streamnorm._core.limits import Limits
from streamnorm._registry import framing_of
from streamnorm.inspect.page import describe_end, describe_head, describe_track
from streamnorm.inspect.report import Read, Report, TimedEvent

_SCRIPTS = ("stream.js", "blocks.js", "frames.js", "search.js")

# The script reads a whole chunk for one frame of it.
_CHUNK_CHARS = 256 * 1024
_CHUNK_FRAMES = 1024
# Level 6 takes three times as long for a page that is a quarter smaller.
_COMPRESSION_LEVEL = 1

_MAX_VIOLATIONS = 1000


class _Row(Struct, array_like=True):
    """A frame, its events, and the frames that these events become in the target dialect."""

    ms: int | None
    type: str
    data: str
    events: list[tuple[str, int | None, str | None, str | None]] = []
    written: list[tuple[str, str]] = []


class PageWriter:
    """Writes the HTML page of one stream while the stream is read.

    It stores the frames of one chunk.

    Args:
        write: Writes the next part of the page.
        name: Name of the stream.
        target: Dialect whose stream to show beside; None to show the frames as they came.
        scrub: Returns a text without secrets; None to leave texts as they are.
        limits: Bounds of the target's frames.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        name: str,
        target: str | None = None,
        scrub: Callable[[str], str] | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._write = write
        self._target = target
        self._scrub = scrub
        self._target_frames = framing_of(target).layout.frame_reader(limits)
        self._rows: list[_Row] = []  # not written yet; the last one may get further events
        self._chars = 0  # of their data
        self._chunks: list[tuple[int, int, int | None]] = []  # first frame, event and time of each
        self._frames = self._events = 0  # in the chunks
        head, self._end = _fill_template(name)
        write(head)

    def add(self, read: Read) -> None:
        """Add the frames and events of one `Read`."""
        rows = self._rows
        first = read.first - len(rows)  # number of the first row
        for frame in read.frames:
            rows.append(_Row(read.ms, frame.event, frame.data))
            self._chars += len(frame.data)
        for timed in read.events:
            # A body that is no stream has no frame.
            if not rows:
                rows.append(_Row(read.ms, "message", ""))
            self._add_event(rows[min(max(timed.frame - first, 0), len(rows) - 1)], timed)
        while rows and (
            len(rows) > _CHUNK_FRAMES or self._chars - len(rows[-1].data) >= _CHUNK_CHARS
        ):
            self._write_chunk(self._count_full_chunk())

    def finish(self, report: Report) -> None:
        """Write the end of the page."""
        if self._rows:
            self._write_chunk(len(self._rows))
        target = self._target if self._target in report.holds else None
        if target == report.dialect:  # which gets the original bytes
            target = None
        stream = _describe_stream(report)
        stream |= {"target": target, "frames": self._frames, "chunks": self._chunks}
        stream["holds"] = [] if target is None else msgspec.to_builtins(report.holds[target])
        self._write(_make_element(_escape_json(stream), 'type="application/json" id="stream"'))
        self._write(self._end)

    def _add_event(self, row: _Row, timed: TimedEvent) -> None:
        row.events.append(_describe_event(timed.event))
        if self._target is not None and (written := timed.written.get(self._target)):
            frames = self._target_frames.feed(written)
            row.written += [(frame.event, frame.data) for frame in frames]

    def _count_full_chunk(self) -> int:
        """Return the number of rows in the next full chunk of the page."""
        chars = count = 0
        while chars < _CHUNK_CHARS and count < _CHUNK_FRAMES:
            chars += len(self._rows[count].data)
            count += 1
        return count

    def _write_chunk(self, count: int) -> None:
        rows = self._rows[:count]
        del self._rows[:count]
        self._chars -= sum(len(row.data) for row in rows)
        if self._scrub is not None:
            rows = [_scrub_row(row, self._scrub) for row in rows]
        self._chunks.append((self._frames, self._events, rows[0].ms))
        self._frames += count
        self._events += sum(len(row.events) for row in rows)
        packed = b64encode(zlib.compress(msgspec.json.encode(rows), _COMPRESSION_LEVEL))
        self._write(_make_element(packed, 'type="text/plain" class="chunk"'))


def _fill_template(name: str) -> tuple[bytes, bytes]:
    """Return the bytes of the page before its data, and the bytes after its data."""
    assets = files(__name__)
    style = assets.joinpath("page.css").read_text("utf-8")
    bodies = [assets.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    script = "\n".join(['"use strict";', "{", *bodies, "}", ""])
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    )
    page = assets.joinpath("page.html").read_text("utf-8")
    # A name of a file may be no UTF-8.
    title = escape(name.encode("utf-8", "backslashreplace").decode())
    head, end = page.format(policy=policy, title=title, style=style, data="\0").split("\0")
    return head.encode(), _make_element(script.encode()) + end.encode()


def _hash(text: str) -> str:
    """Return the source expression that allows a script or a style in a Content-Security-Policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _make_element(content: bytes, attributes: str = "") -> bytes:
    return f"<script {attributes}>".encode() + content + b"</script>\n"


def _escape_json(value: object) -> bytes:
    """Return a value as JSON that is safe inside a `<script>` element."""
    data = msgspec.json.encode(value)
    for character in "<>&\u2028\u2029":
        data = data.replace(character.encode(), f"\\u{ord(character):04x}".encode())
    return data


def _scrub_row(row: _Row, scrub: Callable[[str], str]) -> _Row:
    return _Row(
        row.ms,
        row.type,
        scrub(row.data),
        [
            (name, index, text and scrub(text), fields and scrub(fields))
            for name, index, text, fields in row.events
        ],
        [(type, scrub(data)) for type, data in row.written],
    )


def _describe_event(event: Event) -> tuple[str, int | None, str | None, str | None]:
    """Return an event's name, its block's index, its text and its other fields as JSON."""
    match event:
        case TextDelta(index, text):
            return "text_delta", index, text, None
        case ReasoningDelta(index, text, 0):
            return "reasoning_delta", index, text, None
        case JSONDelta(index, text):
            return "json_delta", index, text, None
        case _:
            fields: dict[str, Any] = msgspec.to_builtins(event)
            name, index = fields.pop("event"), fields.pop("index", None)
            text = fields.pop("text", None)
            rest = msgspec.json.encode(fields).decode() if fields else None
            return name, index, text, rest


def _describe_stream(report: Report) -> dict[str, Any]:
    """Return the facts about the whole stream that the page shows, as JSON fields."""
    timing = report.timing
    is_bad = not isinstance(report.outcome, Completed)
    blocks = [
        msgspec.to_builtins(track) | {"busy": f"{track.busy:x}", "facts": describe_track(track)}
        for track in report.tracks
    ]
    return {
        "timed": timing is not None,
        "length": max(1, report.events if timing is None else timing.end_ms + 1),
        "cell_width": report.cell_width,
        "facts": [
            (label, lines, label == "outcome" and is_bad)
            for label, lines in (*describe_head(report), *describe_end(report))
            if lines
        ],
        "blocks": blocks,
        "gaps": [] if timing is None else [(gap.ms, gap.frame) for gap in timing.gaps],
        "violations": [
            (each.position, each.message) for each in report.violations[:_MAX_VIOLATIONS]
        ],
    }
