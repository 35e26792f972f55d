"""Coverage figures: how many type members, literals and fields are carried, lost or refused."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from support.bodies.type_cases.accepted import Row, accepted_difference, accepted_silence
from support.bodies.type_cases.answers import answer_cases
from support.bodies.type_cases.case import JSON, Case
from support.bodies.type_cases.judge import (
    Result,
    Translate,
    fate_of,
    translated_answer,
    translated_request,
    translated_stream,
)
from support.bodies.type_cases.own import answer_difference, request_difference, stream_difference
from support.bodies.type_cases.requests import request_cases
from support.bodies.type_cases.streams import stream_cases

__all__ = ["COVERED", "KINDS", "SOURCES", "TARGETS", "Coverage", "Finding", "cover"]

SOURCES = (
    *("openai_chat", "openai_responses", "anthropic", "anthropic (beta)", "gemini"),
    "gemini_interactions",
)
"""The dialects, and Anthropic's with the types of its betas."""
TARGETS = ("openai_chat", "openai_responses", "anthropic", "gemini", "gemini_interactions")
"""The dialects that each case goes to."""


class _Kind(NamedTuple):
    cases: Callable[..., Iterator[Case]]
    differs: Callable[[JSON, str], str]
    translate: Translate


KINDS = {
    "requests": _Kind(request_cases, request_difference, translated_request),
    "answers": _Kind(answer_cases, answer_difference, translated_answer),
    "streams": _Kind(stream_cases, stream_difference, translated_stream),
}


COVERED = [
    (source, kind)
    for source in SOURCES
    for kind in KINDS
    # A stream of Interactions has the steps of its whole answers.
    if (source, kind) != ("gemini_interactions", "streams")
]
"""Sources with each kind of bodies that there are cases of."""


class Finding(NamedTuple):
    """An element that is silently dropped or changed in its own dialect.

    Attributes:
        source: Its dialect.
        kind: Where it stands: in requests, answers or streams.
        path: Its position.
        target: The dialect that it goes to.
        problem: What is wrong.
    """

    source: str
    kind: str
    path: str
    target: str
    problem: str

    def __str__(self) -> str:
        return f"{self.source} {self.kind}: {self.path} to {self.target}: {self.problem}"


class Coverage(NamedTuple):
    """Coverage of one kind of bodies in a dialect.

    Attributes:
        cases: Number of members, literals and fields.
        equal: How many come back equal in their own dialect.
        fates: What becomes of them elsewhere, counted once a target; `listed` are those that
            are accepted with a reason.
        findings: What is wrong.
        accepted: The classes that something was accepted by.
    """

    cases: int
    equal: int
    fates: Counter[str]
    findings: list[Finding]
    accepted: frozenset[Row]


# Neighbouring cases have bodies in common: those of the other words, and those without them.
_MAX_TRANSLATIONS = 2048


def cover(
    source: str,
    kind: str,
    *,
    sample: int | None = None,
    seed: int = 1,
    targets: Sequence[str] = TARGETS,
    on_case: Callable[[int, int], None] | None = None,
) -> Coverage:
    """Return the coverage of one kind of bodies in a dialect.

    Args:
        source: One of `SOURCES`.
        kind: One of `KINDS`.
        sample: Number of cases to take at random; None for all.
        seed: Seed of the sample.
        targets: Some of `TARGETS`.
        on_case: Called before each case with its number and the number of all.
    """
    dialect = source.removesuffix(" (beta)")
    known = KINDS[kind]
    cases = list(known.cases(dialect, **({"beta": True} if dialect != source else {})))
    if sample is not None and sample < len(cases):
        cases = random.Random(seed).sample(cases, sample)  # noqa: S311 - no secret
    equal, fates = 0, Counter[str]()
    findings: list[Finding] = []
    accepted: set[Row] = set()
    translate = _remember(known.translate)
    for number, case in enumerate(cases):
        if on_case is not None:
            on_case(number, len(cases))
        difference = known.differs(case.body, dialect)
        equal += not difference
        # A null says nothing, so any spelling of it, and none, is equal.
        if difference and not case.is_null:
            if row := accepted_difference(kind, case):
                accepted.add(row)
            else:
                findings.append(Finding(source, kind, case.path, dialect, difference))
        for target in targets:
            if target == dialect:
                continue
            fate: str = fate_of(case, target, translate).fate
            if fate == "silent" and (row := accepted_silence(kind, case, target)):
                accepted.add(row)
                fate = "listed"
            fates[fate] += 1
            if fate == "silent":
                findings.append(Finding(source, kind, case.path, target, "dropped in silence"))
    return Coverage(len(cases), equal, fates, findings, frozenset(accepted))


def _remember(translate: Translate) -> Translate:
    """Return a caching version of a translation."""

    @functools.lru_cache(maxsize=_MAX_TRANSLATIONS)
    def translated(body: str, dialect: str, target: str) -> Result:
        return translate(json.loads(body), dialect, target)

    return lambda body, dialect, target: translated(json.dumps(body), dialect, target)
