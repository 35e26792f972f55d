"""Temporary registration of dialects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from streamnorm._core.codec import Dialect
from streamnorm._registry import register

__all__ = ["registered"]


@contextmanager
def registered(*dialects: Dialect) -> Iterator[None]:
    """Register dialects while the context is open."""
    with ExitStack() as stack:
        for dialect in dialects:
            stack.callback(register(dialect))
        yield
