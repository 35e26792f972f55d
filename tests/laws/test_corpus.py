"""The laws of DESIGN §9 over every real stream of the corpus, in all directions."""

from __future__ import annotations

import random

import pytest
from corpus import CorpusStream, corpus, each_provider_of, needs_corpus, pieces
from judges import assert_client_has
from streams import DIALECTS, FIELDS, decode, encode, overlaps, projected, said, transcode
from terminals import cuts, terminal_was_read

from streamnorm import Completed, Failed, ToolCall, accumulate, message_events, validate

each_anthropic = each_provider_of("anthropic")
each_chat = each_provider_of("openai_chat")

SMALL_BYTES = 4_000


def assert_laws(streams: list[CorpusStream]) -> None:
    """Check laws 3, 4, 5, 6 and 7 with each stream."""
    for number, stream in enumerate(streams):
        dialect, field = stream.dialect, FIELDS[number % len(FIELDS)]
        events, outcome, _ = decode([stream.body], dialect)
        assert validate(events) == [], stream
        message = accumulate(events)
        assert accumulate(message_events(message)) == message, stream
        assert not overlaps(events, (ToolCall,)), stream
        for target in DIALECTS:
            passed, losses = projected(events, target, reasoning=field)
            encoded, counted = encode(events, target, reasoning=field)
            wanted = said(passed, target)
            assert said(decode([encoded], target).events, target) == wanted, stream
            assert counted == losses, stream
            out, run = transcode([stream.body], dialect, target, reasoning=field)
            back = decode([out], target)
            assert said(back.events, target) == wanted, stream
            assert isinstance(back.outcome, Completed) == isinstance(outcome, Completed), stream
            assert run.outcome == outcome, stream
            if isinstance(outcome, Completed):
                assert run.losses == losses, stream
            assert_client_has(out, passed, target, extras=dialect == target, reasoning=field)


@each_anthropic
def test_laws_hold_for_anthropic(streams: list[CorpusStream]) -> None:
    assert_laws(streams)


@each_chat
def test_laws_hold_for_chat(streams: list[CorpusStream]) -> None:
    assert_laws(streams)


def assert_untouched(streams: list[CorpusStream]) -> None:
    """Check that a stream that stays in its dialect is what it was, however it arrives."""
    for stream in streams:
        for sizes in (len(stream.body), stream.chunk_sizes or 64):
            chunks = pieces(stream.body, sizes)
            out, run = transcode(chunks, stream.dialect, stream.dialect, verbatim=True)
            assert out == stream.body, stream
            assert run.outcome == decode([stream.body], stream.dialect).outcome, stream
            assert run.losses == (), stream


@each_anthropic
def test_anthropic_stays_as_it_is(streams: list[CorpusStream]) -> None:
    assert_untouched(streams)


@each_chat
def test_chat_stays_as_it_is(streams: list[CorpusStream]) -> None:
    assert_untouched(streams)


@each_anthropic
def test_chunking_changes_nothing(streams: list[CorpusStream]) -> None:
    """As test_corpus does for Chat Completions, whose streams are more."""
    for stream in streams:
        whole = decode([stream.body], "anthropic")
        rng = random.Random(stream.name)  # noqa: S311 - a seed is the point
        sizes = rng.choices((1, 2, 7, 90, 1_500), k=len(stream.body) // 100)
        small: list[list[int] | int] = [1] if stream.bytes <= SMALL_BYTES else []
        for split in [64, sizes, *small]:
            assert decode(pieces(stream.body, split), "anthropic") == whole, stream
        written, _ = transcode([stream.body], "anthropic", "openai_chat")
        again, _ = transcode(pieces(stream.body, 200), "anthropic", "openai_chat")
        assert again == written, stream


def samples() -> list[CorpusStream]:
    """Return the smallest and a middling stream of each provider."""
    found: list[CorpusStream] = []
    for provider in sorted({stream.provider for stream in corpus("anthropic")}):
        streams = [stream for stream in corpus("anthropic") if stream.provider == provider]
        streams.sort(key=lambda stream: (stream.bytes, stream.name))
        found += streams[:4] + streams[len(streams) // 2 :][:4]
    return found


@needs_corpus
@pytest.mark.parametrize("stream", samples() or [None], ids=str)
def test_cut_stream_is_never_a_success(stream: CorpusStream) -> None:
    """As test_corpus does for Chat Completions."""
    for cut in cuts(stream.name, stream.body):
        outcome = decode([stream.body[:cut]], "anthropic").outcome
        whole = terminal_was_read(stream.body[:cut], "anthropic")
        assert isinstance(outcome, Completed) == whole, cut
        assert not isinstance(outcome, Failed)
