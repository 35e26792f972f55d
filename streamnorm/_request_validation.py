"""Strict validation of a request: what its provider would refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamnorm._core.bodies.parsing import Body, body_object, lone_surrogate_in
from streamnorm._core.codec import MAX_PROBLEMS, Finding, RequestFacts, RequestViolation
from streamnorm._core.limits import Limits
from streamnorm._registry import lookup
from streamnorm.profiles import shipped_profiles
from streamnorm.profiles.rules import VENDOR, RequestRule, shipped_rules

__all__ = ["RequestViolation", "validate_request"]

_MAX_QUOTED_CHARS = 80
_MAX_PATH_CHARS = 1000
# Keys of providers, tokens of GitHub, GitLab, AWS, Slack, Stripe, npm and Tavily, JSON Web Tokens,
# and the password in a URL.
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|csk|xai|pplx|org|nvapi|glpat|xox[a-z]|tvly)-"
    r"|(?:gsk|hf|r8|fw|proj|gh[a-z]|github_pat|npm|whsec|[prs]k_(?:live|test))_"
    r"|ya29\.|AQ\.|AIza|eyJ|A[KS]IA)[A-Za-z0-9_.-]{12}"
    r"|(?i:bearer\s|private key)|://[^/\s:@\[\]]*:[^/\s@]+@"
)
_ELEMENT = re.compile(r"\[([0-9]+)\]")
# A name in a path may be one that the client has chosen.
_NAME = re.compile(r"[^.\[\]]+")


def validate_request(
    body: Body,
    dialect: str,
    *,
    model: str | None = None,
    server: str | None = None,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> list[RequestViolation]:
    """Return what a provider would refuse of a request; nothing if it is accepted.

    The rules are those that users of providers have met, each with the provider's own words;
    they hold for the models and servers that they name.  After 1,000 violations no more are
    returned.

    Args:
        body: JSON text, or the decoded object.
        dialect: Dialect of the body.
        model: Name of the model; None = as the body or the path has it.
        server: Name of the server; None, or a name without rules and profiles, is the
            dialect's own vendor.
        path: Path of the URL, which in some dialects names the model.  A request that counts
            tokens has no rules.
        headers: Headers of the request, which name betas.
        limits: Bounds.

    Raises:
        DecodeError: The body is no JSON object, or exceeds a bound.
        UnknownDialect: There is no such dialect.
    """
    known = lookup(dialect)
    value = body_object(body, limits)
    if known.endpoints.counts(path or ""):
        return []
    facts = RequestFacts(
        value,
        model or known.endpoints.model(path or "", value),
        server,
        path or "",
        {name.lower(): text for name, text in (headers or {}).items()},
        stream=known.endpoints.streams(path or "", value),
        lone_surrogate=lone_surrogate_in(body),
    )
    found: list[RequestViolation] = []
    for rule in rules_for(known.name, server=server, model=facts.model):
        for finding in rule.check(facts):
            found.append(_violation(rule, finding, facts.model))
            if len(found) == MAX_PROBLEMS:
                return found
    return found


def rules_for(dialect: str, *, server: str | None, model: str) -> Iterator[RequestRule]:
    """Yield the rules that hold for a model on a server."""
    rules = [rule for rule in shipped_rules() if rule.dialect == dialect]
    is_known = shipped_profiles().knows(server, dialect)
    if server is None or not (is_known or any(server in rule.servers for rule in rules)):
        server = VENDOR
    for rule in rules:
        if rule.holds_for(server, model):
            yield rule


def _violation(rule: RequestRule, finding: Finding, model: str) -> RequestViolation:
    path = quoted_path(finding.path)
    message = rule.says.format(
        path=path,
        dotted=_ELEMENT.sub(r".\1", path),
        context=quoted_path(finding.context),
        value=quoted(finding.value),
        name=quoted(finding.name),
        count=finding.count,
        limit=finding.limit,
        model=quoted(model),
    )
    return RequestViolation(rule.id, path, message, rule.status, rule.type, rule.code)


def quoted_path(path: str) -> str:
    """Return a path as an error may show it."""
    shown = _NAME.sub(lambda name: quoted(name[0]), path) if not _SECRET.search(path) else "…"
    return shown if len(shown) <= _MAX_PATH_CHARS else f"{shown[:_MAX_PATH_CHARS]}…"


def quoted(value: object) -> str:
    """Return a value as an error may show it: never long, and no secret."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        return "…"
    if len(value) > _MAX_QUOTED_CHARS or _SECRET.search(value):
        return "…"
    return value
