"""The writing of a log from a thread of its own.

A write to a pipe whose reader has stopped blocks, and so would each request that logs a line:
`logging.StreamHandler` writes in the event loop.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO

__all__ = ["QueuedHandler"]

_MAX_HELD_BYTES = 4 * 1024 * 1024
# A write of a pipe is no longer than what it holds, on Linux.
_MAX_WRITE_BYTES = 64 * 1024
_FLUSH_S = 1.0
_LOOK_S = 0.005


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
            time.sleep(_LOOK_S)

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
