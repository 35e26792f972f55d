"""The responder and the recorder of one test."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from streamnorm._core.errors import RecordingError, UnrecordedRequest
from streamnorm.recording.exchange import Playback, WireRequest
from streamnorm.recording.library import Library
from streamnorm.recording.operations import path_of
from streamnorm.recording.recorder import Recorder, RecordingWriter
from streamnorm.recording.recording import Recording

__all__ = ["CountingResponder", "EndingRecorder"]


class CountingResponder:
    """A responder that answers the requests of a test from its recordings, and counts them.

    Args:
        library: The recordings; None if there are none.
        path: Path at which recordings are expected.
        command: Command that records the missing ones.

    Attributes:
        replayed: Number of requests answered.
        unrecorded: Messages of the requests that were not answered, each once.
    """

    def __init__(self, library: Library | None, path: Path, command: str) -> None:
        self.replayed = 0
        self.unrecorded: dict[str, None] = {}
        self._library = library
        self._path = path
        self._command = command
        self._lock = threading.Lock()
        if library is not None:
            library.how_to_record = command

    @property
    def unplayed(self) -> tuple[Recording, ...]:
        """The recordings that answered no request."""
        return () if self._library is None else self._library.unplayed

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        try:
            playback = self._playback(request)
        except UnrecordedRequest as exc:
            with self._lock:
                self.unrecorded[str(exc)] = None
            raise
        with self._lock:
            self.replayed += 1
        return playback

    def _playback(self, request: WireRequest) -> Playback:
        if self._library is not None:
            return self._library.respond(request)
        endpoint = f"{request.method} {path_of(request.url)}"
        raise UnrecordedRequest(
            f"no recording answers {endpoint}: nothing is recorded in {self._path}\n"
            f"to record it: {self._command}"
        )


class EndingRecorder(Recorder):
    """A recorder that can end all exchanges that its test left open."""

    def __init__(
        self,
        directory: Path,
        *,
        redact: Sequence[str | re.Pattern[str]],
        on_failure: Callable[[RecordingError], None],
        on_recorded: Callable[[Path], None],
    ) -> None:
        super().__init__(directory, redact=redact, on_failure=on_failure, on_recorded=on_recorded)
        self._writers: list[RecordingWriter] = []

    def start(self, request: WireRequest) -> RecordingWriter:
        """Begin the recording of an exchange, when its request is sent."""
        writer = super().start(request)
        self._writers.append(writer)
        return writer

    def end(self) -> None:
        """End all recordings; an open one as `aborted`."""
        for writer in self._writers:
            writer.end("aborted")  # ignored if it has ended
