"""Comparison of two streams: their events, or their messages if the dialects differ.

Streams of one dialect are compared by their events.  Dialects cut and order their events otherwise:
of two of them, the messages are compared, as the events of complete blocks.

Time and memory are linear in the events: after a difference, the next equal events are searched
within a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeGuard

import msgspec
from msgspec import Struct, structs

from streamnorm._core.blocks import Block, ServerToolCall, ToolCall
from streamnorm._core.events import (
    USAGE_COUNTS,
    BlockStart,
    Event,
    MessageStart,
    MessageStop,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.json import InvalidJSON, compact, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.messages import Accumulator, Message
from streamnorm._core.text import common_prefix_size
from streamnorm.inspect.report import TimedEvent

MAX_DIFFERENCES = 1000
"""Differences that are stored; further ones are counted."""

_WINDOW = 64
_MAX_FIELDS = 32
_EXCERPT_CHARS = 60
_CHARS_BEFORE = 10


class Place(Struct, frozen=True, omit_defaults=True):
    """Position of an event in one of the streams.

    Attributes:
        number: Number of the event, from 0.
        frame: Number of its frame, from 0; None where messages are compared.
    """

    number: int
    frame: int | None = None


class FieldDifference(Struct, frozen=True):
    """A field that differs between two events.

    Attributes:
        path: Path of the field in the event.
        a: Its value in the first stream as JSON, from shortly before the difference on; None if
            the field is missing.
        b: Its value in the second stream.
    """

    path: str
    a: str | None
    b: str | None


class Difference(Struct, frozen=True, omit_defaults=True):
    """A pair of different events, or an event that only one stream has.

    Attributes:
        event: Type of the event.
        block: Index of its block; None if it belongs to none.
        a: The event of the first stream; None if only the second has it.
        b: The event of the second stream; None if only the first has it.
        fields: The fields in which they differ.
    """

    event: str
    block: int | None = None
    a: Place | None = None
    b: Place | None = None
    fields: tuple[FieldDifference, ...] = ()


class Comparison(Struct, kw_only=True):
    """Result of comparing two streams: counts and differences.

    Attributes:
        compared: What was compared: events, or messages of two dialects.
        equal: Number of events that are equal.
        changed: Number of events that differ in some fields.
        only_a: Number of events that only the first stream has.
        only_b: Number of events that only the second stream has.
        differences: The differences, in order of the events; at most `MAX_DIFFERENCES`.
    """

    compared: Literal["events", "messages"]
    equal: int = 0
    changed: int = 0
    only_a: int = 0
    only_b: int = 0
    differences: list[Difference] = []

    @property
    def differs(self) -> bool:
        """Whether the streams differ."""
        return bool(self.changed or self.only_a or self.only_b)


def compare(a: Sequence[TimedEvent], b: Sequence[TimedEvent], *, same_dialect: bool) -> Comparison:
    """Compare two streams, and return their differences.

    Args:
        a: The events of the first stream.
        b: The events of the second stream.
        same_dialect: Whether both are of one dialect.

    Raises:
        LimitExceeded: A message of one of two dialects is too large to be accumulated.
    """
    if not same_dialect:
        a, b = _message_events(a), _message_events(b)
    found = Comparison(compared="events" if same_dialect else "messages")
    for one, other in _align([each.event for each in a], [each.event for each in b]):
        first = None if one is None else a[one]
        second = None if other is None else b[other]
        if first is not None and second is not None and _are_equal(first.event, second.event):
            found.equal += 1
            continue
        if second is None:
            found.only_a += 1
        elif first is None:
            found.only_b += 1
        else:
            found.changed += 1
        if len(found.differences) < MAX_DIFFERENCES:
            found.differences.append(_describe(first, second, has_frames=same_dialect))
    return found


# Alignment


def _align(a: list[Event], b: list[Event]) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of positions of corresponding events; None for an event that one stream lacks."""
    # Fields of vendors are dictionaries, which have no hash.
    keys_a, keys_b = ([hash(repr(event)) for event in events] for events in (a, b))
    i = j = 0
    while i < len(a) and j < len(b):
        if keys_a[i] == keys_b[j]:
            yield i, j
            i, j = i + 1, j + 1
            continue
        skip_a, skip_b = _find_next_equal(keys_a[i : i + _WINDOW], keys_b[j : j + _WINDOW])
        yield from _pair(a, range(i, i + skip_a), b, range(j, j + skip_b))
        i, j = i + skip_a, j + skip_b
    yield from ((at, None) for at in range(i, len(a)))
    yield from ((None, at) for at in range(j, len(b)))


def _find_next_equal(a: list[int], b: list[int]) -> tuple[int, int]:
    """Return the offsets in `a` and `b` of the nearest equal keys; both lengths if none."""
    first_in_b = {key: at for at, key in reversed(list(enumerate(b)))}
    found = [
        (at + first_in_b[key], at, first_in_b[key]) for at, key in enumerate(a) if key in first_in_b
    ]
    if not found:
        return len(a), len(b)
    _, skip_a, skip_b = min(found)
    return skip_a, skip_b


def _pair(
    a: list[Event], of_a: range, b: list[Event], of_b: range
) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of positions of events with equal type and block; None for a missing partner."""
    i, j = of_a.start, of_b.start
    while i < of_a.stop and j < of_b.stop:
        if _slot(a[i]) == _slot(b[j]):
            yield i, j
            i, j = i + 1, j + 1
        elif of_a.stop - i >= of_b.stop - j:
            yield i, None
            i += 1
        else:
            yield None, j
            j += 1
    yield from ((at, None) for at in range(i, of_a.stop))
    yield from ((None, at) for at in range(j, of_b.stop))


def _slot(event: Event) -> tuple[type, int | None]:
    return type(event), getattr(event, "index", None)


# Fields


def _describe(a: TimedEvent | None, b: TimedEvent | None, *, has_frames: bool) -> Difference:
    fields: tuple[FieldDifference, ...] = ()
    if a is not None and b is not None:
        fields = tuple(_compare_fields(msgspec.to_builtins(a.event), msgspec.to_builtins(b.event)))
    places = [
        None if each is None else Place(each.number, each.frame if has_frames else None)
        for each in (a, b)
    ]
    event = next(each.event for each in (a, b) if each is not None)
    name = str(event.__struct_config__.tag)
    return Difference(name, getattr(event, "index", None), places[0], places[1], fields)


def _compare_fields(a: Any, b: Any) -> Iterator[FieldDifference]:
    """Yield the fields that differ between two values, at most `_MAX_FIELDS`."""
    waiting: list[tuple[str, Any, Any]] = [("", a, b)]
    count = 0
    while waiting and count < _MAX_FIELDS:
        path, a, b = waiting.pop()
        if is_object(a) and is_object(b):
            names = dict.fromkeys([*a, *b])
            below = [(name, a.get(name, _MISSING), b.get(name, _MISSING)) for name in names]
            paths = [(f"{path}.{name}" if path else name, x, y) for name, x, y in below]
        elif _is_array(a) and _is_array(b):
            longest = range(max(len(a), len(b)))
            paths = [(f"{path}[{at}]", _item(a, at), _item(b, at)) for at in longest]
        else:
            count += 1
            yield FieldDifference(path, *_excerpts(a, b))
            continue
        waiting += reversed([pair for pair in paths if _may_differ(*pair[1:])])


_MISSING = object()


def _are_equal(a: Event, b: Event) -> bool:
    """Return whether two events are equal as JSON, in which true and 1 differ."""
    if a != b:
        return False
    # Most events have the same text, too, which is faster to compare than their values.
    return repr(a) == repr(b) or not any(
        _compare_fields(msgspec.to_builtins(a), msgspec.to_builtins(b))
    )


def _may_differ(a: Any, b: Any) -> bool:
    """Return whether two values may differ in JSON; true for all objects and arrays."""
    return a != b or is_object(a) or _is_array(a) or isinstance(a, bool) != isinstance(b, bool)


def _is_array(value: Any) -> TypeGuard[Sequence[Any]]:
    # Tuples of structs are left as they are in their builtins.
    return isinstance(value, (list, tuple))


def _item(values: Sequence[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _excerpts(a: Any, b: Any) -> tuple[str | None, str | None]:
    """Return two different values as JSON, long strings cut around their first difference."""
    start = 0
    if isinstance(a, str) and isinstance(b, str):
        start = max(0, common_prefix_size(a, b) - _CHARS_BEFORE)
    return _excerpt(a, start), _excerpt(b, start)


def _excerpt(value: Any, start: int) -> str | None:
    if value is _MISSING:
        return None
    if isinstance(value, str):
        part = value[start : start + _EXCERPT_CHARS]
        before, after = "…" * (start > 0), "…" * (start + _EXCERPT_CHARS < len(value))
        return f"{before}{compact(part)}{after}"
    text = compact(value)
    return text if len(text) <= _EXCERPT_CHARS else f"{text[:_EXCERPT_CHARS]}…"


# Messages


def _message_events(events: Sequence[TimedEvent]) -> list[TimedEvent]:
    """Return a message as events with complete blocks, without dialect-specific fields."""
    accumulator = Accumulator()
    accumulator.take([each.event for each in events])
    message = accumulator.message()
    listed: list[Event] = [MessageStart(message.id, message.model)]
    listed += [BlockStart(n, _normalize(block)) for n, block in enumerate(message.blocks)]
    # Some dialects have to name each count, and write 0 for one that is unknown.
    counts = {name: getattr(message.usage, name) or None for name in USAGE_COUNTS}
    listed.append(UsageUpdate(Usage(**counts)))
    listed.append(_end_of(message, events))
    return [TimedEvent(number, 0, None, event) for number, event in enumerate(listed)]


def _end_of(message: Message, events: Sequence[TimedEvent]) -> Event:
    last = events[-1].event if events else None
    if isinstance(last, StreamError):
        return StreamError(last.kind, last.message)
    return MessageStop(message.stop_reason or "other", stop_sequence=message.stop_sequence)


def _normalize(block: Block) -> Block:
    """Return a block with its arguments in canonical JSON; unchanged if they are no JSON."""
    match block:
        case ToolCall(arguments=text) | ServerToolCall(arguments=text):
            try:
                value = decode_any(text, max_depth=Limits().max_json_depth)
            except InvalidJSON:
                return block
            return structs.replace(block, arguments=compact(value))
        case _:
            return block
