"""Whether anything of the official SDKs' types is dropped in silence, and what says so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai._gaos.types.interactions.interaction import Interaction
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from support.bodies.sdk_types import problems
from support.bodies.type_cases.accepted import CHANGED, SILENT
from support.bodies.type_cases.answers import anthropic_content, gemini_parts, response_output
from support.bodies.type_cases.case import JSON, Case, cases_of
from support.bodies.type_cases.coverage import COVERED, KINDS, SOURCES, TARGETS, Coverage, cover
from support.bodies.type_cases.equality import difference, said
from support.bodies.type_cases.judge import Result, fate_of
from support.bodies.type_cases.reach import Point, points_of, reached_by, root_of
from support.bodies.type_cases.walk import ABSENT, Variant, label_of, members, variants

from streamnorm import (
    DecodeError,
    EncodeError,
    UpstreamError,
    decode_message,
    translate_message,
)
from streamnorm._core.losses.reducers import CLIENT_KINDS

_SAMPLE = 50

each_covered = pytest.mark.parametrize(("source", "kind"), COVERED)
each_source = pytest.mark.parametrize("source", SOURCES)


# The figure


@each_covered
def test_nothing_of_a_sample_is_dropped_in_silence(source: str, kind: str) -> None:
    coverage = cover(source, kind, sample=_SAMPLE)
    assert coverage.cases == len(list(islice(_cases(source, kind), _SAMPLE)))
    assert list(map(str, coverage.findings)) == []


@pytest.mark.slow
@each_covered
def test_nothing_is_dropped_in_silence(source: str, kind: str) -> None:
    assert list(map(str, _cover_all(source, kind).findings)) == []


@pytest.mark.slow
def test_each_accepted_class_has_a_case() -> None:
    used = {row for pair in COVERED for row in _cover_all(*pair).accepted}
    assert {*SILENT, *CHANGED} - used == set()


@cache
def _cover_all(source: str, kind: str) -> Coverage:
    # Interactions, whose losses are Gemini's, is judged by the sample above and the command.
    return cover(source, kind, targets=TARGETS[:-1])


def _cases(source: str, kind: str) -> Iterable[Case]:
    beta = {"beta": True} if source.endswith(" (beta)") else {}
    return KINDS[kind].cases(source.removesuffix(" (beta)"), **beta)


def test_the_command_prints_the_figure_and_the_finds() -> None:
    command = [sys.executable, str(Path(__file__).parent / "type_coverage/run.py")]
    command += ["--source", "gemini", "--kind", "answers", "--sample", "20", "--seed", "3"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    heads, row, end = found.stdout.splitlines()
    assert heads.split()[:4] == ["source", "kind", "cases", "equal"]
    assert row.split()[:3] == ["gemini", "answers", "20"]
    assert end == "0 finds"


# What a case is made of


# What no case need have: names of models, fields that the SDK sends as headers or adds to what it
# received, and what a stream has in its deltas.
_LEFT_OUT = re.compile(
    r".*\.model|MessageCreateParamsNonStreaming\.(betas\[\]|user_profile_id|workspace_id)"
    r"|GenerateContentResponse\.(automaticFunctionCallingHistory|parsed|sdkHttpResponse).*"
    r"|HttpResponse\..*|InteractionTypedDict\.(input|output_\w+)(\[\])*"
)
_IN_DELTAS = re.compile(
    r"(Beta)?Message\.content\[\]|\w+UseBlock\.input\[\]|(Beta)?TextBlock\.citations\[\]"
    r"|BetaCompactionBlock\.(content|encrypted_content)"
)
_LARGE = ("openai_responses", "anthropic (beta)")
_LARGE_LAST = [
    pytest.param(source, kind, marks=pytest.mark.slow) if source in _LARGE else (source, kind)
    for source, kind in COVERED
]


@pytest.mark.parametrize(("source", "kind"), _LARGE_LAST)
def test_the_cases_reach_each_member_literal_and_field(source: str, kind: str) -> None:
    root = root_of(source, kind)
    bodies = (case.body for case in _cases(source, kind))
    if kind == "streams":
        bodies = (frame for body in bodies for frame in body["frames"])
    missing = [
        point
        for point in points_of(root) - reached_by(bodies, root)
        for place in [f"{point.owner}.{point.field}"]
        if not _LEFT_OUT.fullmatch(place)
        and not (kind == "streams" and _IN_DELTAS.fullmatch(place))
    ]
    assert missing == []


@each_source
def test_requests_are_of_the_types_of_the_sdk(source: str) -> None:
    dialect, beta = source.removesuffix(" (beta)"), source.endswith(" (beta)")
    for case in islice(_cases(source, "requests"), 0, None, 7):
        body = case.body
        if "webSearch" in case.path or any(word in case.path for word in _NOT_PLAIN_JSON):
            continue
        assert problems(dialect, body, beta=beta) == [], case.path


# The SDK of Google reads these from JSON only in its own way: bytes and times are no strings.
_NOT_PLAIN_JSON = ("Audio", "timeRangeFilter")

_ANSWERS: dict[str, type[BaseModel]] = {
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
    "anthropic": BetaMessage,
    "anthropic (beta)": BetaMessage,
    "gemini": GenerateContentResponse,
    "gemini_interactions": Interaction,
}
_EVENTS: dict[str, Any] = {
    "openai_chat": ChatCompletionChunk,
    "openai_responses": ResponseStreamEvent,
    "anthropic": BetaRawMessageStreamEvent,
    "anthropic (beta)": BetaRawMessageStreamEvent,
    "gemini": GenerateContentResponse,
}


# The SDK reads all fields, deprecated ones, too.
@pytest.mark.filterwarnings("ignore:.*DEPRECATED:DeprecationWarning")
@each_source
def test_answers_and_events_are_of_the_types_of_the_sdk(source: str) -> None:
    for case in islice(_cases(source, "answers"), 0, None, 19):
        _ANSWERS[source].model_validate(case.body)
    if (source, "streams") not in COVERED:
        return
    events = {label_of(event): TypeAdapter(event) for event in members(_EVENTS[source])}
    for case in islice(_cases(source, "streams"), 0, None, 19):
        for frame in case.body["frames"]:
            # What an event says of a text, such as null, is repeated where other types say it.
            is_repeated = "logprobs" in case.path and not case.path.startswith(
                frame.get("type", "-")
            )
            if is_repeated:
                continue
            found = events.get(frame.get("type", ""), next(iter(events.values())))
            found.validate_python(frame)


class _Inner(TypedDict, total=False):
    level: Literal["low", "high"]


class _Outer(TypedDict, total=False):
    type: Literal["outer"]
    inner: _Inner
    names: list[str]
    flag: bool | None


def test_a_type_has_a_variant_for_each_member_literal_and_field() -> None:
    found = {variant.path: variant for variant in variants(_Outer)}
    assert {path: variant.value for path, variant in found.items()} == {
        "": {},
        ".type=outer": {"type": "outer"},
        ".inner": {"inner": {}},
        ".inner.level=low": {"inner": {"level": "low"}},
        ".inner.level=high": {"inner": {"level": "high"}},
        ".names[]": {"names": ["names_A"]},
        ".flag": {"flag": True},
        ".flag=false": {"flag": False},
        ".flag=null": {"flag": None},
    }
    assert found[".inner.level=low"].without == ({"inner": {}}, {})
    assert found[".names[]"].others == ({"names": ["names_B"]},)
    assert [path for path, variant in found.items() if variant.is_null] == [
        *("", ".inner", ".flag=null")
    ]


def test_points_are_counted_where_bodies_have_them() -> None:
    has_type, has_name = Point("", "", "_Outer"), Point("_Outer", "names[]", "str")
    holds, low = Point("_Outer", "inner", "_Inner"), Point("_Inner", "level", "low")
    high, outer = Point("_Inner", "level", "high"), Point("_Outer", "type", "outer")
    every = {has_type, has_name, holds, low, high, outer, Point("_Outer", "flag", "bool")}
    assert points_of(_Outer) == every
    found = reached_by([{"names": ["a"]}, {"inner": {"level": "low"}, "flag": None}], _Outer)
    assert found == {has_type, has_name, holds, low}


# What is said of a case


def judge(outputs: dict[str, Result]) -> str:
    """Return the fate of a field `a` of a request that also has a field `b`."""
    whole = Variant(".a=x", {"b": 1, "a": "x"}, ({"b": 1, "a": "y"},), ({"b": 1},))

    def build(value: Any) -> JSON:
        return {} if value is ABSENT else dict(value)

    (case,) = cases_of("openai_chat", "", [whole], build)
    keys = {"b": "without", "": "nothing"}

    def translate(body: JSON, dialect: str, target: str) -> Result:
        return outputs[body.get("a", "") or keys["b" if body else ""]]

    return fate_of(case, "gemini", translate).fate


LOST = {("a", "request", "dropped"): 1}
OTHER_LOSS = {("c", "request", "dropped"): 1}


@pytest.mark.parametrize(
    ("fate", "x", "y", "without", "nothing"),
    [
        ("carried", Result("1", {}), Result("2", {}), Result("3", {}), Result("", {})),
        # The field is there, whatever its value: that is lost.
        ("silent", Result("1", {}), Result("1", {}), Result("2", {}), Result("", {})),
        # The other value is written as this one, and says so.
        ("carried", Result("1", {}), Result("1", LOST), Result("2", {}), Result("", {})),
        # Without the field it is what it is with it.
        ("silent", Result("1", {}), Result("2", {}), Result("1", {}), Result("", {})),
        # A body that is refused is no other body.
        ("silent", Result("1", {}), Result("", {}, "no"), Result("1", {}), Result("", {})),
        ("silent", Result("1", {}), *[Result("", {}, "no")] * 3),
        ("carried", Result("1", {}), Result("2", {}), Result("", {}, "no"), Result("", {})),
        ("silent", Result("1", {}), Result("1", {}), Result("1", {}), Result("", {})),
        ("loss", Result("1", LOST), Result("1", LOST), Result("1", {}), Result("", {})),
        ("loss", Result("1", LOST), Result("1", {}), Result("1", {}), Result("", {})),
        ("refused", Result("", {}, "no"), Result("1", {}), Result("1", {}), Result("", {})),
        # Lost with what holds it, or beside it.
        ("loss", Result("1", OTHER_LOSS), *[Result("1", OTHER_LOSS)] * 2, Result("1", {})),
        ("silent", Result("1", OTHER_LOSS), *[Result("1", OTHER_LOSS)] * 2, Result("", {})),
    ],
)
def test_the_fate_of_a_field(
    fate: str, x: Result, y: Result, without: Result, nothing: Result
) -> None:
    assert judge({"x": x, "y": y, "without": without, "nothing": nothing}) == fate


@pytest.mark.parametrize(
    ("loss", "fate"),
    [
        ("citations/messages/dropped", "loss"),
        ("extra/annotations/dropped", "loss"),
        # The place of the loss is the place of everything.
        ("status/messages/dropped", "silent"),
    ],
)
def test_a_loss_beside_what_stays_names_the_field(loss: str, fate: str) -> None:
    feature, where, detail = loss.split("/")
    held, beside = Result("1", {(feature, where, detail): 1}), Result("2", {})
    whole = Variant(".messages[].annotations", "x", ("y",), ("",))
    (case,) = cases_of("openai_chat", "", [whole], lambda value: {"a": value})
    found = {"x": held, "y": held, "": beside, ABSENT: beside}
    assert fate_of(case, "gemini", lambda body, *_: found[body["a"]]).fate == fate


def test_a_difference_names_its_place() -> None:
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == ""
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == "$.a[1].b is 3, expected 2"
    assert difference({"a": 1}, {}) == "$.a is gone"
    assert difference({}, {"a": 1}) == "$.a is added"
    assert difference([1], [1, 2]) == "$ has 2 elements, expected 1"
    assert said({"a": None, "b": {"c": None}, "d": {}}) == {"d": {}}


# An answer that has nothing else


_ALONE: dict[str, tuple[Callable[[str, Any], JSON], str]] = {
    "openai_responses": (response_output, "output["),
    "anthropic": (anthropic_content, "content["),
    "gemini": (gemini_parts, "candidates[].content.parts[]."),
}


@pytest.mark.parametrize("source", _ALONE)
def test_no_item_alone_becomes_a_clean_and_empty_answer(source: str) -> None:
    _, prefix = _ALONE[source]
    seen: set[str] = set()
    for case in _cases("anthropic (beta)" if source == "anthropic" else source, "answers"):
        is_item = case.path.startswith(prefix) and case.path.count("[") == prefix.count("[")
        if not is_item or case.is_null:
            continue
        body = _without_text(case.body, source)
        kind = case.path.removeprefix(prefix).rstrip("]")
        for target in TARGETS:
            if target == source or kind in seen:
                continue
            try:
                made = translate_message(body, to=target, dialect=source)
            except (DecodeError, EncodeError, UpstreamError):
                continue
            assert kind not in CLIENT_KINDS or kind in ("shell_call", "tool_search_call")
            assert made.losses or decode_message(made.body, target).blocks, (case.path, target)
        seen.add(kind)
    assert seen


def _without_text(body: JSON, source: str) -> JSON:
    """Return an answer without the text that stands beside all items."""
    if source == "openai_responses":
        return {**body, "output": [item for item in body["output"] if item.get("id") != "msg_1"]}
    if source == "anthropic":
        content = [block for block in body["content"] if block.get("text") != "Done."]
        return {**body, "content": content}
    (candidate,) = body["candidates"]
    parts = [part for part in candidate["content"]["parts"] if part != {"text": "Done."}]
    return {**body, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}
