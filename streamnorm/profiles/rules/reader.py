"""The reader of rules: what a provider refuses, from TOML, checked when it is read.

A file is a list of `[[rule]]` tables.  Each says where it holds (`dialect`, `server`, `model`),
what it demands (`summary`), what the provider answers (`says`, `status`, `type`, `code`), where
and when that was seen (`evidence`, `since`, `until`), and how a request is checked (`check`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.bodies.field_paths import parse_path
from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.errors import ProfileError, UnknownDialect
from streamnorm._registry import lookup
from streamnorm.profiles.reader import VENDOR, model_pattern, names_model
from streamnorm.profiles.rules.checks import GenericCheck, OwnCheck
from streamnorm.profiles.rules.schema_checks import SchemaCheck

_ANY_SERVER = "*"
_PLACEHOLDERS = frozenset({"path", "dotted", "context", "value", "name", "count", "limit", "model"})
_ID = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+", re.ASCII)


class RequestRule(Struct, frozen=True, kw_only=True):
    """One rule of a provider for requests.

    Attributes:
        id: Its name, which begins with a dialect or a server.
        dialect: Dialect of the requests.
        servers: Names of the servers that it holds for, `vendor` for the dialect's own; `*`
            for every server.
        models: Pattern of the models that it holds for; None = all.
        model_globs: The globs that it was made of.
        summary: What it demands.
        says: The provider's answer, with placeholders.
        verbatim: Whether the answer is as the provider words it.
        status: HTTP status of the answer.
        type: Type of the error, in the vendor's words; None = the dialect's for the status.
        code: Code of the error; None = none.
        evidence: Where the answer was seen.
        since: Month from which it holds, such as `2026-03`; "" if unknown.
        until: Month of the version that no longer has it; "" if there is none.  A request does
            not show the version of its server, so that the rule still holds.
        check: Finds what breaks it.
    """

    id: str
    dialect: str
    servers: frozenset[str]
    models: re.Pattern[str] | None
    model_globs: tuple[str, ...]
    summary: str
    says: str
    verbatim: bool
    status: int
    type: str | None
    code: str | None
    evidence: tuple[str, ...]
    since: str
    until: str
    check: RequestCheck

    def holds_for(self, server: str, model: str) -> bool:
        """Return whether the rule holds for a model on a server."""
        if server not in self.servers and _ANY_SERVER not in self.servers:
            return False
        return names_model(self.models, model)


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rule]]` of a file."""

    id: str
    dialect: str | tuple[str, ...]
    server: str | tuple[str, ...] = VENDOR
    model: str | tuple[str, ...] = ()
    summary: str
    says: str
    verbatim: bool = True
    status: int = 400
    type: str | None = None
    code: str | None = None
    evidence: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    check: GenericCheck | SchemaCheck | OwnCheck


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[_Table, ...] = ()


@cache
def shipped_rules() -> tuple[RequestRule, ...]:
    """Return the rules that streamnorm ships, in the order of their files."""
    rules: list[RequestRule] = []
    for file in sorted(files("streamnorm.profiles.rules").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            rules += read_request_rules(file.read_text(encoding="utf-8"), file.name)
    return tuple(rules)


def read_request_rules(text: str, name: str) -> list[RequestRule]:
    """Return the rules of a file.

    Args:
        text: The TOML.
        name: Name of the file, for errors.

    Raises:
        ProfileError: It is no TOML, or no file of rules.
    """
    try:
        tables = msgspec.convert(tomllib.loads(text), _File).rule
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as exc:
        raise ProfileError(f"{name}: {exc}") from exc
    rules: list[RequestRule] = []
    seen: set[str] = set()
    for number, table in enumerate(tables):
        where = f"{name}: rule[{number}]"
        if table.id in seen:
            raise ProfileError(f"{where}.id: that of another rule, expected one of its own")
        seen.add(table.id)
        rules += _rules_of(table, where)
    return rules


def _rules_of(table: _Table, where: str) -> Iterator[RequestRule]:
    """Yield the rule of a table, once for each of its dialects."""
    if _ID.fullmatch(table.id) is None:
        raise ProfileError(f"{where}.id: no name, expected two words with a dot between")
    _check_text(table.says, where)
    if not 400 <= table.status <= 599:
        raise ProfileError(f"{where}.status: {table.status}, expected 400 to 599")
    _check_paths(table.check, where)
    globs = _names(table.model)
    for dialect in _names(table.dialect):
        try:
            known = lookup(dialect)
        except UnknownDialect as exc:
            raise ProfileError(f"{where}.dialect: {exc}") from exc
        yield RequestRule(
            id=table.id,
            dialect=known.name,
            servers=frozenset(_names(table.server)),
            models=model_pattern(globs, where),
            model_globs=globs,
            summary=table.summary,
            says=table.says,
            verbatim=table.verbatim,
            status=table.status,
            type=table.type,
            code=table.code,
            evidence=table.evidence,
            since=table.since,
            until=table.until,
            check=_bind_check(table.check, known.request_checks(), where),
        )


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _check_text(text: str, where: str) -> None:
    try:
        pieces = [piece for piece in Formatter().parse(text) if piece[1] is not None]
    except ValueError as exc:
        raise ProfileError(f"{where}.says: {exc}") from exc
    for _, name, form, conversion in pieces:
        if name not in _PLACEHOLDERS or form or conversion:
            known = ", ".join(sorted(_PLACEHOLDERS))
            raise ProfileError(f"{where}.says: placeholder {name!r}, expected one of {known}")


def _check_paths(check: GenericCheck | SchemaCheck | OwnCheck, where: str) -> None:
    conditions = [condition.at for condition in (*check.when, *check.unless)]
    schemas = check.at_strict if isinstance(check, SchemaCheck) else ()
    for path in [path for path in (*check.at, *schemas) if path] + conditions:
        try:
            parse_path(path)
        except ValueError as exc:
            raise ProfileError(f"{where}.check: {path!r}: {exc}") from exc


def _bind_check(check: GenericCheck | SchemaCheck | OwnCheck, own: Any, where: str) -> RequestCheck:
    if not isinstance(check, OwnCheck):
        return check.findings
    found: RequestCheck | None = own.get(check.check_name)
    if found is None:
        known = ", ".join(own) or "none"
        raise ProfileError(f"{where}.check: {check.check_name!r}, expected one of {known}")

    def findings(facts: RequestFacts) -> Iterator[Finding]:
        if check.counts(facts):
            yield from found(facts)

    return findings
