"""Responses that Starlette and FastAPI send as their own, without an import of either."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, TypeVar, cast

__all__ = ["any_schema", "framework_class"]

T = TypeVar("T")


def framework_class(cls: type[T]) -> type[T]:
    """Return a subclass of a class and of Starlette's `Response`, if Starlette is imported.

    FastAPI sends only instances of that unchanged, and has always imported Starlette.
    """
    starlette = sys.modules.get("starlette.responses")
    if starlette is None:
        return cls
    return _joined(cls, starlette.Response)  # type: ignore[arg-type]  # classes are hashable


@lru_cache
def _joined(cls: type[T], base: type) -> type[T]:
    """Return a subclass of both, or `cls` if it is one already."""
    if issubclass(cls, base):
        return cls
    return cast("type[T]", type(cls.__name__, (cls, base), {}))  # its first base


def any_schema() -> Any:
    """Return the schema that lets a FastAPI path operation declare a class as its return type."""
    from pydantic_core import core_schema

    return core_schema.any_schema()
