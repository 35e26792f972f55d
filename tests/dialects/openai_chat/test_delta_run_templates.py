"""Templates of chunks that differ in their text alone, and in random padding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from support.openai_chat.chunks import call, calls, chunk, content, reasoning
from support.streams.delta_runs import read_chunks

from streamnorm import ReasoningDelta, TextDelta
from streamnorm.dialects.openai_chat.decode import ChatRun, Template, learn_template

read = partial(read_chunks, "openai_chat")
TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '"},"logprobs":null', "", "z"]


def peek(payload: bytes) -> str | None:
    """Return the member `text` of an object."""
    value: dict[str, str] = msgspec.json.decode(payload)
    return value["text"]


def learned(payload: bytes, text: str) -> Template:
    """Return the template learned from a chunk."""
    template = learn_template(payload, text, peek)
    assert template is not None
    return template


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
        (b'{"text":"x"}', None),
    ],
)
@pytest.mark.parametrize("padding", [b"", b"aB3"])
def test_template_ignores_padding(payload: bytes, text: str | None, padding: bytes) -> None:
    assert learned(b'{"text":"word","p":"%b"}' % padding, "word")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":"a"}', "a"),  # two places
        (b'{"text":"\\u0061"}', "a"),  # none
        (b'{"text":"\\u0061","n":"a"}', "a"),  # the wrong one
        (b'{"n":"a"}x', "a"),  # none that can be read
        (b'{"text":"a","n":"%b"}' % (b"x" * 5000), "a"),
    ],
)
def test_no_template_is_learned_from_an_ambiguous_chunk(payload: bytes, text: str) -> None:
    assert learn_template(payload, text, peek) is None


@pytest.mark.parametrize("name", ["obfuscation", "p"])
@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
def test_padded_chunks_are_on_the_run(name: str, field: str) -> None:
    make = TextDelta if field == "content" else ReasoningDelta
    chunks = [chunk({field: text}, **{name: "x" * (n % 3)}) for n, text in enumerate(TEXTS)]
    reading = read(*chunks)
    assert reading.events[1:] == [[make(0, text)] if text else [] for text in TEXTS[1:]]
    assert reading.on_run == [0] + [1] * (len(TEXTS) - 1)


def test_text_that_another_field_would_replace_reads_as_in_full() -> None:
    chunks = [chunk({"reasoning_content": text, "reasoning": "!"}) for text in [*"abc", "", "d"]]
    events = [event for events in read(*chunks).events for event in events]
    texts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    assert texts == [*"abc!d"]


@pytest.mark.parametrize(
    ("part", "replacement"),
    [
        (b'"xx"', b'"x,x"'),
        (b'"xx"', b'"x"x"'),
        (b'"xx"', b'"x\\"'),
        (b'"xx"', b'"x\xff"'),
        (b'"xx"', b'"\\u0078"'),
        (b'"~"', b'"~"x'),
        (b'"~"', b'\n"~"'),
        (b'"~"', b'"\\ud83d"'),
        (b'"~"', b"null"),
        (b'"xx"}\n', b'"xx"}}\n'),
        (b"null}]", b'"stop"}]'),
        (b'"gpt"', b'"gpt-2"'),
        (b'"gpt"', b"5"),
    ],
)
def test_chunk_that_does_not_fit_the_template_reads_as_in_full(
    part: bytes, replacement: bytes
) -> None:
    chunks = [content(text, obfuscation="xx") for text in "abc"]
    odd = content("~", obfuscation="xx").replace(part, replacement)
    assert odd != content("~", obfuscation="xx")
    read(*chunks, odd, *chunks)


@pytest.mark.parametrize("of", [content, reasoning])
def test_template_is_learned_from_the_first_chunk_of_the_run(of: Callable[[str], bytes]) -> None:
    run = read(of("a"), of("b")).decoder.run
    assert isinstance(run, ChatRun)
    assert run._template is not None
    assert run._template(of("c").removeprefix(b"data: ").strip()) == "c"


def test_no_template_is_learned_from_arguments() -> None:
    pieces = [calls(call(0, arguments=text)) for text in ('"', "b")]
    run = read(calls(call(0, "x", "f", "[")), *pieces).decoder.run
    assert isinstance(run, ChatRun)
    assert run._template is None
