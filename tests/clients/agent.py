"""An agent: how it is started, how it calls tools, and what it does when a stream fails."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from clients.tasks import Call
from clients.variants import Variant

__all__ = [
    "Agent",
    "Expected",
    "Launch",
    "Outcome",
    "Report",
    "one_after_the_other",
    "report_of_stream_json",
]

Outcome: TypeAlias = Literal["answered", "failed", "false end", "hung", "looped"]
"""How a run ends: with the script's final answer, with an error that the agent reports, with
another answer that it takes for the whole, never, or with too many requests."""


class Launch(NamedTuple):
    """A command.

    Attributes:
        arguments: The program and its arguments.
        environ: Its environment, besides `HOME`, `PATH`, `LANG` and `TERM`.
    """

    arguments: Sequence[str | Path]
    environ: Mapping[str, str] = {}


def one_after_the_other(*commands: Sequence[str | Path]) -> list[str | Path]:
    """Return the command that runs several, until one fails."""
    return ["/bin/sh", "-c", " && ".join(shlex.join(map(str, one)) for one in commands)]


class Report(NamedTuple):
    """What an agent printed.

    Attributes:
        answer: Its final answer; "" if there is none.
        is_error: Whether it says that it failed.
    """

    answer: str
    is_error: bool


def report_of_stream_json(output: str, status: int) -> Report:
    """Read the lines of `--output-format stream-json`; the last is the result."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    result = next((line for line in reversed(lines) if line["type"] == "result"), {})
    return Report(result.get("result", ""), bool(status or result.get("is_error", True)))


class Expected(NamedTuple):
    """How a run must end.

    Attributes:
        requests: How many requests for messages reach the upstream.
        outcome: How it ends.
        why: The rule of the agent, or of the gateway, that makes it so.
    """

    requests: int
    outcome: Outcome
    why: str


def default_of(variant: str) -> Expected:
    """Return how a run ends in which the agent has nothing to decide."""
    if variant.startswith("to_"):
        return Expected(3, "answered", "two turns, the second of two upstreams")
    if variant == "turns" or variant.startswith("at_"):
        return Expected(3, "answered", "three turns")
    return Expected(2, "answered", "two turns")


class Agent(NamedTuple):
    """An agent.

    Attributes:
        name: Its name on the command line.
        dialect: The dialect it speaks.
        program: Its program in `node_modules`; `*` is a wildcard.
        upstreams: Dialects of the upstreams that it is run on.
        launch: Returns the command, from the program, its home, the gateway's URL, the prompt
            and the variant's options.
        read: Its way of reading a file, be it text or an image.
        report: Returns what it printed, from its output and exit status.
        expect: Returns how a run must end, from the variant's name and the upstream's dialect.
        variants: Variants of its own.
        keeps_call_ids: Whether it sends the ids of calls and results back, or leaves them out.
        drops_signatures: Dialects of the upstreams whose signatures it does not send back.
        drops_reasoning_ids: Whether it sends reasoning back without the ids of its items, on an
            upstream of its own dialect.
        own_variants: Names of the variants that it is run with on an upstream of its own dialect;
            None = all.  What fails there is between the agent and its vendor.
        skips: Names of the variants that it is not run with, as `NAME` or as `NAME on UPSTREAM`.
    """

    name: str
    dialect: str
    program: str
    upstreams: tuple[str, ...]
    launch: Callable[[Path, Path, str, str, tuple[str, ...]], Launch]
    read: Call
    report: Callable[[str, int], Report]
    expect: Callable[[str, str], Expected]
    variants: tuple[Variant, ...] = ()
    keeps_call_ids: bool = True
    drops_signatures: tuple[str, ...] = ()
    drops_reasoning_ids: bool = False
    own_variants: tuple[str, ...] | None = ("plain", "no_reasoning", "turns", "interleaved", "crlf")
    skips: tuple[str, ...] = ()

    def runs(self, variant: Variant, upstream: str) -> bool:
        """Return whether the agent is run with a variant on an upstream of a dialect."""
        if upstream not in variant.dialects:
            return False
        if {variant.name, f"{variant.name} on {upstream}"} & {*self.skips}:
            return False
        if upstream != self.dialect or self.own_variants is None or variant in self.variants:
            return True
        return variant.name in self.own_variants
