"""A summary of a stream of events: its blocks, their positions, its usage and its stops."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import (
    Block,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.json import FAST_ERRORS, compact
from streamnorm._core.limits import Limits
from streamnorm._core.text import TextBuffer

HEAD_CHARS = 1024
"""Characters of a block that are stored for display."""

# A power of two, several times the columns of a terminal.
_CELLS = 1024

_JSON_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
)


class Track(Struct):
    """Summary of one block: its names, sizes, times and first characters.

    Attributes:
        kind: Kind of the block, for people.
        name: Name of the tool, or the vendor's type of the block.
        id: Id of the tool call.
        choice: Index of its choice.
        start: Number of the `BlockStart` among the events, from 0.
        stop: Number of the `BlockStop`, or None.
        busy: Bit set of the cells in which the block has events; cell n holds the
            `StreamSummary.cell_width` positions from `n * cell_width` on.  A position is a
            millisecond if the times are known, else the number of an event.
        chars: Size of its text, arguments or data, in characters.
        bytes: The same size in UTF-8 bytes.
        head: The first characters, at most `HEAD_CHARS`.
        problem: Defect of its arguments; empty if there is none.
        citations: Number of its citations.
        signature_chars: Size of its signature; None without one.
        issuer: Vendor that can verify the signature, or read the block.
        start_ms: Time of the `BlockStart` since the request; None if it is unknown.
        stop_ms: Time of the `BlockStop`; None if it is unknown, or there is none.
        deltas: Number of deltas that brought some of the content.
        cuts: Bit set of the characters of `head` with which a delta of arguments begins.
    """

    kind: str
    name: str
    id: str
    choice: int
    start: int
    stop: int | None = None
    busy: int = 0
    chars: int = 0
    bytes: int = 0
    head: str = ""
    problem: str = ""
    citations: int = 0
    signature_chars: int | None = None
    issuer: str | None = None
    start_ms: int | None = None
    stop_ms: int | None = None
    deltas: int = 0
    cuts: int = 0

    def add(self, text: str) -> None:
        """Count the text of a delta; store the part that is among the block's first characters."""
        self.deltas += bool(text)
        self.add_content(text)

    def add_content(self, text: str) -> None:
        """Count content; store the part that is among the block's first characters."""
        self.chars += len(text)
        self.bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if len(self.head) < HEAD_CHARS:
            self.head += text[: HEAD_CHARS - len(self.head)]


class StreamSummary:
    """A summary of a stream of events.

    It stores only the first characters of each block, and the arguments of open calls until
    they are checked.

    Args:
        limits: `max_held_bytes` bounds the stored arguments, in characters.

    Attributes:
        events: Number of events.
        now_ms: Time of the next events since the request; None if the times are unknown.
        cell_width: Number of positions that a bit of `Track.busy` stands for.
        start: The `MessageStart`; an empty one until it arrives.
        usage: The last usage snapshot.
        tracks: The blocks, in order of their start.
        stops: The `MessageStop` of each choice.
    """

    def __init__(self, *, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self.events = 0
        self.now_ms: int | None = None
        self.cell_width = 1
        self.start = MessageStart()
        self.usage = Usage()
        self.tracks: list[Track] = []
        self.stops: list[MessageStop] = []
        self._parts: dict[int, int] = {}  # the last part of each reasoning block
        self._arguments: dict[int, TextBuffer] = {}  # the arguments of each open call
        self._unused_chars = limits.max_held_bytes

    def extend(self, events: Iterable[Event]) -> None:
        """Add the next events of a stream that follows the event grammar."""
        for event in events:
            self._add(event)
            index: int | None = getattr(event, "index", None)
            if index is not None:
                self._mark(self.tracks[index])
            self.events += 1

    def close(self) -> None:
        """Check the arguments of the calls that are still open."""
        for index in list(self._arguments):
            self._check(index)

    def _add(self, event: Event) -> None:
        match event:
            case TextDelta(index, text) | RefusalDelta(index, text):
                self.tracks[index].add(text)
            case JSONDelta(index, text):
                track = self.tracks[index]
                if text and track.chars < HEAD_CHARS:
                    track.cuts |= 1 << track.chars
                track.add(text)
                self._add_arguments(index, text)
            case ReasoningDelta(index, text, part):
                # Parts are joined as for a target without parts.
                joint = "" if self._parts.setdefault(index, part) == part else "\n\n"
                self._parts[index] = part
                self.tracks[index].add(joint + text)
            case BlockStart():
                self._open(event)
            case BlockStop(index):
                track = self.tracks[index]
                track.stop, track.stop_ms = self.events, self.now_ms
                self._check(index)
            case SignatureDelta(index, signature, issuer):
                track = self.tracks[index]
                track.signature_chars, track.issuer = len(signature), issuer
            case CitationDelta(index):
                self.tracks[index].citations += 1
            case MessageStart():
                self.start = event
            case UsageUpdate(usage):
                self.usage = usage
            case MessageStop():
                self.stops.append(event)
            case _:
                pass

    def _open(self, event: BlockStart) -> None:
        block = event.block
        kind, name, id, content = _describe(block)
        track = Track(kind, name, id, event.choice, self.events, start_ms=self.now_ms)
        track.add_content(content)
        match block:
            case RedactedReasoning(issuer=issuer):
                track.issuer = issuer
            case ToolCall(kind="function") | ServerToolCall():
                self._arguments[event.index] = TextBuffer()
            case _:
                pass
        self.tracks.append(track)

    def _add_arguments(self, index: int, text: str) -> None:
        buffer = self._arguments.get(index)
        if buffer is None:
            return
        if len(text) > self._unused_chars:
            self.tracks[index].problem = "too long to be checked"
            self._unused_chars += buffer.size
            del self._arguments[index]
            return
        self._unused_chars -= len(text)
        buffer.append(text)

    def _check(self, index: int) -> None:
        """Check that the arguments of a complete call are a JSON object."""
        buffer = self._arguments.pop(index, None)
        if buffer is None or not buffer.size:  # no arguments mean `{}`
            return
        self._unused_chars += buffer.size
        try:
            _JSON_OBJECT.decode(buffer.text())
        except FAST_ERRORS:
            self.tracks[index].problem = "no valid JSON object"

    def _mark(self, track: Track) -> None:
        position = self.events if self.now_ms is None else self.now_ms
        while position // self.cell_width >= _CELLS:
            self.cell_width *= 2
            for each in self.tracks:
                each.busy = _halve(each.busy)
        track.busy |= 1 << position // self.cell_width


def _halve(bits: int) -> int:
    """Return a bit set with each pair of adjacent bits merged into one."""
    return int(f"{bits | bits >> 1:0{_CELLS}b}"[1::2], 2)


def _describe(block: Block) -> tuple[str, str, str, str]:
    """Return a block's kind, name, id and the content that it starts with."""
    match block:
        case Text() | Reasoning() | Refusal():
            return type(block).__name__.lower(), "", "", ""
        case ToolCall(id, name, kind=kind):
            return "tool call" if kind == "function" else "custom tool call", name, id, ""
        case ServerToolCall(id, name):
            return "server tool call", name, id, ""
        case ServerToolResult(id, name, content):
            return "server tool result", name, id, compact(content)
        case RedactedReasoning(data):
            return "redacted reasoning", "", "", data
        case OpaqueBlock(_, name, data):
            return "opaque", name, "", data
        case Image(media_type, data, url) | Document(media_type, data, url):
            return type(block).__name__.lower(), media_type or "", "", data or url or ""
        case result:
            return "tool result", "", result.tool_call_id, compact(result.content)
