"""Dialects that are known for a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from streamnorm._core.codec import Dialect
from streamnorm._registry import register

__all__ = ["registered"]


@contextmanager
def registered(*dialects: Dialect) -> Iterator[None]:
    """Register dialects, and remove them at the end."""
    with ExitStack() as stack:
        for dialect in dialects:
            stack.callback(register(dialect))
        yield
