"""Shapes of JSON values, and messages about what violates them.

For checkers of a protocol, which are strict where decoders forgive.  Each problem says
what was found, then what was expected; it holds words of the protocol, types, sizes and
indexes, never text of the payload.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from streamnorm._core.json import is_array, is_object, too_deep
from streamnorm._core.limits import Limits

__all__ = [
    "ANYTHING",
    "ARRAY",
    "BOOLEAN",
    "COUNT",
    "NAME",
    "NULL_OR_TEXT",
    "NUMBER",
    "OBJECT",
    "TEXT",
    "Shape",
    "array",
    "found",
    "holds_object",
    "is_count",
    "misnamed",
    "nullable",
    "object_of",
    "parse_object",
    "problems",
    "tagged",
    "word",
]

_MAX_DEPTH = Limits().max_json_depth
_NO_JSON = object()
# No more than other languages read; the sum of larger ones may not even be printed.
_TOO_LARGE = 2**63


class Shape(Struct, frozen=True):
    """The shape that a JSON value must have.

    Attributes:
        expected: The words for it.
        fits: Whether a value is of this kind.
        inside: What is wrong within a value that is, which stands at the path given.
    """

    expected: str
    fits: Callable[[object], bool]
    inside: Callable[[Any, str], Iterator[str]] | None = None


def problems(shape: Shape, value: object, where: str) -> Iterator[str]:
    """Yield what is wrong with a value.

    Args:
        shape: What it must look like.
        value: Decoded JSON.
        where: Where it stands (`message.usage`); empty for the whole payload.
    """
    if not shape.fits(value):
        yield f"{where or 'payload'} is {found(value)}, expected {shape.expected}"
    elif shape.inside is not None:
        yield from shape.inside(value, where)


def found(value: object) -> str:
    """Return the words for what a JSON value is."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            if value >= _TOO_LARGE:
                return "an integer of more than 63 bits"
            return "a negative integer" if value < 0 else "an integer"
        case float():
            return "a decimal number"
        case str():
            return f"a string of {len(value)} characters" if value else "an empty string"
        case list():
            return "an array"
        case _:
            return "an object"


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a JSON value is an integer from 0, of 63 bits at most."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_LARGE


ANYTHING = Shape("anything", lambda value: True)
ARRAY = Shape("an array", is_array)
BOOLEAN = Shape("a boolean", lambda value: isinstance(value, bool))
COUNT = Shape("an integer from 0", is_count)
NAME = Shape("a string that is not empty", lambda value: isinstance(value, str) and value != "")
NUMBER = Shape(
    "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
)
OBJECT = Shape("an object", is_object)
TEXT = Shape("a string", lambda value: isinstance(value, str))


def nullable(shape: Shape) -> Shape:
    """Return a shape that may also be null."""

    def inside(value: object, where: str) -> Iterator[str]:
        if value is not None and shape.inside is not None:
            yield from shape.inside(value, where)

    return Shape(
        f"{shape.expected} or null", lambda value: value is None or shape.fits(value), inside
    )


NULL_OR_TEXT = nullable(TEXT)


def word(*words: str) -> Shape:
    """Return the shape of a string that is one of some."""
    return Shape(" or ".join(words), lambda value: isinstance(value, str) and value in words)


def array(shape: Shape) -> Shape:
    """Return the shape of an array of some."""

    def inside(value: list[object], where: str) -> Iterator[str]:
        for number, item in enumerate(value):
            yield from problems(shape, item, f"{where}[{number}]")

    return Shape("an array", is_array, inside)


def object_of(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object.  Fields that neither names may be there.

    Args:
        required: Fields that must be there.
        optional: Fields that may be absent.
    """
    known = {**required, **(optional or {})}

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        path = where and where + "."
        for name, shape in known.items():
            if name in value:
                yield from problems(shape, value[name], path + name)
            elif name in required:
                yield f"{path}{name} is missing, expected {shape.expected}"

    return Shape("an object", is_object, inside)


def tagged(shapes: Mapping[str, Shape]) -> Shape:
    """Return the shape of an object whose `type` decides which of some it must have."""

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        tag = value.get("type")
        path = where and where + "."
        if "type" not in value:
            yield f"{path}type is missing, expected a string"
        elif not isinstance(tag, str):
            yield f"{path}type is {found(tag)}, expected a string"
        elif tag not in shapes:
            yield f"{path}type is unknown in {len(tag)} characters, expected one of the protocol"
        else:
            yield from problems(shapes[tag], value, where)

    return Shape("an object", is_object, inside)


def misnamed(event: Mapping[str, object], line: str, known: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with an event's type and its line, which must say the same.

    Args:
        event: The event.
        line: What its frame says it is.
        known: The types there are.
    """
    kind = event.get("type")
    if "type" not in event:
        yield "type is missing, expected a string"
    elif not isinstance(kind, str):
        yield f"type is {found(kind)}, expected a string"
    elif kind not in known:
        yield f"type is unknown in {len(kind)} characters, expected one of the protocol"
    elif line == "message":  # which is what an absent line means
        yield f"no event line, or one that says message, expected {kind}"
    elif line != kind:
        said = line if line in known else f"{len(line)} characters"
        yield f"event line says {said}, expected {kind}"


def parse_object(text: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return a payload, or None if it is no JSON object, and what is wrong with it."""
    value, is_standard = _parse(text)
    if value is _NO_JSON:
        return None, [f"no JSON in {len(text)} characters, expected an object"]
    if not is_object(value):
        return None, [f"payload is {found(value)}, expected an object"]
    if too_deep(value, _MAX_DEPTH):
        return None, [f"payload nests deeper than {_MAX_DEPTH}, expected at most that"]
    wrong: list[str] = []
    if not is_standard:
        wrong.append("NaN or Infinity in the payload, expected numbers")
    if "\\u" in text and _has_lone_surrogate(value):
        wrong.append("escape of a lone surrogate in the payload, expected pairs")
    return value, wrong


def holds_object(text: str) -> bool:
    """Return whether text, such as the arguments of a call, is one JSON object."""
    value, is_standard = _parse(text)
    return is_object(value) and is_standard


def _parse(text: str) -> tuple[object, bool]:
    """Return the value of JSON, and whether it is without `NaN` and the like."""
    constants: list[str] = []

    def note(constant: str) -> float:
        constants.append(constant)
        return 0.0

    try:
        return json.loads(text, parse_constant=note), not constants
    except (ValueError, RecursionError):
        return _NO_JSON, False


def _has_lone_surrogate(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
