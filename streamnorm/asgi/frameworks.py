"""Classes of responses that are also those of Starlette, where that is used."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TypeVar, cast

T = TypeVar("T")


def framework_class(cls: type[T]) -> type[T]:
    """Return a subclass of `cls` and Starlette's `Response` if Starlette is imported, else `cls`.

    FastAPI sends only instances of that unchanged, and has always imported Starlette.
    """
    starlette = sys.modules.get("starlette.responses")
    if starlette is None:
        return cls
    return _join_classes(cls, starlette.Response)  # type: ignore[arg-type]  # classes are hashable


@lru_cache
def _join_classes(cls: type[T], base: type) -> type[T]:
    """Return a subclass of `cls` and `base`; `cls` itself if it derives from `base`."""
    if issubclass(cls, base):
        return cls
    return cast("type[T]", type(cls.__name__, (cls, base), {}))  # its first base
