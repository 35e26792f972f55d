"""A gateway observer that stores its calls."""

from __future__ import annotations

from streamnorm.gateway import CallRecord

__all__ = ["RecordingObserver"]


class RecordingObserver:
    """Observer that stores the records of requests.

    Attributes:
        begun: Those of requests that have begun, in order.
        ended: Those of requests that have ended, in order.
    """

    def __init__(self) -> None:
        self.begun: list[CallRecord] = []
        self.ended: list[CallRecord] = []

    def begin(self, call: CallRecord) -> None:
        self.begun.append(call)

    def end(self, call: CallRecord) -> None:
        self.ended.append(call)
