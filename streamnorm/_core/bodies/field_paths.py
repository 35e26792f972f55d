"""Paths of fields in a JSON object, and edits that copy only what they change.

A path is names separated by dots, such as `tools.strict`.  A name leads to a field of an object,
or of every element of an array.  `tools[type=mcp_toolset]` selects the elements, or the object,
whose field `type` has that value, which may be a pattern as in a shell (`fnmatch`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from streamnorm._core.json import is_array, is_object

_STEP = re.compile(r"([^.\[\]=]+)(?:\[([^.\[\]=]+)=([^\[\]=]+)\])?(?:\.(?=.)|\Z)")
_WILDCARDS = frozenset("*?[")


class Step(NamedTuple):
    """One name of a path.

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
        """Return whether the step selects a value."""
        if not is_object(value):
            return False
        if not self.field:
            return True
        found = value.get(self.field)
        if self.is_exact or not isinstance(found, str):
            return bool(found == self.pattern)
        return fnmatchcase(found, self.pattern)

    def positions(self, values: list[Any]) -> list[int]:
        """Return the positions of the elements that the step selects."""
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
    """Parse a path.

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
    """Return whether an object has a field at a path."""

    def stop(holder: dict[str, Any], name: str) -> dict[str, Any]:
        return {}

    return edit_fields(value, path, stop) is not value


def fields_at(body: dict[str, Any], path: FieldPath) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field that `path` selects.

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
    """Return an object with an edit of every field that a path selects; the same if none is.

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
    """Return a selected value, edited; {} if the edit removes it."""
    step = path[at]
    if at + 1 < len(path):
        return _edit(value, path, at + 1, edit)
    name = value[step.field]
    return edit({name: value}, name).get(name, {})


def _replace_field(holder: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if value:
        return {**holder, name: value}
    return {key: other for key, other in holder.items() if key != name}
