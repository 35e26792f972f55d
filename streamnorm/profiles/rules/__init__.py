"""Request rules of providers in TOML: which requests they refuse, and with which error.

A file is a list of `[[rule]]` tables.  A table states where the rule holds (`dialect`, `server`,
`model`), its demand (`summary`), the provider's error (`says`, `status`, `type`, `code`), its
evidence (`evidence`, `since`, `until`), and the check of a request (`check`).
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

from streamnorm._core.bodies.fields import parse_path
from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.errors import ProfileError, UnknownDialect
from streamnorm._registry import lookup
from streamnorm.profiles import VENDOR, Names, as_names, model_pattern, names_model
from streamnorm.profiles.rules.checks import GenericCheck, OwnCheck
from streamnorm.profiles.rules.schema_checks import SchemaCheck

_ANY_SERVER = "*"
_PLACEHOLDERS = frozenset({"path", "dotted", "context", "value", "name", "count", "limit", "model"})
_ID = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+", re.ASCII)


class RequestRule(Struct, frozen=True, kw_only=True):
    """Rule by which a provider refuses a request.

    Attributes:
        id: Name of the rule, which begins with a dialect or a server.
        dialect: Dialect of the requests.
        servers: Names of the servers with the rule; `vendor` is the dialect's vendor, `*` every
            server.
        models: Pattern of the models with the rule; None = all.
        model_globs: Globs of the pattern.
        summary: Demand of the rule.
        says: Text of the provider's error, with placeholders.
        verbatim: Whether the text is the provider's own.
        status: HTTP status of the error.
        type: Type of the error; None = the dialect's type for the status.
        code: Code of the error; None = none.
        evidence: Sources that show the error.
        since: Month from which the rule holds, such as `2026-03`; "" if unknown.
        until: Month of the release that dropped the rule, or "".  The rule is
            still applied: a request does not show the version of its server.
        check: Function that yields the violations of a request.
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
        """Return whether the rule applies to a model on a server."""
        if server not in self.servers and _ANY_SERVER not in self.servers:
            return False
        return names_model(self.models, model)


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rule]]` table of a file."""

    id: str
    dialect: Names
    server: Names = VENDOR
    model: Names = ()
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
    """Read the request rules in a file.

    Args:
        text: Text of the file.
        name: Name of the file, for errors.

    Raises:
        ProfileError: The text is no TOML, or no file of rules.
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
    """Yield the rule in a table, once for each of its dialects."""
    if _ID.fullmatch(table.id) is None:
        raise ProfileError(f"{where}.id: no name, expected two words with a dot between")
    _check_text(table.says, where)
    if not 400 <= table.status <= 599:
        raise ProfileError(f"{where}.status: {table.status}, expected 400 to 599")
    _check_paths(table.check, where)
    globs = as_names(table.model)
    for dialect in as_names(table.dialect):
        try:
            known = lookup(dialect)
        except UnknownDialect as exc:
            raise ProfileError(f"{where}.dialect: {exc}") from exc
        yield RequestRule(
            id=table.id,
            dialect=known.name,
            servers=frozenset(as_names(table.server)),
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
