"""Delta runs of padded chunks, and of chunks with usage."""

from __future__ import annotations

from typing import Any

import pytest
from support.delta_runs import Reading, read_chunks
from support.openai_chat.chunks import call, calls, chunk, content

from streamnorm import (
    Failed,
    JSONDelta,
    Limits,
    ReasoningDelta,
    TextDelta,
    Transcoder,
    Usage,
    UsageUpdate,
)

TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '"},"logprobs":null', "", "z"]


def read(*chunks: bytes, **options: Any) -> Reading:
    """Read chunks of Chat Completions on every path."""
    return read_chunks("openai_chat", *chunks, **options)


@pytest.mark.parametrize("name", ["obfuscation", "p"])
@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
def test_padded_chunks_are_on_the_run(name: str, field: str) -> None:
    make = TextDelta if field == "content" else ReasoningDelta
    chunks = [chunk({field: text}, **{name: "x" * (n % 3)}) for n, text in enumerate(TEXTS)]
    reading = read(*chunks)
    assert reading.events[1:] == [[make(0, text)] if text else [] for text in TEXTS[1:]]
    assert reading.on_run == [0] + [1] * (len(TEXTS) - 1)


@pytest.mark.parametrize(
    ("told", "instead"),
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
def test_chunk_that_does_not_fit_the_template_reads_as_in_full(told: bytes, instead: bytes) -> None:
    chunks = [content(text, obfuscation="xx") for text in "abc"]
    odd = content("~", obfuscation="xx").replace(told, instead)
    assert odd != content("~", obfuscation="xx")
    read(*chunks, odd, *chunks)


def test_fragments_of_parallel_calls_are_on_the_run() -> None:
    started = [calls(call(n, f"t{n}", "f", "{")) for n in (0, 9, 10, 11)]
    turns = [(n, text) for text in ('"a', "b", "c", "d") for n in (0, 9, 10, 11)]
    fragments = [calls(call(n, arguments=text)) for n, text in turns]
    reading = read(*started, *fragments, calls(call(8, arguments="x")))
    block = {0: 0, 9: 1, 10: 2, 11: 3}
    assert reading.events[4:-1] == [[JSONDelta(block[n], text)] for n, text in turns]
    assert reading.on_run[4:-1] == [1] * len(turns)


def test_fragments_with_their_index_last_are_on_the_run() -> None:
    # The index stands behind the function.
    def fragment(text: str) -> bytes:
        return chunk({"tool_calls": [{"function": {"arguments": text}, "index": 0}]})

    reading = read(calls(call(0, "t", "f", "{")), *map(fragment, ('"a', "b", "c")))
    assert reading.on_run == [0, 1, 1, 1]


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_usage_in_each_chunk_follows_its_text(field: str) -> None:
    make = TextDelta if field == "content" else ReasoningDelta

    def counted(text: str, tokens: int) -> bytes:
        return chunk({field: text}, usage={"prompt_tokens": 9, "completion_tokens": tokens})

    reading = read(*(counted(text, n) for n, text in enumerate("abcc")), counted("d", 3))
    assert reading.events[1:] == [
        [make(0, "b"), UsageUpdate(Usage(9, 1))],
        [make(0, "c"), UsageUpdate(Usage(9, 2))],
        [make(0, "c"), UsageUpdate(Usage(9, 3))],
        [make(0, "d")],
    ]
    assert reading.on_run == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_usage_that_nests_too_deep_is_refused(field: str) -> None:
    limits = Limits(max_json_depth=4)
    deep = chunk({field: "b"}, usage={"prompt_tokens_details": {"a": {"b": {"c": {"d": 1}}}}})
    read(chunk({field: "a"}), chunk({field: "a"}), deep, limits=limits)


@pytest.mark.parametrize("ordering", ["sequential", "interleaved"])
def test_usage_of_a_chunk_that_exceeds_a_limit_is_retracted(ordering: Any) -> None:
    def counted(text: str, tokens: int) -> bytes:
        return content(text, usage={"prompt_tokens": 9, "completion_tokens": tokens})

    transcoder = Transcoder(
        "openai_chat", "anthropic", ordering=ordering, limits=Limits(max_accumulated_bytes=60)
    )
    for data in (counted("a", 1), counted("b", 2), counted("x" * 60, 3)):
        transcoder.feed(data)
    assert isinstance(transcoder.outcome, Failed)
    assert transcoder.usage == Usage(9, 2)


def test_usage_beside_arguments_is_read_in_full() -> None:
    counted = chunk({"tool_calls": [call(0, arguments="b")]}, usage={"prompt_tokens": 9})
    reading = read(calls(call(0, "t", "f", "{")), calls(call(0, arguments='"a')), counted, counted)
    assert reading.on_run == [0, 1, 0, 0]
