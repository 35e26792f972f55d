"""Recording of exchanges as they pass, without breaking or delaying them."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO

from msgspec import UNSET, structs

from streamnorm._core.codec.framing import SSE
from streamnorm._core.errors import RecordingError
from streamnorm._core.limits import Limits
from streamnorm.http.urls import dialect_of_url, path_of, server_of
from streamnorm.recording.files import create_file, create_part, part_of, replace_file
from streamnorm.recording.format import (
    MAX_STATUS,
    MIN_STATUS,
    Companion,
    End,
    RecordedRequest,
    RecordedResponse,
    SentMessage,
    WireRequest,
    check_path,
    content_type_of,
    find_content_length,
    framing_name,
    suffix_of,
    write_companion,
)
from streamnorm.recording.secrets import Secrets

_LOGGER = logging.getLogger("streamnorm")
_NUMBER = re.compile(r"([0-9]+)-.*", re.ASCII)
_BATCH_BYTES = 64 * 1024  # scrubbed and written at once
_LINES_IN_MEMORY_BYTES = 1024 * 1024
_MAX_BYTES = Limits().max_recording_bytes
_MAX_SLUG_CHARS = 60
# Messages of a client during one response, which stand in the companion.
_MAX_SENT = 1000
_MAX_SENT_BYTES = 16 * 1024 * 1024
_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONG_PIECE = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16}|[0-9a-f]{32}|x{8}", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class Recorder:
    """Records exchanges, also concurrent ones, in a directory.

    No method raises because of the disk: a failure is logged, stored in `failures`, passed
    to `on_failure`, and the exchange continues.

    Args:
        directory: The directory; created when the first exchange is written.
        redact: Further secrets that must not be written: texts, or regular expressions.
        request_bodies: Whether the bodies of requests are written.  Without them, a replay
            selects recordings by method, path and query alone.
        on_failure: Called once for each exchange that could not be written completely.
        on_recorded: Called with the file of the body of each complete recording.

    Raises:
        RecordingError: No directory can have this path.

    Attributes:
        directory: The directory.
        failures: The failures so far.
        request_bodies: Whether the bodies of requests are written.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        request_bodies: bool = True,
        on_failure: Callable[[RecordingError], None] | None = None,
        on_recorded: Callable[[Path], None] | None = None,
    ) -> None:
        self.directory = check_path(directory)
        self.failures: tuple[RecordingError, ...] = ()
        self._redact = tuple(redact)
        self.request_bodies = request_bodies
        self._on_failure = on_failure
        self._on_recorded = on_recorded
        self._lock = threading.Lock()
        self._last_number: int | None = None

    def start(self, request: WireRequest) -> RecordingWriter:
        """Begin to record an exchange, when its request is sent; return the writer.

        Recordings are numbered in the order of these calls, after those that are in the
        directory already.
        """
        return RecordingWriter(self, *self.redact(request))

    def redact(self, request: WireRequest) -> tuple[RecordedRequest, Secrets]:
        """Return a request as it is written, and its secrets."""
        secrets = Secrets(self._redact)
        recorded = secrets.scrub_request(request)
        if not self.request_bodies:
            recorded = _drop_body(recorded, None)
        return recorded, secrets

    def take_name(self, slug: str) -> str:
        """Return the name of a new recording, with its folder."""
        with self._lock:
            if self._last_number is None:
                self._last_number = _find_last_number(self.directory)
            self._last_number += 1
            return str(self.directory / f"{self._last_number:02}-{slug}")

    def report_recorded(self, path: Path) -> None:
        """Report a complete recording; called by its writer."""
        if self._on_recorded is not None:
            self._on_recorded(path)

    def report_failed(self, error: RecordingError) -> None:
        """Report an incomplete recording; called by its writer."""
        with self._lock:
            self.failures += (error,)
        _LOGGER.warning("not recorded: %s", error)
        if self._on_failure is not None:
            self._on_failure(error)


def _find_last_number(directory: Path) -> int:
    """Return the highest recording number in a directory, or 0."""
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return 0
    return max((int(m[1][:9]) for name in names if (m := _NUMBER.fullmatch(name))), default=0)


def _drop_body(request: RecordedRequest, size: int | None) -> RecordedRequest:
    """Return a request without its body, of which the size may be known."""
    return structs.replace(request, body=UNSET, text=None, bytes=size, sha256=None)


class RecordingWriter:
    """Writes the recording of one exchange to files.

    The body is written to a `.part`, such as `NAME.sse.part`, beside a companion with the end
    `incomplete`; it is renamed when it has ended.  Only their owner may read the files.

    Args:
        recorder: The recorder that numbers it and is notified of its end.
        request: The request without secrets.
        secrets: The secrets that must not be written.
    """

    def __init__(self, recorder: Recorder, request: RecordedRequest, secrets: Secrets) -> None:
        self._recorder = recorder
        self._secrets = secrets
        self._started_at = time.monotonic()
        self._elapsed_ms = 0
        self._ended = False
        self._error: RecordingError | None = None
        self._buffered: list[bytes] = []  # reads
        self._buffered_lines: list[str] = []  # the companion's line of each of them
        self._buffered_bytes = 0
        self._written_bytes = 0
        self._writes = self._sent_bytes = 0
        self._out: BinaryIO | None = None  # open from `begin` to `end` or `fail`
        self._slug = slug_of(request.url)
        self._name = recorder.take_name(self._slug)
        dialect = dialect_of_url(request.url)
        self._framing = SSE if dialect is None else dialect.framing
        self._companion = Companion(
            1,
            None if dialect is None else dialect.name,
            server=server_of(request.url),
            request=request,
            response=RecordedResponse(end="incomplete"),
        )
        self._scrubber = secrets.open_scrubber()
        # The companion's line of each read.
        self._lines = SpooledTemporaryFile(_LINES_IN_MEMORY_BYTES)  # noqa: SIM115 - closed at the end

    def add_upload(self, request: WireRequest, *, is_whole: bool) -> None:
        """Record a request body that was sent while it was being read; called before `begin`.

        Args:
            request: The request, with the bytes that were read.
            is_whole: Whether they are the whole body.  Otherwise they are only searched for
                secrets.
        """
        recorded, self._secrets = self._recorder.redact(request)
        if not is_whole and self._recorder.request_bodies:
            recorded = _drop_body(recorded, find_content_length(request.headers))
        self._companion = structs.replace(self._companion, request=recorded)

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Record status and headers of the response."""
        if not MIN_STATUS <= status <= MAX_STATUS:
            self.fail(f"status {status}, expected {MIN_STATUS} to {MAX_STATUS}")
            return
        headers = list(headers)
        suffix = suffix_of(content_type_of(headers), self._framing) or self._framing.suffix
        allowed = self._secrets.scrub_response_headers(headers)
        request = self._companion.request
        if request is not None:
            allowed |= self._secrets.scrub_targets(status, headers, request.url)
        stated = any(name.lower() == "content-type" for name, _ in headers)
        response = RecordedResponse(
            status, allowed, suffix, "incomplete", content_type=UNSET if stated else None
        )
        # A server of another kind may send server-sent events at the same path.
        framing = self._framing if suffix == self._framing.suffix else SSE
        self._scrubber = self._secrets.open_scrubber(framing)
        self._companion = structs.replace(
            self._companion,
            framing=framing_name(self._companion.dialect, framing, suffix),
            response=response,
        )
        self._try(self._open)

    def write(self, data: bytes) -> None:
        """Record the decoded bytes of one read of the body."""
        # Times since the start are rounded, so that errors do not add up.
        elapsed_ms = round((time.monotonic() - self._started_at) * 1000)
        if self._out is None or not data:
            return
        self._writes += 1
        self._buffered.append(data)
        self._buffered_lines.append(f"+{elapsed_ms - self._elapsed_ms} {len(data)}\n")
        self._elapsed_ms = elapsed_ms
        self._buffered_bytes += len(data)
        if self._buffered_bytes >= _BATCH_BYTES:
            self._try(self._flush)

    def add_sent(self, message: bytes) -> None:
        """Record a client's WebSocket message other than `response.create`."""
        request = self._companion.request
        self._sent_bytes += len(message)
        if request is None or not self._recorder.request_bodies:
            return
        if len(request.sent) >= _MAX_SENT or self._sent_bytes > _MAX_SENT_BYTES:
            return
        # The same secrets: those of the handshake must not be written here, either.
        recorded = self._secrets.scrub_request(WireRequest("POST", request.url, (), message))
        data = recorded.text if recorded.body is UNSET else recorded.body
        sent = [*request.sent, SentMessage(self._writes, data)]
        request = structs.replace(request, sent=sent)
        self._companion = structs.replace(self._companion, request=request)

    def end(self, how: End, close_code: int | None = None) -> None:
        """Record the end of the body, and complete the files; further calls do nothing.

        Args:
            how: How the body ended.
            close_code: Code with which a server closed its WebSocket; None for none.
        """
        if self._ended:
            return
        self._ended = True
        if close_code is not None:
            response = structs.replace(self._companion.response, close_code=close_code)
            self._companion = structs.replace(self._companion, response=response)
        self._try(lambda: self._finish(how))
        if self._error is not None:
            self._leave_incomplete()
        self._lines.close()

    def fail(self, reason: str) -> None:
        """Stop recording and report the reason; the exchange continues."""
        if self._error is None:
            self._error = RecordingError(f"{self._name}: {reason}")
            with suppress(OSError):  # the first failure is reported
                self._close()
            self._recorder.report_failed(self._error)

    def _try(self, step: Callable[[], object]) -> None:
        """Run a writing step, unless an earlier step has failed."""
        if self._error is not None:
            return
        try:
            step()
        except OSError as exc:
            self.fail(exc.strerror or type(exc).__name__)

    def _open(self) -> None:
        self._recorder.directory.mkdir(parents=True, exist_ok=True)
        # Another process may record there, too: the one that creates the file has the name.
        while not _create(Path(self._name + ".json")):
            self._name = self._recorder.take_name(self._slug)
        self._write_companion(None)
        self._out = create_part(self._body_path)

    @property
    def _body_path(self) -> Path:
        return Path(self._name + self._companion.response.body)

    def _flush(self) -> None:
        if self._out is None:
            return
        self._written_bytes += self._buffered_bytes
        if self._written_bytes > _MAX_BYTES:
            self.fail(f"more than {_MAX_BYTES} bytes")
            return
        self._lines.write("".join(self._buffered_lines).encode())
        body = b"".join(self._buffered)
        self._buffered.clear()
        self._buffered_lines.clear()
        self._buffered_bytes = 0
        self._out.write(self._scrubber.feed(body))

    def _finish(self, how: End) -> None:
        out = self._out
        if out is None:  # there was no response
            return
        self._flush()
        if self._error is not None:
            return
        out.write(self._scrubber.close())
        self._close()
        response = structs.replace(self._companion.response, end=how)
        self._companion = structs.replace(
            self._companion, response=response, redacted=self._secrets.count
        )
        body = self._body_path
        part_of(body).replace(body)
        self._lines.seek(0)
        self._write_companion(self._read_lines())
        self._recorder.report_recorded(body)

    def _close(self) -> None:
        out, self._out = self._out, None
        self._buffered.clear()
        if out is not None:
            out.close()

    def _read_lines(self) -> Iterator[str]:
        """Yield, in batches, the lines that hold the time and size of each read."""
        while lines := self._lines.readlines(_BATCH_BYTES):
            yield b"".join(lines).decode()

    def _write_companion(self, chunks: Iterable[str] | None) -> None:
        replace_file(
            Path(self._name + ".json"), lambda out: write_companion(out, self._companion, chunks)
        )

    def _leave_incomplete(self) -> None:
        """Rename the partial body, and give its companion the end `incomplete`."""
        body, companion = self._body_path, Path(self._name + ".json")
        with suppress(OSError):
            if companion.stat().st_size:
                part_of(body).replace(body)
            else:  # not even the companion could be written
                companion.unlink()


def _create(path: Path) -> bool:
    """Create an empty file; return False if it exists."""
    try:
        create_file(path).close()
    except FileExistsError:
        return False
    return True


def slug_of(url: str) -> str:
    """Return a file name for an exchange, such as `chat-completions`.

    It has at most 60 characters of `A-Z a-z 0-9 . _ -`.  Segments before the version in the
    path, and segments that look like an id or a secret, are left out.
    """
    segments = path_of(url).split("/")[1:]
    versions = [n for n, segment in enumerate(segments) if _VERSION.fullmatch(segment)]
    named = segments[versions[-1] + 1 :] if versions else segments
    named = [s for s in named if not _UUID.search(s) and not _LONG_PIECE.search(s)]
    slug = _UNSAFE.sub("-", "-".join(named))[-_MAX_SLUG_CHARS:].strip("-._")
    # `NAME.body.json` would be a body, not a companion.
    return slug.removesuffix(".body") or "request"
