"""Prometheus metrics of a gateway.

With `PROMETHEUS_MULTIPROC_DIR` in the environment, prometheus-client writes the numbers of each
worker to files in that directory, and each worker answers with those of all.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
)
from prometheus_client.multiprocess import (
    MultiProcessCollector,
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType] - it has no annotations
)

from streamnorm.gateway.config import Config
from streamnorm.gateway.observing import CallRecord, workers_directory
from streamnorm.gateway.routing import ModelNames

METRICS = {
    "streamnorm_requests_total": (
        "Requests by the client's dialect, the upstream, the model and the outcome, and why an"
        " upstream could not be reached, or its connection broke.",
        ("client", "upstream", "model", "outcome", "reason"),
    ),
    "streamnorm_open_streams": ("Requests that are being answered.", ()),
    "streamnorm_time_to_first_event_seconds": (
        "Seconds from the request to the first event of a stream.",
        ("upstream", "model"),
    ),
    "streamnorm_request_seconds": (
        "Seconds from the request to the end of its answer.",
        ("upstream", "model"),
    ),
    "streamnorm_tokens_total": (
        "Tokens by kind; those of a cache are part of the input, reasoning of the output.",
        ("kind",),
    ),
    "streamnorm_losses_total": (
        "What the dialect of an upstream or a client could not carry, by feature.",
        ("feature",),
    ),
}
"""What each metric counts, and its labels."""

# Those that the semantic conventions of OpenTelemetry advise for servers of models.
_FIRST_EVENT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_REQUEST_S = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
_OTHER = "other"
_MAX_FEATURES = 256
_LIVE_GAUGE = re.compile(r"gauge_live[a-z]+_([0-9]{1,10})\.db")


class Metrics:
    """An observer that counts requests.

    Args:
        config: The configuration; the models that it names are the values of the label `model`.

    Raises:
        ConfigError: `PROMETHEUS_MULTIPROC_DIR` names no directory.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, config: Config) -> None:
        directory = workers_directory()
        self._names = ModelNames(config.models)
        self._matches = [model.match for model in config.models]
        self._features: set[str] = set()
        registry = CollectorRegistry()
        self._requests = Counter(*_describe_metric("streamnorm_requests_total"), registry=registry)
        self._open = Gauge(
            *_describe_metric("streamnorm_open_streams"),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._first_event = Histogram(
            *_describe_metric("streamnorm_time_to_first_event_seconds"),
            buckets=_FIRST_EVENT_S,
            registry=registry,
        )
        self._duration = Histogram(
            *_describe_metric("streamnorm_request_seconds"), buckets=_REQUEST_S, registry=registry
        )
        self._tokens = Counter(*_describe_metric("streamnorm_tokens_total"), registry=registry)
        self._losses = Counter(*_describe_metric("streamnorm_losses_total"), registry=registry)
        if directory:
            registry = CollectorRegistry()
            registry.register(_WorkersCollector(directory))
        self._shown = registry
        self._directory = directory

    def text(self) -> bytes:
        """Return the metrics in Prometheus format."""
        if self._directory:
            _forget_dead_workers(self._directory)
        return generate_latest(self._shown)

    def begin(self, call: CallRecord) -> None:
        """Count an open request."""
        self._open.inc()

    def end(self, call: CallRecord) -> None:
        """Count a request that has ended."""
        self._open.dec()
        upstream, model = call.upstream, self._model_label(call.model)
        # An empty label is none, to Prometheus.
        labels = (call.client, upstream, model, call.ending, call.reason or "")
        self._requests.labels(*labels).inc()
        if (first_event_s := call.first_event_s) is not None:
            self._first_event.labels(upstream, model).observe(first_event_s)
        self._duration.labels(upstream, model).observe(call.seconds)
        usage = call.usage
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            # A counter that never counted is not shown: 0 tokens of a cache would look like a
            # cache.
            if tokens:
                self._tokens.labels(kind).inc(tokens)
        for feature, count in call.losses.items():
            self._losses.labels(self._feature_label(feature)).inc(count)

    def _model_label(self, model: str) -> str:
        """Return a model's label: the `match` of its configured entry, "other" without an entry."""
        found = self._names.find(model)
        # Each value of a label is a series of its own, which Prometheus stores for weeks.
        return _OTHER if found is None else self._matches[found.entry]

    def _feature_label(self, feature: str) -> str:
        """Return the name of a lost feature, "other" for names beyond a bound."""
        if feature not in self._features:
            if len(self._features) >= _MAX_FEATURES:
                return _OTHER
            self._features.add(feature)
        return feature


class _WorkersCollector(MultiProcessCollector):
    """Collector of the metrics of all worker processes."""

    def __init__(self, directory: str) -> None:
        super().__init__(None, directory)  # type: ignore[no-untyped-call]  # its own omission
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        """Return the sums over all workers' files, except files without a header."""
        files: list[str] = []
        for file in glob.glob(os.path.join(self._directory, "*.db")):
            with suppress(FileNotFoundError):  # another worker has removed it
                if os.path.getsize(file):
                    files.append(file)
        return self.merge(files)  # type: ignore[no-untyped-call,no-any-return]  # its own omission


def _forget_dead_workers(directory: str) -> None:
    """Remove the open requests of dead workers; their counters stay.

    prometheus-client leaves it to the server of the workers, and only gunicorn can do it.
    """
    for name in os.listdir(directory):
        found = _LIVE_GAUGE.fullmatch(name)
        if found is not None and not _is_alive(int(found[1])):
            with suppress(FileNotFoundError):  # another worker has removed it
                mark_process_dead(found[1], directory)  # type: ignore[no-untyped-call]  # its own omission


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # where the call below would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _describe_metric(name: str) -> tuple[str, str, tuple[str, ...]]:
    text, labels = METRICS[name]
    return name, text, labels
