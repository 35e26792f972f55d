"""Requests whose literal translation would break a rule of the target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from streamnorm import DecodeError, EncodeError, translate_request
from streamnorm._core.bodies.fields import fields_at, parse_path
from streamnorm.profiles import VENDOR
from streamnorm.profiles.rules import shipped_rules
from streamnorm.validation import validate_request

__all__ = ["Translation"]


class Translation(NamedTuple):
    """A client's request, and its expected translation for a provider with a rule.

    Attributes:
        rule: Id of the rule.
        source: Dialect of the client.
        body: Its request, without the model.
        target: Dialect of the provider.
        model: The model.
        written: Values of fields of the body that is written, by path; [] = no such field.  A
            path without indexes has the values of all elements.
        lost: Losses that are reported.
        server: Name of the server; None is the vendor.
        error: Path that an `EncodeError` names, where the request has no legal form.
        headers: Headers of the client.
    """

    rule: str
    source: str
    body: dict[str, Any]
    target: str
    model: str
    written: Mapping[str, list[Any]] = MappingProxyType({})
    lost: tuple[str, ...] = ()
    server: str | None = None
    error: str | None = None
    headers: Mapping[str, str] = MappingProxyType({})

    def __str__(self) -> str:
        return f"{self.rule}-{self.source}-{self.server or 'vendor'}-{self.model}"

    def check(self) -> None:
        """Check the translation and its losses, and that the provider accepts it."""
        assert self.rule in [
            rule.id
            for rule in shipped_rules()
            if rule.dialect == self.target and rule.holds_for(self.server or VENDOR, self.model)
        ]
        named = self.body if self.source == "gemini" else {**self.body, "model": self.model}
        arguments: dict[str, Any] = {
            "dialect": self.source,
            "to": self.target,
            "server": self.server,
            "headers": dict(self.headers),
            "path": f"/v1beta/models/{self.model}:generateContent"
            if self.source == "gemini"
            else None,
        }
        if self.error is not None:
            with pytest.raises((EncodeError, DecodeError)) as caught:
                translate_request(named, **arguments)
            assert caught.value.path == self.error
            return
        made = translate_request(named, **arguments)
        found = {
            path: [value for _, value in fields_at(made.body, parse_path(path))]
            for path in self.written
        }
        assert found == self.written, found
        lost = {loss.feature for loss in made.losses}
        assert lost >= {*self.lost}, lost
        violations = validate_request(
            made.body,
            self.target,
            model=self.model,
            server=self.server,
            path=made.path,
            headers=made.headers,
        )
        assert violations == [], violations
