"""The observers of a gateway: log, metrics, spans, and further ones of the program."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamnorm.gateway.config import Config
from streamnorm.gateway.logs import RequestLog
from streamnorm.gateway.records import CallRecord, Observer

if TYPE_CHECKING:
    from streamnorm.gateway.metrics import Metrics


_LOG = logging.getLogger("streamnorm.gateway")


class Observers:
    """The log, metrics and spans, where their libraries are installed, and further observers.

    None of them can break a request: the first exception of each is logged, by its type, and
    all are swallowed.

    Args:
        config: The configuration.
        others: Further observers.

    Attributes:
        metrics: The metrics; None without prometheus-client.
    """

    def __init__(self, config: Config, others: Iterable[Observer] = ()) -> None:
        self.metrics = _metrics(config)
        own = (RequestLog(), self.metrics, _telemetry(config))
        self._observers = (*(one for one in own if one is not None), *others)
        self._broken: set[int] = set()

    def begin(self, call: CallRecord) -> None:
        """Report to all observers that a request has arrived."""
        for observer in self._observers:
            try:
                observer.begin(call)
            except Exception as exc:  # noqa: BLE001 - the request matters more
                self._report(observer, exc)

    def end(self, call: CallRecord) -> None:
        """Report to all observers how a request ended."""
        for observer in self._observers:
            try:
                observer.end(call)
            except Exception as exc:  # noqa: BLE001 - the request matters more
                self._report(observer, exc)

    def _report(self, observer: Observer, exc: Exception) -> None:
        if id(observer) not in self._broken:
            self._broken.add(id(observer))
            # The text of the exception may quote what it was given.
            names = type(observer).__name__, type(exc).__name__
            _LOG.error("observer %s failed with %s; its further failures are not logged", *names)


def _metrics(config: Config) -> Metrics | None:
    try:
        from streamnorm.gateway.metrics import Metrics
    except ModuleNotFoundError:  # prometheus-client
        return None
    return Metrics(config)


def _telemetry(config: Config) -> Observer | None:
    try:
        from streamnorm.gateway.telemetry import Telemetry
    except ModuleNotFoundError:  # opentelemetry-api
        return None
    return Telemetry(config)
