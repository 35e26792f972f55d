"""The clients that judge what is written: they take it as it is, and no less of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.bodies.samples import make_source
from support.draws import Draws, draws
from support.streams.client_readings import assert_client_has
from support.streams.content import decode, overlaps, projected, transcode

ENDS = {"openai_responses": b"\n\n", "gemini": b"\r\n\r\n"}
SAYS_NOTHING = b'"parts":[{"text":""}]'
"""Stands in chunks of which some clients read what is beside it, and most nothing."""
REFUSED = (AssertionError, KeyError, IndexError, TypeError, ValueError)

each_target = pytest.mark.parametrize("target", ENDS)


@each_target
@given(d=draws(320))
def test_reader_detects_lost_and_repeated_frames(target: str, d: Draws) -> None:
    source = d.pick(("openai_responses", "gemini", "anthropic"))
    stream = make_source(d, source)
    events = decode(stream.frames, source).events
    passed, _ = projected(events, target, extras=source == target)
    out, _ = transcode(stream.frames, source, target)
    frames = [frame + ENDS[target] for frame in out.split(ENDS[target])[:-1]]
    at = d.below(len(frames))
    is_ping = frames[at].startswith(b":") or not frames[at].strip()
    if overlaps(events) or is_ping or SAYS_NOTHING in frames[at]:
        return
    assert_client_has(out, passed, target, extras=source == target)
    for spoilt in (frames[:at] + frames[at + 1 :], [*frames[: at + 1], *frames[at:]]):
        with pytest.raises(REFUSED):
            assert_client_has(b"".join(spoilt), passed, target, extras=source == target)
