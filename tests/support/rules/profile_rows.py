"""Rows of expected capabilities by model and server, and their check."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.wire_fields import FittedBody, fit_fields
from streamnorm._core.losses import Losses
from streamnorm.profiles import shipped_profiles
from support.bodies.projection_targets import EVERYTHING

__all__ = ["SAMPLING", "Row", "capabilities_for", "fitted_for"]

SAMPLING = ["temperature", "top_p", "top_k"]


class Row(NamedTuple):
    """Expected capabilities of one target.

    Attributes:
        dialect: Name of the dialect.
        server: Name of the server; None = the vendor.
        model: Name of the model.
        has: Values of capabilities.
        lacks: Elements that capabilities do not have; all others, they do.
    """

    dialect: str
    server: str | None
    model: str
    has: Mapping[str, Any] = MappingProxyType({})
    lacks: Mapping[str, Collection[str]] = MappingProxyType({})

    def __str__(self) -> str:
        return "-".join(filter(None, self[:3]))

    def check(self) -> None:
        """Compare the shipped profiles with the row."""
        target = capabilities_for(self.dialect, self.server, self.model)
        assert {name: getattr(target, name) for name in self.has} == self.has
        for name, missing in self.lacks.items():
            before = getattr(EVERYTHING, name)
            assert {*before} - {*getattr(target, name)} == {*missing}


def capabilities_for(
    dialect: str, server: str | None = None, model: str = "", version: str | None = None
) -> BodyCapabilities:
    """Return the capabilities of a target by the shipped profiles."""
    base = structs.replace(EVERYTHING, dialect=dialect)
    return shipped_profiles().resolve(base, server=server, model=model, version=version)


def fitted_for(
    body: dict[str, Any],
    dialect: str,
    server: str | None = None,
    model: str = "",
    version: str | None = None,
    *,
    headers: dict[str, str] | None = None,
) -> tuple[FittedBody, list[str]]:
    """Return a body fitted to a target, and the names of its losses."""
    losses = Losses()
    target = capabilities_for(dialect, server, model, version)
    fitted = fit_fields(body, headers or {}, target, losses)
    return fitted, [loss.feature for loss in losses.list()]
