"""The kinds of checks that rules of several dialects share, each with what a rule says of it.

A check is read from the `check` table of a rule.  `at` names fields by path; a field that is
missing or null is no violation, unless the check is `required`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.bodies.field_paths import fields_at, parse_path
from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object

Word: TypeAlias = str | int | float | bool


class Condition(Struct, frozen=True, forbid_unknown_fields=True):
    """What the rest of a request must hold.

    Attributes:
        at: Path of a field.
        one_of: Values of which the field has one; empty = it is there, and not null.
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
    """Base of all kinds of checks: where they look, and which requests they count for.

    Attributes:
        at: Paths of the fields that are checked; "" is the body.
        when: Conditions of which all must hold for the rule to count.
        unless: Conditions of which none may hold.
        streams: Whether the rule counts for streams alone, or for whole answers alone.
    """

    at: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    streams: bool | None = None

    def counts(self, facts: RequestFacts) -> bool:
        """Return whether the rule counts for a request."""
        if self.streams is not None and self.streams != facts.stream:
            return False
        body = facts.body
        return all(condition.holds(body) for condition in self.when) and not any(
            condition.holds(body) for condition in self.unless
        )


class _Check(CheckBase, frozen=True):
    """Base of the checks that look at one field at a time."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield each place that breaks the rule."""
        if not self.counts(facts):
            return
        for at in self.at:
            for place, value in _fields(facts.body, at):
                if value is not None:
                    yield from self.check(place, value)

    @abstractmethod
    def check(self, place: str, value: Any) -> Iterator[Finding]:
        """Yield what is wrong with the value of one field."""


class Forbidden(_Check, frozen=True, tag="forbidden"):
    """The fields must not be there.

    Attributes:
        one_of: Values that are forbidden; empty = all.
        none_of: Values that are not.
    """

    one_of: tuple[Word, ...] = ()
    none_of: tuple[Word, ...] = ()

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if self.one_of and not is_one_of(value, self.one_of):
            return
        if not is_one_of(value, self.none_of):
            yield Finding(place, value, name=place.rpartition(".")[2])


class OneOf(_Check, frozen=True, tag="one_of"):
    """A text, a number or a truth value is one of those that are listed."""

    values: tuple[Word, ...]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        if not (is_array(value) or is_object(value) or is_one_of(value, self.values)):
            yield Finding(place, value)


class KnownFields(_Check, frozen=True, tag="known_fields"):
    """Objects have no other fields than those that are listed."""

    names: frozenset[str]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        for item_place, item in _items(place, value):
            if is_object(item):
                for name in item:
                    if name not in self.names:
                        path = f"{item_place}.{name}" if item_place else name
                        yield Finding(path, name=name)


class Required(_Check, frozen=True, tag="required"):
    """Objects have the fields that are listed, not null."""

    names: tuple[str, ...]

    def check(self, place: str, value: Any) -> Iterator[Finding]:
        for item_place, item in _items(place, value):
            if is_object(item):
                for name in self.names:
                    if item.get(name) is None:
                        yield Finding(f"{item_place}.{name}" if item_place else name, name=name)


class Bounds(_Check, frozen=True, tag="bounds"):
    """Numbers are within bounds.

    Attributes:
        least: The lowest; None = any.
        most: The highest; None = any.
        besides: Numbers out of bounds that are accepted.
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
    """Texts have a number of characters, arrays and objects a number of elements."""

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
    """Texts match a regular expression as a whole; texts of an array each do.

    Attributes:
        matches: What they match; None = anything.
        never: What nothing in them matches; None = nothing.
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
    """No two of the fields have the same value."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield each field whose value a field before it has."""
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
    """No text of the body has half a surrogate pair."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield the first text that has one."""
        if facts.lone_surrogate is not None and self.counts(facts):
            yield Finding(facts.lone_surrogate)


class OwnCheck(CheckBase, frozen=True, tag="own"):
    """A check that the dialect alone has.

    Attributes:
        check_name: Its name among the dialect's.
    """

    check_name: str


GenericCheck: TypeAlias = (
    Forbidden | OneOf | KnownFields | Required | Bounds | Length | Pattern | Unique | WellFormed
)
"""What the `check` of a rule may be, besides `OwnCheck`."""


def _fields(body: dict[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    if not at:
        yield "", body
        return
    yield from fields_at(body, parse_path(at))


def _items(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the elements of an array, or any other value itself."""
    if is_array(value):
        for position, item in enumerate(value):
            yield f"{place}[{position}]", item
    else:
        yield place, value


def is_one_of(value: object, words: tuple[Word, ...]) -> bool:
    """Return whether a value is one of some words."""
    # 1 is 1.0, and not true.
    return any(
        value == word and isinstance(value, bool) == isinstance(word, bool) for word in words
    )
