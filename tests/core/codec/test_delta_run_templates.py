"""Templates of payloads that differ in their text alone, and in random padding."""

from __future__ import annotations

import re

import msgspec
import pytest

from streamnorm import TextDelta
from streamnorm._core.codec import DeltaEvents, DeltaRun
from streamnorm._core.codec.templates import (
    PROBED_COUNTS,
    CountPair,
    ReadText,
    Template,
    Templates,
    learn_template,
)
from streamnorm._core.errors import LimitExceeded

PADDING = re.compile(rb'"p":"([a-zA-Z0-9]*)"')


def peek(payload: bytes) -> str | None:
    """Return the member `text` of an object."""
    value: dict[str, str] = msgspec.json.decode(payload)
    return value["text"]


class Run(DeltaRun):
    """A run whose templates the tests add."""

    def decode(self, payload: bytes) -> str | None:
        return None


def test_events_have_no_limit() -> None:
    with pytest.raises(LimitExceeded, match="full"):
        DeltaEvents(Run(), []).fail(LimitExceeded("full", limit="room"))


def refuse(data: bytes) -> None:
    """Read nothing."""


def learned(payload: bytes, text: str) -> ReadText:
    """Return the reader of the template learned from a payload."""
    template = learn_template(payload, text, peek, PADDING)
    assert template is not None
    templates = Templates()
    templates.add(template, None, None)
    return templates.text_reader(Run(), b"", b"", refuse)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":1}', "a"),
        (b'{"text":"","n":1}', ""),
        (b'{"text":"\\u00e9\\"","n":1}', 'é"'),
        (b'{"text":"a","n":2}', None),
        (b'{"text": "a","n":1}', None),
        (b'{"text":"a","b":"c","n":1}', None),
        (b'{"text":"a\nb","n":1}', None),
        (b'{"text":"a\\","n":1}', None),
        (b'{"text":"\\ud83d","n":1}', None),
        (b'{"text":"\xff","n":1}', None),
        (b'{"text":"a","n":1}}', None),
        (b'{"text":"', None),
        (b"", None),
    ],
)
def test_template_returns_the_text_of_chunks_that_fit(payload: bytes, text: str | None) -> None:
    assert learned(b'{"text":"x y","n":1}', "x y")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","p":"xY9"}', "a"),
        (b'{"text":"","p":""}', ""),
        (b'{"text":"\\",\\"p\\":\\"","p":"x"}', '","p":"'),
        (b'{"text":"a","p":"x y"}', None),
        (b'{"text":"a","p":"\\u0078"}', None),
        (b'{"text":"a","p":"x"}}', None),
        (b'{"text":"a","q":"x"}', None),
        (b'{"text":"a","p":"x","p":"y"}', None),
        (b'{"text":"","p":"', None),
        (b'{"text":"a","p":"}', None),
        (b'{"text":"}', None),
        (b'{"text":"x"}', None),
    ],
)
@pytest.mark.parametrize("padding", [b"", b"aB3"])
def test_template_ignores_padding(payload: bytes, text: str | None, padding: bytes) -> None:
    assert learned(b'{"text":"word","p":"%b"}' % padding, "word")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":"a","m":"a"}', "a"),  # three places
        (b'{"text":"\\u0061","n":"a","m":"a"}', "a"),  # two wrong ones
        (b'{"text":"\\u0061"}', "a"),  # none
        (b'{"text":"\\u0061","n":"a"}', "a"),  # the wrong one
        (b'{"n":"a"}x', "a"),  # none that can be read
        (b'{"text":"a","n":"%b"}' % (b"x" * 5000), "a"),
    ],
)
def test_no_template_is_learned_from_an_ambiguous_chunk(payload: bytes, text: str) -> None:
    assert learn_template(payload, text, peek, PADDING) is None


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":{"is":"a"}}', "a"),
        (b'{"text":"","n":{"is":""}}', ""),
        ('{"text":"\\"é","n":{"is":"\\"é"}}'.encode(), '"é'),
        (b'{"text":"\\",\\"n\\"","n":{"is":"\\",\\"n\\""}}', '","n"'),
        (b'{"text":"a","n":{"is":"b"}}', None),
        (b'{"text":"a","n":{"is":"\\u0061"}}', None),
        (b'{"text":"a","n":{"is":"a "}}', None),
        (b'{"text":"a","n":{"is":"a"}} ', None),
        (b'{"text":"a","m":{"is":"a"}}', None),
        (b'{"text":"a","n":{"is":"a","n":{"is":"a","n":{"is":"a"}}', None),
        (b'{"text":"a","n":{"is":"","n":{"is":"a","n":{"is":""}}', None),
        (b'{"text":"\\","n":{"is":"\\"}}', None),
        (b'{"text":"a"}}', None),
        (b'{"text":""}}', None),
        (b'{"text":"', None),
    ],
)
def test_template_compares_a_text_with_its_repetition(payload: bytes, text: str | None) -> None:
    assert learned(b'{"text":"word","n":{"is":"word"}}', "word")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'[{"text":"a"}]', "a"),
        (b'[{"text":"a"}   ]', "a"),
        (b'[{"text":"\\"}"}  ]', '"}'),
        (b'[{"text":"a"}\t]', None),
        (b'[{"text":"a"}x]', None),
        (b'[{"text":"a"}5]', None),
        (b'[{"text":"a"]', None),
        (b'[{"text":"a"} } ]', None),
        (b'[{"text":"a"} ] ', None),
    ],
)
@pytest.mark.parametrize("padding", [b"", b"  "])
def test_template_ignores_spaces(payload: bytes, text: str | None, padding: bytes) -> None:
    def peek_first(payload: bytes) -> str | None:
        return peek(payload[1:].rstrip(b" ]"))

    known = b'[{"text":"word"}%b]' % padding
    template = learn_template(known, "word", peek_first, re.compile(rb"\}( *)\]$"))
    assert template is not None
    templates = Templates()
    templates.add(template, None, None)
    assert templates.text_reader(Run(), b"", b"", refuse)(payload) == text


COUNTED = b'{"text":"word","use":{"out":5,"all":14}}'
BETWEEN = b',"all":'


def counts_of(payload: bytes, first: bytes, second: bytes) -> CountPair:
    """Return the counts of a payload with two names of counts."""
    start, end = payload.index(first) + len(first), payload.index(second) + len(second)
    digits = re.compile(rb"[0-9]+")
    numbers = digits.match(payload, start), digits.match(payload, end)
    assert numbers[0] is not None
    assert numbers[1] is not None
    return CountPair(start, numbers[1].end(), payload[numbers[0].end() : end])


def peek_counted(payload: bytes) -> str | None:
    """Return the member `text` of an object with the probed counts."""
    value = msgspec.json.decode(payload)
    text: str = value["text"]
    return text if tuple(value["use"].values()) == PROBED_COUNTS else None


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","use":{"out":5,"all":14}}', "a"),
        (b'{"text":"","use":{"out":123,"all":12}}', ""),
        (b'{"text":"a","use":{"out":123456789,"all":123456789}}', "a"),
        (b'{"text":"\\",\\"use\\":{\\"out\\":","use":{"out":1,"all":1}}', '","use":{"out":'),
        (b'{"text":"a","use":{"out":1234567890,"all":123456789}}', None),  # may exceed 64 bits
        (b'{"text":"a","use":{"out":05,"all":14}}', None),
        (b'{"text":"a","use":{"out":5,"all":014}}', None),
        (b'{"text":"a","use":{"out":0,"all":14}}', None),  # decoded, as few chunks have a zero
        (b'{"text":"a","use":{"out":-5,"all":14}}', None),
        (b'{"text":"a","use":{"out":5.5,"all":14}}', None),
        (b'{"text":"a","use":{"out":5,"all":1e4}}', None),
        (b'{"text":"a","use":{"out": 5,"all":14}}', None),
        (b'{"text":"a","use":{"out":,"all":14}}', None),
        (b'{"text":"a","use":{"out":5,"all":}}', None),
        (b'{"text":"a","use":{"out":5,"sum":14}}', None),
        (b'{"text":"a","use":{"out":5,"all":1,"all":14}}', None),
        (b'{"text":"a","use":{"out":514}}', None),
        (b'{"text":"a","use":{"out":}}', None),
        (b'{"text":"a","use":{"out":5,"all":14}}}', None),
        (b'{"text":"a","use":{"out":\xd9\xa3,"all":14}}', None),
        (b'{"text":"a}}', None),
    ],
)
def test_template_reads_counts_that_differ(payload: bytes, text: str | None) -> None:
    counts = counts_of(COUNTED, b'"out":', BETWEEN)
    template = learn_template(COUNTED, "word", peek_counted, PADDING, counts)
    assert template is not None
    run = Run()
    templates = Templates()
    templates.add(template, TextDelta(0, ""), None)
    assert template.counts == counts
    assert templates.text_reader(run, b"", b"", refuse)(payload) == text
    assert (run.counts is None) == (text is None)


def test_run_holds_the_counts_of_the_last_two_payloads() -> None:
    template = learn_template(
        COUNTED, "word", peek_counted, PADDING, counts_of(COUNTED, b'"out":', BETWEEN)
    )
    assert template is not None
    run = Run()
    templates = Templates()
    templates.add(template, TextDelta(0, ""), lambda text: text != "!")
    read = templates.text_reader(run, b"", b"", refuse)
    for text, first in (("a", b"5"), ("b", b"6"), ("!", b"7"), ("\\", b"8")):
        read(COUNTED.replace(b"word", text.encode()).replace(b"5", first))
    assert run.counts == (b"6", BETWEEN, b"14")
    assert run.counts_before == (b"5", BETWEEN, b"14")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"use":{"out":5,"all":14},"text":"word"}',  # counts before the text
        b'{"text":"word","use":{"out":5,"all":14},"use":{"out":5,"all":14}}',
        b'{"text":"word","use":{"out":5,"all":14,"out":5}}',
    ],
)
def test_no_template_is_learned_from_counts_that_do_not_take_effect(payload: bytes) -> None:
    counts = counts_of(payload, b'"out":', BETWEEN)
    assert learn_template(payload, "word", peek_counted, PADDING, counts) is None


def test_short_texts_are_appended_without_a_call() -> None:
    appended: list[str] = []
    texts: list[str] = []
    templates = Templates()
    templates.add(numbered(b"0"), None, lambda text: texts.append(text) is None, appended)
    read = templates.text_reader(Run(), b"", b"", refuse)
    given = ["x" * 257, *map(str, range(65))]
    for text in given:
        assert read(b'{"n":0,"text":"%b"}' % text.encode()) == text
    assert texts == [given[0], given[-1]]
    assert appended == given[1:-1]


class Ids:
    """Ids of events, any of which may be next."""

    def __init__(self) -> None:
        self.next: int | None = None
        self.last_event: str | bytes = ""


IDENTIFIED = Template(b'{"text":"', b"", b'","id":"', end=b'","n":1}')


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","id":"e1","n":1}', "a"),
        (b'{"text":"","id":"7","n":1}', ""),
        (b'{"text":"a","id":"v1_a-b=+/.:~!","n":1}', "a"),
        (b'{"text":"\\",\\"id\\":\\"","id":"e1","n":1}', '","id":"'),
        (b'{"text":"a","id":"","n":1}', None),
        (b'{"text":"a","id":"e 1","n":1}', None),
        (b'{"text":"a","id":"\\u0065","n":1}', None),
        (b'{"text":"a","id":"e\\"","n":1}', None),
        (b'{"text":"a","id":"\xc3\xa9","n":1}', None),
        (b'{"text":"a","id":"e\x7f","n":1}', None),
        (b'{"text":"a","id":"e\n","n":1}', None),
        (b'{"text":"a","id":"e1","id":"e2","n":1}', None),
        (b'{"text":"a","id":"e1","n":2}', None),
        (b'{"text":"a","id":"e1","n":1}}', None),
        (b'{"text":"a","id":5,"n":1}', None),
        (b'{"text":"a","n":1}', None),
        (b'{"text":"id":"e1","n":1}', None),
        (b"", None),
    ],
)
def test_template_finds_the_text_before_any_id(payload: bytes, text: str | None) -> None:
    run, templates = Run(), Templates()
    run.numbers = ids = Ids()
    templates.add(IDENTIFIED, None, None)
    assert templates.text_reader(run, b"", b"", refuse)(payload) == text
    assert (ids.next, ids.last_event) == (None, "" if text is None else payload)


def test_event_whose_text_is_refused_is_not_the_last_event() -> None:
    run, templates = Run(), Templates()
    run.numbers = ids = Ids()
    templates.add(IDENTIFIED, None, lambda text: text != "}")
    read = templates.text_reader(run, b"data: ", b"\n\n", refuse)
    first = b'data: {"text":"a","id":"e1","n":1}\n\n'
    assert (read(first), read(first.replace(b'"a"', b'"}"'))) == ("a", None)
    assert ids.last_event == first


def numbered(number: bytes) -> Template:
    """Return a template with a number in its head."""
    return Template(b'{"n":%b,"text":"' % number, b"", b'"}')


def test_templates_of_blocks_extend_the_block_of_their_head() -> None:
    texts: dict[int, list[str]] = {0: [], 1: []}
    run = Run()
    templates = Templates()
    for number, of_block in texts.items():
        delta = TextDelta(number, "")
        templates.add(
            numbered(b"%d" % number), delta, lambda text, to=of_block: to.append(text) is None
        )
    read = templates.text_reader(run, b"data: ", b"\n\n", refuse)
    for number, text in ((0, "a"), (0, "b"), (1, "c"), (0, "d"), (1, "e")):
        assert read(b'data: {"n":%d,"text":"%b"}\n\n' % (number, text.encode())) == text
        assert run.delta.index == number
    assert read(b'data: {"n":2,"text":"f"}\n\n') is None
    assert texts == {0: ["a", "b", "d"], 1: ["c", "e"]}


def test_text_that_may_do_more_than_extend_its_block_is_read_otherwise() -> None:
    templates = Templates()
    templates.add(numbered(b"0"), None, lambda text: text != "}")
    read = templates.text_reader(Run(), b"", b"", lambda data: f"{len(data)} bytes")
    assert read(b'{"n":0,"text":"a"}') == "a"
    assert read(b'{"n":0,"text":"}"}') == "18 bytes"


@pytest.mark.parametrize(
    "other",
    [numbered(b"10"), Template(b'{"n":1,"text":"', b"", b'"} '), Template(b"x", b"y", b"z")],
)
def test_templates_that_differ_in_more_than_bytes_of_the_head_are_forgotten(
    other: Template,
) -> None:
    templates = Templates()
    templates.add(numbered(b"0"), None, None)
    templates.add(other, None, None)
    read = templates.text_reader(Run(), b"", b"", refuse)
    assert read(b'{"n":0,"text":"a"}') is None
    assert read(b"%ba%b" % (other.head, other.tail)) == ("a" if not other.middle else None)


def test_number_of_templates_is_bounded() -> None:
    templates = Templates()
    for number in range(10, 75):
        templates.add(numbered(b"%d" % number), None, None)
    read = templates.text_reader(Run(), b"", b"", refuse)
    assert read(b'{"n":74,"text":"a"}') == "a"
    assert read(b'{"n":73,"text":"a"}') is None


def test_no_template_reads_nothing() -> None:
    with pytest.raises(ValueError, match="no template, expected one"):
        Templates().text_reader(Run(), b"", b"", refuse)
