"""The log: one line a request, by standard `logging`.

    client=anthropic operation=stream model=qwen3 upstream=local status=200 outcome=truncated
    error=transport reason=reset attempts=1 first_event_s=0.12 duration_s=4.031 output_tokens=210

(in one line), from the logger `streamnorm.gateway`: at INFO, or WARNING for an answer that
failed or was truncated.  The record's attribute `streamnorm` holds the same as a dictionary,
which `JSONFormatter` writes.  No text of an error is logged: it may quote the request.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import IO

from streamnorm.gateway.records import CallRecord

_LOG = logging.getLogger("streamnorm.gateway")

# Codes are the upstream's to choose.  One that is no plain word may hold anything.
_CODE = re.compile(r"[A-Za-z_.]{1,64}|[0-9]{1,6}", re.ASCII)
_UNQUOTED = re.compile(r"[\w.:/@+,*-]+", re.ASCII)


class RequestLog:
    """An observer that logs each request when it ends."""

    def begin(self, call: CallRecord) -> None:
        """Do nothing: the line is written at the end."""

    def end(self, call: CallRecord) -> None:
        """Log the request."""
        level = logging.WARNING if call.ending in ("failed", "truncated") else logging.INFO
        if _LOG.isEnabledFor(level):
            fields = _fields(call)
            losses = ",".join(f"{name}:{count}" for name, count in call.losses.items())
            shown = fields | {"losses": losses} if losses else fields
            line = " ".join(f"{name}={_text(value)}" for name, value in shown.items())
            _LOG.log(level, "%s", line, extra={"streamnorm": fields})


class JSONFormatter(logging.Formatter):
    """Formats records as lines of JSON: a request's with its fields, others with a message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without a line feed at its end."""
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


def _fields(call: CallRecord) -> dict[str, object]:
    """Return the logged fields of a request, without unknown ones."""
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
    """Return a value as it stands in a line: one word, or a string of JSON."""
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)


_MAX_HELD_BYTES = 4 * 1024 * 1024
# A write of a pipe is no longer than what it holds, on Linux.
_MAX_WRITE_BYTES = 64 * 1024
_FLUSH_S = 1.0
_POLL_INTERVAL_S = 0.005


class QueuedHandler(logging.Handler):
    """A handler of `logging` that never waits for the reader of its stream.

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
        """Queue the line of a record."""
        try:
            line = self._line(record)
            if self._process != os.getpid():  # a process that was forked has no thread
                self._start()
            if self._queued_bytes - self._written_bytes + len(line) > self._max_held_bytes:
                self._dropped += 1
                return
            if self._dropped:
                line = self._line(_dropped(self._dropped)) + line
                self._dropped = 0
            self._queued_bytes += len(line)
            self._lines.put(line)
        except Exception:  # noqa: BLE001 - as the handlers of `logging` do
            self.handleError(record)

    def flush(self) -> None:
        """Wait until all lines are written, but for a second at most."""
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
    """Return a function that writes to a stream.

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


def _dropped(count: int) -> logging.LogRecord:
    """Return a record that says how many lines were dropped."""
    text = "%d lines of the log were dropped: nobody read it"
    name = "streamnorm.gateway"
    return logging.LogRecord(name, logging.WARNING, __file__, 0, text, (count,), None)
