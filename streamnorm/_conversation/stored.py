"""A conversation as JSON, including the sources of its parts."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from streamnorm._core.bodies.fields import Body, body_object, check_bounds, conversion_error
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import InvalidJSON, compact, convert
from streamnorm._core.limits import Limits
from streamnorm._core.tools import AnyTool

T = TypeVar("T")
P = TypeVar("P", bound="InputMessage | Request | AnyTool")

_VERSION = 1
_PARTS = ("messages", "tools")  # fields of a request whose elements have sources of their own
# Sources are nested in messages, so the JSON is deeper than the bodies were.
_MORE_DEPTH = 16


class Stored(Struct, frozen=True, kw_only=True):
    """The stored form of a conversation.

    Attributes:
        streamnorm_conversation: Version of the format.
        request: Request that the conversation began with.
        appended: Messages that were appended.
        filled: Calls whose results were filled in by a dump; absent if there are none.
    """

    streamnorm_conversation: int = _VERSION
    request: Request
    appended: tuple[InputMessage, ...] = ()
    filled: tuple[tuple[int, str], ...] | UnsetType = UNSET


class _PackedSource(Struct, frozen=True):
    """A `Source` without the fields of its part that have not changed since.

    Attributes:
        dialect: Dialect of the part.
        value: JSON that the part was decoded from; None if there is none.
        changed: Original values of the fields that were replaced since.
    """

    dialect: str
    value: dict[str, Any] | list[dict[str, Any]] | None
    changed: dict[str, Any]


def stored_to_json(stored: Stored) -> bytes:
    """Encode a conversation as JSON text."""
    packed = structs.replace(
        stored,
        request=_pack(stored.request),
        appended=tuple(map(_pack, stored.appended)),
    )
    return compact(packed).encode()


def stored_from_json(data: Body, limits: Limits) -> Stored:
    """Decode a conversation from JSON text.

    Raises:
        DecodeError: The text is no conversation of this version, or exceeds a bound.
    """
    depth = limits.max_json_depth + _MORE_DEPTH
    value = body_object(data, structs.replace(limits, max_json_depth=depth))
    if value.get("streamnorm_conversation") != _VERSION:
        raise DecodeError(
            f"no conversation of version {_VERSION}, expected one",
            path="$.streamnorm_conversation",
        )
    packed = _convert(value, Stored)
    stored = structs.replace(
        packed,
        request=_unpack(packed.request, value["request"]),
        appended=_unpack_all(packed.appended, value.get("appended", [])),
    )
    check_bounds(stored.request, limits)
    check_bounds(Request(messages=stored.appended), limits)
    return stored


def _pack(part: P) -> P:
    """Return a part with packed sources, its own and those of its elements."""
    if isinstance(part, Request):
        return structs.replace(
            part,
            messages=tuple(map(_pack, part.messages)),
            tools=tuple(map(_pack, part.tools)),
            source=_pack_source(part),
        )
    return structs.replace(part, source=_pack_source(part))


def _pack_source(part: InputMessage | Request | AnyTool) -> _PackedSource | None:
    source = part.source
    if not isinstance(source, Source):
        return None
    changed: dict[str, Any] = {
        name: getattr(source.part, name)
        for name in part.__struct_fields__
        if name != "source" and getattr(part, name) is not getattr(source.part, name)
    }
    for name in _PARTS:
        if name in changed:
            parts: tuple[InputMessage | AnyTool, ...] = changed[name]
            changed[name] = tuple(map(_pack, parts))
    return _PackedSource(source.dialect, source.value, changed)


def _unpack_all(parts: tuple[P, ...], values: list[dict[str, Any]]) -> tuple[P, ...]:
    return tuple(map(_unpack, parts, values))


def _unpack(part: P, value: dict[str, Any]) -> P:
    """Return a part with its source.

    Args:
        part: The part, without sources.
        value: JSON that the part was converted from.

    Raises:
        DecodeError: The source is invalid.
    """
    packed = part.source
    part = structs.replace(part, source=None)
    if isinstance(part, Request):
        part = structs.replace(
            part,
            messages=_unpack_all(part.messages, value.get("messages", [])),
            tools=_unpack_all(part.tools, value.get("tools", [])),
        )
    if packed is None:
        return part
    source = _convert(packed, _PackedSource)
    read = _restore_part(part, value, source.changed)
    return structs.replace(part, source=Source(source.dialect, source.value, read))


def _restore_part(part: P, value: dict[str, Any], changed: dict[str, Any]) -> P:
    """Return a part as it was decoded; unchanged fields are the same objects as in `part`."""
    if not changed:
        return part
    read = _convert({**value, **changed, "source": None}, type(part))
    if isinstance(read, Request):
        for name in _PARTS:
            if name in changed:
                parts = _unpack_all(getattr(read, name), changed[name])
                read = structs.replace(read, **{name: parts})
    known = {name: getattr(read, name) for name in changed if name in part.__struct_fields__}
    return structs.replace(part, **known)


def _convert(value: Any, type: type[T]) -> T:
    """Convert decoded JSON to a type.

    Raises:
        DecodeError: The value does not fit.
    """
    try:
        return convert(value, type)
    except InvalidJSON as exc:
        raise conversion_error(exc) from None
