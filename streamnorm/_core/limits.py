"""Bounds on the memory that a peer can consume, and counters of consumed bytes."""

from __future__ import annotations

import sys

from msgspec import Struct

from streamnorm._core.errors import LimitExceeded

OBJECT_BYTES = 200
"""Memory counted for a stored event or entry besides its text.

Without it a peer could store twenty times a bound in objects of a few bytes.
"""
PART_BYTES = 400
"""Memory counted for each part of reasoning after the first, besides its text."""
USUAL_FIELDS_BYTES = 1000
"""Memory of the usual fields of a block or item, which is not counted: blocks have a bound."""
_CONTAINER_BYTES = 64  # memory of an empty dictionary or list
_ITEM_BYTES = 50  # memory of a number, or of a string besides its text
_NUMBERS = (int, bool, float)


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one stream; exceeding a bound ends the stream with `StreamError("too_large")`.

    Attributes:
        max_event_bytes: Bytes of one SSE event, comments included, up to its blank line.
        max_json_depth: Nesting of stored JSON values (unknown fields, usage, logprobs).
        max_json_values: Values in the JSON text of a body; an object counts as three.
        max_blocks: Blocks of one stream, all choices together.
        max_tool_calls: Tool calls of one stream, all choices together.
        max_choices: Choices (`n`) of one stream.
        max_id_chars: Characters of a message id, model name, tool id or tool name.
        max_held_bytes: UTF-8 bytes of text and JSON held for an earlier block.
        max_accumulated_bytes: Bytes of one message that decoder, encoder or accumulator stores.
        max_error_body_bytes: Bytes read of a body that is no stream.
        max_recording_bytes: Bytes of a recording's body that are loaded or stored.
        max_companion_bytes: Bytes of another file of a recording.
    """

    # openai-python's own suite demands that an event above 64 MiB passes.
    max_event_bytes: int = 128 * 1024 * 1024
    # Beyond, `msgspec` and the standard library raise RecursionError, sooner in a deep call stack.
    max_json_depth: int = 128
    # A request of small values takes forty times the bytes of its JSON text.
    max_json_values: int = 4_000_000
    max_blocks: int = 4096
    max_tool_calls: int = 1024
    max_choices: int = 128
    max_id_chars: int = 512
    max_held_bytes: int = 64 * 1024 * 1024
    max_accumulated_bytes: int = 256 * 1024 * 1024
    # An error object has a few hundred bytes, the page of a proxy some thousands.
    max_error_body_bytes: int = 64 * 1024
    max_recording_bytes: int = 1024 * 1024 * 1024
    max_companion_bytes: int = 256 * 1024 * 1024


NEAR_BYTES = 1024 * 1024
"""Bytes below which a bound is near: more than the batches of a stream's open texts hold."""


class StoredBytes:
    """Counter of the bytes that a decoder, encoder or message stores, with their bound.

    A stream has one counter for its decoder, one for its encoder, and one for its message; each
    part stores the message at most a few times.

    Args:
        bound: `max_accumulated_bytes`.

    Attributes:
        bound: The bound.
        left: Bytes that may still be stored.  Text that is counted in batches can make it
            negative; the next piece is then refused.
    """

    # Set with every delta of some streams: no struct, whose fields take three times as long to set.
    __slots__ = ("bound", "left")

    def __init__(self, bound: int = Limits().max_accumulated_bytes) -> None:
        self.bound = self.left = bound

    @property
    def is_near(self) -> bool:
        """Whether the bound is near: each text is then counted as it arrives, not in a batch."""
        return self.left < NEAR_BYTES

    def reserve(self, size: int) -> bool:
        """Count bytes and return True; False, without counting, if they exceed the bound."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def add(self, size: int) -> None:
        """Count bytes; raise `LimitExceeded` if they exceed the bound.

        Raises:
            LimitExceeded: The bytes exceed the bound.
        """
        if not self.reserve(size):
            name = "max_accumulated_bytes"
            raise LimitExceeded(f"{name} of {self.bound} passed", limit=name)

    def release(self, size: int) -> None:
        """Subtract bytes that are no longer stored."""
        self.left += size

    def lift(self) -> None:
        """Remove the bound, so that the error of a failed stream can be written."""
        self.left = sys.maxsize


def text_bytes(text: str) -> int:
    """Return the size of text in UTF-8; a lone surrogate counts three bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def value_bytes(value: object) -> int:
    """Return the approximate memory of a decoded JSON value."""
    if value is None or type(value) in _NUMBERS:
        return _ITEM_BYTES
    if type(value) is str:
        return _ITEM_BYTES + text_bytes(value)
    size, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            size += _ITEM_BYTES + text_bytes(item)
        elif isinstance(item, dict):
            size += _CONTAINER_BYTES
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, list):
            size += _CONTAINER_BYTES
            pending += item
        else:
            size += _ITEM_BYTES
    return size
