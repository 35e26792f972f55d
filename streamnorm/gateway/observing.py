"""Observation of requests: their records, the log, and all observers.

A record has no content: no prompt, no answer, no key, no URL; of a path that no endpoint has,
only plain words.  The text of an upstream's error alone is the upstream's own, and may quote the
request; no log of the gateway's has it.

    client=anthropic operation=stream model=qwen3 upstream=local status=200 outcome=truncated
    error=transport reason=reset attempts=1 first_event_s=0.12 duration_s=4.031 output_tokens=210

(in one line), from the logger `streamnorm.gateway`: at INFO, or WARNING for an answer that
failed or was truncated.  The record's attribute `streamnorm` holds the same as a dictionary,
which `JSONFormatter` writes.  No text of an error is logged: it may quote the request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from streamnorm._core.events import (
    Abandoned,
    Completed,
    ErrorKind,
    Outcome,
    StreamError,
    Truncated,
    Usage,
)
from streamnorm._core.losses import Loss
from streamnorm.gateway.config import Config, ConfigError

if TYPE_CHECKING:
    from streamnorm.gateway.metrics import Metrics

Ending: TypeAlias = Literal["completed", "refused", "failed", "truncated", "abandoned"]
"""How a request ended: answered; refused by the gateway, before an upstream was asked; failed;
answered in part, without its end; left by its client."""

FailureReason: TypeAlias = Literal[
    "refused", "dns", "tls", "connect", "timeout", "reset", "protocol"
]
"""Why an upstream could not be reached, or its connection broke: it refused the connection; its
name does not resolve; the TLS handshake failed; the connection failed otherwise, as without a
route; it sent nothing in time; it closed the connection in the middle; it sent what is no HTTP."""

# Clients can name any model, with any text.
_MAX_MODEL_CHARS = 128
# A field that a peer made up is lost under its own name, which may hold anything.
_FEATURE = re.compile(r"[A-Za-z_.]{1,64}", re.ASCII)
_OTHER = "other"
# A path that a peer made up may hold a key, which has digits, capitals in a row or no end.
_SEGMENT = re.compile(
    r"(?=.{1,24}\Z)[a-z]+(?:[A-Z][a-z]+|[_.-][a-z]+)*|v[0-9]{1,2}(?:alpha|beta)?", re.ASCII
)
_MAX_SEGMENTS = 8
# The first status of an error.
_ERROR_STATUS = 400

_LOG = logging.getLogger("streamnorm.gateway")

# Codes are the upstream's to choose.  One that is no plain word may hold anything.
_CODE = re.compile(r"[A-Za-z_.]{1,64}|[0-9]{1,6}", re.ASCII)
_UNQUOTED = re.compile(r"[\w.:/@+,*-]+", re.ASCII)


class UpstreamFailure(NamedTuple):
    """A request to an upstream that failed before the upstream began to answer.

    Attributes:
        upstream: Name of the upstream.
        status: HTTP status that stands for the failure at the client.
        error: Kind of the error.
        reason: Why the upstream could not be reached, or its connection broke; None if the
            upstream itself reported the error.
    """

    upstream: str
    status: int
    error: ErrorKind
    reason: FailureReason | None


class RunningAnswer(Protocol):
    """Progress of a running request's answer."""

    @property
    def asked(self) -> str:
        """Name of the upstream that was asked last; "" before the first request."""
        ...

    @property
    def count(self) -> int:
        """Number of requests to upstreams so far."""
        ...

    @property
    def failures(self) -> list[UpstreamFailure]:
        """Failed requests to upstreams, in order."""
        ...

    @property
    def progress(self) -> int:
        """Number of stream events so far, without pings."""
        ...

    @property
    def usage(self) -> Usage:
        """The token counts so far."""
        ...


class CallRecord(Struct, kw_only=True):
    """Record of one request and its answer, for observers.

    Attributes:
        client: The client's dialect.
        operation: Operation that the request asks for.
        model: The model that it named.
        path: The path, as `plain_path` returns it, if the gateway has no such endpoint; else "".
        upstream: Name of the upstream that answered, or was asked last; "" if none was.
        trace: The `traceparent` and `tracestate`, if it sent them.
        started_at: When the request arrived, in seconds of the loop's clock.
        first_event_s: Seconds to the first piece of a stream; None if there was none.
        seconds: Seconds from the request to the end of its answer; 0.0 before that.
        status: HTTP status that the client got; 0 if it left before.
        outcome: How the answer ended; None if it has no outcome, as a list of models.
        reason: Why an upstream could not be reached, or its connection broke; None if the answer
            is complete, or the upstream itself reported the error.
        usage: The tokens, as far as they are known.
        attempts: Number of requests to upstreams.
        losses: How often each feature was lost; `other` are those that have no plain word for
            a name.
        outlives_client: Whether its answer goes on without its client, as a stream of the log.
        client_key: Position of its key in `client_keys`, from 1, if a dashboard shows it; else 0.
        stream: Scope and id of its stream in the log; None if it has none.
        running: What is known of the answer to a request for a message while it runs; None before
            its body is read, and at the end.
        failures: Requests to upstreams that have failed, in order, at the end.
    """

    client: str
    operation: str
    started_at: float
    model: str = ""
    path: str = ""
    upstream: str = ""
    trace: dict[str, str] = {}
    first_event_s: float | None = None
    seconds: float = 0.0
    status: int = 0
    outcome: Outcome | None = None
    reason: FailureReason | None = None
    usage: Usage = Usage()
    attempts: int = 0
    losses: dict[str, int] = {}
    outlives_client: bool = False
    client_key: int = 0
    stream: tuple[str, str] | None = None
    running: RunningAnswer | None = None
    failures: list[UpstreamFailure] = []

    @property
    def model_name(self) -> str:
        """The requested model, cut to 128 characters that UTF-8 can encode."""
        return self.model[:_MAX_MODEL_CHARS].encode("utf-8", "replace").decode()

    @property
    def error(self) -> StreamError | None:
        """The error of an incomplete answer; None if it is complete or the client left."""
        match self.outcome:
            case None | Completed() | Abandoned():
                return None
            case outcome:
                return outcome.error

    @property
    def ending(self) -> Ending:
        """How the request ended."""
        match self.outcome:
            case Completed():
                return "completed"
            case Abandoned():
                return "abandoned"
            case None if not self.status:
                return "abandoned"
            case Truncated() if self.status < _ERROR_STATUS:
                return "truncated"
            case None if self.status < _ERROR_STATUS:
                return "completed"
            case _:
                return "failed" if self.upstream else "refused"


def plain_path(path: str) -> str:
    """Return a refused request's path, without segments that may be keys.

    Its first segments are shown, and of those only plain words and versions of an API: `*` stands
    for any other, which may be a key.
    """
    *segments, rest = path.removeprefix("/").split("/", _MAX_SEGMENTS)
    segments.append("..." if len(segments) == _MAX_SEGMENTS else _plain_segment(rest))
    return "/" + "/".join([*map(_plain_segment, segments[:-1]), segments[-1]])


def _plain_segment(segment: str) -> str:
    # Gemini's clients name an operation behind the model.
    name, colon, operation = segment.partition(":")
    parts = (name, operation) if colon else (name,)
    return ":".join(part if _SEGMENT.fullmatch(part) else "*" for part in parts)


def time_first_event(call: CallRecord) -> None:
    """Record the time of a stream's first event."""
    if call.operation == "stream":
        call.first_event_s = asyncio.get_running_loop().time() - call.started_at


def add_loss(call: CallRecord, loss: Loss) -> None:
    """Count a loss in a record."""
    feature = loss.feature if _FEATURE.fullmatch(loss.feature) else _OTHER
    call.losses[feature] = call.losses.get(feature, 0) + loss.count


class Observer(Protocol):
    """An observer of requests, such as a log."""

    def begin(self, call: CallRecord) -> None:
        """Observe the arrival of a request."""
        ...

    def end(self, call: CallRecord) -> None:
        """Observe the end of a request, whose record is complete."""
        ...


class RequestLog:
    """An observer that logs each request when it ends."""

    def begin(self, call: CallRecord) -> None:
        """Do nothing: requests are logged when they end."""

    def end(self, call: CallRecord) -> None:
        """Log the request."""
        level = logging.WARNING if call.ending in ("failed", "truncated") else logging.INFO
        if _LOG.isEnabledFor(level):
            fields = list_log_fields(call)
            losses = ",".join(f"{name}:{count}" for name, count in call.losses.items())
            shown = fields | {"losses": losses} if losses else fields
            line = " ".join(f"{name}={_text(value)}" for name, value in shown.items())
            _LOG.log(level, "%s", line, extra={"streamnorm": fields})


class JSONFormatter(logging.Formatter):
    """Log formatter that writes records as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON, without a line end."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
        }
        request: dict[str, object] | None = getattr(record, "streamnorm", None)
        if request is None:
            fields["message"] = record.getMessage()
            if record.exc_info and record.exc_info[0]:
                fields["exception"] = record.exc_info[0].__name__
        else:
            fields |= request
        return json.dumps(fields)


def list_log_fields(call: CallRecord) -> dict[str, object]:
    """Return the fields of a request's log line, without unknown values."""
    error, usage = call.error, call.usage
    fields: dict[str, object | None] = {
        "client": call.client,
        "operation": call.operation,
        "model": call.model_name,
        "upstream": call.upstream,
        "status": call.status,
        "outcome": call.ending,
        "error": None if error is None or call.ending == "refused" else error.kind,
        "reason": call.reason,
        "code": None if error is None or not _CODE.fullmatch(error.code or "") else error.code,
        "path": call.path or None,
        "attempts": call.attempts,
        "first_event_s": None if call.first_event_s is None else round(call.first_event_s, 3),
        "duration_s": round(call.seconds, 3),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "losses": dict(call.losses) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: object) -> str:
    """Return a value for a log line: unquoted if it is one word, else as a JSON string."""
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)


_MAX_HELD_BYTES = 4 * 1024 * 1024
# A write of a pipe is no longer than what it holds, on Linux.
_MAX_WRITE_BYTES = 64 * 1024
_FLUSH_S = 1.0
_POLL_INTERVAL_S = 0.005


class QueuedHandler(logging.Handler):
    """Logging handler that never blocks, even if nobody reads the stream.

    A thread writes the lines.  Those that it cannot write wait, up to a bound; beyond it lines
    are dropped, and once the reader goes on a line says how many.  At its end the process waits
    for a second at most.

        "handlers": {"stdout": {"()": "streamnorm.gateway.QueuedHandler"}}

    Args:
        stream: The stream, which nobody else writes to; None for stdout.
        max_held_bytes: Bound on the lines that wait.
    """

    def __init__(
        self, stream: IO[str] | None = None, *, max_held_bytes: int = _MAX_HELD_BYTES
    ) -> None:
        super().__init__()
        self._write = _writer(sys.stdout if stream is None else stream)
        self._max_held_bytes = max_held_bytes
        self._process = 0  # whose thread writes
        self._dropped = 0
        # Each is changed by one thread alone; the difference is what waits.
        self._queued_bytes = self._written_bytes = 0
        self._lines: SimpleQueue[bytes] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record's line."""
        try:
            line = self._line(record)
            if self._process != os.getpid():  # a process that was forked has no thread
                self._start()
            if self._queued_bytes - self._written_bytes + len(line) > self._max_held_bytes:
                self._dropped += 1
                return
            if self._dropped:
                line = self._line(_make_drop_record(self._dropped)) + line
                self._dropped = 0
            self._queued_bytes += len(line)
            self._lines.put(line)
        except Exception:  # noqa: BLE001 - as the handlers of `logging` do
            self.handleError(record)

    def flush(self) -> None:
        """Wait until all lines are written, at most one second."""
        end = time.monotonic() + _FLUSH_S
        while self._written_bytes < self._queued_bytes and time.monotonic() < end:
            time.sleep(_POLL_INTERVAL_S)

    def _line(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode("utf-8", "backslashreplace") + b"\n"

    def _start(self) -> None:
        self._process = os.getpid()
        self._lines = SimpleQueue()
        self._queued_bytes = self._written_bytes = 0
        # Not joined at the end of the process, which may come while a write blocks.
        threading.Thread(target=self._run, args=(self._lines,), daemon=True).start()

    def _run(self, lines: SimpleQueue[bytes]) -> None:
        while True:
            data = lines.get()
            with suppress(Empty):
                while len(data) < _MAX_WRITE_BYTES:
                    data += lines.get_nowait()
            with suppress(OSError, ValueError):  # nobody will read it, or the stream is closed
                self._write(data)
            self._written_bytes += len(data)


def _writer(stream: IO[str]) -> Callable[[bytes], object]:
    """Return a function that writes to a stream without blocking for long.

    Past its buffer, where it has a file: a blocked write holds the lock of the buffer, without
    which the interpreter cannot end.
    """
    try:
        file = stream.fileno()
    except (OSError, ValueError):
        return lambda data: (stream.write(data.decode("utf-8", "replace")), stream.flush())
    return lambda data: _write_all(file, data)


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(file, rest) :]
        except BlockingIOError:  # another process that has the pipe made it so
            select.select([], [file], [])


def _make_drop_record(count: int) -> logging.LogRecord:
    """Return a record that reports the number of dropped lines."""
    text = "%d lines of the log were dropped: nobody read it"
    name = "streamnorm.gateway"
    return logging.LogRecord(name, logging.WARNING, __file__, 0, text, (count,), None)


_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


def workers_directory() -> str:
    """Return the directory of `PROMETHEUS_MULTIPROC_DIR`; "" if it is not set.

    Raises:
        ConfigError: `PROMETHEUS_MULTIPROC_DIR` names no directory.
    """
    # prometheus-client reads the environment of the process.
    directory = os.environ.get(_DIRECTORY, "")
    if directory and not os.path.isdir(directory):
        raise ConfigError(f"{_DIRECTORY}: no directory, expected one")
    return directory


class Observers:
    """All observers of requests: the log, the metrics, the spans, and the caller's observers.

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
        """Report a request's arrival to all observers."""
        for observer in self._observers:
            try:
                observer.begin(call)
            except Exception as exc:  # noqa: BLE001 - the request matters more
                self._report(observer, exc)

    def end(self, call: CallRecord) -> None:
        """Complete the record of an ended request, and report it to all observers."""
        call.seconds = asyncio.get_running_loop().time() - call.started_at
        if isinstance(call.outcome, Completed):
            call.usage = call.outcome.usage
        if call.running is not None:
            call.failures, call.running = call.running.failures, None
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
