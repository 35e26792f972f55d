"""A report as one JSON value, for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm.inspect.survey import Report

__all__ = ["document"]

# The bars are for people, and what they mean depends on the times.
_BAR_FIELDS = ("cell_width", "tracks")
_TRACK_FIELDS = ("busy",)


def document(report: Report, name: str) -> dict[str, Any]:
    """Return a report as JSON fields, in the order of the page.

    `start` and `stop` of a block are numbers of events, from 0, and `start_ms` and `stop_ms`
    their times; `head` is its first 1,024 characters.  `violations` have the number of a
    frame, from 0.

    Args:
        report: The report.
        name: Name of the stream.
    """
    fields: dict[str, Any] = msgspec.to_builtins(report)
    blocks = fields["tracks"]
    for block in blocks:
        for field in _TRACK_FIELDS:
            del block[field]
    for field in _BAR_FIELDS:
        del fields[field]
    return {"stream": name, **fields, "blocks": blocks}
