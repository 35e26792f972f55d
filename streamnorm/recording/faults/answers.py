"""Faults of the response headers, and error responses that replace an answer."""

from __future__ import annotations

from typing import ClassVar

from msgspec import structs

from streamnorm.recording.exchange import Playback, Step
from streamnorm.recording.faults.dialects import dialect_of, error_body
from streamnorm.recording.faults.fault import Fault
from streamnorm.recording.faults.layout import events_of

__all__ = ["content_type", "http"]

# Statuses that clients retry as soon as the server allows it.
_WITH_RETRY_AFTER = (429, 503, 529)


def content_type(value: str = "text/html") -> Fault:
    """Return a fault: another `content-type`."""
    return _ContentType(value)


def http(status: int, *, times: int | None = 1) -> Fault:
    """Return a fault: an error response that replaces the recording, which is not used up.

    Its body is the provider's error of that status; if the dialect is unknown, an error of
    Chat Completions.

    Args:
        status: From 400 to 599.
        times: Number of requests it answers; None for all.

    Raises:
        ValueError: The status is no error, or `times` is less than 1.
    """
    return _HTTP(status, times)


class _ContentType(Fault, frozen=True):
    name: ClassVar[str] = "content_type"
    value: str

    def inject(self, playback: Playback) -> Playback:
        return structs.replace(playback, headers={**playback.headers, "content-type": self.value})

    def details(self) -> list[str]:
        return [self.value]


class _HTTP(Fault, frozen=True):
    name: ClassVar[str] = "http"
    status: int
    requests: int | None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"http of status {self.status}, expected 400 to 599")
        if self.requests is not None and self.requests < 1:
            raise ValueError(f"http {self.requests} times, expected 1 or more")

    @property
    def replaces(self) -> bool:
        return True

    @property
    def times(self) -> int | None:
        return self.requests

    def inject(self, playback: Playback) -> Playback:
        dialect = dialect_of(playback.dialect, events_of(playback.body))
        headers = {"content-type": "application/json"}
        if self.status in _WITH_RETRY_AFTER:
            # The official SDKs read the second first, and ignore one of 0.
            headers |= {"retry-after": "0", "retry-after-ms": "1"}
        body = error_body(dialect, self.status)
        return Playback(self.status, headers, (Step(0.0, body),), "eof", playback.dialect)

    def details(self) -> list[str]:
        times = [] if self.requests == 1 else [f"times={self.requests}"]
        return [str(self.status), *times]
