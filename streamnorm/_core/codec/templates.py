"""Templates: the bytes that a stream's deltas have in common, to read and write deltas fast.

Nearly every delta of a block equals the one before but for its text, and random padding where the
server adds some.  A room may learn a `Template` from an event that it has decoded: of later events
the fixed bytes are compared, and the string between them is decoded, in a third of the time.  Only
bytes that the room has accepted are compared; what stands between them is always decoded.

The kernel in C does both where it is compiled, at another third of the cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from streamnorm._core.codec import kernel
from streamnorm._core.codec.kernel import MAX_DIGITS
from streamnorm._core.events import Delta
from streamnorm._core.grammar import HeldTexts
from streamnorm._core.json import FAST_ERRORS, dumps
from streamnorm._core.text import BATCH, LONG_CHARS, MAX_FRESH, TextBuffer

if TYPE_CHECKING:
    from streamnorm._core.codec import _kernel
    from streamnorm._core.codec.delta_run import DeltaRun, Forward
    from streamnorm._core.codec.framing import AnySplitter

# Perplexity's chunks grow with the text: comparing them would take quadratic time.
_MAX_PAYLOAD_BYTES = 4096
_PROBE = "?"
# Visible characters that stand for themselves in a string of JSON.
_PADDING_CHARACTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_CHARACTERS = bytes({*range(0x21, 0x7F)} - {*b'"\\'})
_MAX_HEADS = 16  # each is compared with a payload that none fits
PROBED_COUNTS = (7, 11)
"""Token counts with which `learn_template` tries a template."""
_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_decode_string = _STRING.decode
_encode_string = msgspec.json.encode

ReadText: TypeAlias = Callable[[bytes], str | None]
"""Returns the text of some bytes; None if they are read in another way."""

Extend: TypeAlias = Callable[[str], bool]
"""Extends a block by a text; False, and nothing changes, if the text may do more than that."""

BlockSinks: TypeAlias = tuple["Delta | None", Extend | None, list[str] | None, bool]
"""Delta of a block, its function and its list of texts, and whether that takes inner ones alone."""

Digits: TypeAlias = tuple[bytes, bytes, bytes]
"""Digits of two token counts, around the bytes between them."""


class CountPair(Struct, frozen=True):
    """Position of two token counts in a payload, whose values may differ in the next payload.

    Attributes:
        start: Offset of the first count in the payload.
        end: Offset after the second.
        between: Bytes between them.
    """

    start: int
    end: int
    between: bytes


class Template(Struct, frozen=True):
    """The fixed bytes of delta payloads, around their text and their random padding.

    Attributes:
        head: Bytes before the text, its opening quote included.
        middle: Bytes between the text and the padding, or between the text and its repetition,
            with the quotes around both; empty if there is neither.
        tail: Bytes after the text, its repetition or the padding, from the closing quote on.
        repeats: Whether the text stands in the payload twice.
        spaced: Whether the padding is spaces, not letters.
        counts: The token counts that stand in place of the padding; None if there are none.
        end: Bytes after the number or the id of the event, which stands behind the tail; empty if
            the events have neither there.
    """

    head: bytes
    middle: bytes
    tail: bytes
    repeats: bool = False
    spaced: bool = False
    counts: CountPair | None = None
    end: bytes = b""

    def cut_number(self, number: tuple[int, int]) -> Template | None:
        """Return the template without the event's number; None if that stands before the text.

        Args:
            number: Offsets of the number, or of the id, from the end of the payload, below zero.
        """
        start, end = number
        if -start >= len(self.tail):
            return None
        return replace(self, tail=self.tail[:start], end=self.tail[end:])


class Templates:
    """Templates of open blocks; the templates differ only in the bytes before the text.

    The deltas of parallel calls do: the index of the call stands before the arguments.

    Args:
        takes_fresh: Whether `extend("")` has a block take the texts in its list.  It does before
            the list is forgotten, so that few lists have texts that nobody has counted.

    Attributes:
        last: The template that was added last; None if there is none.
    """

    def __init__(self, *, takes_fresh: bool = False) -> None:
        self.last: Template | None = None
        self._takes_fresh = takes_fresh
        # Deltas, functions, lists of texts and their kind by the head of their template.
        self._known: dict[bytes, BlockSinks] = {}

    def add(
        self,
        template: Template,
        delta: Delta | None,
        extend: Extend | None,
        fresh: list[str] | None = None,
        *,
        takes_inner: bool = False,
    ) -> None:
        """Add a template; forget templates that differ from it outside the bytes before the text.

        Args:
            template: The template.
            delta: Delta of the block; None if that of the run is right, and no counts differ.
            extend: Extends the block; None if nothing is stored of its texts.
            fresh: Takes up to `MAX_FRESH` short texts in place of `extend`; None if it needs all.
            takes_inner: Whether `fresh` takes inner fragments alone, as of `is_inner`.
        """
        last = self.last
        if (
            last is None
            or replace(template, head=last.head) != last
            or len(last.head) != len(template.head)
            or len(self._known) >= _MAX_HEADS
        ):
            self.clear()
        self.last = template
        self._known[template.head] = delta, extend, fresh, takes_inner

    def clear(self) -> None:
        """Forget all templates."""
        self.last = None
        if self._takes_fresh:
            for _, extend, fresh, _ in self._known.values():
                if extend is not None and fresh:
                    extend("")
        self._known.clear()

    def text_reader(
        self, run: DeltaRun, before: bytes, behind: bytes, otherwise: ReadText
    ) -> ReadText:
        """Return a function that compares bytes with the templates, and returns a delta's text.

        Args:
            run: The run whose `delta` is set.
            before: Bytes before the payload.
            behind: Bytes after the payload.
            otherwise: Reads all other data, and deltas that do more than extend their block.

        Raises:
            ValueError: There is no template.
        """
        last = self._require_last()
        if (compiled := self._kernel_reader(run, before, last.end + behind, otherwise)) is not None:
            return compiled.read
        numbers = run.numbers if last.end else None
        ending = (last.end or last.tail) + behind
        head, middle, size = before + last.head, last.middle, len(ending)
        start = len(head)
        filling = b" " if last.spaced else _PADDING_CHARACTERS
        find_end = None
        if numbers is not None or last.repeats or last.counts is not None:
            find_end = _end_finder(last, start, numbers)
        known = {before + other: of for other, of in self._known.items()}
        delta, extend, fresh, takes_inner = known[head]
        counts: Digits | None = None

        def read(data: bytes) -> str | None:
            nonlocal head, delta, extend, fresh, takes_inner, counts
            if find_end is not None:
                if not data.endswith(ending):
                    return otherwise(data)
                at, counts = find_end(data[:-size])
            elif middle:
                beginning, _, rest = data.rpartition(middle)
                if rest.lstrip(filling) != ending:
                    return otherwise(data)
                at = len(beginning)
            elif data.endswith(ending):
                at = len(data) - size
            else:
                return otherwise(data)
            if (found := data[:start]) != head:
                if (sinks := known.get(found)) is None:
                    return otherwise(data)
                head, (delta, extend, fresh, takes_inner) = found, sinks
            try:
                text = _decode_string(data[start - 1 : at + 1])
            except FAST_ERRORS:
                return otherwise(data)
            if extend is not None:
                if (
                    fresh is not None
                    and len(fresh) < MAX_FRESH
                    and len(text) <= LONG_CHARS
                    and (not takes_inner or is_inner(text, fresh))
                ):
                    fresh.append(text)
                elif not extend(text):
                    return otherwise(data)
            if delta is not None:
                run.delta = delta
                if counts is not None:
                    run.counts_before, run.counts = run.counts, counts
            if numbers is not None:
                numbers.last_event = data
                if numbers.next is not None:
                    numbers.next += 1
            return text

        return read

    def event_readers(
        self, run: DeltaRun, event_end: bytes, otherwise: ReadText, leave: Forward
    ) -> tuple[ReadText, Forward] | None:
        """Return the kernel's functions that read one event, and events; None without it.

        Args:
            run: The run whose `delta` is set, and whose framing is `SSEDecoder`.
            event_end: Bytes after the payload of an event, which the event read alone lacks.
            otherwise: Reads an event that fits no template.
            leave: Forwards the events from the first on that fits no template.

        Raises:
            ValueError: There is no template.
        """
        end, framing = self._require_last().end, run.framing
        reader = self._kernel_reader(run, run.prefix, end, otherwise, event_end, framing, leave)
        return None if reader is None else (reader.read, reader.forward)

    def _kernel_reader(
        self,
        run: DeltaRun,
        before: bytes,
        end: bytes,
        otherwise: ReadText,
        event_end: bytes = b"",
        framing: AnySplitter | None = None,
        leave: Forward | None = None,
    ) -> _kernel.TemplateReader | None:
        if (make := kernel.TemplateReader) is None:
            return None
        last = self._require_last()
        numbers = run.numbers if last.end else None
        between = b"" if last.counts is None else last.counts.between
        return make(
            run,
            {before + head: sinks for head, sinks in self._known.items()},
            *(before, before + last.head, last.middle, last.tail, end, between, event_end),
            *(last.repeats, last.spaced, otherwise, framing, leave, numbers),
            numbers is not None and numbers.next is None,
        )

    def _require_last(self) -> Template:
        if self.last is None:
            raise ValueError("no template, expected one")
        return self.last


def _end_finder(
    template: Template, start: int, numbers: EventNumbers | None
) -> Callable[[bytes], tuple[int, Digits | None]]:
    """Return a function that finds where a text ends, and the token counts behind it.

    It returns -1 if the data, an event without the bytes at its end, do not fit.

    Args:
        template: A template with more than padding behind the text.
        start: Offset of the text.
        numbers: Numbers or ids of the events; None if they have none.
    """
    middle, skip, tail = template.middle, len(template.middle), template.tail
    between = b"" if template.counts is None else template.counts.between
    filling = b" " if template.spaced else _PADDING_CHARACTERS

    def find(data: bytes) -> tuple[int, Digits | None]:
        if numbers is not None:
            data, found, digits = data.rpartition(tail)
            if numbers.next is not None:
                if not found or digits != b"%d" % numbers.next:
                    return -1, None
            elif not digits or digits.strip(_ID_CHARACTERS) or not found:
                return -1, None
        if template.repeats:
            at = start + (len(data) - start - skip) // 2
            text_bytes = data[start:at]
            return (at if data[start:] == text_bytes + middle + text_bytes else -1), None
        if between:
            at = data.rfind(middle, start - 1)
            span = data[at + skip :]
            first, _, second = counts = span.partition(between)
            # No other number begins with 0 (RFC 8259, section 6).
            is_zero = first < b"1" or second < b"1"
            if is_zero or len(span) > len(between) + MAX_DIGITS or not (first + second).isdigit():
                return -1, None
            return at, counts
        if middle:
            data, found, rest = data.rpartition(middle)
            if not found or rest.strip(filling):
                return -1, None
        return len(data), None

    return find


def is_inner(text: str, before: list[str]) -> bool:
    """Return whether a fragment of JSON contains no `}`, and does not begin with `{`.

    Spaces at its beginning are skipped; spaces alone might stand before a brace, unless they follow
    inner fragments.

    Args:
        text: The fragment.
        before: The inner fragments right before it.
    """
    first = text.lstrip(" ")[:1]
    if not first:
        return bool(text and before)
    # In these ranges no character is white space.
    begins_inside = "!" <= first <= "~" or "\u00c0" <= first < "\u1000" or first >= "\u4000"
    return begins_inside and first != "{" and "}" not in text


def learn_template(
    payload: bytes,
    text: str,
    peek: ReadText,
    padding: re.Pattern[bytes],
    counts: CountPair | None = None,
) -> Template | None:
    """Return a template made from one payload; None if comparing bytes would be unsafe.

    Args:
        payload: A payload that was read.
        text: The text.
        peek: Returns the text of a payload that has no other effect, without reading it.
        padding: Finds padding after the text, as its first group: letters in a string, or spaces.
        counts: Token counts in place of padding, where `peek` expects `PROBED_COUNTS`.
    """
    literal = _encode_string(text)
    # A text that occurs more often may be the value of another field, such as `content` of
    # Perplexity's `message`; OpenRouter repeats the text of each reasoning detail.
    count = payload.count(literal)
    if len(payload) > _MAX_PAYLOAD_BYTES or not 1 <= count <= 2:
        return None
    head, _, rest = payload.partition(literal)
    middle, tail, filling = b"", rest, b""
    if count == 2:
        middle, _, tail = rest.partition(literal)
    elif counts is not None:
        middle, tail = rest[: counts.start - len(payload)], rest[counts.end - len(payload) :]
        filling = b"%d%b%d" % (PROBED_COUNTS[0], counts.between, PROBED_COUNTS[1])
    elif found := padding.search(rest):
        middle, tail = rest[: found.start(1)], rest[found.end(1) :]
    try:
        # With another string in its place that string is the text, and nothing else changes;
        # with an empty one no other field takes its place.
        for probe in (_PROBE, ""):
            other = _encode_string(probe)
            repeated = other if count == 2 else filling
            if peek(head + other + middle + repeated + tail) != probe:
                return None
    except FAST_ERRORS:
        return None
    if count == 2:
        return Template(head + b'"', b'"' + middle + b'"', b'"' + tail, repeats=True)
    if filling:
        return Template(head + b'"', b'"' + middle, tail, counts=counts)
    if middle:
        spaced = middle[-1:] != b'"'
        return Template(head + b'"', b'"' + middle, tail, spaced=spaced)
    return Template(head + b'"', b"", b'"' + tail)


class EventNumbers(Protocol):
    """Numbers or ids that a server gives its events.

    Attributes:
        next: Number of the next event if none is missing; None before the first, and if the events
            have ids, any of which may be next.
        last_event: The last event, or its payload.
    """

    next: int | None
    last_event: str | bytes


class Numbers(Protocol):
    """An object that numbers the events of a stream.

    Attributes:
        next_number: Number of the next event.
    """

    next_number: int


def delta_frames(
    head: bytes, tail: bytes, stored: TextBuffer | None = None
) -> Callable[[str], bytes]:
    """Return a function that encodes the text of a delta as a frame.

    Args:
        head: Bytes before the text, which is written as a string of JSON.
        tail: Bytes after it.
        stored: Takes each text first; None if nothing is stored of them.
    """
    if kernel.DeltaFrames is not None:
        return kernel.DeltaFrames(head, tail, stored).write
    if stored is None:
        return lambda text: head + dumps(text) + tail
    append = stored.append

    def write(text: str) -> bytes:
        append(text)
        return head + dumps(text) + tail

    return write


def held_texts_sink(held: HeldTexts) -> Callable[[str], None]:
    """Return a function that holds the texts of deltas, which are written later."""
    if kernel.DeltaFrames is not None:
        return kernel.DeltaFrames(b"", b"", held).write
    fresh, append = held

    def hold(text: str) -> None:
        if len(fresh) < BATCH - 1 and len(text) <= LONG_CHARS:
            fresh.append(text)
        else:
            append(text)

    return hold


def numbered_delta_frames(
    head: bytes, middle: bytes, tail: bytes, stored: TextBuffer, numbers: Numbers
) -> Callable[[str], bytes]:
    """Return a function that encodes the text of a delta as a frame with the event's number.

    Args:
        head: Bytes before the number.
        middle: Bytes between the number and the text, which is written as a string of JSON.
        tail: Bytes after the text.
        stored: Takes each text first.
        numbers: Has the number of the next event.
    """
    if kernel.DeltaFrames is not None:
        return kernel.DeltaFrames(head, tail, stored, numbers, middle).write
    append = stored.append

    def write(text: str) -> bytes:
        append(text)
        number = numbers.next_number
        numbers.next_number = number + 1
        return b"".join((head, dumps(number), middle, dumps(text), tail))

    return write


def counted_delta_frames(
    head: bytes, tail: bytes
) -> tuple[Callable[[str], bytes], Callable[[], int]]:
    """Return a function as `delta_frames` does, and a getter of the number of characters encoded.

    Args:
        head: Bytes before the text, which is written as a string of JSON.
        tail: Bytes after it.
    """
    if kernel.DeltaFrames is not None:
        frames = kernel.DeltaFrames(head, tail, None)
        return frames.write, frames.characters
    characters = 0

    def write(text: str) -> bytes:
        nonlocal characters
        characters += len(text)
        return head + dumps(text) + tail

    return write, lambda: characters
