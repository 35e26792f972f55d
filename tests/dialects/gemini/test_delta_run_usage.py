"""Delta runs of chunks that report other token counts each."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.frames import candidate, chunk
from support.streams.delta_runs import Reading, read_chunks

from streamnorm import ReasoningDelta, TextDelta, Usage, UsageUpdate

DETAILS = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]}
TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '"}],"role"', "", "z"]


def read(*chunks: bytes, **options: Any) -> Reading:
    """Read chunks of Gemini on every path."""
    return read_chunks("gemini", *chunks, **options)


def counted(words: str, tokens: int, details: dict[str, Any] = DETAILS, **more: Any) -> bytes:
    """Return a chunk of text that reports tokens, as the API does in each."""
    counts = {"promptTokenCount": 9, "candidatesTokenCount": tokens, **details, **more}
    return chunk(candidate({"text": words}), usageMetadata=counts)


@pytest.mark.parametrize("thought", [False, True])
def test_chunks_without_tokens_are_on_the_run(thought: bool) -> None:
    said = {"thought": True} if thought else {}
    make = ReasoningDelta if thought else TextDelta
    reading = read(*(chunk(candidate({"text": text, **said})) for text in TEXTS))
    assert reading.events[1:] == [[make(0, text)] if text else [] for text in TEXTS[1:]]
    assert reading.on_run == [0] + [1] * (len(TEXTS) - 1)


@pytest.mark.parametrize("details", [DETAILS, {}])
def test_chunks_with_other_numbers_are_on_the_run(details: dict[str, Any]) -> None:
    reading = read(*(counted(text, n, details) for n, text in enumerate("abcdef")))
    extra = details or None
    assert reading.events[2:] == [
        [TextDelta(0, text), UsageUpdate(Usage(9, n, extra=extra))]
        for n, text in enumerate("cdef", 2)
    ]
    assert reading.on_run[2:] == [1] * 4


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        (b'Count": 7', b'Count": -7'),
        (b'Count": 7', b'Count": 7.5'),
        (b'Count": 7', b'Count": 07'),
        (b'Count": 7', b'Count": '),
        (b'Count": 7', b'Count": 18446744073709551616'),
        (b'Count": 7', b'Count": "7"'),
        (b'Count": 7', b'Count":\n7'),
        (b'Count": 7', b'Count":\r7'),
        (b'"promptTokenCount": 9, ', b""),
        (b'"promptTokenCount": 9', b'"promptTokenCount": 9, "thoughtsTokenCount": 1'),
        (b'"promptTokenCount": 9', b'"promptTokenCount": 9, "newTokenCount": 1'),
        (b'"tokenCount": 9', b'"tokenCount": 8'),
        (b'"~"', b'"~"x'),
        (b'"~"', b'\n"~"'),
        (b'"~"', b'"\\ud83d"'),
        (b'"gemini-1"}', b'"gemini-1"}}'),
        (b'"gemini-1"', b'"gemini-2"'),
        (b'"gemini-1"}', b'"gemini-1", "vendor": 1}'),
    ],
)
def test_chunk_unlike_those_before_reads_as_in_full(told: bytes, instead: bytes) -> None:
    chunks = [counted(text, n) for n, text in enumerate("abcd")]
    odd = counted("~", 7).replace(told, instead)
    assert odd != counted("~", 7)
    read(*chunks, odd, *chunks)


def test_counts_that_stand_twice_in_a_chunk_are_decoded() -> None:
    counts = {"promptTokenCount": 9}

    def twice(words: str) -> bytes:
        told = chunk(candidate({"text": words}), usageMetadata=counts, responseId="r")
        return told.replace(b'"gemini-1"', b'"gemini-1", "usageMetadata": {"promptTokenCount": 9}')

    read(*map(twice, "abcd"))


def test_text_that_stands_twice_in_a_chunk_is_decoded() -> None:
    def twice(words: str) -> bytes:
        return chunk(candidate({"text": words})).replace(b'{"text"', b'{"text": "", "text"')

    reading = read(*map(twice, "abcd"))
    assert reading.on_run == [0, 1, 1, 1]
