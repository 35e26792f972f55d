"""Fields of Google's JSON: their two spellings, and unknown fields.

https://protobuf.dev/programming-guides/json/ (read 2026-11-23).  Readers accept `lowerCamelCase`
and the `snake_case` of the protocol buffers; several clients mix both in one request.

An unknown field of an inner object stands in `extra` under its path, such as
`generationConfig.speechConfig`, so that a loss names the field.  Where an unknown field and a
mapped field have one name, the mapped value stays.
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object
from streamnorm.dialects.gemini.wire import DIALECT

_INNER = frozenset(
    {"functionCall", "functionResponse", "inlineData", "fileData", "streamableHttpTransport"}
    | {"generationConfig", "toolConfig", "functionCallingConfig"}
)
"""Inner objects whose unknown fields stand in `extra` under a path."""
_MAX_STEPS = 2  # from the outer object: a client may give a field of its own a dotted name
_SNAKE = re.compile(r"_([a-z0-9])")
_SNAKE_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def to_camel(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its field names in `lowerCamelCase`; inner objects stay as they are.

    Raises:
        DecodeError: A field is present in both spellings.
    """
    for name in value:
        if "_" in name:
            return _convert_names(value)
    return value


def wrap_singles(wire: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an object whose repeated fields are arrays, also where they are single objects.

    The API accepts one object for an array of one; the vendor's examples write `contents` and
    `parts` so (https://ai.google.dev/gemini-api/docs/system-instructions, read 2026-11-23).

    Args:
        wire: The object.
        names: Names of its repeated fields.
    """
    single = {name: [wire[name]] for name in names if is_object(wire.get(name))}
    return {**wire, **single} if single else wire


def _convert_names(value: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, item in value.items():
        spelt = _SNAKE.sub(_to_upper, name) if _SNAKE_NAME.fullmatch(name) else name
        if spelt in converted:
            raise DecodeError("field in both spellings, expected one", path=f"$.{spelt}")
        converted[spelt] = item
    return converted


def _to_upper(match: re.Match[str]) -> str:
    return match[1].upper()


def extra_of(fields: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return unknown fields as the `extra` of a part; None if there are none."""
    return {DIALECT: fields} if fields else None


def add_extra(wire: dict[str, Any], extra: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """Add the unknown fields of `extra` to `wire` and return it; mapped fields stay."""
    return add_fields(wire, extra.get(DIALECT, {})) if extra else wire


def add_fields(wire: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    """Add unknown fields to `wire` and return it; mapped fields stay."""
    for path, item in unknown.items():
        holder, name = wire, path
        for _ in range(_MAX_STEPS):
            outer, dot, inner = name.partition(".")
            found = holder.setdefault(outer, {}) if dot and outer in _INNER else None
            if not is_object(found):
                break
            holder, name = found, inner
        holder.setdefault(name, item)
    return wire
