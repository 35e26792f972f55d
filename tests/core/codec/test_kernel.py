"""The kernel in C beside its twins in Python: equal results, and equal effects."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.kernels import COMPILED, kernel_of

from streamnorm import StreamError, TextDelta
from streamnorm._core.codec import Delta, DeltaRun, kernel
from streamnorm._core.codec.delta_run import NO_SINKS, Sinks
from streamnorm._core.codec.templates import (
    CountPair,
    Template,
    Templates,
    counted_delta_frames,
    delta_frames,
    held_texts_sink,
    numbered_delta_frames,
)
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.grammar import HeldTexts
from streamnorm._core.json import FAST_ERRORS, dumps
from streamnorm._core.text import BATCH, FULL_LIST, LONG_CHARS, MAX_FRESH, TextBuffer
from streamnorm.sse import RawFrame, SSEDecoder

SOURCE = Path(kernel.__file__).with_name("kernel_source") / "_kernel.c"
needs_kernel = pytest.mark.skipif(COMPILED is None, reason="the kernel is not compiled here")

PADDED = Template(b'{"t":"', b'","p":"', b'"}')
SPACED = Template(b'{"t":"', b'"', b"}", spaced=True)
REPEATED = Template(b'{"t":"', b'","u":"', b'"}', repeats=True)
PLAIN = Template(b'{"t":"', b"", b'"}')
COUNTED = Template(b'{"t":"', b'","n":', b"}", counts=CountPair(9, 16, b',"m":'))
PAIR = b"\\ud83d\\ude00"
NUMBERED = Template(b'{"t":"', b"", b'","n":', end=b"}")
PADDED_NUMBERED = Template(b'{"t":"', b'","p":"', b'","n":', end=b"}")
IDENTIFIED = Template(b'{"t":"', b"", b'","n":"', end=b'"}')
PADDED_IDENTIFIED = Template(b'{"t":"', b'","p":"', b'","n":"', end=b'"}')
WITH_IDS = (IDENTIFIED, PADDED_IDENTIFIED)
TEMPLATES = (*WITH_IDS, PLAIN, PADDED, SPACED, REPEATED, COUNTED, NUMBERED, PADDED_NUMBERED)


class Numbers:
    """Numbers of events, of which the first is the seventh; or ids."""

    def __init__(self, first: int | None) -> None:
        self.next = first
        self.last_event: str | bytes = b""


class Run(DeltaRun):
    """A delta run that refuses what fits no template."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[bytes] = []

    def decode(self, payload: bytes) -> str | None:
        self.refused.append(payload)
        return None


class Taker:
    """A consumer whose blocks take so many characters, and what it has taken."""

    def __init__(self, room: int) -> None:
        self.sinks: Sinks = NO_SINKS
        self.known: dict[int, Sinks] = {}
        self.failure: StreamError | None = None
        self.taken: list[object] = []
        self.fresh: list[str] = []
        self.room = room

    def select(self, delta: Delta) -> Sinks:
        self.taken.append(delta)
        self.sinks = delta, self.append, self.fresh, self.write
        return self.sinks

    def append(self, text: str) -> None:
        self.taken += [*self.fresh, text]
        self.fresh.clear()
        self.room -= len(text)
        if self.room < 0:
            raise LimitExceeded("full", limit="room")

    def write(self, text: str) -> bytes | None:
        self.append("")
        return None if text == "None" else text.encode("utf-8", "replace")[:50]

    def skip(self) -> None:
        self.taken.append("skipped")

    def fail(self, error: LimitExceeded) -> None:
        self.failure = StreamError("too_large", str(error))


@dataclass
class Reader:
    """The reader of a template, and all that it may change."""

    template: Template
    framing: SSEDecoder | None
    extends: str = "nothing"
    room: int = 10_000
    extended: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    out: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = Run()
        self.run.delta = TextDelta(9, "")
        self.run.numbers = self.numbers = Numbers(None if self.template in WITH_IDS else 7)
        self.taker = Taker(self.room)
        templates = self.run._templates = Templates()
        for index, head in enumerate([b'{"s":"', self.template.head]):
            extend = None if self.extends == "nothing" else self.extend
            fresh = self.fresh if self.extends in ("fresh", "inner") else None
            other = Template(
                head,
                self.template.middle,
                self.template.tail,
                self.template.repeats,
                self.template.spaced,
                self.template.counts,
                self.template.end,
            )
            takes_inner = self.extends == "inner"
            templates.add(other, TextDelta(index, ""), extend, fresh, takes_inner=takes_inner)
        if self.framing is not None:
            self.framing.split(b": a comment, so that no byte order mark may follow\n\n")
            self.run.read_from(self.framing)
        self.text_of = templates.text_reader(self.run, b"data: ", b"", self.run.decode)

    def read(self, data: bytes) -> object:
        """Return the text of an event, or what of a read is left after its texts were passed on."""
        if self.framing is None:
            return self.text_of(data.removesuffix(b"\n\n"))
        return self.run.forward(data, self.out, self.taker)

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events of what is left of a read."""
        assert self.framing is not None
        self.run.has_refused = False
        return self.framing.split(data)

    def extend(self, text: str) -> bool:
        is_extended = len(text) % 5 != 3
        self.extended += [text] * is_extended  # what is refused changes nothing
        return is_extended

    def state(self) -> list[object]:
        """Return all that a reader may have changed."""
        run, framing, taker = self.run, self.framing, self.taker
        seen: list[object] = [self.extended, self.fresh, run.delta, run.counts, run.counts_before]
        last = self.numbers.last_event
        seen += [run.refused, self.numbers.next, isinstance(last, bytes) and last.rstrip(b"\n")]
        seen += [self.out, taker.sinks[0], taker.failure, taker.taken, taker.fresh, taker.room]
        if framing is not None:
            seen += [framing.held, framing.is_irregular, framing.frames]
        return seen


def assert_twins_agree(
    template: Template, reads: list[bytes], extends: str = "nothing", *, room: int = 10_000
) -> None:
    """Read the same data with the kernel and with its twin."""
    for is_framed in (False, True):
        readers: list[Reader] = []
        for compiled in (COMPILED, None):
            with kernel_of(compiled):
                framing = SSEDecoder(max_event_bytes=200) if is_framed else None
                readers.append(Reader(template, framing, extends, room))
        for data in reads:
            found, expected = (reader.read(data) for reader in readers)
            assert found == expected, data
            if isinstance(found, bytes) and found:
                assert readers[0].split(found) == readers[1].split(found)
            assert readers[0].state() == readers[1].state(), data
            if readers[0].taker.failure is not None:
                break


texts = st.text(max_size=30) | st.sampled_from(['"', "\\", "\n", "é", "\u2028", "x" * 300])
paddings = st.sampled_from([b"", b"aB3", b"   ", b"\xe9", b'"', b"a b"])
ids = (b"", b" ", b"\\", b'"', b"\x7f", b"\xff", b"\xc3\xa9", b"a_b-c=+/.:~!", b"a b")
counts = st.sampled_from([b"1", b"0", b"07", b"12345678901234567", b"", b"-1", b"1.5", b"x"])


@st.composite
def payloads(draw: Callable[[Any], Any], template: Template) -> bytes:
    """Payloads that fit a template, or nearly."""
    text = draw(texts)
    literal = dumps(text)[1:-1]
    if draw(st.booleans()):  # another spelling of the same text
        literal = b"".join(b"\\u%04x" % ord(c) if ord(c) < 0x80 else c.encode() for c in text)
    rest = b""
    if template.repeats:
        rest = draw(st.sampled_from([literal, b"", literal + b"x"]))
    elif template.counts is not None:
        rest = template.counts.between.join([draw(counts), draw(counts)])
    elif template.middle:
        rest = draw(paddings)
    payload = template.head + literal + template.middle + rest + template.tail
    if template in WITH_IDS:
        payload += draw(st.sampled_from([b"e1", b"7", *ids])) + template.end
    elif template.end:
        payload += draw(st.sampled_from([b"7", b"7", b"8", b"9", b"", b"07"])) + template.end
    match draw(st.sampled_from(["whole", "whole", "whole", "changed", "cut", "other head"])):
        case "changed":
            at = draw(st.integers(0, len(payload) - 1))
            payload = payload[:at] + draw(st.binary(max_size=2)) + payload[at + 1 :]
        case "cut":
            payload = payload[: draw(st.integers(0, len(payload)))]
        case "other head":
            payload = payload.replace(b'"t"', b'"s"', 1)
    return payload


@st.composite
def cases(draw: Callable[[Any], Any]) -> tuple[Template, list[bytes]]:
    """Templates, with reads that fit them, or nearly."""
    template = draw(st.sampled_from(TEMPLATES))
    reads: list[bytes] = []
    for payload in draw(st.lists(payloads(template), min_size=1, max_size=6)):
        event = b"data: " + payload
        event += draw(st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"", b"\n", b"\r\n\r\n"]))
        at = draw(st.sampled_from([0, 0, 3, 6, 20, len(event) - 1]))
        reads += [event[:at], event[at:]] if at else [event]
        if draw(st.booleans()) and len(reads) > 1:  # several events, or parts of them
            reads[-2:] = [b"".join(reads[-2:])]
    return template, reads


@needs_kernel
@given(
    cases(), st.sampled_from(["nothing", "extend", "fresh", "inner"]), st.just(40) | st.just(9999)
)
@example((COUNTED, [b'data: {"t":"a","n":1,"m":%d}\n\n' % each for each in (2, 3)]), "fresh", 9999)
@example(
    (COUNTED, [b'data: {"t":"a","n":0,"m":1}\n\n', b'data: {"t":"a","n":1,"m":0}\n\n']),
    "extend",
    9999,
)
@example(
    (COUNTED, [b'data: {"t":"a","n":%d,"m":1}\n\n' % 10**each for each in (16, 17)]), "extend", 9999
)
@example(
    (REPEATED, [b'data: {"t":"a","u":"ab"}\n\n', b'data: {"t":"ab","u":"a"}\n\n']), "nothing", 9999
)
@example((PLAIN, [b'data: {"t":"a\r', b'"}\n\n', b'data: {"t":"\n', b'"}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"' + b"x" * 187, b'"}\n\n']), "nothing", 9999)
@example((PLAIN, [b": c", b'data: {"t":"a"}\n\n', b'data: {"t":"a"}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"' + b"x" * 180, b'1"}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"' + b"x" * 180, b'1234567"}\n\n']), "nothing", 9999)
@example(
    (REPEATED, [b'data: {"t":"","u":""}\n\n', b'data: {"t":"a","u":"b"}\n\n']), "nothing", 9999
)
@example((PADDED, [b'data: {"t":"","p":"","p":"x"}\n\n']), "extend", 9999)
@example((PLAIN, [b'data: {"t":"}\n\n', b'data: {"t":""}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"' + b"\\n" * 90 + b'"}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"%b"}\n\n' % each for each in (PAIR, PAIR[:6])]), "extend", 9999)
@example(
    (NUMBERED, [b'data: {"t":"a","n":%d}\n\n' % each for each in (7, 8, 8, 10)]), "extend", 9999
)
@example(
    (NUMBERED, [b'data: {"t":"a","n":%b}\n\n' % each for each in (b"07", b"")]), "nothing", 9999
)
@example(
    (NUMBERED, [b'data: {"t":"a","n":%d7}\n\n' % 10**each for each in (16, 17)]), "fresh", 9999
)
@example(
    (NUMBERED, [b'data: {"n":7}\n\n', b"data: 7}\n\n", b'data: {"t":"7}\n\n']), "nothing", 9999
)
@example(
    (IDENTIFIED, [b'data: {"t":"a","n":"%b"}\n\n' % each for each in (b"a", b"")]), "fresh", 9999
)
@example((IDENTIFIED, [b'data: {"t":"a","n":"b"}}\n\n', b'data: {"t":"a"}\n\n']), "nothing", 9999)
@example(
    (IDENTIFIED, [b'data: {"t":"a\\","n":"b"}\n\n', b'data: {"t":"n":"b"}\n\n']), "nothing", 9999
)
@example((PLAIN, [b'data: {"t":"a"}\n\n' * 3 + b"da", b'ta: {"t":"b"}\n\n']), "fresh", 9999)
@example(
    (PLAIN, [b'data: {"t":"a"}\n\ndata: {"s":"b"}\n\ndata: {"t":""}\n\n: c\n']), "extend", 9999
)
@example((NUMBERED, [b'data: {"t":"a","n":7}\n\ndata: {"t":"b","n":8}\n\n']), "nothing", 9999)
@example((PLAIN, [b'data: {"t":"a"}\n\ndata: {"t":"b"}\n\ndata: {"t":"c"}\n\nda']), "extend", 1)
@example((PLAIN, [b'data: {"t":"\xed\xa0\x80"}\n\n', b'data: {"t":"\\x"}\n\n']), "nothing", 9999)
def test_template_is_read_as_by_its_twin(
    case: tuple[Template, list[bytes]], extends: str, room: int
) -> None:
    assert_twins_agree(*case, extends, room=room)


@needs_kernel
@pytest.mark.parametrize("template", WITH_IDS)
def test_each_byte_of_an_id_is_read_as_by_the_twin(template: Template) -> None:
    payload = b'data: {"t":"a%b%%b"}\n\n' % (template.middle + template.tail)
    for code in range(256):
        ids = (bytes([code]), b"e" + bytes([code]), bytes([code]) + b"e")
        assert_twins_agree(template, [payload % id for id in ids])


@needs_kernel
def test_texts_fill_the_batch_as_by_its_twin() -> None:
    reads = [b'data: {"t":"a%d"}\n\n' % number for number in range(MAX_FRESH + 3)]
    assert_twins_agree(PLAIN, [*reads, b'data: {"t":"%b"}\n\n' % (b"x" * 170)], "fresh")
    assert_twins_agree(PLAIN, [b"".join(pair) for pair in zip(reads, reads, strict=True)], "fresh")
    assert LONG_CHARS > 170


@needs_kernel
@pytest.mark.parametrize("before", [[], [b"a"]], ids=["first", "behind"])
def test_inner_fragments_are_those_of_the_twin(before: list[bytes]) -> None:
    codes = (*range(1, 0x300), *range(0x7F0, 0x1010), *range(0x1FFF, 0x4010), 0x1F600)
    first = [chr(code).encode() for code in codes]
    texts = [text for each in first for text in (each, b"x" + each, b"  " + each)]
    texts = [text for text in texts if text[-1:] not in b'"\\' and text[-1] >= 0x20]
    for text in (*texts, b"", b"{", b"x{", b"x}", b"\\u007d", b"\\n"):
        reads = [b'data: {"t":"%b"}\n\n' % each for each in (*before, text)]
        assert_twins_agree(PLAIN, reads, "inner")


@needs_kernel
@pytest.mark.parametrize("compiled", [COMPILED, None], ids=["kernel", "twin"])
def test_error_of_the_block_is_raised(compiled: Any) -> None:
    class Full(Reader):
        def extend(self, text: str) -> bool:
            raise MemoryError(text)

    with kernel_of(compiled):
        reader = Full(PLAIN, None, "extend")
    with pytest.raises(MemoryError, match="a"):
        reader.read(b'data: {"t":"a"}')
    assert reader.run.refused == []


@needs_kernel
@given(st.text(max_size=20), st.binary(max_size=9), st.binary(max_size=9))
@example("\ud800", b"", b"")
def test_frames_are_written_as_by_the_twin(text: str, head: bytes, tail: bytes) -> None:
    class Numbers:
        next_number = 98

    def write(compiled: Any) -> list[object]:
        written: list[object] = []
        buffers = TextBuffer(), TextBuffer(), TextBuffer()
        held = HeldTexts(buffers[2].fresh, buffers[2].append)
        numbers = Numbers()
        with kernel_of(compiled):
            counted, count = counted_delta_frames(b"<" + head, tail)
            writers = [
                delta_frames(b"<" + head, tail),
                delta_frames(b"<" + head, tail, buffers[0]),
                numbered_delta_frames(b"<" + head, b",", tail, buffers[1], numbers),
                counted,
                held_texts_sink(held),
            ]
        # More than a batch, and one that ends it early.
        for each in (text, "", text, *"ab" * BATCH, "x" * (LONG_CHARS + 1), text):
            for writer in writers:
                try:
                    written.append(writer(each))
                except UnicodeEncodeError as exc:
                    written.append(type(exc))
        fresh = [list(buffer.fresh) for buffer in buffers]
        texts = [buffer.text() for buffer in buffers]
        return [written, fresh, texts, numbers.next_number, count()]

    assert write(COMPILED) == write(None)


@needs_kernel
def test_each_character_is_escaped_as_by_msgspec() -> None:
    write = COMPILED.DeltaFrames(b"<", b">", None).write
    for code in (*range(0x300), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x10FFFF):
        for text in (chr(code), "a" + chr(code) + 'b"'):
            assert write(text) == b"<" + dumps(text) + b">"


@needs_kernel
def test_each_short_text_is_read_as_by_msgspec() -> None:
    assert_twins_agree(
        PLAIN, [b'data: {"t":"%b"}\n\n' % bytes(pair) for pair in product(range(256), b'a\\"')]
    )
    assert_twins_agree(PLAIN, [b'data: {"t":"\\%b"}\n\n' % bytes([each]) for each in range(256)])


@needs_kernel
def test_misuse_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        COMPILED.DeltaFrames("a", b"", None)
    with pytest.raises(TypeError):
        COMPILED.DeltaFrames(b"", b"", None).write(b"bytes")
    with pytest.raises(AttributeError):
        COMPILED.DeltaFrames(b"", b"", "no buffer")
    with pytest.raises(ValueError, match="head of no block"):
        COMPILED.TemplateReader(
            None, {}, b"", b"a", b"", b"", b"", b"", b"", False, False, *(None,) * 4, False
        )
    with kernel_of(COMPILED):
        reader, framed = Reader(PLAIN, None), Reader(PLAIN, SSEDecoder())
    with pytest.raises(TypeError, match="bytes"):
        reader.text_of("text")  # type: ignore[arg-type]
    for arguments in ((), ("text", [], framed.taker), (b"",), (b"", [], 5)):
        with pytest.raises((TypeError, AttributeError)):
            framed.run.forward(*arguments)


@needs_kernel
def test_sinks_that_the_consumer_knows_are_used_for_the_delta_of_the_block_alone() -> None:
    with kernel_of(COMPILED):
        reader = Reader(PLAIN, SSEDecoder())
    taker, event = reader.taker, b'data: {"t":"a"}\n\n'
    reader.read(event)
    (delta,) = [taken for taken in taker.taken if isinstance(taken, TextDelta)]
    written: list[str] = []
    taker.sinks, taker.known = NO_SINKS, {delta.index: (delta, None, FULL_LIST, written.append)}
    assert reader.read(event) == b""
    assert written == ["a"]
    taker.known[delta.index] = (TextDelta(delta.index, ""), *taker.known[delta.index][1:])
    assert reader.read(event) == b""
    assert written == ["a"]
    assert taker.taken.count(delta) == 2
    for known in (None, 5):
        taker.sinks, taker.known = NO_SINKS, known  # type: ignore[assignment]
        with pytest.raises(SystemError):
            reader.read(event)


@needs_kernel
@pytest.mark.parametrize("compiled", [COMPILED, None], ids=["kernel", "twin"])
def test_error_of_a_sink_that_is_no_limit_is_raised(compiled: Any) -> None:
    with kernel_of(compiled):
        reader = Reader(PLAIN, SSEDecoder())

    def write(text: str) -> bytes:
        raise MemoryError(text)

    reader.taker.write = write  # type: ignore[method-assign]
    with pytest.raises(MemoryError, match="a"):
        reader.read(b'data: {"t":"a"}\n\n')
    assert reader.taker.failure is None


@needs_kernel
def test_kernel_is_of_this_source() -> None:
    """An editable package is installed again after the source has changed."""
    assert sha256(SOURCE.read_bytes()).hexdigest() == COMPILED.SOURCE


def test_source_is_short_enough_to_be_read() -> None:
    lines = SOURCE.read_text().splitlines()
    assert len(lines) <= 800
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("pure", "before", "is_used"),
    [
        ("1", "", False),
        ("0", "", COMPILED is not None),
        ("", "sys.modules['streamnorm._core.codec._kernel'] = None", False),
    ],
)
def test_kernel_is_used_where_it_is_wanted(pure: str, before: str, *, is_used: bool) -> None:
    program = f"""
import sys
{before}
from streamnorm._core.codec import kernel
print(kernel.TemplateReader is not None, kernel.DeltaFrames is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(SOURCE.parents[4]), "STREAMNORM_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(is_used)] * 2
    assert FAST_ERRORS
