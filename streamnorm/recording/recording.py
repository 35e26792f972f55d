"""A recording in memory, and its files."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path

import msgspec

from streamnorm._core.accumulate import accumulate
from streamnorm._core.errors import RecordingError, UnknownDialect
from streamnorm._core.events import Abandoned, Event, Outcome
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.limits import Limits
from streamnorm._core.messages import Message
from streamnorm._registry import decoder
from streamnorm.recording.chunking import Rechunk, cut_points, pieces_of
from streamnorm.recording.exchange import Playback, PlaybackEnd, Step
from streamnorm.recording.format import (
    Chunk,
    Companion,
    Provenance,
    RecordedRequest,
    RecordedResponse,
    Suffix,
    decode_companion,
    read_bounded,
    replace_file,
    split_name,
    write_companion,
)

__all__ = ["Recording", "load_companion"]

_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_LIMITS = Limits()


def load_companion(path: str | Path) -> Companion:
    """Read the `NAME.json` beside a body; what it would say by default if there is none.

    Raises:
        RecordingError: It is not of this format.
    """
    return _load_companion(*split_name(Path(path)), _LIMITS)[0]


def _load_companion(
    name: str, suffix: Suffix | None, limits: Limits
) -> tuple[Companion, list[Chunk] | None]:
    path = Path(name + ".json")
    if not path.is_file():
        return Companion(1, response=RecordedResponse(body=suffix or ".sse")), None
    data = read_bounded(path, limits.max_companion_bytes)
    return decode_companion(data, path, limits)


class Recording:
    """One exchange as it was recorded, or written by hand.

    Args:
        body: The bytes of the answer.
        companion: Everything else.
        reads: The reads that the body arrived in; None if that is not known.
        path: The file of the body; None if it has none yet.

    Attributes:
        body: The bytes of the answer, after content decoding.
        path: The file of the body; None if it has none yet.
        dialect: Name of its dialect; None if the companion does not say.
        server: Who sent it; None if the companion does not say.
        provenance: Whether a server sent these bytes.
        request: What was asked, without secrets; None if the companion does not say.
        response: Status, headers and the way it ended.
        redacted: How many secrets were replaced.
        reads: The reads that the body arrived in; None if that is not known.
    """

    def __init__(
        self,
        body: bytes,
        companion: Companion | None = None,
        *,
        reads: list[Chunk] | None = None,
        path: Path | None = None,
    ) -> None:
        companion = companion or Companion(1)
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
        """Read a body and its `NAME.json`, the latter if it is there.

        Args:
            path: `NAME.sse`, or another file of the recording.
            limits: `max_recording_bytes` and `max_companion_bytes` bound the files.

        Raises:
            RecordingError: A file cannot be read, or is not of this format.
        """
        name, suffix = split_name(Path(path))
        companion, reads = _load_companion(name, suffix, limits)
        file = Path(name + (suffix or companion.response.body))
        body = read_bounded(file, limits.max_recording_bytes)
        if suffix is not None and suffix != companion.response.body:
            raise RecordingError(
                f"{name}.json: its body is {companion.response.body}, not {suffix}"
            )
        if reads is not None and sum(read.size for read in reads) != len(body):
            told = sum(read.size for read in reads)
            raise RecordingError(f"{name}.json: chunks of {told} bytes, {file} has {len(body)}")
        return cls(body, companion, reads=reads, path=file)

    def save(self, path: str | Path | None = None) -> None:
        """Write the body and its companion.

        The same recording gives the same bytes.  Where the body is already there with the
        same bytes, the timing that was recorded with it is kept.

        Args:
            path: Where to; None for where it was read from.  Its suffix is that of the body.

        Raises:
            RecordingError: A file cannot be written, or there is no path.
        """
        target = path or self.path
        if target is None:
            raise RecordingError("a recording without a path cannot be saved without one")
        name, _ = split_name(Path(target))
        file = Path(name + self.response.body)
        try:
            reads = self._reads_to_write(file)
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, lambda out: out.write(self.body))
            chunks = None if reads is None else map(str, reads)
            replace_file(
                Path(name + ".json"), lambda out: write_companion(out, self._companion(), chunks)
            )
        except OSError as exc:
            raise RecordingError(f"{file}: {exc.strerror}") from exc
        self.path = file

    def _reads_to_write(self, file: Path) -> list[Chunk] | None:
        """Return our reads, or those of the same body in the file."""
        if not file.is_file() or file == self.path:
            return self.reads
        try:
            before = Recording.load(file)
        except RecordingError:  # what is damaged is replaced
            return self.reads
        return before.reads if before.body == self.body and before.reads else self.reads

    def _companion(self) -> Companion:
        return Companion(
            1,
            self.dialect,
            self.server,
            self.provenance,
            self.request,
            self.response,
            self.redacted,
        )

    @property
    def name(self) -> str:
        """Folder and file name without ending, as `openai/text`."""
        if self.path is None:
            return "recording"
        return "/".join(Path(split_name(self.path)[0]).parts[-2:])

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream, and no whole document."""
        return self.response.body == ".sse"

    def chunks(self, rechunk: Rechunk = "recorded") -> list[bytes]:
        """Return the body in pieces.

        Args:
            rechunk: How to cut it: `recorded`, `event`, `byte`, a size in bytes,
                `random:<seed>`, or `hostile`: inside characters, between CR and LF, inside
                `data:`.  Where no reads were recorded, `recorded` is one event a piece.

        Raises:
            ValueError: There is no such way.
        """
        return pieces_of(self.body, self._ends(rechunk))

    def playback(self, rechunk: Rechunk = "recorded") -> Playback:
        """Return the answer to play, with the timing that was recorded.

        A piece takes the time at which its last byte arrived.  What an `aborted` or
        `incomplete` recording does not hold is a broken connection, unless all of the
        message is there.
        """
        ends = self._ends(rechunk)
        arrivals = self._arrivals_ms(ends)
        steps = tuple(
            Step((now - before) / 1000, data)
            for (before, now), data in zip(
                pairwise([0, *arrivals]), pieces_of(self.body, ends), strict=True
            )
        )
        return Playback(
            self.response.status, self._headers(), steps, self._playback_end(), self.dialect
        )

    def events(self) -> list[Event]:
        """Return the events that the body decodes to.

        Raises:
            UnknownDialect: Its dialect is none that can be read.
        """
        return list(self._decoded[0])

    def message(self) -> Message:
        """Return the message that the events tell.

        Raises:
            UnknownDialect: Its dialect is none that can be read.
        """
        return accumulate(self.events())

    @property
    def outcome(self) -> Outcome:
        """How the stream ended, and how its connection did.

        Raises:
            UnknownDialect: Its dialect is none that can be read.
        """
        return self._decoded[1]

    @property
    def expected(self) -> list[Event]:
        """The events written down beside it, in `NAME.events.jsonl`.

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
        decoding = decoder(self.dialect, server=self.server)
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

    def _ends(self, rechunk: Rechunk) -> list[int]:
        sizes = None if self.reads is None else [read.size for read in self.reads]
        if sizes is None and not self.is_stream and rechunk in ("recorded", "event"):
            return [len(self.body)] if self.body else []
        return cut_points(self.body, rechunk, sizes)

    def _arrivals_ms(self, ends: list[int]) -> list[int]:
        """Return when the last byte of each piece arrived, since the request."""
        if self.reads is None:
            return [0] * len(ends)
        arrivals: list[int] = []
        received = elapsed = 0
        reads = iter(self.reads)
        for end in ends:
            while received < end:
                read = next(reads)
                received += read.size
                elapsed += read.gap_ms
            arrivals.append(elapsed)
        return arrivals

    def _headers(self) -> dict[str, str]:
        if self.response.headers:
            return self.response.headers
        kinds = {".sse": "text/event-stream", ".body.json": "application/json"}
        kind = kinds.get(self.response.body)
        return {} if kind is None else {"content-type": kind}

    def _playback_end(self) -> PlaybackEnd:
        match self.response.end:
            case "eof" | "reset" | "timeout" as end:
                return end
            case "aborted" | "incomplete":
                return "eof" if self.is_stream and self._is_whole() else "reset"

    def _is_whole(self) -> bool:
        """Tell whether the terminal of a stream is known to be there."""
        try:
            return not isinstance(self.outcome, Abandoned)
        except UnknownDialect:
            return False
