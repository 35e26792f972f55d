"""What the reference of the site says of classes beyond their own source.

Griffe reads the source alone: it knows no signature of a struct, whose `__init__` msgspec makes,
and no argument that the docstring of a base class describes.
"""

from __future__ import annotations

import inspect
import re
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


class DescribedArguments(griffe.Extension):
    """Replaces the name of the class that describes the arguments by its description."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Complete the docstrings, once all modules of the package are read."""
        for documented in _classes(pkg):
            docstring = documented.docstring
            if docstring and (named := _DESCRIBED.search(docstring.value)):
                # Both stand in one folder.
                described = documented.module.parent[named[1]].docstring.value
                _, _, description = described.partition("\n\n")
                docstring.value = docstring.value.replace(named[0], description)


_DESCRIBED = re.compile(r"`(\w+\.\w+)` describes the arguments\.")


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
