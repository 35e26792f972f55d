"""`FrameworkResponse`: an ASGI response that is also one of Starlette, where it is imported."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

if TYPE_CHECKING:
    from starlette.responses import Response
else:  # which is the base class of each instance, if Starlette is imported
    Response = object

T = TypeVar("T")


class FrameworkResponse(Response):
    """Base class of responses for Starlette and FastAPI, which need neither."""

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Create an instance that is also a Starlette response if Starlette is imported."""
        return super().__new__(_framework_class(cls))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Allow the class as the return type of a FastAPI path operation."""
        from pydantic_core import core_schema

        return core_schema.any_schema()


def _framework_class(cls: type[T]) -> type[T]:
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
