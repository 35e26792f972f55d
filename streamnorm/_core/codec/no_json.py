"""Frames whose data is no JSON: `[DONE]`, blank data, joined events, and plain text."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from streamnorm._core.events import Event, Opaque
from streamnorm._core.json import InvalidJSON, clean, compact
from streamnorm._core.provider_errors import Fatal, named_error
from streamnorm.sse import Frame

if TYPE_CHECKING:
    from streamnorm._core.codec.decoder import Decoder

__all__ = ["DONE", "read_no_json"]

DONE = "[DONE]"
"""Data of the last frame of Chat Completions, which gateways send in other dialects, too."""


def read_no_json(
    decoder: Decoder,
    frame: Frame,
    problem: InvalidJSON,
    events: list[Event],
    names: Container[str] = (),
) -> None:
    """Append the events of a frame whose data is no JSON.

    Args:
        decoder: The decoder of the stream, which reads joined events one by one.
        frame: The frame.
        problem: Why its data is no JSON.
        events: The list to append to.
        names: Names of the dialect's events; empty if its events have none.

    Raises:
        Fatal: It is an error, or an event of the dialect, which should hold JSON.
    """
    data = frame.data
    if data.startswith(DONE):
        decoder.read_done(events)
    elif not data.strip():
        pass
    elif frame.event == "error":
        raise Fatal(named_error(data, None))
    elif "\n" in data and not problem.too_deep:  # events without a blank line between them
        decoder.note("joined_frames", "frame")
        # The name of the frame is that of one of its events, if they have names.
        name = "message" if names else frame.event
        for line in data.split("\n"):
            if decoder.outcome is None:
                decoder.read(Frame(name, line), events)
    elif frame.event == "message" or frame.event in names:
        raise decoder.invalid(problem) from problem
    else:
        events.append(Opaque(decoder.dialect, clean(frame.event), compact(data)))
