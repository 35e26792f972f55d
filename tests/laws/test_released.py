"""A stream that nobody reads any more leaves nothing behind."""

from __future__ import annotations

import gc
import weakref

import pytest
from support.streams.content import DIALECTS
from support.streams.corpus import recordings

from streamnorm import Transcoder
from streamnorm.codec import decoder


@pytest.mark.parametrize("dialect", DIALECTS)
def test_streams_that_were_left_in_the_middle_are_freed(dialect: str) -> None:
    """Two thirds are read, so that blocks are open."""
    left: dict[str, weakref.ref[object]] = {}
    for recording in recordings(dialect):
        reader, transcoder = decoder(dialect), Transcoder(dialect, "anthropic")
        for line in recording.body[: len(recording.body) * 2 // 3].splitlines(keepends=True):
            reader.feed(line)
            transcoder.feed(line)
        left[f"{recording.name}: decoder"] = weakref.ref(reader)
        left[f"{recording.name}: transcoder"] = weakref.ref(transcoder)
    del reader, transcoder
    gc.collect()
    assert [name for name, known in left.items() if known() is not None] == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_streams_that_ended_are_freed_without_the_garbage_collector(dialect: str) -> None:
    """Of a gateway's streams, the collector would find them late: some MiB of them wait for it."""
    left: dict[str, weakref.ref[object]] = {}
    gc.disable()
    try:
        for recording in recordings(dialect):
            reader = decoder(dialect)
            transcoders = [Transcoder(dialect, target) for target in DIALECTS]
            for line in recording.body.splitlines(keepends=True):
                reader.feed(line)
                for transcoder in transcoders:
                    transcoder.feed(line)
            reader.close()
            left[f"{recording.name}: decoder"] = weakref.ref(reader)
            for target, transcoder in zip(DIALECTS, transcoders, strict=True):
                transcoder.close()
                left[f"{recording.name} to {target}"] = weakref.ref(transcoder)
            del reader, transcoder, transcoders
        assert [name for name, known in left.items() if known() is not None] == []
    finally:
        gc.enable()
