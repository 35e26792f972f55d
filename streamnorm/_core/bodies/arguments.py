"""Arguments of tool calls in dialects that have them as an object."""

from __future__ import annotations

from json import JSONDecoder
from math import isfinite
from typing import Any, Literal, TypeAlias

import msgspec

from streamnorm._core.blocks import ToolCall
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, clean, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses

__all__ = ["ArgumentsPolicy", "arguments_object"]

ArgumentsPolicy: TypeAlias = Literal["error", "raw", "repair"]
"""What becomes of arguments that are no JSON object: an error, `{"_raw": text}`, or an object
that json-repair finds in them (extra `repair`)."""

_decode = msgspec.json.Decoder[Any]().decode


def arguments_object(call: ToolCall, policy: ArgumentsPolicy, losses: Losses, path: str) -> Any:
    """Return the arguments of a call as an object.

    Raises:
        EncodeError: They are no JSON object, and the policy is `error`.
    """
    text = call.arguments
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except FAST_ERRORS:
        value = _lenient(text)
    if is_object(value):
        return value
    if policy == "error":
        raise EncodeError(
            f"arguments of {len(text)} characters are no JSON object, expected one", path=path
        )
    if policy == "raw":
        losses.add("arguments_raw", "tool call", 'written as {"_raw": text}')
        return {"_raw": clean(text)}
    losses.add("arguments_repaired", "tool call", "written as the object that repair found")
    return _repaired(text, path)


def _lenient(text: str) -> Any:
    """Return the value of JSON that msgspec refuses for half of a character; None of any other."""
    try:
        _STANDARD.decode(text)
        return decode_any(text, max_depth=Limits().max_json_depth)
    except (InvalidJSON, ValueError, RecursionError):
        return None


def _refused(number: str) -> float:
    raise ValueError(f"number of {len(number)} characters that no double is near to")


def _near(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refused(number)


# Where a double has no such number, null would stand in its place.
_STANDARD = JSONDecoder(parse_constant=_refused, parse_float=_near)


def _repaired(text: str, path: str) -> dict[str, object]:
    try:
        from json_repair import repair_json
    except ImportError as exc:
        raise EncodeError(
            'arguments="repair" without json-repair, expected the extra streamnorm[repair]',
            path=path,
        ) from exc
    value = repair_json(text, return_objects=True)
    if not is_object(value):
        raise EncodeError(
            f"arguments of {len(text)} characters cannot be repaired, expected a JSON object",
            path=path,
        )
    return value
