"""Checks of fields for request rules of all dialects, selected by a rule's `kind`.

A check is read from the `check` table of a rule.  `at` has the paths of the fields.  A missing
or null field is no violation, unless the check is `required`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.bodies.fields import fields_at, parse_path
from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object

Word: TypeAlias = str | int | float | bool


class Condition(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on another field of the request.

    Attributes:
        at: Path of the field.
        one_of: Values that fulfil the condition; empty = any value but null.
    """

    at: str
    one_of: tuple[Word, ...] = ()

    def holds(self, body: dict[str, Any]) -> bool:
        """Return whether a field at the path has one of the values."""
        for _, value in fields_at(body, parse_path(self.at)):
            if value is not None and (not self.one_of or is_one_of(value, self.one_of)):
                return True
        return False


class CheckBase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base class of all checks, which holds the paths to check and the rule's conditions.

    Attributes:
        at: Paths of the checked fields; "" is the body.
        when: Conditions that must all hold for the rule to apply.
        unless: Conditions of which none may hold.
        streams: Whether the rule applies only to streams (True) or only to whole responses
            (False); None = both.
    """

    at: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    streams: bool | None = None

    def counts(self, facts: RequestFacts) -> bool:
        """Return whether the rule applies to a request."""
        if self.streams is not None and self.streams != facts.stream:
            return False
        body = facts.body
        return all(condition.holds(body) for condition in self.when) and not any(
            condition.holds(body) for condition in self.unless
        )


class _Check(CheckBase, frozen=True):
    """Base of checks that check one field at a time."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield each violation of the rule."""
        if not self.counts(facts):
            return
        for at in self.at:
            for place, value in _fields(facts.body, at):
                if value is not None:
                    yield from self.check(place, value)

    @abstractmethod
    def check(self, place: str, value: Any) -> Iterator[Finding]:
        """Yield the violations of one field."""


class Forbidden(_Check, frozen=True, tag="forbidden"):
    """Checks that fields are absent or null.

    Attributes:
        one_of: Forbidden values; empty = all.
        none_of: Values that are not forbidden.
    """

    one_of: tuple[Word, ...] = ()
    none_of: tuple[Word, ...] = ()

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if self.one_of and not is_one_of(value, self.one_of):
            return
        if not is_one_of(value, self.none_of):
            yield Finding(place, value, name=place.rpartition(".")[2])


class OneOf(_Check, frozen=True, tag="one_of"):
    """Checks that strings, numbers and booleans have one of the listed values."""

    values: tuple[Word, ...]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if not (is_array(value) or is_object(value) or is_one_of(value, self.values)):
            yield Finding(place, value)


class KnownFields(_Check, frozen=True, tag="known_fields"):
    """Checks that objects have only the listed fields."""

    names: frozenset[str]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        for item_place, item in _items(place, value):
            if is_object(item):
                for name in item:
                    if name not in self.names:
                        path = f"{item_place}.{name}" if item_place else name
                        yield Finding(path, name=name)


class Required(_Check, frozen=True, tag="required"):
    """Checks that objects have all of the listed fields, and that none of the fields is null."""

    names: tuple[str, ...]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        for item_place, item in _items(place, value):
            if is_object(item):
                for name in self.names:
                    if item.get(name) is None:
                        yield Finding(f"{item_place}.{name}" if item_place else name, name=name)


class Bounds(_Check, frozen=True, tag="bounds"):
    """Checks that numbers are within bounds.

    Attributes:
        least: Lowest legal number; None = any.
        most: Highest legal number; None = any.
        besides: Legal numbers out of the bounds.
    """

    least: float | int | None = None
    most: float | int | None = None
    besides: tuple[Word, ...] = ()

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if is_one_of(value, self.besides):
            return
        if self.least is not None and value < self.least:
            yield Finding(place, value, limit=self.least)
        elif self.most is not None and value > self.most:
            yield Finding(place, value, limit=self.most)


class Length(_Check, frozen=True, tag="length"):
    """Checks the lengths of texts, in characters, and of arrays and objects, in elements."""

    least: int = 0
    most: int | None = None

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if not (isinstance(value, str) or is_array(value) or is_object(value)):
            return
        count = len(value)
        if count < self.least:
            yield Finding(place, count=count, limit=self.least)
        elif self.most is not None and count > self.most:
            yield Finding(place, count=count, limit=self.most)


class Pattern(_Check, frozen=True, tag="pattern"):
    """Checks that strings, or the strings of an array, fully match a regular expression.

    Attributes:
        matches: Regular expression of the whole string; None = any string.
        never: Regular expression that matches no part of the string; None = none.
    """

    matches: str | None = None
    never: str | None = None

    def __post_init__(self) -> None:
        for text in (self.matches, self.never):
            if text is not None:
                try:
                    re.compile(text)
                except re.error as exc:
                    raise ValueError(f"{exc}, expected a regular expression") from exc

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        for item_place, item in _items(place, value):
            if not isinstance(item, str):
                continue
            matches = self.matches is None or re.fullmatch(self.matches, item)
            if not matches or (self.never is not None and re.search(self.never, item)):
                yield Finding(item_place, item)


class Unique(CheckBase, frozen=True, tag="unique"):
    """Checks that no two of the fields have the same value."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield each field with the same value as an earlier field."""
        if not self.counts(facts):
            return
        seen: set[str] = set()
        for at in self.at:
            for place, value in _fields(facts.body, at):
                if isinstance(value, str):
                    if value in seen:
                        yield Finding(place, value)
                    seen.add(value)


class WellFormed(CheckBase, frozen=True, tag="well_formed"):
    """Checks that no text of the body has a lone surrogate."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield the first text with a lone surrogate."""
        if facts.lone_surrogate is not None and self.counts(facts):
            yield Finding(facts.lone_surrogate)


class OwnCheck(CheckBase, frozen=True, tag="own"):
    """A check that the dialect implements in code.

    Attributes:
        check_name: Name of the check among those of the dialect.
    """

    check_name: str


GenericCheck: TypeAlias = (
    Forbidden | OneOf | KnownFields | Required | Bounds | Length | Pattern | Unique | WellFormed
)
"""The checks of fields that all dialects share."""


def _fields(body: dict[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    if not at:
        yield "", body
        return
    yield from fields_at(body, parse_path(at))


def _items(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each element of an array, or a value that is no array, with its path."""
    if is_array(value):
        for position, item in enumerate(value):
            yield f"{place}[{position}]", item
    else:
        yield place, value


def is_one_of(value: object, words: tuple[Word, ...]) -> bool:
    """Return whether a value is one of the listed words."""
    # 1 is 1.0, and not true.
    return any(
        value == word and isinstance(value, bool) == isinstance(word, bool) for word in words
    )
