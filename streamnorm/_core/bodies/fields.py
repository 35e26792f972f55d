"""Typed access to the fields of a decoded JSON object.

Each reader returns None for a field that is absent or null, and raises `DecodeError` for one of
another type.  Its path starts at the object; `prefix_path` puts the path of the object before it.
The object is one that JSON has: `parsing.body_object` leaves no lone surrogates in its texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from streamnorm._core.bodies.request import Request, Source
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import InvalidJSON, count_of, is_array, is_object
from streamnorm._core.shapes import found


def unexpected(value: object, expected: str, path: str) -> DecodeError:
    """Return the error of a value that is not the expected one."""
    return DecodeError(f"{found(value)}, expected {expected}", path=path)


def prefix_path(error: DecodeError, path: str) -> DecodeError:
    """Return an error of a part with the path of the part, such as `$.messages[3]`, before it."""
    error.path = path + error.path[1:]
    return error


def conversion_error(refused: InvalidJSON) -> DecodeError:
    """Return the error of a value that `convert` refused, at the path that it names."""
    problem, _, path = str(refused).partition(" - at `")
    return DecodeError(problem, path=path.removesuffix("`") or "$")


def get_str(value: dict[str, Any], name: str) -> str | None:
    """Return a field that is text."""
    text = value.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise unexpected(text, "a string", f"$.{name}")
    return text


def require_str(value: dict[str, Any], name: str) -> str:
    """Return a field that is text and must be present."""
    text = value.get(name)
    if not isinstance(text, str):
        if name not in value:
            raise DecodeError("missing, expected a string", path=f"$.{name}")
        raise unexpected(text, "a string", f"$.{name}")
    return text


def get_bool(value: dict[str, Any], name: str) -> bool | None:
    """Return a field that is a boolean."""
    flag = value.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise unexpected(flag, "a boolean", f"$.{name}")
    return flag


def get_number(value: dict[str, Any], name: str) -> float | None:
    """Return a field that is a number; an integer stays one."""
    number = value.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
        raise unexpected(number, "a number", f"$.{name}")
    return number


def get_int(value: dict[str, Any], name: str) -> int | None:
    """Return a field that is an integer."""
    number = value.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise unexpected(number, "an integer", f"$.{name}")
    return number


def require_count(value: dict[str, Any], name: str) -> int:
    """Return a field that is a number of things and must be present; 12.0 is 12."""
    if (count := count_of(value.get(name))) is not None:
        return count
    if name not in value:
        raise DecodeError("missing, expected an integer from 0", path=f"$.{name}")
    raise unexpected(value[name], "an integer from 0", f"$.{name}")


def get_object(value: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return a field that is an object."""
    item = value.get(name)
    if item is None:
        return None
    return as_object(item, f"$.{name}")


def as_object(value: object, path: str) -> dict[str, Any]:
    """Return a value that must be an object."""
    if not is_object(value):
        raise unexpected(value, "an object", path)
    return value


def get_array(value: dict[str, Any], name: str) -> list[Any] | None:
    """Return a field that is an array."""
    items = value.get(name)
    if items is None:
        return None
    if not is_array(items):
        raise unexpected(items, "an array", f"$.{name}")
    return items


def get_objects(value: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paths and the objects of an array of objects; none for an absent one."""
    for number, item in enumerate(get_array(value, name) or ()):
        path = f"$.{name}[{number}]"
        yield path, as_object(item, path)


def get_strings(value: dict[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a field that is an array of strings."""
    items = get_array(value, name)
    if items is None:
        return None
    for number, item in enumerate(items):
        if not isinstance(item, str):
            raise unexpected(item, "a string", f"$.{name}[{number}]")
    return tuple(items)


def rest_of(value: dict[str, Any], known: Set[str]) -> dict[str, Any] | None:
    """Return the fields whose names are not known; None if there are none."""
    if value.keys() <= known:
        return None
    return {name: item for name, item in value.items() if name not in known}


def unmapped(value: dict[str, Any], mapped: Set[str]) -> dict[str, Any]:
    """Return the fields that are not mapped, and all that are null."""
    if value.keys() <= mapped and None not in value.values():
        return {}
    return {name: item for name, item in value.items() if name not in mapped or item is None}


_REST = ("extra",)


def keep_fields(
    body: dict[str, Any],
    request: Request,
    parts: Mapping[str, tuple[str, ...]],
    *,
    unread: Set[str],
    is_spelt: bool,
) -> dict[str, Any]:
    """Return a body whose unchanged fields are spelt, and stand, as they were decoded.

    Args:
        body: The body that was written; it is not changed.
        request: What it was written from, decoded from the same dialect.
        parts: The fields of `Request` that each field of a body holds; one that is not named
            holds what has no unified place.
        unread: Fields in which the server reads nothing.
        is_spelt: Whether the body has all unchanged fields as they were decoded: a missing one
            was dropped.
    """
    source: Source = request.source
    before = source.value
    changed = {
        name
        for name in request.__struct_fields__
        if name != "source" and getattr(request, name) is not getattr(source.part, name)
    }
    extra: Mapping[str, Mapping[str, Any]] = source.part.extra or {}
    unmapped = extra.get(source.dialect, {})
    kept: dict[str, Any] = {}
    for name, value in before.items():
        held = parts.get(name, _REST)
        if name in unmapped:  # it may be mapped in part
            held = (*held, *_REST)
        is_same = changed.isdisjoint(held)
        if name in unread or (is_same and (name in body or not is_spelt)):
            kept[name] = value
        elif name in body:
            kept[name] = body[name]
    added = body.keys() - before.keys()
    return kept | {
        name: value
        for name, value in body.items()
        if name in added and not changed.isdisjoint(parts.get(name, _REST))
    }
