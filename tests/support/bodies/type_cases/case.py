"""Cases: a body with one member, literal or field of an SDK's type, and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, get_args

from support.bodies.type_cases.walk import ABSENT, Variant, fields_of, members

__all__ = ["JSON", "Case", "cases_of", "element_type"]

JSON: TypeAlias = dict[str, Any]


class Case(NamedTuple):
    """A body with one tested element, and the same body without it.

    Attributes:
        dialect: Its dialect.
        path: Position of the thing, such as `tools[mcp].require_approval=always`.
        body: The body; of a stream, its frames under `frames`.
        others: The body with each other word or member at the position, or with one other
            scalar.
        without: The body without the thing, then without what holds it, and so on.
        is_null: Whether the thing is a null.
    """

    dialect: str
    path: str
    body: JSON
    others: tuple[JSON, ...]
    without: tuple[JSON, ...]
    is_null: bool


def cases_of(
    dialect: str,
    prefix: str,
    found: Iterable[Variant],
    build: Callable[[Any], JSON],
    *further: JSON,
) -> Iterator[Case]:
    """Yield the cases for a position in a body.

    Args:
        dialect: Dialect of the body.
        prefix: Path of the position.
        found: What may stand there.
        build: Returns the body with a value at the position, or without one if it is `ABSENT`.
        further: Bodies without what holds the position.
    """
    none = build(ABSENT)
    for variant in found:
        body = build(variant.value)
        if body == none:  # the least body has it
            continue
        yield Case(
            dialect,
            prefix + variant.path,
            body,
            tuple(map(build, variant.others)),
            (*map(build, variant.without), none, *further),
            variant.is_null,
        )


def element_type(expected: Any) -> Any:
    """Return the element type of an array type, or of an array in a union."""
    for member in members(expected):
        if fields_of(member) is None and (inner := get_args(member)):
            return inner[0]
    raise TypeError(f"{expected!r}, expected an array")
