"""Templates of chunks that differ in their text alone, and in random padding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.openai_chat.chunks import call, calls, chunk, content, reasoning
from support.streams.delta_runs import read_chunks, ways_of_reading

from streamnorm import (
    BlockStop,
    Failed,
    JSONDelta,
    ReasoningDelta,
    StreamError,
    TextDelta,
    Transcoder,
)
from streamnorm.dialects.openai_chat.decode import ChatRun

read = partial(read_chunks, "openai_chat")
TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '"},"logprobs":null', "", "z"]
ways = partial(ways_of_reading, "openai_chat")


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
    assert ways(*map(of, "abcde")) == "lttt"


def test_template_serves_the_read_that_it_is_learned_in(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = ChatRun.decode

    def count(run: ChatRun, payload: bytes) -> str | None:
        decoded.append(payload)
        return decode(run, payload)

    monkeypatch.setattr(ChatRun, "decode", count)
    body = b"".join(map(content, "abcdef"))
    written = b"".join(Transcoder("openai_chat", "anthropic").feed(body))
    assert [written.count(b'"text":"%c"' % char) for char in b"abcdef"] == [1] * 6
    assert len(decoded) == 1


STARTED = [calls(call(n, f"t{n}", "f", "[1,")) for n in (0, 1)]


def test_templates_of_interleaved_calls_are_learned_from_the_first_fragment_of_each() -> None:
    turns = [calls(call(n, arguments=text)) for text in ('"', "b", '",', "2") for n in (0, 1)]
    assert ways(*STARTED, *turns) == "d" + "lltttttt"
    events = [event for events in read(*STARTED, *turns).events[2:] for event in events]
    assert events == [JSONDelta(n, text) for text in ('"', "b", '",', "2") for n in (0, 1)]


def test_fragment_that_may_complete_the_arguments_is_decoded() -> None:
    turns = [calls(call(0, arguments=text)) for text in ("2", ",3", "]", "x")]
    assert ways(*STARTED, *turns[:3]) == "d" + "ltd"
    events = [event for events in read(*STARTED, *turns).events[2:] for event in events]
    assert events[:4] == [JSONDelta(0, "2"), JSONDelta(0, ",3"), JSONDelta(0, "]"), BlockStop(0)]
    assert [type(event) for event in events[4:]] == [StreamError]


def test_fragment_in_a_chunk_of_another_id_does_not_fit_the_template() -> None:
    pieces = [calls(call(1, arguments=text)) for text in ("2", ",3")]
    other = pieces[1].replace(b"chatcmpl-1", b"chatcmpl-2")
    assert isinstance(read(*STARTED, *pieces, other).decoder.outcome, Failed)


def test_each_text_and_each_call_learn_few_templates() -> None:
    """A server whose chunks all differ costs no more than decoding them."""
    texts = [content("x", odd="y" * n) for n in range(20)]
    fragment = {"tool_calls": [call(1, arguments="2")]}
    fragments = [chunk(fragment, odd="y" * n) for n in range(20)]
    expected = "l" * 8 + "d" * 11 + "dd" + "l" * 8 + "d" * 12
    assert ways(*texts, *STARTED, *fragments) == expected


def test_text_that_is_the_chunk_id_gives_no_template() -> None:
    """With another text the id would be another, too: that of a spliced answer."""
    texts = [content(text) for text in ("a", "chatcmpl-1", "b", "c")]
    assert ways(*texts) == "llt"
    other = content("x").replace(b"chatcmpl-1", b"x")
    read(*texts[:2], other)
