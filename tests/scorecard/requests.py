"""Requests whose literal translation breaks a rule of a vendor, judged by the rules of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profiles import (
    test_rule_translations_anthropic,
    test_rule_translations_chat,
    test_rule_translations_responses,
)
from support.rules.translations import Translation

from streamnorm import DecodeError, EncodeError, translate_request
from streamnorm.validation import validate_request

from .vendor_requests import BEDROCK, GEMINI

__all__ = ["Written", "all_requests", "broken_rules", "client_body", "translate"]

REFUSED = "refused"
"""The kind of fault of a request that a converter refuses although it has a legal form."""


class Written(NamedTuple):
    """What a converter sends to the vendor.

    Attributes:
        body: The body; None if the converter refused the request.
        path: The path of the URL; None if it is not known.
        headers: The headers that it sets.
    """

    body: dict[str, Any] | None
    path: str | None = None
    headers: Mapping[str, str] = {}


def all_requests() -> Iterator[Translation]:
    """Yield the requests, most of which the tests of profiles check rule by rule."""
    yield from test_rule_translations_anthropic.VENDOR
    yield from test_rule_translations_anthropic.CLOUDS
    yield from test_rule_translations_anthropic.COMPATIBLE
    yield from test_rule_translations_chat.OPENAI
    yield from test_rule_translations_chat.VENDORS
    yield from test_rule_translations_chat.SCHEMAS
    yield from test_rule_translations_responses.CASES
    yield from GEMINI
    yield from BEDROCK


def client_body(case: Translation) -> dict[str, Any]:
    """Return the request of the client with its model."""
    return case.body if case.source == "gemini" else {**case.body, "model": case.model}


def translate(case: Translation) -> Written:
    """Return what this package sends."""
    gemini_path = f"/v1beta/models/{case.model}:generateContent"
    try:
        made = translate_request(
            client_body(case),
            dialect=case.source,
            to=case.target,
            server=case.server,
            headers=dict(case.headers),
            path=gemini_path if case.source == "gemini" else None,
        )
    except (DecodeError, EncodeError):
        return Written(None)
    return Written(made.body, made.path, made.headers)


def broken_rules(case: Translation, written: Written) -> set[str]:
    """Return the ids of the vendor's rules that a written request breaks.

    A refusal is right where the request has no legal form, and is `REFUSED` elsewhere.
    """
    if written.body is None:
        return set() if case.error is not None else {REFUSED}
    violations = validate_request(
        written.body,
        case.target,
        model=case.model,
        server=case.server,
        path=written.path,
        headers=written.headers,
    )
    return {violation.rule for violation in violations}
