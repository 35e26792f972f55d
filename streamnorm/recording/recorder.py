"""Writing down exchanges while they pass, without ever standing in their way."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO

from msgspec import structs

from streamnorm._core.errors import RecordingError
from streamnorm._core.limits import Limits
from streamnorm.recording.exchange import WireRequest
from streamnorm.recording.format import (
    Companion,
    End,
    RecordedResponse,
    Suffix,
    replace_file,
    write_companion,
)
from streamnorm.recording.operations import dialect_of, server_of, slug_of
from streamnorm.recording.secrets import Secrets

__all__ = ["Recorder", "RecordingWriter"]

_LOGGER = logging.getLogger("streamnorm")
_NUMBER = re.compile(r"([0-9]+)-.*", re.ASCII)
_PIECE_BYTES = 64 * 1024  # what is scrubbed and written at once
_LINES_IN_MEMORY_BYTES = 1024 * 1024
_MAX_BYTES = Limits().max_recording_bytes


class Recorder:
    """Write down exchanges in a directory, one after the other or several at once.

    Nothing here raises because of what happens on the disk: a failure is logged, kept in
    `failures`, told to `on_failure`, and the exchange goes on.

    Args:
        directory: Where to; it is made when the first exchange is written.
        redact: What else must not be written: texts, or regular expressions.
        on_failure: Called once for each exchange that could not be written whole.
        on_recorded: Called with each recording's file of the body, when it is complete.

    Attributes:
        directory: Where to.
        failures: What went wrong so far.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        on_failure: Callable[[RecordingError], None] | None = None,
        on_recorded: Callable[[Path], None] | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.failures: tuple[RecordingError, ...] = ()
        self._redact = tuple(redact)
        self._on_failure = on_failure
        self._on_recorded = on_recorded
        self._lock = threading.Lock()
        self._last_number: int | None = None

    def start(self, request: WireRequest) -> RecordingWriter:
        """Begin the recording of an exchange, when its request is sent.

        Recordings are numbered in the order in which this is called, behind those that are
        in the directory already.
        """
        return RecordingWriter(self, request, Secrets(self._redact))

    def next_name(self, slug: str) -> str:
        """Return the name of a new recording, with its folder."""
        with self._lock:
            if self._last_number is None:
                self._last_number = last_number(self.directory)
            self._last_number += 1
            return str(self.directory / f"{self._last_number:02}-{slug}")

    def recorded(self, path: Path) -> None:
        """Take note that a recording is complete."""
        if self._on_recorded is not None:
            self._on_recorded(path)

    def failed(self, error: RecordingError) -> None:
        """Take note that a recording is not."""
        with self._lock:
            self.failures += (error,)
        _LOGGER.warning("not recorded: %s", error)
        if self._on_failure is not None:
            self._on_failure(error)


def last_number(directory: Path) -> int:
    """Return the highest number that a recording of a directory bears; 0 for none."""
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return 0
    return max((int(m[1][:9]) for name in names if (m := _NUMBER.fullmatch(name))), default=0)


class RecordingWriter:
    """The recording of one exchange.

    What is written meanwhile is `NAME.sse.part` and a companion that says `incomplete`;
    the body gets its name when it has ended.

    Args:
        recorder: Whose it is.
        request: What was sent.
        secrets: What must not be written.
    """

    def __init__(self, recorder: Recorder, request: WireRequest, secrets: Secrets) -> None:
        self._recorder = recorder
        self._secrets = secrets
        self._started_at = time.monotonic()
        self._elapsed_ms = 0
        self._ended = False
        self._error: RecordingError | None = None
        self._waiting: list[tuple[float, bytes]] = []  # reads, and when they came
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._out: BinaryIO | None = None  # open while there is something to write to
        recorded = secrets.request(request)
        self._slug = slug_of(recorded.url)
        self._name = recorder.next_name(self._slug)
        self._companion = Companion(
            1,
            dialect_of(recorded.url),
            server_of(recorded.url),
            request=recorded,
            response=RecordedResponse(end="incomplete"),
        )
        self._scrubber = secrets.stream()
        # Of every read its line in the companion.
        self._lines = SpooledTemporaryFile(_LINES_IN_MEMORY_BYTES)  # noqa: SIM115 - closed at the end

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Take the head of the response."""
        headers = list(headers)
        suffix = _suffix({name.lower(): value for name, value in headers})
        allowed = self._secrets.response_headers(headers)
        response = RecordedResponse(status, allowed, suffix, "incomplete")
        self._companion = structs.replace(self._companion, response=response)
        self._try(self._open)

    def write(self, data: bytes) -> None:
        """Take a read of the body, after content decoding."""
        now = time.monotonic()
        if self._out is None or not data:
            return
        self._waiting.append((now, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _PIECE_BYTES:
            self._try(self._write_waiting)

    def end(self, how: End) -> None:
        """Take the end of the body; only the first counts."""
        if self._ended:
            return
        self._ended = True
        self._try(lambda: self._finish(how))
        if self._error is not None:
            self._leave_incomplete()
        self._lines.close()

    def fail(self, reason: str) -> None:
        """Give the recording up, for a reason that is told; the exchange goes on."""
        if self._error is None:
            self._error = RecordingError(f"{self._name}: {reason}")
            with suppress(OSError):  # what went wrong first is told
                self._close()
            self._recorder.failed(self._error)

    def _try(self, step: Callable[[], object]) -> None:
        """Do what may fail; after the first failure nothing is tried any more."""
        if self._error is not None:
            return
        try:
            step()
        except OSError as exc:
            self.fail(exc.strerror or type(exc).__name__)

    def _open(self) -> None:
        self._recorder.directory.mkdir(parents=True, exist_ok=True)
        # Another process may record there, too: who makes the file has the name.
        while not _make(Path(self._name + ".json")):
            self._name = self._recorder.next_name(self._slug)
        self._write_companion(None)
        self._out = self._part().open("wb")

    def _part(self) -> Path:
        return Path(f"{self._name}{self._companion.response.body}.part")

    def _write_waiting(self) -> None:
        if self._out is None:
            return
        self._written_bytes += self._waiting_bytes
        if self._written_bytes > _MAX_BYTES:
            self.fail(f"more than {_MAX_BYTES} bytes")
            return
        self._lines.write(self._take_lines().encode())
        body = b"".join([data for _, data in self._waiting])
        self._waiting.clear()
        self._waiting_bytes = 0
        self._out.write(self._scrubber.feed(body))

    def _take_lines(self) -> str:
        """Return what the companion says of the reads that wait."""
        lines: list[str] = []
        last_ms = self._elapsed_ms
        for at, data in self._waiting:
            # Rounded from the start on, so that no error adds up.
            elapsed_ms = round((at - self._started_at) * 1000)
            lines.append(f"+{elapsed_ms - last_ms} {len(data)}\n")
            last_ms = elapsed_ms
        self._elapsed_ms = last_ms
        return "".join(lines)

    def _finish(self, how: End) -> None:
        out = self._out
        if out is None:  # there was no response
            return
        self._write_waiting()
        if self._error is not None:
            return
        out.write(self._scrubber.close())
        self._close()
        response = structs.replace(self._companion.response, end=how)
        self._companion = structs.replace(
            self._companion, response=response, redacted=self._secrets.count
        )
        part = self._part()
        part.replace(part.with_suffix(""))
        self._lines.seek(0)
        self._write_companion(self._stored_lines())
        self._recorder.recorded(part.with_suffix(""))

    def _close(self) -> None:
        out, self._out = self._out, None
        self._waiting.clear()
        if out is not None:
            out.close()

    def _stored_lines(self) -> Iterator[str]:
        """Yield the lines of all reads, many at once."""
        while lines := self._lines.readlines(_PIECE_BYTES):
            yield b"".join(lines).decode()

    def _write_companion(self, chunks: Iterable[str] | None) -> None:
        replace_file(
            Path(self._name + ".json"), lambda out: write_companion(out, self._companion, chunks)
        )

    def _leave_incomplete(self) -> None:
        """Leave what there is, under a companion that says that it is not all."""
        part, companion = self._part(), Path(self._name + ".json")
        with suppress(OSError):
            if companion.stat().st_size:
                part.replace(part.with_suffix(""))
            else:  # not even that could be written
                companion.unlink()


def _make(path: Path) -> bool:
    """Make an empty file, and tell whether there was none."""
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    return True


def _suffix(headers: Mapping[str, str]) -> Suffix:
    """Return what a body of this content type is called."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("", "text/event-stream"):
        return ".sse"
    return ".body.json" if kind == "application/json" or kind.endswith("+json") else ".body.bin"
