"""Reports of whole streams."""

from __future__ import annotations

from typing import Any

from streamnorm.inspect import Survey
from streamnorm.inspect.report import Report

__all__ = ["survey"]


def survey(*reads: bytes, dialect: str | None = None, **options: Any) -> Report:
    """Return the report of a stream that ends after some reads.

    Args:
        reads: The reads.
        dialect: Dialect of the stream; None if it is to be detected.
        options: Options of `Survey`.
    """
    run = Survey(dialect, **options)
    for data in reads:
        run.feed(data)
    run.close()
    return run.report()
