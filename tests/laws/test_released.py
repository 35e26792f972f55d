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
