"""The kernel in C, and its twins in Python in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec

from streamnorm._core.codec import kernel
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.text import BATCH, LONG_CHARS, MAX_FRESH

__all__ = ["COMPILED", "kernel_of"]

try:
    COMPILED: Any = import_module("streamnorm._core.codec._kernel")
except ImportError:
    COMPILED = None
else:  # which the package does only where it uses the kernel
    COMPILED.setup(
        msgspec.json.Decoder(str).decode,
        FAST_ERRORS,
        LimitExceeded,
        MAX_FRESH,
        BATCH,
        LONG_CHARS,
        kernel.MAX_DIGITS,
    )


@contextmanager
def kernel_of(compiled: Any) -> Iterator[None]:
    """Use the kernel or, for None, its twins."""
    before = kernel.TemplateReader, kernel.DeltaFrames
    kernel.TemplateReader = compiled and compiled.TemplateReader
    kernel.DeltaFrames = compiled and compiled.DeltaFrames
    try:
        yield
    finally:
        kernel.TemplateReader, kernel.DeltaFrames = before
