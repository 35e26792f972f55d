"""Shapes of JSON values, and other checks that the strict validators share.

A problem states what was found, then what was expected.  It contains words of the protocol,
types, sizes and indexes, never text of the payload.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from streamnorm._core.json import is_array, is_object, lone_surrogate_path, too_deep
from streamnorm._core.limits import Limits

_MAX_DEPTH = Limits().max_json_depth
_NO_JSON = object()
# Most languages read no larger integers, and Python refuses to print very large ones.
_TOO_LARGE = 2**63


class Shape(Struct, frozen=True):
    """The type and content that a JSON value must have.

    Attributes:
        expected: Name of the shape in problems.
        fits: Function that returns whether a value has the right type.
        inside: Generator of the problems within such a value, given the value and its path.
    """

    expected: str
    fits: Callable[[object], bool]
    inside: Callable[[Any, str], Iterator[str]] | None = None


def problems(shape: Shape, value: object, where: str) -> Iterator[str]:
    """Yield the differences between a value and the shape that it must have.

    Args:
        shape: The shape that the value must have.
        value: Decoded JSON.
        where: Path of the value, such as `message.usage`; "" for the whole payload.
    """
    if not shape.fits(value):
        yield f"{where or 'payload'} is {found(value)}, expected {shape.expected}"
    elif shape.inside is not None:
        yield from shape.inside(value, where)


def found(value: object) -> str:
    """Return a description of a JSON value for an error: its type, sign or size."""
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
    """Return whether a JSON value is an integer from 0 to 2**63 - 1."""
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


def either(*shapes: Shape) -> Shape:
    """Return the shape of a value that fits one of several shapes; contents are not checked."""
    return Shape(
        " or ".join(shape.expected for shape in shapes),
        lambda value: any(shape.fits(value) for shape in shapes),
    )


def word(*words: str) -> Shape:
    """Return the shape of a string that is one of `words`."""
    return Shape(" or ".join(words), lambda value: isinstance(value, str) and value in words)


def array(shape: Shape) -> Shape:
    """Return the shape of an array of items with one shape."""

    def inside(value: list[object], where: str) -> Iterator[str]:
        for number, item in enumerate(value):
            yield from problems(shape, item, f"{where}[{number}]")

    return Shape("an array", is_array, inside)


def object_of(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object with required and optional fields.

    Args:
        required: Shapes of the fields that must be present.
        optional: Shapes of the fields that may be absent.
    """
    known = {**required, **(optional or {})}

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        path = where and where + "."
        # Unknown fields are legal: all four vendors add fields without a new version.
        for name, shape in known.items():
            if name in value:
                yield from problems(shape, value[name], path + name)
            elif name in required:
                yield f"{path}{name} is missing, expected {shape.expected}"

    return Shape("an object", is_object, inside)


def tagged(shapes: Mapping[str, Shape]) -> Shape:
    """Return the shape of an object whose `type` selects one of `shapes`."""

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        tag = value.get("type")
        path = where and where + "."
        if "type" not in value:
            yield f"{path}type is missing, expected a string"
        elif not isinstance(tag, str):
            yield f"{path}type is {found(tag)}, expected a string"
        elif tag not in shapes:
            # By its length alone: a tag that is wrong may be any text of the payload.
            yield f"{path}type is unknown in {len(tag)} characters, expected one of the protocol"
        else:
            yield from problems(shapes[tag], value, where)

    return Shape("an object", is_object, inside)


def misnamed(event: Mapping[str, object], line: str, known: Collection[str]) -> Iterator[str]:
    """Yield the problems of an event's `type` and SSE event name, which must be equal.

    Args:
        event: The event.
        line: Event name of the frame.
        known: Types of the protocol.
    """
    kind = event.get("type")
    if "type" not in event:
        yield "type is missing, expected a string"
    elif not isinstance(kind, str):
        yield f"type is {found(kind)}, expected a string"
    elif kind not in known:
        yield f"type is unknown in {len(kind)} characters, expected one of the protocol"
    elif line == "message":  # the name of a frame without an event line
        yield f"no event line, or one that says message, expected {kind}"
    elif line != kind:
        said = line if line in known else f"{len(line)} characters"
        yield f"event line says {said}, expected {kind}"


def changed_fields(
    known: dict[str, object], chunk: Mapping[str, object], types: Mapping[str, type]
) -> Iterator[str]:
    """Yield a problem for each field that changed since the previous chunk.

    Args:
        known: Values of the chunks before, by name; updated.
        chunk: The next chunk.
        types: Types of the fields that must not change; values of other types are ignored.
    """
    for name, kind in types.items():
        value = chunk.get(name)
        if type(value) is kind:
            if known.get(name, value) != value:
                yield f"{name} is not that of the chunk before, expected one throughout"
            known[name] = value


def token_problems(
    usage: Mapping[str, Any], path: str, input_name: str, output_name: str
) -> Iterator[str]:
    """Yield the contradictions between a usage's token counts.

    Args:
        usage: The usage, with a total and with details of both counts.
        path: Path of the usage in the payload.
        input_name: Prefix of the input's field names, such as `prompt`.
        output_name: Prefix of the output's field names, such as `completion`.
    """
    made_of: dict[str, tuple[str, ...]] = {
        input_name: ("cached_tokens", "cache_write_tokens"),
        output_name: ("reasoning_tokens",),
    }
    counts = {name: usage.get(f"{name}_tokens") for name in made_of}
    total, sizes = usage.get("total_tokens"), [n for n in counts.values() if is_count(n)]
    if is_count(total) and len(sizes) == len(counts) and total != sum(sizes):
        yield f"{path}.total_tokens is {total}, expected {sum(sizes)}"
    for name, fields in made_of.items():
        details, count = usage.get(f"{name}_tokens_details"), counts[name]
        parts = [details.get(field) for field in fields] if is_object(details) else []
        detailed = sum(part for part in parts if is_count(part))
        if is_count(count) and detailed > count:
            yield f"{path}.{name}_tokens_details has {detailed} tokens, expected at most {count}"


def parse_object(text: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Decode a payload; return its object (None if it is no object), and the problems."""
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
    # msgspec and the parsers of other languages refuse half a pair.
    if "\\u" in text and lone_surrogate_path(value) is not None:
        wrong.append("escape of a lone surrogate in the payload, expected pairs")
    return value, wrong


def holds_object(text: str) -> bool:
    """Return whether text, such as a call's arguments, is one standard JSON object."""
    value, is_standard = _parse(text)
    return is_object(value) and is_standard


def _parse(text: str) -> tuple[object, bool]:
    """Decode JSON text; return the value, and whether it has no `NaN` and no infinities."""
    constants: list[str] = []

    def note(constant: str) -> float:
        constants.append(constant)
        return 0.0

    try:
        # msgspec refuses a payload with NaN as a whole, and with it all other problems.
        return json.loads(text, parse_constant=note), not constants
    except (ValueError, RecursionError):
        return _NO_JSON, False
