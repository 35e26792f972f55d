"""Signatures of msgspec's structs, for the reference of the site.

A struct has no `__init__` in its source, so that Griffe, which reads the source alone, knows no
signature of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import griffe
import msgspec


class StructSignatures(griffe.Extension):
    """Gives each public struct the `__init__` that msgspec makes for it."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the signatures, once all modules of the package are read."""
        for documented in _classes(pkg):
            value = getattr(import_module(documented.module.path), documented.name, None)
            if inspect.isclass(value) and issubclass(value, msgspec.Struct):
                documented.set_member("__init__", _init(pkg, documented, value))


def _classes(module: griffe.Module) -> Iterator[griffe.Class]:
    for member in list(module.members.values()):
        if isinstance(member, griffe.Class) and not member.name.startswith("_"):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def _init(
    package: griffe.Module, documented: griffe.Class, struct: type[msgspec.Struct]
) -> griffe.Function:
    fields: dict[str, Any] = {}
    for base in reversed(struct.__mro__):
        if base.__module__.startswith("streamnorm"):
            _, _, path = f"{base.__module__}.{base.__name__}".partition(".")
            fields.update(package[path].members)
    parameters = (
        griffe.Parameter(
            parameter.name,
            annotation=fields[parameter.name].annotation,
            kind=griffe.ParameterKind(parameter.kind.description),
            default=fields[parameter.name].value,
        )
        for parameter in inspect.signature(struct).parameters.values()
    )
    return griffe.Function(
        "__init__",
        parent=documented,
        parameters=griffe.Parameters(griffe.Parameter("self"), *parameters),
    )
