"""The laws over every real stream of the corpus, in all directions."""

from __future__ import annotations

import random
from itertools import groupby

import pytest
from support.streams.chunkings import events_of
from support.streams.client_readings import assert_client_has
from support.streams.content import (
    DIALECTS,
    ENCODER_OPTIONS,
    content_of,
    decode,
    encode,
    expected_outcome,
    overlaps,
    projected,
    transcode,
)
from support.streams.corpus import CorpusStream, corpus, each_provider_of, needs_corpus, pieces
from support.streams.terminal_rules import cuts, terminal_was_read

from streamnorm import (
    Completed,
    Failed,
    MessageStop,
    Reasoning,
    StreamError,
    ToolCall,
    accumulate,
    message_events,
)
from streamnorm.validation import validate

SMALL_BYTES = 4_000
PREFIX_BYTES = 12_000


def target_of(number: int) -> str:
    """Return the target of a numbered stream: each dialect in turn."""
    return DIALECTS[number % len(DIALECTS)]


@each_provider_of(*DIALECTS, one_in=2)
def test_real_streams_obey_the_laws(streams: list[CorpusStream]) -> None:
    """Laws 3, 4, 5, 6 and 7."""
    for number, stream in enumerate(streams, len(streams)):
        dialect = stream.dialect
        events, outcome, _ = decode([stream.body], dialect)
        assert validate(events) == [], stream
        message = accumulate(events)
        assert accumulate(message_events(message)) == message, stream
        if dialect in ("anthropic", "openai_chat"):  # the others overlap now and then
            # OpenRouter signs Claude's reasoning behind the calls.
            late = (Reasoning,) if dialect == "openai_chat" else ()
            assert not overlaps(events, (ToolCall, *late)), stream
        target = target_of(number)
        options = ENCODER_OPTIONS[target][number // len(DIALECTS) % len(ENCODER_OPTIONS[target])]
        same = dialect == target
        passed, losses = projected(events, target, extras=same, **options)
        encoded, counted = encode(events, target, extras=same, **options)
        wanted = content_of(passed, target, **options)
        assert content_of(decode([encoded], target).events, target, **options) == wanted, stream
        kept = tuple(loss for loss in counted if loss.where != "failed stream")
        assert kept == losses, stream
        out, run = transcode([stream.body], dialect, target, **options)
        back = decode([out], target)
        assert content_of(back.events, target, **options) == wanted, stream
        assert run.outcome == expected_outcome(outcome, passed), stream
        assert isinstance(back.outcome, Completed) == isinstance(run.outcome, Completed), stream
        if isinstance(run.outcome, Completed):
            assert run.losses == losses, stream
        assert_client_has(out, passed, target, extras=same, **options)


@each_provider_of(*DIALECTS, one_in=2)
def test_real_stream_passes_unchanged_to_its_own_dialect(streams: list[CorpusStream]) -> None:
    """In any chunking; an incomplete last event is replaced by an error."""
    for stream in streams:
        chunks = pieces(stream.body, stream.chunk_sizes or 64)
        out, run = transcode(chunks, stream.dialect, stream.dialect, verbatim=True)
        outcome = decode([stream.body], stream.dialect).outcome
        is_malformed = isinstance(outcome, Failed) and outcome.error.kind == "malformed"
        if not is_malformed and not stream.body.startswith(b"["):  # which becomes a stream
            # An incomplete event, such as a bare error at the end, is replaced by our error.
            *whole, _ = [b"", *events_of(stream.body + b"x")]
            assert out.startswith(b"".join(whole)), stream
            assert out == stream.body or not isinstance(outcome, Completed), stream
        assert run.outcome == outcome, stream
        assert run.losses == (), stream


@each_provider_of(*DIALECTS, one_in=2)
def test_chunking_changes_nothing(streams: list[CorpusStream]) -> None:
    for number, stream in enumerate(streams, len(streams)):
        dialect = stream.dialect
        whole = decode([stream.body], dialect)
        rng = random.Random(stream.name)  # noqa: S311 - a seed is the point
        sizes = rng.choices((1, 2, 7, 90, 1_500), k=len(stream.body) // 100)
        small: list[list[int] | int] = [1] if stream.bytes <= SMALL_BYTES else []
        recorded = [stream.chunk_sizes] if stream.chunk_sizes else []
        for split in [64, sizes, *small, *recorded]:
            assert decode(pieces(stream.body, split), dialect) == whole, stream
        target = target_of(number)
        written, _ = transcode([stream.body], dialect, target)
        again, _ = transcode(pieces(stream.body, 200), dialect, target)
        assert again == written, stream


def samples() -> list[CorpusStream]:
    """Return the smallest and a middling stream or two of each provider, and some with choices."""
    found: list[CorpusStream] = []
    for dialect in DIALECTS:
        chat = dialect == "openai_chat"  # with many providers and long streams
        for _, group in groupby(corpus(dialect), lambda stream: stream.provider):
            streams = [stream for stream in group if not chat or stream.bytes <= PREFIX_BYTES]
            streams.sort(key=lambda stream: (stream.bytes, stream.name))
            found += streams[:1] + streams[len(streams) // 2 :][: 1 if chat else 2]
    found += [
        stream
        for stream in corpus("openai_chat")
        if stream.bytes <= PREFIX_BYTES and "multiple_choice" in stream.name
    ]
    return list(dict.fromkeys(found))


@needs_corpus
@pytest.mark.parametrize("stream", samples() or [None], ids=str)
def test_cut_stream_is_never_a_success(stream: CorpusStream) -> None:
    failed = isinstance(decode([stream.body], stream.dialect).outcome, Failed)
    for cut in cuts(stream.name, stream.body):
        events, outcome, _ = decode([stream.body[:cut]], stream.dialect)
        whole = terminal_was_read(stream.body[:cut], stream.dialect)
        assert isinstance(outcome, Completed) == (whole and not failed), cut
        assert failed or not isinstance(outcome, Failed)
        last = MessageStop if isinstance(outcome, Completed) else StreamError
        assert isinstance(events[-1], last), cut
