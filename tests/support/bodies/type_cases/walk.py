"""Values of an SDK's type: one for each union member, literal and field.

A type is a `TypedDict` (requests of OpenAI and Anthropic), a pydantic model (their answers, and
all of google-genai), or one of the types of JSON.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import typing_extensions
from pydantic import BaseModel

from support.bodies.sdk_types import UnrecognizedStr, bare_type, is_in_memory, typed_dict_fields
from support.bodies.type_cases.needs import EXCLUSIVE, FIELD_VALUES, NEEDS, SAYS_MORE
from support.bodies.type_cases.values import OBJECT_NAMES, object_value, scalar_values

__all__ = [
    "ABSENT",
    "Field",
    "Variant",
    "fields_of",
    "label_of",
    "members",
    "minimal",
    "variants",
]

_ARRAYS = (list, collections.abc.Iterable, collections.abc.Sequence)
_MAPS = (dict, collections.abc.Mapping)
_DISCRIMINATORS = ("type", "role", "object")
# Types that hold themselves, such as filters, nest no deeper than these do.
_MAX_REPEATS = 1


class _Absent(enum.Enum):
    ABSENT = "absent"


ABSENT = _Absent.ABSENT


class Variant(NamedTuple):
    """A value with one member, literal or field besides the required ones.

    Attributes:
        path: Its position, such as `tools[mcp].require_approval=always`.
        value: The value.
        others: The value with each other word or member of the type at the position, or with
            one other scalar; () if there is none.
        without: The value without the position, then without what holds it, and so on;
            beyond the last the value is absent.
        is_null: Whether a null stands at the position.
    """

    path: str
    value: Any
    others: tuple[Any, ...] = ()
    without: tuple[Any, ...] = ()
    is_null: bool = False

    def within(self, place: Callable[[Any], Any], path: str = "") -> Variant:
        """Return the variant of a value that contains this variant."""
        return self._replace(
            path=path + self.path,
            value=place(self.value),
            others=tuple(map(place, self.others)),
            without=tuple(map(place, self.without)),
        )


class Field(NamedTuple):
    """A field of an object type.

    Attributes:
        expected: Its type.
        is_required: Whether an object without it is of another type.
    """

    expected: Any
    is_required: bool


@functools.cache
def fields_of(expected: Any) -> dict[str, Field] | None:
    """Return an object type's fields by wire name; None for other types."""
    if typing_extensions.is_typeddict(expected):
        known = typed_dict_fields(expected)
        return {name: Field(known.types[name], name in known.required) for name in known.types}
    if not (inspect.isclass(expected) and issubclass(expected, BaseModel)):
        return None
    return {
        field.alias or name: Field(bare_type(field.annotation), field.is_required())
        for name, field in expected.model_fields.items()
    }


def members(expected: Any) -> list[Any]:
    """Return the types of a union, flattened; any other type itself."""
    expected = bare_type(expected)
    if get_origin(expected) in (Union, types.UnionType):
        found = [member for part in get_args(expected) for member in members(part)]
        known = list(dict.fromkeys(found))
        # Requests may also hold blocks of answers, which are models beside a `TypedDict` each.
        params = [member for member in known if not is_model(member)]
        has_params = any(map(typing_extensions.is_typeddict, params))
        return [member for member in (params if has_params else known) if not _is_file(member)]
    return [expected]


def is_model(expected: Any) -> bool:
    return inspect.isclass(expected) and issubclass(expected, BaseModel)


def _is_file(expected: Any) -> bool:
    """Return whether a type has only Python objects, such as open files, or any other word."""
    in_memory = is_in_memory(expected) and not is_model(expected) and expected is not bytes
    return in_memory or expected is UnrecognizedStr


def label_of(expected: Any) -> str:
    """Return the literal that identifies a union member."""
    expected = bare_type(expected)
    fields = fields_of(expected) or {}
    for name in _DISCRIMINATORS:
        words = get_args(fields[name].expected) if name in fields else ()
        if len(words) == 1 and isinstance(words[0], str):
            return words[0]
    return getattr(expected, "__name__", str(expected)).removesuffix("Param")


def minimal(expected: Any, name: str = "") -> Any:
    """Return a value of a type with only its required fields."""
    return next(_walk(expected, name, ())).value


def variants(expected: Any, name: str = "") -> Iterator[Variant]:
    """Yield a variant for each member, literal and field of a type, the minimal value first.

    Args:
        expected: The type.
        name: Name of the field that has it.
    """
    return _walk(expected, name, ())


def _walk(expected: Any, name: str, stack: tuple[Any, ...]) -> Iterator[Variant]:
    expected = bare_type(expected)
    origin, inner = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        yield from _walk_union(members(expected), name, stack)
    elif fields_of(expected) is not None:
        yield from _walk_object(expected, name, stack)
    elif origin is Literal:
        yield from _words(inner)
    elif inspect.isclass(expected) and issubclass(expected, enum.Enum):
        yield from _words(tuple(member.value for member in expected))
    elif origin in _ARRAYS or getattr(origin, "__name__", "") == "SequenceNotStr":
        for variant in _walk(inner[0], name, stack):
            yield variant.within(lambda item: [item], "[]")
    elif origin in _MAPS and name in OBJECT_NAMES:
        yield Variant("", object_value(name))
    elif origin in _MAPS:
        for variant in _walk(inner[1], name, stack):
            yield variant.within(lambda item: {"key": item}, ".key")
    elif expected is type(None):
        yield Variant("=null", None, is_null=True)
    elif expected in (Any, object) or origin is dict or expected is dict:
        yield Variant("", object_value(name))
    elif expected in (str, int, float, bool, bytes, datetime):
        first, other = scalar_values(name, expected)
        yield Variant("", first, (other,) if other != first else ())
        if expected is bool:
            yield Variant("=false", False, (True,))
    else:
        raise TypeError(f"{expected!r}, expected a type of JSON values")


# The state of an item that is whole, and the words that say nothing.
_FIRST, _LAST = frozenset({"completed", "OUTCOME_OK"}), "_UNSPECIFIED"


def _words(words: tuple[Any, ...]) -> Iterator[Variant]:
    words = tuple(sorted(words, key=lambda word: (word not in _FIRST, str(word).endswith(_LAST))))
    for word in words:
        yield Variant(f"={word}", word, tuple(other for other in words if other != word))


def _walk_union(parts: list[Any], name: str, stack: tuple[Any, ...]) -> Iterator[Variant]:
    objects = [part for part in parts if fields_of(part) is not None]
    objects = [part for part in objects if stack.count(part) <= _MAX_REPEATS]
    first = {part: next(_walk(part, name, stack)).value for part in objects}
    for part in parts:
        if stack.count(part) > _MAX_REPEATS:
            continue
        label = ""
        if len(objects) > 1 and part in objects:
            label = f"[{label_of(part)}]"
        elif len(parts) > 1 and get_origin(part) is not Literal and part is not type(None):
            label = f"[{label_of(part)}]" if len(parts) > 2 or type(None) not in parts else ""
        others = tuple(first[other] for other in first if other != part)
        for number, variant in enumerate(_walk(part, name, stack)):
            if number == 0 and part in first:
                variant = variant._replace(others=others)
            yield variant._replace(path=label + variant.path)


def _walk_object(expected: Any, name: str, stack: tuple[Any, ...]) -> Iterator[Variant]:
    fields = fields_of(expected) or {}
    required = {field for field in fields if fields[field].is_required}
    required |= set(NEEDS.get(expected.__name__, ()))
    exclusive = EXCLUSIVE.get(expected.__name__, frozenset())
    inner_stack = (*stack, expected)
    least = {
        field: next(_walk_field(expected, field, inner_stack)).value
        for field in fields
        if field in required
    }
    yield Variant("", least, is_null=not least and name not in SAYS_MORE)
    if stack.count(expected) >= _MAX_REPEATS:
        return
    for field in fields:
        rest = {key: value for key, value in least.items() if not {key, field} <= exclusive}
        place = partial(_placed, rest, field)
        for number, variant in enumerate(_walk_field(expected, field, inner_stack)):
            placed = variant.within(place, f".{field}")
            if field in required:
                # The first value of a required field is that of the object without others.
                if number or variant.others:
                    yield placed
            else:
                yield placed._replace(without=(*placed.without, least))


def _walk_field(owner: Any, name: str, stack: tuple[Any, ...]) -> Iterator[Variant]:
    value = FIELD_VALUES.get((owner.__name__, name))
    if value is not None:
        return iter([Variant("", value)])
    return _walk((fields_of(owner) or {})[name].expected, name, stack)


def _placed(fields: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**fields, name: value}


def with_member(base: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return an object with a member, unless the value is `ABSENT`."""
    return base if value is ABSENT else {**base, name: value}
