"""Bodies and their fields: parsing, typed reading, and paths in errors.

Each `get_…` returns None for a field that is absent or null; `require_…` raises `DecodeError`
for it.  Both raise `DecodeError` for a field of another type.  The path of the error starts at
the object; `prefix_path` puts the path of the object before it.  Objects have passed
`body_object`, so no text has a lone surrogate.

A path is names separated by dots, such as `tools.strict`.  A name leads to a field of an object,
or of every element of an array.  `tools[type=mcp_toolset]` selects the elements, or the object,
whose field `type` has that value, which may be a pattern as in a shell (`fnmatch`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from streamnorm._core.blocks import ToolCall, ToolResult
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean_tree,
    count_of,
    decode_pieces,
    decode_uncleaned,
    decode_utf8,
    dumps,
    has_more_values,
    is_array,
    is_object,
    lone_surrogate_path,
    too_deep,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm._core.shapes import found
from streamnorm._core.stepwise_json import StepwiseDecoder
from streamnorm._core.tools import CustomTool, Tool

T = TypeVar("T")

_STEP = re.compile(r"([^.\[\]=]+)(?:\[([^.\[\]=]+)=([^\[\]=]+)\])?(?:\.(?=.)|\Z)")
_WILDCARDS = frozenset("*?[")

Body: TypeAlias = "dict[str, Any] | bytes | str"
"""A request or response: JSON text, or the decoded object."""

# The escape of half a surrogate pair.
_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# Decodes `NaN`, `Infinity` and `1e400` to numbers that are not finite.
_PYTHON_JSON = StepwiseDecoder()


def unexpected(value: object, expected: str, path: str) -> DecodeError:
    """Return the error for a value that is not the `expected` type or form."""
    return DecodeError(f"{found(value)}, expected {expected}", path=path)


def prefix_path(error: DecodeError, path: str) -> DecodeError:
    """Prepend the path of a part, such as `$.messages[3]`, to an error's path; return the error."""
    error.path = path + error.path[1:]
    return error


def conversion_error(refused: InvalidJSON) -> DecodeError:
    """Return the `DecodeError` for an error of `json.convert`, with the path from the message."""
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
    """Return a required count: an integer of at least 0, or a float such as 12.0."""
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
    """Return `value` if it is an object; raise `DecodeError` for any other value."""
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
    """Return the results of `read` for the elements of an array; [] if `value` is None.

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


def read_objects(value: object, read: Callable[[dict[str, Any]], T], path: str = "$") -> list[T]:
    """Return the results of `read` for the objects in `value`, an array or None.

    Raises:
        DecodeError: As for `read_array`, or an element is no object.
    """
    found: list[T] = []
    if value is None:
        return found
    if not is_array(value):
        raise unexpected(value, "an array", path)
    try:
        for item in value:
            if not is_object(item):
                raise unexpected(item, "an object", "$")
            found.append(read(item))
    except DecodeError as exc:
        raise prefix_path(exc, f"{path}[{len(found)}]") from None
    return found


def get_objects(value: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the object of each element of an array field, if the field is present."""
    for number, item in enumerate(get_array(value, name) or ()):
        path = f"$.{name}[{number}]"
        yield path, as_object(item, path)


def get_strings(value: dict[str, Any], name: str) -> tuple[str, ...] | None:
    """Return an array field of strings."""
    items = value.get(name)
    return None if items is None else tuple(read_array(items, as_str, f"$.{name}"))


def as_str(value: object) -> str:
    """Return `value` if it is a string; raise `DecodeError` for any other value."""
    if not isinstance(value, str):
        raise unexpected(value, "a string", "$")
    return value


def get_labels(value: dict[str, Any], name: str) -> dict[str, str] | None:
    """Return an object field; {} if the field is absent, None if a value in it is no string."""
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


class Step(NamedTuple):
    """One step of a field path: a field name, and optionally a filter on the field's values.

    Attributes:
        name: Name of a field.
        field: Field that selects values or elements; "" if all are selected.
        pattern: Pattern that the value of `field` matches.
        is_exact: Whether the pattern has no wildcard.
    """

    name: str
    field: str = ""
    pattern: str = ""
    is_exact: bool = True

    def matches(self, value: Any) -> bool:
        """Return whether the step's filter selects `value`."""
        if not is_object(value):
            return False
        if not self.field:
            return True
        found = value.get(self.field)
        if self.is_exact or not isinstance(found, str):
            return bool(found == self.pattern)
        return fnmatchcase(found, self.pattern)

    def positions(self, values: list[Any]) -> list[int]:
        """Return the positions of the array elements that the step's filter selects."""
        # A body may have thousands of messages: one comparison each, without a call.
        if self.field and self.is_exact:
            field, value = self.field, self.pattern
            return [
                position
                for position, item in enumerate(values)
                if is_object(item) and item.get(field) == value
            ]
        return [position for position, item in enumerate(values) if self.matches(item)]


FieldPath: TypeAlias = Sequence[Step]
Edit: TypeAlias = Callable[[dict[str, Any], str], dict[str, Any]]


@lru_cache(maxsize=1024)
def parse_path(text: str) -> FieldPath:
    """Parse the text of a field path.

    Raises:
        ValueError: The text is no path.
    """
    steps: list[Step] = []
    position = 0
    while (found := _STEP.match(text, position)) is not None and found.end() > position:
        name, field, pattern = found[1], found[2] or "", found[3] or ""
        steps.append(Step(name, field, pattern, _WILDCARDS.isdisjoint(pattern)))
        position = found.end()
    if not steps or position < len(text):
        raise ValueError(f"no path of a field at character {position}, expected names and dots")
    return tuple(steps)


def has_field(value: dict[str, Any], path: FieldPath) -> bool:
    """Return whether a body has a field at a path."""

    def stop(holder: dict[str, Any], name: str) -> dict[str, Any]:
        return {}

    return edit_fields(value, path, stop) is not value


def fields_at(body: dict[str, Any], path: FieldPath) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field at a path.

    Yielded paths have the positions of elements: `tools[2].strict`.
    """
    yield from _fields_at(body, path, 0, "")


def _fields_at(
    holder: dict[str, Any], path: FieldPath, at: int, where: str
) -> Iterator[tuple[str, Any]]:
    step = path[at]
    if step.name not in holder:
        return
    value = holder[step.name]
    here = f"{where}.{step.name}" if where else step.name
    is_last = at + 1 == len(path)
    if is_last and not step.field:
        yield here, value
        return
    found = [(here, value)] if step.matches(value) else []
    if is_array(value):
        found = [(f"{here}[{position}]", value[position]) for position in step.positions(value)]
    for place, item in found:
        if is_last:
            yield place, item
        else:
            yield from _fields_at(item, path, at + 1, place)


def edit_fields(body: dict[str, Any], path: FieldPath, edit: Edit) -> dict[str, Any]:
    """Return an object with each field at a path edited; `body` itself if it has no such field.

    An array or object that an edit leaves empty is removed, with the object that held the array:
    it has no meaning without elements.

    Args:
        body: The object, which is not changed.
        path: Path of the fields.
        edit: Function that returns an object with one of its fields edited.  Where the last step
            selects elements, its argument is an object with the element as the only field,
            named by the value that selected it.
    """
    return _edit(body, path, 0, edit)


def _edit(holder: dict[str, Any], path: FieldPath, at: int, edit: Edit) -> dict[str, Any]:
    step = path[at]
    if step.name not in holder:
        return holder
    is_last = at + 1 == len(path)
    if is_last and not step.field:
        return edit(holder, step.name)
    value = holder[step.name]
    if is_array(value):
        changed: dict[int, Any] = {}
        for position in step.positions(value):
            new = _edit_item(value[position], path, at, edit)
            if new is not value[position]:
                changed[position] = new
        if not changed:
            return holder
        after = [changed.get(position, item) for position, item in enumerate(value)]
        items = [item for position, item in enumerate(after) if item or position not in changed]
        if not items and at:
            return {}
        return _replace_field(holder, step.name, items)
    new = _edit_item(value, path, at, edit) if step.matches(value) else value
    return holder if new is value else _replace_field(holder, step.name, new)


def _edit_item(value: Any, path: FieldPath, at: int, edit: Edit) -> Any:
    """Return an edited copy of a selected value; {} if the edit removes the value."""
    step = path[at]
    if at + 1 < len(path):
        return _edit(value, path, at + 1, edit)
    name = value[step.field]
    return edit({name: value}, name).get(name, {})


def _replace_field(holder: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if value:
        return {**holder, name: value}
    return {key: other for key, other in holder.items() if key != name}


class CleanedBody(dict[str, Any]):
    """A decoded body in which lone surrogates were replaced by U+FFFD.

    The type reports the replacement to what encodes the body, which counts it as a loss.
    """

    __slots__ = ()


def body_object(body: Body, limits: Limits, *, finite: bool = False) -> dict[str, Any]:
    """Decode a body to a JSON object; a `CleanedBody` if it had lone surrogates.

    Args:
        body: The body.
        limits: Bounds.
        finite: Whether to refuse NaN, infinities and numbers beyond a double, as in a request;
            they become null otherwise, as servers send NaN in answers.

    Raises:
        DecodeError: The body is no JSON object, or exceeds a bound.
    """
    value: object = body
    # Decoded JSON of any other type has no annotation that forbids it: frameworks return `Any`.
    if isinstance(body, bytes | bytearray | memoryview | str):
        size = len(body)
        if size > limits.max_event_bytes:
            raise DecodeError(f"{size} bytes, expected at most {limits.max_event_bytes}")
        _check_count(body, limits.max_json_values)
        value = _decode(body, limits, finite=finite)
    if not is_object(value):
        raise DecodeError("no JSON object, expected one")
    if too_deep(value, limits.max_json_depth):
        raise DecodeError(f"nested deeper than {limits.max_json_depth}, expected at most that")
    return _check_encodable(value, finite=finite) if value is body else value


def _check_count(body: bytes | str, most: int) -> None:
    # `,{}` is the densest text: three bytes that count as four values.  Most bodies are too
    # small for the bound, and need not be searched.
    if 4 * len(body) <= 3 * most:
        return
    if has_more_values(body if isinstance(body, bytes) else body.encode("utf-8", "replace"), most):
        raise DecodeError(f"more than {most} JSON values, expected at most that (max_json_values)")


def _check_encodable(value: dict[str, Any], *, finite: bool) -> dict[str, Any]:
    """Return a decoded object that UTF-8 can encode: lone surrogates become U+FFFD."""
    try:
        try:
            data = dumps(value)
        except UnicodeEncodeError:  # Python's own JSON decoder lets lone surrogates pass
            value = _clean_object(value)
            data = dumps(value)
    except (TypeError, ValueError) as exc:
        raise DecodeError("a value that JSON does not have, expected decoded JSON") from exc
    # msgspec writes a number that is not finite as null; the search takes longer.
    if finite and b"null" in data:
        _check_finite(value)
    return value


def _decode(body: bytes | str, limits: Limits, *, finite: bool) -> object:
    try:
        return decode_pieces(body)
    except FAST_ERRORS:
        pass
    try:
        text = decode_utf8(body) if isinstance(body, bytes) else body
        value = decode_uncleaned(text, max_depth=limits.max_json_depth)
        if finite:
            _check_finite(_PYTHON_JSON.decode(text))
        return _clean_object(value) if is_object(value) else value
    except UnicodeDecodeError as exc:
        raise DecodeError(f"byte {exc.start} is not UTF-8, expected JSON") from exc
    except InvalidJSON as exc:
        raise DecodeError(f"{exc}, expected a JSON object") from exc


def _clean_object(value: dict[str, Any]) -> dict[str, Any]:
    cleaned: dict[str, Any] = clean_tree(value)
    # The halves of a pair in a `str` are joined, which loses nothing.
    return cleaned if lone_surrogate_path(value) is None else CleanedBody(cleaned)


def count_cleaned(request: Request, losses: Losses) -> None:
    """Count a loss if lone surrogates were replaced in the body that a request was decoded from."""
    if isinstance(request.source, Source) and request.source.cleaned:
        losses.add("half_character", "request", "written as U+FFFD")


def clean_body(body: dict[str, Any], losses: Losses) -> dict[str, Any]:
    """Return an encoded body with U+FFFD in place of lone surrogates.

    JSON in UTF-8 has none, and providers refuse their escapes.

    Args:
        body: The body.
        losses: Counter of what it loses.

    Raises:
        EncodeError: The body has a value that JSON does not have.
        LossyEncoding: The body has a lone surrogate, and the losses are strict.
    """
    try:
        dumps(body)
    except UnicodeEncodeError:
        if lone_surrogate_path(body) is not None:
            losses.add("half_character", "request", "written as U+FFFD")
        cleaned: dict[str, Any] = clean_tree(body)
        return cleaned
    except TypeError as exc:
        problem = "a value that JSON does not have, expected one of JSON"
        raise EncodeError(problem, path="") from exc
    return body


def lone_surrogate_in(body: Body) -> str | None:
    """Return the path of the first text with a lone surrogate, or None.

    Args:
        body: A body that `body_object` accepts.
    """
    if isinstance(body, dict):
        try:
            dumps(body)
        except UnicodeEncodeError:
            return lone_surrogate_path(body)
        return None
    text = body.decode() if isinstance(body, bytes) else body
    if _ESCAPE.search(text) is None and lone_surrogate_path(text) is None:
        return None
    return lone_surrogate_path(json.loads(text))


def _check_finite(value: object) -> None:
    """Raise `DecodeError` if a decoded value of bounded nesting has a number that is not finite."""
    if (path := _non_finite_path(value)) is not None:
        problem = "NaN, Infinity or a number beyond a double, expected a finite number"
        raise DecodeError(problem, path=f"${path}")


def _non_finite_path(value: object) -> str | None:
    """Return the path below `value` of the first number that is not finite, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else ""
    items: Iterable[tuple[object, object]] = value.items() if is_object(value) else ()
    if isinstance(value, list | tuple):
        items = enumerate(cast("Sequence[object]", value))
    for key, item in items:
        if (path := _non_finite_path(item)) is not None:
            return f"[{key}]{path}" if isinstance(key, int) else f".{key}{path}"
    return None


def check_bounds(request: Request, limits: Limits) -> None:
    """Check the bounds on names, ids, blocks and tool calls of a request.

    Raises:
        DecodeError: A message has too many blocks or calls, or a name or an id is too long.
    """
    _check_name(request.model, "model", limits)
    _check_item_count(request.choices or 0, limits.max_choices, "choices", "choices")
    for number, tool in enumerate(request.tools):
        if isinstance(tool, Tool | CustomTool):
            _check_name(tool.name, f"tools[{number}].name", limits)
    for number, message in enumerate(request.messages):
        try:
            _check_message(message, limits)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.messages[{number}]") from None


def _check_message(message: InputMessage, limits: Limits) -> None:
    calls, most_chars = 0, limits.max_id_chars
    if len(message.blocks) > limits.max_blocks:
        _check_item_count(len(message.blocks), limits.max_blocks, "blocks", "blocks")
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls += 1
            if len(block.id) > most_chars or len(block.name) > most_chars:
                _check_name(max(block.id, block.name, key=len), "blocks", limits)
        elif isinstance(block, ToolResult):
            if len(block.tool_call_id) > most_chars:
                _check_name(block.tool_call_id, "blocks", limits)
            if len(block.content) > limits.max_blocks:
                _check_item_count(
                    len(block.content), limits.max_blocks, "blocks of a result", "blocks"
                )
    if calls > limits.max_tool_calls:
        _check_item_count(calls, limits.max_tool_calls, "tool calls", "blocks")


def _check_name(name: str, path: str, limits: Limits) -> None:
    if len(name) > limits.max_id_chars:
        raise DecodeError(
            f"{len(name)} characters, expected at most {limits.max_id_chars}", path=f"$.{path}"
        )


def _check_item_count(count: int, most: int, what: str, path: str) -> None:
    if count > most:
        raise DecodeError(f"{count} {what}, expected at most {most}", path=f"$.{path}")
