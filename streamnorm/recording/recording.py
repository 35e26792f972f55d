"""A recording in memory: loading, decoding, chunking and saving."""

from __future__ import annotations

import itertools
import os
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.errors import RecordingError, UnknownDialect
from streamnorm._core.events import Abandoned, Event, Outcome
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.limits import Limits
from streamnorm._core.messages import Message, accumulate
from streamnorm._registry import decoder
from streamnorm.http.urls import dialect_of_url
from streamnorm.recording.files import replace_file
from streamnorm.recording.format import (
    CONTENT_TYPES,
    WITHOUT_BODY,
    Companion,
    Playback,
    PlaybackEnd,
    Provenance,
    RecordedRead,
    RecordedRequest,
    RecordedResponse,
    Step,
    Suffix,
    check_path,
    decode_companion,
    framing_name,
    framing_of,
    read_bounded,
    split_name,
    write_companion,
)

Rechunk: TypeAlias = Literal["recorded", "event", "byte", "hostile"] | int | str
"""How to cut a body: as recorded, after each event, after each byte, at hostile points (inside
characters, between CR and LF, inside `data:`; inside lengths, checksums and base64 of an event
stream), every `n` bytes, or at `random:<seed>` points."""

_MEAN_RANDOM_BYTES = 40

_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_LIMITS = Limits()


def find_cut_points(
    body: bytes, how: Rechunk, recorded: Sequence[int] | None, framing: Framing = SSE
) -> list[int]:
    """Return the end offset of each chunk of a body, ascending.

    Args:
        body: The bytes.
        how: How to cut them.
        recorded: Sizes of the recorded reads; None if unknown.
        framing: How events stand in them.

    Raises:
        ValueError: `how` is no such division.
    """
    if how == "recorded" and recorded is not None:
        ends = list(itertools.accumulate(recorded))
    elif how in ("recorded", "event"):
        return framing.layout.find_event_ends(body)
    elif how == "hostile":
        ends = framing.layout.find_hostile_cuts(body)
    elif isinstance(how, str) and how.startswith("random:"):
        ends = list(_draw_ends(len(body), how.removeprefix("random:")))
    else:
        ends = list(range(_check_size(how), len(body), _check_size(how)))
    if not body:
        return []
    if not ends or ends[-1] < len(body):
        ends.append(len(body))
    return ends


def split_at(body: bytes, ends: Sequence[int]) -> list[bytes]:
    """Return the chunks of a body, given their end offsets."""
    return [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _check_size(how: Rechunk) -> int:
    size = 1 if how == "byte" else how
    if not isinstance(size, int) or size < 1:
        raise ValueError(
            f"rechunk {how!r}, expected recorded, event, byte, hostile, random:<seed> or a size"
        )
    return size


def _draw_ends(length: int, seed: str) -> Iterator[int]:
    """Yield offsets at which to cut `length` bytes, the same for a seed on every Python version."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    end = 0
    while (end := end + 1 + int(generator.random() * 2 * _MEAN_RANDOM_BYTES)) < length:
        yield end


def _explain_size(body: bytes, size: int) -> str:
    """Return why a body probably has another size than was recorded, to end an error with."""
    pairs = body.count(b"\r\n")
    # By git, where `.gitattributes` lacks the recordings, or by an editor.
    if len(body) - pairs == size:
        return ", as its line ends became CR LF"
    if len(body) + body.count(b"\n") - pairs == size:
        return ", as its line ends became LF"
    return '; a body that was edited has no "chunks"'


def load_companion(path: str | Path) -> Companion:
    """Load the `NAME.json` of a body; a default companion if there is no file.

    Raises:
        RecordingError: It cannot be read, or is not of this format.
    """
    return _load_companion(*split_name(check_path(path)), _LIMITS)[0]


def _load_companion(
    name: str, suffix: Suffix | None, limits: Limits
) -> tuple[Companion, list[RecordedRead] | None]:
    path = Path(name + ".json")
    if not os.path.lexists(path):
        return Companion(1, response=RecordedResponse(body=suffix or ".sse")), None
    data = read_bounded(path, limits.max_companion_bytes)
    return decode_companion(data, path, limits)


class Recording:
    """One exchange, recorded or written by hand.

    Args:
        body: The body of the response.
        companion: Everything else.
        reads: The reads in which the body arrived; None if unknown.
        path: The file of the body; None if it is not saved.

    Raises:
        RecordingError: The body is a stream in another framing than the companion says.

    Attributes:
        body: The body of the response, after content decoding.
        path: The file of the body; None if it is not saved.
        dialect: Name of the dialect; None if unknown.
        framing: How events stand in the body, if it is a stream.
        server: Name of the server; None if unknown.
        provenance: Whether a server sent the bytes.
        request: The request without secrets; None if unknown.
        response: Status, headers and end of the response.
        redacted: Number of secrets that were replaced.
        reads: The reads in which the body arrived; None if unknown.
    """

    def __init__(
        self,
        body: bytes,
        companion: Companion | None = None,
        *,
        reads: list[RecordedRead] | None = None,
        path: Path | None = None,
    ) -> None:
        companion = companion or Companion(1)
        self.framing = framing_of(companion)
        self.path = path
        self.body = body
        self.dialect = companion.dialect
        self.server = companion.server
        self.provenance: Provenance = companion.provenance
        self.request: RecordedRequest | None = companion.request
        self.response: RecordedResponse = companion.response
        self.redacted = companion.redacted
        self.reads = reads

    @classmethod
    def load(cls, path: str | Path, *, limits: Limits = _LIMITS) -> Recording:
        """Load a recorded body and, if there is one, its companion `NAME.json`.

        Args:
            path: `NAME.sse`, `NAME.eventstream` or another file of the recording.
            limits: `max_recording_bytes` and `max_companion_bytes` bound the files.

        Raises:
            RecordingError: A file cannot be read, or is not of this format.
        """
        name, suffix = split_name(check_path(path))
        companion, reads = _load_companion(name, suffix, limits)
        file = Path(name + (suffix or companion.response.body))
        body = read_bounded(file, limits.max_recording_bytes)
        if suffix is not None and suffix != companion.response.body:
            raise RecordingError(
                f"{name}.json: its body is {companion.response.body}, not {suffix}"
            )
        status = companion.response.status
        if status in WITHOUT_BODY and body:
            raise RecordingError(f"{file}: {len(body)} bytes of a status {status}, expected none")
        size = len(body) if reads is None else sum(read.size for read in reads)
        if size != len(body):
            found = f"{len(body)}{_explain_size(body, size)}"
            raise RecordingError(f"{name}.json: chunks of {size} bytes, {file} has {found}")
        try:
            return cls(body, companion, reads=reads, path=file)
        except RecordingError as exc:
            raise RecordingError(f"{file}: {exc}") from exc

    def save(self, path: str | Path | None = None) -> None:
        """Save the body and its companion.

        The same recording gives the same bytes.  If the file already holds the same body,
        the timing recorded with it is preserved.

        Args:
            path: File to write; None for the one it was read from.  The suffix is replaced
                by that of the body.

        Raises:
            RecordingError: A file cannot be written, or there is no path.
        """
        target = path or self.path
        if target is None:
            raise RecordingError("a recording without a path cannot be saved without one")
        name, _ = split_name(check_path(target))
        file = Path(name + self.response.body)
        try:
            reads = self._choose_reads(file)
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, lambda out: out.write(self.body))
            chunks = None if reads is None else map(str, reads)
            replace_file(
                Path(name + ".json"), lambda out: write_companion(out, companion_of(self), chunks)
            )
        except OSError as exc:
            raise RecordingError(f"{file}: {exc.strerror}") from exc
        self.path = file

    def _choose_reads(self, file: Path) -> list[RecordedRead] | None:
        """Return the recorded reads in an existing file with the same body, else `reads`."""
        if not file.is_file() or file == self.path:
            return self.reads
        try:
            before = Recording.load(file)
        except RecordingError:  # a damaged file is replaced
            return self.reads
        return before.reads if before.body == self.body and before.reads else self.reads

    @property
    def name(self) -> str:
        """Folder and file name without the suffix, for example `openai/text`."""
        if self.path is None:
            return "recording"
        return "/".join(Path(split_name(self.path)[0]).parts[-2:])

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.response.body == self.framing.suffix

    def chunks(self, rechunk: Rechunk = "recorded") -> list[bytes]:
        """Return the body in chunks.

        Args:
            rechunk: How to cut it: `recorded`, `event`, `byte`, a size in bytes,
                `random:<seed>`, or `hostile`: inside characters, between CR and LF, inside
                `data:`; in an event stream of AWS inside lengths and checksums.  If no reads were
                recorded, `recorded` means one event a chunk.

        Raises:
            ValueError: `rechunk` is no such division.
        """
        return split_at(self.body, self._find_ends(rechunk))

    def playback(self, rechunk: Rechunk = "recorded") -> Playback:
        """Return the playback with the recorded timing.

        A chunk is due when its last byte arrived.  An `aborted` or `incomplete` recording
        ends in a broken connection, unless it holds the whole message.
        """
        ends = self._find_ends(rechunk)
        arrivals = self._sum_arrivals_ms(ends)
        steps = tuple(
            Step((now - before) / 1000, data)
            for (before, now), data in zip(
                itertools.pairwise([0, *arrivals]), split_at(self.body, ends), strict=True
            )
        )
        asked = None if self.request is None else dialect_of_url(self.request.url)
        return Playback(
            self.response.status,
            self._choose_headers(),
            steps,
            self._choose_end(),
            self.dialect,
            self.framing,
            None if asked is None else asked.cloud,
            None if self.response.close_code is UNSET else self.response.close_code,
        )

    def events(self) -> list[Event]:
        """Return the decoded events of the body.

        Raises:
            UnknownDialect: Its dialect cannot be read.
        """
        return list(self._decoded[0])

    def message(self) -> Message:
        """Return the message accumulated from the events.

        Raises:
            UnknownDialect: Its dialect cannot be read.
        """
        return accumulate(self.events())

    @property
    def outcome(self) -> Outcome:
        """How the stream ended, judged by its events and the end of its connection.

        Raises:
            UnknownDialect: Its dialect cannot be read.
        """
        return self._decoded[1]

    @property
    def expected(self) -> list[Event]:
        """The expected events, from `NAME.events.jsonl`.

        Raises:
            RecordingError: There are none, or a line is no event.
        """
        if self.path is None:
            raise RecordingError("a recording without a path has no events beside it")
        path = Path(split_name(self.path)[0] + ".events.jsonl")
        lines = read_bounded(path, _LIMITS.max_companion_bytes).split(b"\n")
        try:
            return [_EVENT.decode(line) for line in lines if line]
        except FAST_ERRORS as exc:
            raise RecordingError(f"{path}: {exc}") from exc

    def __str__(self) -> str:
        return self.name

    @cached_property
    def _decoded(self) -> tuple[list[Event], Outcome]:
        decoding = decoder(self.dialect, server=self.server, framing=self.framing)
        events = decoding.feed(self.body)
        match self.response.end:
            case "eof":
                events += decoding.close()
            case "aborted" | "incomplete":
                return events, decoding.outcome or Abandoned()
            case "reset" | "timeout" as end:
                cause = ConnectionResetError() if end == "reset" else TimeoutError()
                events += decoding.abort(cause)
        return events, decoding.outcome or Abandoned()

    def _find_ends(self, rechunk: Rechunk) -> list[int]:
        sizes = None if self.reads is None else [read.size for read in self.reads]
        if sizes is None and not self.is_stream and rechunk in ("recorded", "event"):
            return [len(self.body)] if self.body else []
        return find_cut_points(self.body, rechunk, sizes, self.framing)

    def _sum_arrivals_ms(self, ends: list[int]) -> list[int]:
        """Return the arrival time of each chunk, in ms since the request."""
        if self.reads is None:
            return [0] * len(ends)
        received = list(itertools.accumulate(read.size for read in self.reads))
        elapsed_ms = list(itertools.accumulate(read.gap_ms for read in self.reads))
        return [elapsed_ms[bisect_left(received, end)] for end in ends]

    def _choose_headers(self) -> dict[str, str]:
        response = self.response
        if response.headers or response.body == ".body.bin" or response.content_type is None:
            return response.headers
        return {"content-type": CONTENT_TYPES[response.body]}

    def _choose_end(self) -> PlaybackEnd:
        match self.response.end:
            case "eof" | "reset" | "timeout" as end:
                return end
            case "aborted" | "incomplete":
                return "eof" if self.is_stream and self._is_whole() else "reset"

    def _is_whole(self) -> bool:
        """Return whether the stream is known to have its terminal event."""
        try:
            return not isinstance(self.outcome, Abandoned)
        except UnknownDialect:
            return False


def companion_of(recording: Recording) -> Companion:
    """Return the content of a recording's companion file, without `chunks`."""
    return Companion(
        1,
        recording.dialect,
        framing_name(recording.dialect, recording.framing, recording.response.body),
        recording.server,
        recording.provenance,
        recording.request,
        recording.response,
        recording.redacted,
    )
