"""The variants of a run: what the scripted upstream does besides answering."""

from __future__ import annotations

from typing import NamedTuple

from clients.tasks import READ_FILES, Task

from streamnorm.recording.chunking import Rechunk
from streamnorm.testing import faults

__all__ = ["VARIANTS", "Variant"]

_ALL = ("anthropic", "openai_chat", "openai_responses", "gemini")


class Variant(NamedTuple):
    """A variant.

    Attributes:
        name: Its name on the command line.
        first: Faults of the first answer.
        each: Faults of all answers.
        refusals: Faults that answer instead of the script, one request each.
        rechunk: How bodies are cut into pieces.
        reasons: Whether the model reasons.
        interleaves: Whether the arguments of parallel calls are interleaved.
        settings: Settings of the gateway, in TOML.
        dialects: Dialects of the upstreams that it is for.
        options: Words that the agent's own `launch` knows.
        task: The task.
    """

    name: str
    first: tuple[faults.Fault, ...] = ()
    each: tuple[faults.Fault, ...] = ()
    refusals: tuple[faults.Fault, ...] = ()
    rechunk: Rechunk = "event"
    reasons: bool = True
    interleaves: bool = False
    settings: str = ""
    dialects: tuple[str, ...] = _ALL
    options: tuple[str, ...] = ()
    task: Task = READ_FILES


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("plain"),
        Variant("no_reasoning", reasons=False),
        # The other dialects send whole calls, or one block after the other.
        Variant("interleaved", interleaves=True, dialects=("openai_chat", "openai_responses")),
        Variant("crlf", each=(faults.crlf(),)),
        Variant("bytewise", rechunk="byte"),
        Variant("no_done", each=(faults.drop(event=-1),), dialects=("openai_chat",)),
        Variant("429_first", refusals=(faults.http(429),)),
        Variant("529_first", refusals=(faults.http(529),)),
        # Longer than `keepalive_s`: the agent gets pings.
        Variant("pause", first=(faults.stall(event=3, s=1.0),), settings="keepalive_s = 0.2"),
        Variant("cut", first=(faults.cut(event=4),)),
        Variant("error", first=(faults.error_event(event=4),)),
        Variant(
            "silent", first=(faults.stall(event=4),), settings="idle_s = 1.0\nkeepalive_s = 0.2"
        ),
        Variant("always_cut", each=(faults.cut(event=4),)),
        Variant("always_529", refusals=(faults.http(529, times=None),)),
    )
}
"""The variants of all agents, by name."""
