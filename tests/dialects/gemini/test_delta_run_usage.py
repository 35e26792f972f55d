"""Delta runs of chunks that report other token counts each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.gemini.frames import candidate, chunk
from support.streams.delta_runs import Reading, read_chunks, ways_of_reading

from streamnorm import (
    CitationDelta,
    Failed,
    Limits,
    ReasoningDelta,
    TextDelta,
    Transcoder,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.gemini.decode import GeminiRun

DETAILS = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]}
MANY = 16
TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '"}],"role"', "", "z"]


def read(*chunks: bytes, **options: Any) -> Reading:
    """Read chunks of Gemini on every path."""
    return read_chunks("gemini", *chunks, **options)


def after_many(*chunks: bytes) -> list[bytes]:
    """Return a stream with the first chunk so often that templates are learned from the next."""
    return [chunks[0]] * MANY + list(chunks)


def ways(*chunks: bytes) -> str:
    """Return how each chunk is read after many."""
    return ways_of_reading("gemini", *after_many(*chunks))[MANY - 1 :]


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


# Templates


def growing(words: str, tokens: int, **more: Any) -> bytes:
    """Return a chunk of text with the counts that grow in a stream of the API."""
    return counted(words, tokens, totalTokenCount=9 + tokens, **more)


GROWN = [growing(text, n) for n, text in enumerate("abcdef", 1)]


def test_chunks_that_differ_in_text_and_counts_fit_a_template() -> None:
    assert ways(*GROWN) == "d" + "l" + "tttt"
    assert read(*after_many(*GROWN)).events[MANY + 1 :] == [
        [TextDelta(0, text), UsageUpdate(Usage(9, n, extra=DETAILS))]
        for n, text in enumerate("bcdef", 2)
    ]


def test_reads_with_lf_fit_a_template() -> None:
    assert ways(*(data.replace(b"\r\n", b"\n") for data in GROWN)) == "d" + "l" + "tttt"


def test_template_that_was_learned_from_a_large_read_serves_single_events() -> None:
    stream = b"".join([GROWN[0]] * (MANY + 3))
    reads = [GROWN[0], stream[:-9], stream[-9:], *GROWN]
    assert ways_of_reading("gemini", *reads)[-6:] == "tttttt"


def test_template_that_was_learned_amid_a_read_serves_the_rest_of_the_read() -> None:
    transcoder = Transcoder("gemini", "openai_chat")
    transcoder.feed(b"".join(growing("a", n) for n in range(1, 100)))
    assert transcoder.message.usage.output_tokens == 99
    assert transcoder._forwarder is not None
    run = transcoder._forwarder.run
    assert isinstance(run, GeminiRun)
    assert run._decoded == MANY  # of the chunks that are not read in full


def test_counts_of_thoughts_fit_a_template() -> None:
    def thought(words: str, tokens: int) -> bytes:
        counts = {"promptTokenCount": 9, "totalTokenCount": 9 + tokens, **DETAILS}
        told = {"usageMetadata": {**counts, "thoughtsTokenCount": tokens}}
        return chunk(candidate({"text": words, "thought": True}), **told)

    chunks = [thought(text, n) for n, text in enumerate("abcde", 1)]
    assert ways(*chunks) == "d" + "l" + "ttt"
    output = Usage(9, 5, reasoning_tokens=5, extra=DETAILS)
    assert read(*after_many(*chunks)).events[-1] == [ReasoningDelta(0, "e"), UsageUpdate(output)]


@pytest.mark.parametrize("same", [{}, {"thoughtsTokenCount": 4}])
def test_equal_counts_fit_a_template(same: dict[str, Any]) -> None:
    chunks = [counted(text, 3, totalTokenCount=12, **same) for text in "abcde"]
    assert ways(*chunks) == "d" + "l" + "ttt"
    assert read(*after_many(*chunks)).events[MANY:] == [[TextDelta(0, text)] for text in "abcde"]


def test_chunks_without_counts_fit_a_template() -> None:
    assert ways(*(chunk(candidate({"text": text})) for text in "abcd")) == "l" + "ttt"


def test_counts_that_return_to_earlier_ones_are_reported() -> None:
    numbers = [1, 2, 3, 2, 3, 0, 3]
    reading = read(*after_many(*(growing("a", n) for n in numbers)))
    assert reading.events[MANY + 1 :] == [
        [TextDelta(0, "a"), UsageUpdate(Usage(9, n, extra=DETAILS))] for n in numbers[1:]
    ]


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(candidate({"text": t}), usageMetadata={"totalTokenCount": 9}) for t in "abcde"],
        [
            growing("a", n, promptTokenCount=n, thoughtsTokenCount=n, cachedContentTokenCount=n)
            for n in range(5)
        ],
        [
            growing(text, 1).replace(b'"modelVersion"', b'"usageMetadata": %b, "modelVersion"')
            % b'{"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}'
            for text in "abcde"
        ],
    ],
    ids=["one count", "all counts differ", "counts twice"],
)
def test_other_counts_are_decoded(chunks: list[bytes]) -> None:
    assert set(ways(*chunks)) == {"d"}
    read(*after_many(*chunks))


def test_text_that_equals_another_field_is_decoded() -> None:
    texts = ["a", "TEXT", "resp-1", "x", "y"]
    chunks = [growing(text, n) for n, text in enumerate(texts)]
    assert ways(*chunks) == "d" + "lll" + "t"
    read(*after_many(*chunks))


def test_template_of_an_earlier_message_is_forgotten() -> None:
    other = growing("x", 9).replace(b"resp-1", b"resp-2")
    assert other != growing("x", 9)
    read(*after_many(*GROWN, other, *GROWN))


@pytest.mark.parametrize(
    "between",
    [
        {"finishReason": "STOP"},
        {"citationMetadata": {"citationSources": [{"startIndex": 0, "endIndex": 1}]}},
        {"avgLogprobs": 1},
    ],
)
def test_chunk_in_full_ends_the_template(between: dict[str, Any]) -> None:
    odd = chunk(candidate({"text": "x"}, **between), usageMetadata={"promptTokenCount": 9})
    stream = *GROWN, odd, *after_many(*GROWN)
    assert ways(*stream) == "dltttt" + "d" * (MANY + 1) + "lttttt"
    read(*after_many(*stream))


def test_number_of_learned_templates_is_bounded() -> None:
    chunks = [growing("x", n) for n in range(40)]
    unlike = [data.replace(b'"role"', b'%b"role"' % (b" " * n)) for n, data in enumerate(chunks)]
    assert ways(*unlike).count("l") == 8


def test_long_text_is_cited_by_its_bytes() -> None:
    """Offsets count the bytes of texts that fit a template, too."""
    source = {"startIndex": 70, "endIndex": 72, "uri": "https://h"}
    metadata = {"citationMetadata": {"citationSources": [source]}}
    pieces = ["\u00e9", *("x" for _ in range(67)), "y" * 300]
    last = chunk(candidate({"text": ""}, finishReason="STOP", **metadata))
    reading = read(*(growing(text, n) for n, text in enumerate(pieces)), last)
    (cited,) = [event for event in reading.events[-1] if isinstance(event, CitationDelta)]
    assert (cited.citation.start, cited.citation.end) == (69, 71)


def test_counts_of_a_text_that_exceeds_a_bound_are_not_reported() -> None:
    for count in range(MANY, MANY + 5):
        transcoder = Transcoder("gemini", "anthropic", limits=Limits(max_accumulated_bytes=700))
        for n in range(1, count):
            transcoder.feed(growing("a", n))
        transcoder.feed(growing("x" * 900, count))
        assert isinstance(transcoder.outcome, Failed)
        assert transcoder.usage.output_tokens == count - 1


def one_count(words: str, tokens: int) -> bytes:
    """Return a chunk of text with a count for which no template is learned."""
    return chunk(candidate({"text": words}), usageMetadata={"candidatesTokenCount": tokens})


@pytest.mark.parametrize("make", [growing, one_count])
@pytest.mark.parametrize("plain", [0, 1, MANY + 4])
@pytest.mark.parametrize("is_one_read", [True, False])
def test_counts_stay_where_a_chunk_behind_them_exceeds_a_bound(
    make: Callable[[str, int], bytes], plain: int, is_one_read: bool
) -> None:
    without = [chunk(candidate({"text": text})) for text in ("a", "x" * 900)]
    for count in (3, MANY, MANY + 5):
        chunks = [make("a", n) for n in range(1, count)]
        # From some chunks without counts on, a template reads them.
        chunks += [*without[:1] * plain, make("a", count), *without]
        transcoder = Transcoder("gemini", "anthropic", limits=Limits(max_accumulated_bytes=700))
        for data in (chunks[0], b"".join(chunks[1:])) if is_one_read else chunks:
            transcoder.feed(data)
        assert isinstance(transcoder.outcome, Failed)
        assert transcoder.usage.output_tokens == count


def test_usage_fields_are_written_in_their_first_order_at_every_read_size() -> None:
    tier = {"serviceTier": "standard"}
    first, other = {**DETAILS, **tier}, {**tier, **DETAILS}
    last = {"promptTokenCount": 9, "candidatesTokenCount": 3, **first}
    chunks = [
        *(counted("a", 1, first), counted("b", 2, first), counted("c", 3, other)),
        chunk(candidate({"text": "d"}, finishReason="STOP"), usageMetadata=last),
    ]
    for reads in ([b"".join(chunks)], chunks, [bytes([byte]) for byte in b"".join(chunks)]):
        transcoder = Transcoder("gemini", "gemini", verbatim=False)
        written = b"".join([part for read in reads for part in transcoder.feed(read)])
        written += b"".join(transcoder.close())
        assert written.rindex(b"promptTokensDetails") < written.rindex(b"serviceTier")
