"""Union members, literals and fields of the SDKs' types that the cases cover.

Counted apart from `walk`, which makes the cases: it goes through the types once, and then through
the bodies with the types.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import json
import types
from collections.abc import Iterable
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

import typing_extensions
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai._gaos.types.base64fileinput import Base64FileInput
from google.genai._gaos.types.basemodel import UnrecognizedStr
from google.genai._gaos.types.interactions.interaction import InteractionTypedDict
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from support.bodies.sdk_types import request_type
from support.bodies.type_cases.case import JSON
from support.bodies.type_cases.walk import is_model

__all__ = ["Point", "points_of", "reached_by", "root_of"]

_ROOTS: dict[tuple[str, str], Any] = {
    ("openai_chat", "answers"): ChatCompletion,
    ("openai_chat", "streams"): ChatCompletionChunk,
    ("openai_responses", "answers"): Response,
    ("openai_responses", "streams"): ResponseStreamEvent,
    ("anthropic", "answers"): Message,
    ("anthropic", "streams"): RawMessageStreamEvent,
    ("anthropic (beta)", "answers"): BetaMessage,
    ("anthropic (beta)", "streams"): BetaRawMessageStreamEvent,
    ("gemini", "answers"): GenerateContentResponse,
    ("gemini", "streams"): GenerateContentResponse,
    ("gemini_interactions", "answers"): InteractionTypedDict,
}
# Of google-genai: any other word, and open files.
_NO_JSON = (UnrecognizedStr, *get_args(Base64FileInput))
_QUALIFIERS = (Annotated, Required, NotRequired)
_ARRAYS = (list, collections.abc.Iterable, collections.abc.Sequence)
_MAPS = (dict, collections.abc.Mapping)
_LABELS = ("type", "role", "object")


class Point(NamedTuple):
    """A union member, literal or scalar field to cover.

    Attributes:
        owner: Name of the type that has the field; "" for the root.
        field: The field, with `[]` of elements.
        what: Name of a member's type, or the literal.
    """

    owner: str
    field: str
    what: str


def root_of(source: str, kind: str) -> Any:
    """Return the type of a request, a whole answer, or an event of a stream."""
    if kind != "requests":
        return _ROOTS[source, kind]
    return request_type(source.removesuffix(" (beta)"), beta=source.endswith(" (beta)"))


def points_of(root: Any) -> set[Point]:
    """Return all points of a type except nulls."""
    found: set[Point] = set()
    seen: set[Any] = set()

    def visit(owner: str, field: str, members: Iterable[Any]) -> None:
        for member in members:
            if member is type(None):
                continue
            if (words := _words(member)) is not None:
                found.update(Point(owner, field, str(word)) for word in words)
            elif (inner := _element(member)) is not None:
                visit(owner, f"{field}[]", _members(inner))
            else:
                found.add(Point(owner, field, member.__name__))
                if (fields := _fields(member)) is not None and member not in seen:
                    seen.add(member)
                    for name, expected in fields.items():
                        visit(member.__name__, name, _members(expected))

    visit("", "", _members(root))
    return found


def reached_by(bodies: Iterable[JSON], root: Any) -> set[Point]:
    """Return a type's points that occur in bodies or events."""
    found: set[Point] = set()
    seen: set[tuple[str, str, str]] = set()

    def visit(owner: str, field: str, members: tuple[Any, ...], value: Any) -> None:
        # The bodies of neighbouring cases are equal but for one field.
        known = (owner, field, json.dumps(value))
        if known in seen:
            return
        seen.add(known)
        fitting = [member for member in members if _fits(member, value)]
        for member in fitting or [member for member in members if _has_form(member, value)]:
            if member is type(None):
                continue
            if _words(member) is not None:
                found.add(Point(owner, field, str(value)))
            elif (inner := _element(member)) is not None:
                for item in value.values() if isinstance(value, dict) else value:
                    visit(owner, f"{field}[]", _members(inner), item)
            else:
                found.add(Point(owner, field, member.__name__))
                fields = _fields(member) or {}
                for name in fields.keys() & value.keys() if fields else ():
                    visit(member.__name__, name, _members(fields[name]), value[name])

    for text in dict.fromkeys(map(json.dumps, bodies)):
        visit("", "", _members(root), json.loads(text))
    return found


def _bare(expected: Any) -> Any:
    while True:
        if get_origin(expected) in _QUALIFIERS:
            expected = get_args(expected)[0]
        elif isinstance(expected, typing_extensions.TypeAliasType):
            expected = expected.__value__
        else:
            return expected


@cache
def _members(expected: Any) -> tuple[Any, ...]:
    expected = _bare(expected)
    if get_origin(expected) not in (Union, types.UnionType):
        return (expected,)
    found = [member for part in get_args(expected) for member in _members(part)]
    # A request may hold blocks of an answer: each has a `TypedDict` beside its model.
    has_params = any(map(typing_extensions.is_typeddict, found))
    return tuple(
        member
        for member in found
        if not (has_params and is_model(member)) and member not in _NO_JSON
    )


@cache
def _fields(expected: Any) -> dict[str, Any] | None:
    if typing_extensions.is_typeddict(expected):
        return typing_extensions.get_type_hints(expected, include_extras=True)
    if not is_model(expected):
        return None
    return {field.alias or n: field.annotation for n, field in expected.model_fields.items()}


@cache
def _words(expected: Any) -> tuple[Any, ...] | None:
    if get_origin(expected) is Literal:
        return get_args(expected)
    if inspect.isclass(expected) and issubclass(expected, enum.Enum):
        return tuple(word.value for word in expected)
    return None


@cache
def _element(expected: Any) -> Any | None:
    """Return the element type of an array or map."""
    origin, inner = get_origin(expected), get_args(expected)
    if origin in _ARRAYS or getattr(origin, "__name__", "") == "SequenceNotStr":
        return inner[0]
    return inner[1] if origin in _MAPS and inner else None


def _fits(expected: Any, value: Any) -> bool:
    """Return whether a value and its content are of a type."""
    if not _has_form(expected, value):
        return False
    return not isinstance(value, dict | list) or _holds_fitting(expected, json.dumps(value))


@cache
def _holds_fitting(expected: Any, text: str) -> bool:
    """Return whether the content of an object or array fits a type."""
    value = json.loads(text)
    if (fields := _fields(expected)) is not None:
        return all(
            name in fields and any(_fits(member, item) for member in _members(fields[name]))
            for name, item in value.items()
        )
    if (inner := _element(expected)) is None:
        return True
    items = value.values() if isinstance(value, dict) else value
    return all(any(_fits(member, item) for member in _members(inner)) for item in items)


@cache
def _labels(expected: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the literal label fields of an object type, with their words."""
    labels: list[tuple[str, tuple[Any, ...]]] = []
    for name in _LABELS:
        members = _members((_fields(expected) or {}).get(name, str))
        words = [(None,) if member is type(None) else _words(member) for member in members]
        if None not in words:
            labels.append((name, tuple(word for each in words for word in each or ())))
    return tuple(labels)


def _has_form(expected: Any, value: Any) -> bool:
    """Return whether a value has the form and the labels of a type."""
    if (words := _words(expected)) is not None:
        return any(type(word) is type(value) and word == value for word in words)
    if _fields(expected) is not None:
        return isinstance(value, dict) and all(
            value[name] in words for name, words in _labels(expected) if name in value
        )
    if _element(expected) is not None:
        return isinstance(value, dict if get_origin(expected) in _MAPS else list)
    if expected in (bool, int, float, type(None)):
        allowed = (int, float) if expected is float else expected
        return isinstance(value, allowed) and (isinstance(value, bool) == (expected is bool))
    return expected in (Any, object) or isinstance(value, str)
