"""A log whose reader has stopped: nobody waits for it."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

import pytest

from streamnorm.gateway import JSONFormatter, QueuedHandler

LINE = "a" * 99  # with its line feed 100 bytes


@pytest.fixture
def pipe() -> Iterator[tuple[int, IO[str]]]:
    """Provide a pipe of one page: the descriptor to read, and the stream to write."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    stream = os.fdopen(write, "w")
    yield read, stream
    for close in (stream.close, lambda: os.close(read)):
        with suppress(OSError):
            close()


def log(handler: QueuedHandler, *texts: str) -> None:
    """Log texts."""
    for text in texts:
        handler.handle(logging.LogRecord("x", logging.INFO, "f", 1, text, (), None))


def read_all(read: int, count: int) -> bytes:
    """Return so many bytes of a pipe."""
    data = b""
    while len(data) < count:
        assert select.select([read], [], [], 30)[0]
        piece = os.read(read, count - len(data))
        assert piece
        data += piece
    return data


def test_lines_are_written_in_order(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    handler = QueuedHandler(stream)
    log(handler, "first", "second\udc80", "third")
    assert read_all(read, 25) == b"first\nsecond\\udc80\nthird\n"


def test_reader_that_stops_holds_nobody_up_and_learns_what_was_dropped(
    pipe: tuple[int, IO[str]],
) -> None:
    """A handler that wrote in this thread would end this test at its time-out."""
    read, stream = pipe
    os.write(stream.fileno(), b"x" * 4096)  # the pipe is full
    handler = QueuedHandler(stream, max_held_bytes=50_000)
    log(handler, *[LINE] * 1000)
    lines = read_all(read, 4096 + 50_000)[4096:].splitlines()
    assert [*map(len, lines)] == [99] * 500
    handler.flush()
    log(handler, "on")
    handler.flush()
    assert read_all(read, 53) == b"500 lines of the log were dropped: nobody read it\non\n"


def test_dropped_lines_are_reported_in_the_format_of_the_log(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    handler = QueuedHandler(stream, max_held_bytes=1)
    handler.setFormatter(JSONFormatter())
    log(handler, "a", "b")
    handler._max_held_bytes = 1000
    log(handler, "c")
    handler.flush()
    dropped, last = os.read(read, 4096).splitlines()
    assert b'"level": "WARNING", "message": "2 lines of the log were dropped' in dropped
    assert b'"message": "c"' in last


def test_end_of_the_process_waits_for_a_second_at_most(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    handler = QueuedHandler(stream)
    log(handler, *[LINE] * 100)
    ended = threading.Thread(target=handler.flush)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    # The thread that writes must not meet the pipe of another test under the same number.
    assert read_all(read, 100 * len(LINE + "\n")) == (LINE + "\n").encode() * 100


def test_pipe_that_does_not_block_loses_nothing(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    os.set_blocking(stream.fileno(), False)
    handler = QueuedHandler(stream)
    log(handler, *[LINE] * 1000)
    assert read_all(read, 100_000) == (LINE + "\n").encode() * 1000


def test_reader_that_has_gone_is_no_error(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    os.dup2(os.open(os.devnull, os.O_RDONLY), read)
    handler = QueuedHandler(stream)
    log(handler, "a", "b")
    handler.flush()
    assert handler._written_bytes == handler._queued_bytes == 4


def test_stream_without_a_file_is_written() -> None:
    stream = io.StringIO()
    handler = QueuedHandler(stream)
    log(handler, "a", "b")
    handler.flush()
    assert stream.getvalue() == "a\nb\n"


def test_default_is_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    handler = QueuedHandler()
    log(handler, "a")
    handler.flush()
    assert capfd.readouterr().out == "a\n"


def test_record_that_cannot_be_formatted_is_no_error(
    pipe: tuple[int, IO[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    read, stream = pipe
    handler = QueuedHandler(stream)
    handler.handle(logging.LogRecord("x", logging.INFO, "f", 1, "%d", ("a",), None))
    log(handler, "b")
    assert read_all(read, 2) == b"b\n"


def test_process_that_was_forked_writes_too(pipe: tuple[int, IO[str]]) -> None:
    read, stream = pipe
    handler = QueuedHandler(stream)
    log(handler, "parent")
    handler.flush()
    child = os.fork()
    if child == 0:
        log(handler, "child")
        handler.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert read_all(read, 13) == b"parent\nchild\n"
