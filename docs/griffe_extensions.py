"""Griffe extensions of the site's reference: generated signatures and completed docstrings.

Griffe reads the source alone: it knows no signature of a struct, whose `__init__` msgspec makes,
and no argument that the docstring of a base class describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe


class StructSignatures(griffe.Extension):
    """Adds the `__init__` that msgspec generates to each public struct."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the signatures when all modules of the package are loaded."""
        # Found before one is changed: a class takes over the `__init__` of its base.
        structs = [documented for documented in _classes(pkg) if _is_struct(documented)]
        for struct in structs:
            struct.set_member("__init__", _init(struct))


class DescribedArguments(griffe.Extension):
    """Replaces references to a class of arguments by their descriptions."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Complete the docstrings when all modules of the package are loaded."""
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


def _is_struct(documented: griffe.Class) -> bool:
    return any(
        isinstance(base, griffe.Expr) and base.canonical_path == "msgspec.Struct"
        for one in (documented, *documented.mro())
        for base in one.bases
    )


def _init(struct: griffe.Class) -> griffe.Function:
    positional: dict[str, griffe.Parameter] = {}
    by_keyword: dict[str, griffe.Parameter] = {}
    kind = griffe.ParameterKind
    for base in (*reversed(struct.mro()), struct):
        is_by_keyword = base.keywords.get("kw_only") == "True"
        for name, member in base.members.items():
            # Properties are attributes, too, and constants of the class have no annotation.
            if not isinstance(member, griffe.Attribute) or member.annotation is None:
                continue
            if "instance-attribute" not in member.labels:
                continue
            parameter = griffe.Parameter(
                name,
                annotation=member.annotation,
                kind=kind.keyword_only if is_by_keyword else kind.positional_or_keyword,
                default=member.value,
            )
            (by_keyword if is_by_keyword else positional)[name] = parameter
    fields = (*positional.values(), *by_keyword.values())
    return griffe.Function(
        "__init__",
        parent=struct,
        parameters=griffe.Parameters(griffe.Parameter("self"), *fields),
    )
