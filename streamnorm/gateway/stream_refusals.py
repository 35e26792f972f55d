"""Refusals of requests for streams of the log."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from streamnorm._core.errors import LogError, StoreError
from streamnorm._upstream.requests import RequestRefused
from streamnorm.log import State

_LOG = logging.getLogger("streamnorm.gateway")


@contextmanager
def log_refusals() -> Generator[None]:
    """Raise `RequestRefused` if a stream does not exist or the store fails."""
    try:
        yield
    except LogError as exc:
        raise RequestRefused(str(exc), exc.status, code=f"stream_{exc.code}") from exc
    except StoreError as exc:
        _LOG.warning("the log of streams failed: %s", exc)
        text = "the log of streams does not answer, try again"
        raise RequestRefused(text, 503, code="store_unavailable") from exc


ABSENT = {
    "unknown": ("no stream has this id", 404),
    "expired": ("the stream of this id has expired", 410),
}
"""Error message and status for a stream that does not exist, by its state."""


def refuse_absent(state: State) -> None:
    """Refuse a request for a stream that does not exist.

    Raises:
        RequestRefused: There is none.
    """
    if state in ABSENT:
        raise RequestRefused(*ABSENT[state], code=f"stream_{state}")
