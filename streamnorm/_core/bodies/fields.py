"""Typed access to the fields of a decoded JSON object.

Each `get_…` returns None for a field that is absent or null; `require_…` raises `DecodeError`
for it.  Both raise `DecodeError` for a field of another type.  The path of the error starts at
the object; `prefix_path` puts the path of the object before it.  Objects have passed
`parsing.body_object`, so no text has a lone surrogate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any, TypeVar

from streamnorm._core.errors import DecodeError
from streamnorm._core.json import InvalidJSON, count_of, is_array, is_object
from streamnorm._core.shapes import found

T = TypeVar("T")


def unexpected(value: object, expected: str, path: str) -> DecodeError:
    """Return the error for a value of another type or form than `expected`."""
    return DecodeError(f"{found(value)}, expected {expected}", path=path)


def prefix_path(error: DecodeError, path: str) -> DecodeError:
    """Put the path of a part, such as `$.messages[3]`, before the path of its error; return it."""
    error.path = path + error.path[1:]
    return error


def conversion_error(refused: InvalidJSON) -> DecodeError:
    """Return the error for a value that `json.convert` refused, with the path from its text."""
    problem, _, path = str(refused).partition(" - at `")
    return DecodeError(problem, path=path.removesuffix("`") or "$")


def get_str(value: dict[str, Any], name: str) -> str | None:
    """Return a string field."""
    text = value.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise unexpected(text, "a string", f"$.{name}")
    return text


def require_str(value: dict[str, Any], name: str) -> str:
    """Return a string field that must be present."""
    text = value.get(name)
    if not isinstance(text, str):
        if name not in value:
            raise DecodeError("missing, expected a string", path=f"$.{name}")
        raise unexpected(text, "a string", f"$.{name}")
    return text


def get_bool(value: dict[str, Any], name: str) -> bool | None:
    """Return a boolean field."""
    flag = value.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise unexpected(flag, "a boolean", f"$.{name}")
    return flag


def get_number(value: dict[str, Any], name: str) -> float | None:
    """Return a number field; an integer stays an integer."""
    number = value.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
        raise unexpected(number, "a number", f"$.{name}")
    return number


def get_int(value: dict[str, Any], name: str) -> int | None:
    """Return an integer field."""
    number = value.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise unexpected(number, "an integer", f"$.{name}")
    return number


def require_count(value: dict[str, Any], name: str) -> int:
    """Return a count, an integer from 0 that must be present; 12.0 is 12."""
    if (count := count_of(value.get(name))) is not None:
        return count
    if name not in value:
        raise DecodeError("missing, expected an integer from 0", path=f"$.{name}")
    raise unexpected(value[name], "an integer from 0", f"$.{name}")


def get_object(value: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return an object field."""
    item = value.get(name)
    if item is None:
        return None
    return as_object(item, f"$.{name}")


def as_object(value: object, path: str = "$") -> dict[str, Any]:
    """Return `value`, which must be an object."""
    if not is_object(value):
        raise unexpected(value, "an object", path)
    return value


def get_array(value: dict[str, Any], name: str) -> list[Any] | None:
    """Return an array field."""
    items = value.get(name)
    if items is None:
        return None
    if not is_array(items):
        raise unexpected(items, "an array", f"$.{name}")
    return items


def read_array(value: object, read: Callable[[Any], T], path: str = "$") -> list[T]:
    """Return what `read` returns for each element of `value`, an array or None.

    Raises:
        DecodeError: `value` is no array, or an element is refused; the path of the error is that
            of the element.
    """
    found: list[T] = []
    if value is None:
        return found
    if not is_array(value):
        raise unexpected(value, "an array", path)
    try:
        found.extend(map(read, value))
    except DecodeError as exc:
        raise prefix_path(exc, f"{path}[{len(found)}]") from None
    return found


def get_objects(value: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the object of each element of an array field; nothing if it is absent."""
    for number, item in enumerate(get_array(value, name) or ()):
        path = f"$.{name}[{number}]"
        yield path, as_object(item, path)


def get_strings(value: dict[str, Any], name: str) -> tuple[str, ...] | None:
    """Return an array field of strings."""
    items = value.get(name)
    return None if items is None else tuple(read_array(items, as_str, f"$.{name}"))


def as_str(value: object) -> str:
    """Return `value`, which must be a string."""
    if not isinstance(value, str):
        raise unexpected(value, "a string", "$")
    return value


def get_labels(value: dict[str, Any], name: str) -> dict[str, str] | None:
    """Return an object field whose values are all strings; None if one is not."""
    labels = get_object(value, name) or {}
    return labels if all(isinstance(label, str) for label in labels.values()) else None


def unknown_fields(
    value: dict[str, Any], known: Set[str], *, with_nulls: bool = False
) -> dict[str, Any]:
    """Return the fields of an object that have no unified field.

    Args:
        value: The object.
        known: Names of the fields that have one.
        with_nulls: Whether known fields that are null are returned, too: the unified field of a
            null is the same as that of an absent field, so the null would be lost.
    """
    if value.keys() <= known and not (with_nulls and None in value.values()):
        return {}
    return {
        name: item
        for name, item in value.items()
        if name not in known or (with_nulls and item is None)
    }
