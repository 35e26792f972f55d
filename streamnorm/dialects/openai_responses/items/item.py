"""Base class of output items; their block opener, and progress of their texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, TypeVar
from zlib import crc32

from msgspec import Struct

from streamnorm._core.blocks import Block, Refusal, ServerToolResult, ToolCall
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal, malformed, too_large
from streamnorm._core.json import rejoin, string_of
from streamnorm._core.limits import (
    USUAL_FIELDS_BYTES,
    Limits,
    StoredBytes,
    value_bytes,
)
from streamnorm._core.text import FreshTexts, TextBuffer

T = TypeVar("T")

_HEAD = ("id", "type", "status")


class Item(ABC):
    """An output item and its blocks.

    Args:
        initial: The item as first received.
        opener: Opens the blocks of the response.

    Attributes:
        type: The type.
        name: The name; empty if it has none.
        call_id: The `call_id`; empty if it has none.
        id: The first `id`, else its `call_id`; empty without both.
        output_index: Position in the output; None if no event stated it.
        is_done: Whether the complete item was received.
        index: Index of its latest block; -1 before the first.
    """

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        self.type = string_of(initial, "type")
        self.name = string_of(initial, "name")
        self.call_id = string_of(initial, "call_id")
        self.id = string_of(initial, "id") or self.call_id
        self.output_index: int | None = None
        self.is_done = False
        self.index = -1
        self._initial = initial
        self._opener = opener
        self._initial_bytes = 0  # counted as stored

    @property
    def can_grow(self) -> bool:
        """Whether a delta may extend the item."""
        return not self.is_done

    @property
    def has_content(self) -> bool:
        """Whether content has arrived after the start; False for item types that arrive whole."""
        return False

    @property
    def is_answer(self) -> bool:
        """Whether the item is part of the answer, which the terminal event must repeat."""
        return False

    def start(self, events: list[Event]) -> None:  # noqa: B027 - most kinds wait for content
        """Append the block start if `initial` holds enough for it."""

    @abstractmethod
    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append the complete item's content that no event carried; stop the item's blocks.

        Raises:
            Fatal: The complete item contradicts the events.
        """

    def compare(self, item: dict[str, Any]) -> None:  # noqa: B027 - few kinds compare
        """Check that a complete item that is sent again agrees with the received content.

        Raises:
            Fatal: They contradict each other.
        """

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the blocks of an item that was never completed."""
        self.complete(self._initial, events)

    def store_initial(self) -> None:
        """Count the initial item as stored until the item is complete.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._initial_bytes = max(value_bytes(self._initial) - USUAL_FIELDS_BYTES, 0)
        self._opener.count_stored(self._initial_bytes)

    def mark_done(self) -> None:
        """Mark the item complete and release its initial data."""
        self.is_done = True
        self._opener.stored.release(self._initial_bytes)
        self._initial, self._initial_bytes = {}, 0


def id_of(item: dict[str, Any]) -> str:
    """Return the `id` of an item; if it is missing, the `call_id`."""
    return string_of(item, "id") or string_of(item, "call_id")


def extra_fields(item: dict[str, Any], *mapped: str) -> dict[str, Any]:
    """Return the fields of an item that are not `mapped`, and its id as `item_id`."""
    extra = {
        key: value
        for key, value in item.items()
        if key not in _HEAD and key not in mapped and value is not None
    }
    id = string_of(item, "id")
    return {"item_id": id, **extra} if id else extra


def part_position(part_index: int | None, parts: Collection[int]) -> int:
    """Return the index of the part that an event is about, inferred if the event has no index.

    Args:
        part_index: Index in the event; None without one.
        parts: Indexes of the parts that the event may belong to.

    Raises:
        Fatal: The event has no index, and there are several parts.
    """
    if part_index is not None:
        return part_index
    if len(parts) > 1:
        raise malformed(f"event without an index in an item of {len(parts)} parts, expected one")
    return next(iter(parts), 0)


def align_parts(received: dict[int, T], positions: list[int]) -> dict[int, T]:
    """Return the received parts, keyed by the position in the complete item.

    vLLM numbers the only part of a message 1, so equal counts are matched in order.

    Args:
        received: Parts by the index in their events.
        positions: Positions of parts of the same kind in the complete item.
    """
    if len(received) != len(positions) or [*received] == positions:
        return received
    return dict(zip(positions, [received[index] for index in sorted(received)], strict=True))


# A reasoning block stores a key for each summary, a message with one part stores two.
_KEYS_PER_BLOCK = 16


class ResponseBlockOpener:
    """Block opener of one response, which enforces the limits.

    Args:
        limits: Bounds.
        note: Records a `Note` of a kind and a location.
        server: Name of the server, which may determine the issuer of encrypted reasoning.

    Attributes:
        has_refusal: Whether a refusal was opened.
    """

    def __init__(
        self, limits: Limits, note: Callable[[str, str], None], server: str | None = None
    ) -> None:
        self.has_refusal = False
        self.note = note
        self.server = server
        self._limits = limits
        self._opener = BlockOpener(limits, note)
        self._keys = 0
        self._call_ids: dict[str, None] = {}
        self._awaited: set[str] = set()  # ids of calls without a result

    def begin_response(self, id: str) -> None:
        """Set the response's id, from which ids of calls without an id are derived."""
        self._opener.seed = (id,)

    @property
    def has_tool_call(self) -> bool:
        """Whether a call was opened that the client is to execute: one without a result."""
        return bool(self._awaited)

    def open(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block; return its index.

        Raises:
            Fatal: The block is a tool call with the id of an earlier call.
        """
        if isinstance(block, ToolCall):
            self._awaited.add(block.id)
            if block.id in self._call_ids:  # the client could not tell their results apart
                raise Fatal(StreamError("malformed", "second call with one id, expected another"))
            if block.id:
                self._call_ids[block.id] = None
        elif isinstance(block, ServerToolResult):  # of a call that the server has executed itself
            self._awaited.discard(block.tool_call_id)
        self.has_refusal = self.has_refusal or isinstance(block, Refusal)
        return self._opener.open(block, events, extra=extra)

    def count_stored(self, size: int = 0) -> None:
        """Count a stored item, part or key with `size` bytes of text.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._keys += 1
        self._opener.store(size)
        if self._keys > _KEYS_PER_BLOCK * self._limits.max_blocks:
            raise too_large("max_blocks", self._limits.max_blocks)

    @property
    def stored(self) -> StoredBytes:
        """Counter of the bytes that the decoder stores."""
        return self._opener.stored

    def store_text(self, text: str) -> int:
        """Count stored text; return its size in UTF-8 bytes.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        return self._opener.store_text(text)

    def store_usage(self, extra: dict[str, Any] | None) -> None:
        """Count the unknown fields of the last usage object in place of an earlier object's.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._opener.store_usage(extra)


class TextProgress:
    """Length and checksum of a partially received text.

    Attributes:
        high_surrogate: First half of a surrogate pair, if the text ends in one.
        uncounted: Deltas that the delta run has appended since the last `count`; none
            holds half a surrogate pair.
    """

    __slots__ = ("_crc", "_length", "high_surrogate", "uncounted")

    def __init__(self) -> None:
        self.high_surrogate = ""
        self.uncounted: list[str] = []
        self._length = 0  # characters
        self._crc = 0  # of the text in UTF-8, so that the text need not be stored

    @property
    def fresh(self) -> list[str] | None:
        """List to which the delta run may append short deltas; None near the limit of storage."""
        return self.uncounted

    @property
    def length(self) -> int:
        """Number of characters received."""
        self.count()
        return self._length

    def add(self, delta: str) -> str:
        """Add a delta; return its text, with half a surrogate pair at the end held back."""
        self.count()
        if self.high_surrogate:
            delta, self.high_surrogate = rejoin(self.high_surrogate, delta)
        try:
            data = delta.encode()
        except UnicodeEncodeError:
            delta, self.high_surrogate = rejoin("", delta)
            data = delta.encode()
        self._append(delta, data)
        return delta

    def take_fresh(self) -> None:  # of `uncounted` there is nothing to do
        """Count the deltas in `fresh` as received, before another delta is added."""

    def count(self) -> None:
        """Update length and checksum with the deltas that the delta run has appended."""
        if self.uncounted:
            text = "".join(self.uncounted)
            self.uncounted.clear()
            self._append(text, text.encode())

    def add_missing_tail(self, complete_text: str) -> str | None:
        """Add and return the rest of `complete_text`; None if the deltas contradict this text."""
        length = self.length
        if len(complete_text) < length or crc32(complete_text[:length].encode()) != self._crc:
            return None
        tail = complete_text[length:]
        if self.high_surrogate:
            half, _ = rejoin("", self.high_surrogate + "\udc00")
            if not tail or (tail[0] != "\ufffd" and ord(tail[0]) >> 10 != ord(half) >> 10):
                return None
            self.high_surrogate = ""
        return self.add(tail)

    def holds(self, complete_text: str) -> bool:
        """Return whether the received text equals `complete_text`."""
        if self.high_surrogate or len(complete_text) != self.length:
            return False
        # A delta may be half a surrogate pair, which no text holds.
        return crc32(complete_text.encode("utf-8", "surrogatepass")) == self._crc

    def flush(self) -> str:
        """Return U+FFFD for half a surrogate pair that was held back; "" if nothing is held."""
        if not self.high_surrogate:
            return ""
        self.high_surrogate = ""
        return self.add("\ufffd")

    def _append(self, text: str, data: bytes) -> None:
        self._length += len(text)
        self._crc = crc32(data, self._crc)


class StoredText(TextProgress):
    """A partially received text that is stored, besides its length and checksum.

    The delta run counts the bytes of what it adds to `uncounted`; those of `fresh` are counted
    together.

    Args:
        store: Counts stored text; raises `Fatal` beyond the limit.
        counter: Counter of what the decoder stores.
    """

    __slots__ = ("_fresh", "_store", "_stored")

    def __init__(self, store: Callable[[str], object], counter: StoredBytes) -> None:
        super().__init__()
        self._store = store
        self._stored = TextBuffer()
        self._fresh = FreshTexts(counter)

    @property
    def fresh(self) -> list[str] | None:
        return self._fresh.open

    def take_fresh(self) -> None:
        if self._fresh.texts:
            self.uncounted.append(self._fresh.take())

    def count(self) -> None:
        self.take_fresh()
        super().count()

    def add(self, delta: str) -> str:
        self.take_fresh()
        self._store(delta)
        return super().add(delta)

    @property
    def text(self) -> str:
        """The text received so far."""
        self.count()
        return self._stored.text()

    def _append(self, text: str, data: bytes) -> None:
        super()._append(text, data)
        self._stored.append(text)


class OpenText(Struct, frozen=True):
    """A text that deltas may extend on the fast path, with the indexes in these deltas.

    Attributes:
        delta: A unified delta of the block and part.
        progress: Length and checksum of the text so far.
        output_index: `output_index` of the deltas.
        part: `content_index` or `summary_index` of the deltas.
        stored: Counter of what the decoder stores, if the text is stored.
    """

    delta: Delta
    progress: TextProgress
    output_index: int | None
    part: int | None
    stored: StoredBytes | None = None
