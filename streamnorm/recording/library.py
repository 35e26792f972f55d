"""A library of recordings, which plays the recording that matches a request."""

from __future__ import annotations

import os
import re
import shlex
import threading
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import urlsplit

from msgspec import Struct, structs

from streamnorm._core.errors import RecordingError, UnrecordedRequest
from streamnorm.http.urls import detect_url, dialect_of_url, is_websocket_url, path_of, query_of
from streamnorm.recording.conversations import SWITCHED, as_response, is_handshake
from streamnorm.recording.faults import FaultQueue, ReplayFault
from streamnorm.recording.format import (
    CONTENT_TYPES,
    Playback,
    RecordedRequest,
    Responder,
    WireRequest,
    check_path,
    split_name,
)
from streamnorm.recording.matching import (
    diff_requests,
    mask_secrets,
    measure_similarity,
    normalise,
    same_operation,
    same_request,
)
from streamnorm.recording.recording import Rechunk, Recording, find_cut_points
from streamnorm.recording.secrets import Secrets

Match: TypeAlias = (
    Literal["normalised", "exact", "sequence"] | Callable[[RecordedRequest, RecordedRequest], bool]
)
"""Which recording of the same method, path and dialect answers a request: one whose query and
body are equal after normalisation, one whose query and body are equal, or the next one.
A function compares the request with the recorded one, both without secrets, by itself."""

Drift: TypeAlias = Literal["error", "warn", "ignore"]
"""If no recording matches: raise an error, or play the next one with or without a warning."""

# Bounds the memory that a client's endless retries can fill.
_MAX_UNRECORDED = 100
_MAX_COMPARED = 50
_MAX_ENDPOINTS = 5
_MAX_URL_CHARS = 200
_MAX_FOLDERS = 1000  # that are looked through for recordings
_SUFFIXES = (*CONTENT_TYPES, ".json")
_DIGITS = re.compile("([0-9]+)", re.ASCII)


class DriftWarning(UserWarning):
    """A recording was played although the request differs from the recorded one."""


class ReplayOptions(TypedDict, total=False):
    """Keyword arguments of `Library`."""

    match: Match
    drift: Drift
    rechunk: Rechunk
    faults: Sequence[ReplayFault]
    ignore: Sequence[str | re.Pattern[str]]
    redact: Sequence[str | re.Pattern[str]]


class _LibraryEntry(Struct, eq=False):
    """One recording in a library.

    Attributes:
        recording: The recording.
        request: The request without secrets; None if unknown.
        compared: The request, normalised for comparison; None if unknown.
        played: Whether it has answered a request.
    """

    recording: Recording
    request: RecordedRequest | None = None
    compared: RecordedRequest | None = None
    played: bool = False

    def is_for(self, compared: RecordedRequest) -> bool:
        """Return whether a request has this recording's method, path and dialect.

        A recording without a request is for all paths of its dialect, in its framing.
        """
        recording, dialect = self.recording, self.recording.dialect
        if self.compared is None:
            asked = dialect_of_url(compared.url)
            if asked is None:
                return True
            # A recording over a WebSocket answers a request over HTTP, and one of that a create.
            framings = (asked.framing, asked.endpoints.socket_framing)
            is_readable = not recording.is_stream or recording.framing in framings
            return is_readable and dialect in (asked.name, None)
        return same_operation(compared, self.compared, dialect)


class Library:
    """A responder that answers requests from recordings in a directory or file.

    Each recording of a directory is played once.  Of the unplayed ones with the request's
    method, path and dialect, the one whose request is equal answers, of several the one that
    is most like it, and then the first by name; concurrent requests may therefore arrive in any
    order.  A recording without a request answers any,
    once those before it were played.

    A single file answers any number of requests.

    Args:
        path: A directory, or a file of a recording.
        match: How requests are compared.
        drift: Reaction to a request that matches no recording, while one of its method, path and
            dialect is left.
        rechunk: How the bodies are cut into chunks.
        faults: Faults to inject, applied in order.  One that replaces the recording is the
            only one of its request, and comes first.
        ignore: Regular expressions; their matches in the strings of both requests are not
            compared.
        redact: Further secrets, as given when it was recorded.
        missing_ok: Whether the path need not exist: then no request is answered.

    Attributes:
        path: The directory, or the file.
        replayed: Number of requests answered.
        recordings: All recordings, in the order in which they are played.
        how_to_record: Instruction at the end of the message of `UnrecordedRequest`.

    Raises:
        RecordingError: The path does not exist, or a recording is damaged.
        ValueError: An option has an invalid value.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        match: Match = "normalised",
        drift: Drift = "error",
        rechunk: Rechunk = "recorded",
        faults: Sequence[ReplayFault] = (),
        ignore: Sequence[str | re.Pattern[str]] = (),
        redact: Sequence[str | re.Pattern[str]] = (),
        missing_ok: bool = False,
    ) -> None:
        if not callable(match) and match not in ("normalised", "exact", "sequence"):
            raise ValueError(f"match {match!r}, expected normalised, exact, sequence or a function")
        if drift not in ("error", "warn", "ignore"):
            raise ValueError(f"drift {drift!r}, expected error, warn or ignore")
        for name, patterns in (("ignore", ignore), ("redact", redact)):
            if isinstance(patterns, str):
                raise ValueError(f"{name} is a string, expected a sequence of them")
        find_cut_points(b"\n", rechunk, None)
        self.path = check_path(path)
        self._once = self.path.is_dir()
        directory = self.path if self._once else self.path.parent
        self.how_to_record = (
            f"wrap your client's transport in RecordingTransport(inner, {str(directory)!r}), "
            f"or run: streamnorm record --upstream URL --out {shlex.quote(str(directory))}"
        )
        if not self._once:
            self.how_to_record += " (and replay that directory: a file is one answer)"
        self._match = match
        self._drift = drift
        self._rechunk: Rechunk = rechunk
        self._faults = FaultQueue(faults)
        self._ignore = [re.compile(pattern) for pattern in ignore]
        self._redact = tuple(redact)
        self._lock = threading.RLock()  # reentrant: `match` may read `unplayed`
        self._unrecorded: list[UnrecordedRequest] = []
        self.replayed = 0
        self._entries = [self._make_entry(each) for each in _load(self.path, missing_ok=missing_ok)]
        self.recordings = tuple(entry.recording for entry in self._entries)

    @property
    def unplayed(self) -> tuple[Recording, ...]:
        """The recordings that were not played."""
        with self._lock:
            return tuple(entry.recording for entry in self._entries if not entry.played)

    @property
    def unrecorded(self) -> tuple[UnrecordedRequest, ...]:
        """The errors that `respond` raised, at most 100."""
        with self._lock:
            return tuple(self._unrecorded)

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        asked = Secrets(self._redact).scrub_request(request)
        compared = self._normalise(asked)
        if is_handshake(request):
            return self._shake_hands(compared)
        with self._lock:
            entry, left = self._find(asked, compared)
            drifted = entry is None
            if entry is None and left and self._drift != "error":
                entry = left[0]
            if entry is None:
                error = self._explain_refusal(request, compared, left)
                if len(self._unrecorded) < _MAX_UNRECORDED:
                    self._unrecorded.append(error)
                raise error
            faults = self._faults.take()
            entry.played = entry.played or not any(fault.replaces for fault in faults)
            self.replayed += 1
        if drifted and self._drift == "warn":
            name, diff = _find_nearest(compared, [entry])
            text = f"{_summarise(request, compared)} is answered by {name}, which differs:\n{diff}"
            warnings.warn(text, DriftWarning, stacklevel=2)
        playback = entry.recording.playback(self._rechunk)
        known = dialect_of_url(asked.url)
        if known is not None:
            dialect, cloud = playback.dialect or known.name, playback.cloud or known.cloud
            playback = structs.replace(playback, dialect=dialect, cloud=cloud)
        if not is_websocket_url(request.url):
            playback = as_response(playback)
        elif entry.recording.is_stream and "content-type" not in playback.headers:
            # The messages of a WebSocket have no content type: that of an answer over HTTP decides
            # alone whether its body is a stream.
            headers = {**playback.headers, "content-type": playback.framing.media_type}
            playback = structs.replace(playback, headers=headers)
        for fault in faults:
            playback = fault(playback)
        return playback

    def _shake_hands(self, compared: RecordedRequest) -> Playback:
        """Return the response to a handshake: 101, or a recorded refusal."""
        create = structs.replace(compared, method="POST")
        with self._lock:
            for entry in self._entries:
                if entry.compared is None or (self._once and entry.played):
                    continue
                if entry.is_for(compared):
                    entry.played = True
                    self.replayed += 1
                    return entry.recording.playback()
                if entry.is_for(create):
                    break
        return Playback(SWITCHED, {}, ())

    def _make_entry(self, recording: Recording) -> _LibraryEntry:
        request = recording.request
        if request is None:
            return _LibraryEntry(recording)
        request = Secrets(self._redact).scrub_recorded(request)
        return _LibraryEntry(recording, request, self._normalise(request))

    def _normalise(self, request: RecordedRequest) -> RecordedRequest:
        if self._match in ("normalised", "sequence"):
            return normalise(request, self._ignore)
        return mask_secrets(request, self._ignore)

    def _find(
        self, asked: RecordedRequest, compared: RecordedRequest
    ) -> tuple[_LibraryEntry | None, list[_LibraryEntry]]:
        """Return the entry that matches a request, and all entries left for the same operation."""
        unplayed = [entry for entry in self._entries if not (self._once and entry.played)]
        left = [entry for entry in unplayed if entry.is_for(compared)]
        match = self._match
        if callable(match):
            for entry in unplayed:
                if entry.request is not None and match(asked, entry.request):
                    return entry, left
        if left and left[0].compared is None:
            return left[0], left
        if callable(match):
            return None, left
        if match == "sequence":
            found = next((entry for entry in left if entry.compared is not None), None)
            return found, left
        equal = [
            entry
            for entry in left
            if entry.compared is not None and same_request(compared, entry.compared)
        ]
        if len(equal) > 1:
            return min(equal, key=lambda entry: _differences(asked, entry.request)), left
        return next(iter(equal), None), left

    def _explain_refusal(
        self, request: WireRequest, compared: RecordedRequest, left: list[_LibraryEntry]
    ) -> UnrecordedRequest:
        """Return the error that explains why no recording matches."""
        kin = [entry for entry in self._entries if entry.is_for(compared)]
        counted = left or kin or self._entries
        count = "1 recording" if len(counted) == 1 else f"{len(counted)} recordings"
        if not self._entries:
            why = f"nothing is recorded in {self.path}"
        elif not kin:
            why = f"{count} in {self.path}, none of this endpoint{self._list_endpoints()}"
        elif not left:
            why = f"{count} of this endpoint in {self.path}, all played"
        else:
            remain = "remains" if len(left) == 1 else "remain"
            why = f"{count} of this endpoint {remain} in {self.path}, query or body differs"
        lines = [f"no recording answers {_summarise(request, compared)}: {why}"]
        nearest, diff = _find_nearest(compared, left or kin)
        if nearest is not None:
            lines.append(diff or f"the request equals that of {nearest}")
        lines.append(f"to record it: {self.how_to_record}")
        return UnrecordedRequest("\n".join(lines), diff=diff, nearest=nearest)

    def _list_endpoints(self) -> str:
        """Return the recorded endpoints as text, to end an error message with."""
        requests = [entry.compared for entry in self._entries if entry.compared is not None]
        endpoints = list(
            dict.fromkeys(f"{each.method} {each.url.partition('?')[0]}" for each in requests)
        )
        if len(endpoints) > _MAX_ENDPOINTS:
            endpoints[_MAX_ENDPOINTS:] = ["…"]
        known = ", ".join([each[:_MAX_URL_CHARS] for each in endpoints])
        return f", expected {known}" if known else ""


def _differences(asked: RecordedRequest, recorded: RecordedRequest | None) -> tuple[bool, ...]:
    """Return in what two requests differ that count as equal; most important first."""
    if recorded is None:
        return ()
    hosts = [urlsplit(request.url).netloc for request in (asked, recorded)]
    return (
        path_of(asked.url) != path_of(recorded.url),
        query_of(asked.url) != query_of(recorded.url),
        not same_request(asked, recorded),
        hosts[0] != hosts[1],
    )


def open_responder(source: str | Path | Responder, **options: Unpack[ReplayOptions]) -> Responder:
    """Return a responder for a source: a `Library` for a path.

    Args:
        source: A directory of recordings, a file of one, or a responder.
        options: The options of `Library`, for a path.

    Raises:
        TypeError: The source is no path and no responder, or options are given with a responder.
        RecordingError: The path does not exist, or a recording is damaged.
        ValueError: An option has an invalid value.
    """
    if isinstance(source, (str, Path)):
        return Library(source, **options)
    if not callable(getattr(source, "respond", None)):
        raise TypeError(f"a {type(source).__name__}, expected a path or a responder")
    if options:
        raise TypeError(f"{', '.join(options)} given with a responder, expected a path with them")
    return source


def _summarise(request: WireRequest, compared: RecordedRequest) -> str:
    dialect = detect_url(compared.url) or "no known dialect"
    size = "body not kept" if request.body is None else f"{len(request.body)} bytes"
    return f"{compared.method} {compared.url[:_MAX_URL_CHARS]} ({dialect}, {size})"


def _find_nearest(
    compared: RecordedRequest, entries: Sequence[_LibraryEntry]
) -> tuple[str | None, str]:
    """Return the name of the recording most similar to a request, and the diff of their requests.

    Args:
        compared: The request.
        entries: Recordings of its endpoint; a prefix of the path is no difference.
    """
    likenesses = [
        (measure_similarity(compared, entry.compared), entry.recording.name, entry.compared)
        for entry in entries[:_MAX_COMPARED]
        if entry.compared is not None
    ]
    if not likenesses:
        return None, ""
    _, name, nearest = max(likenesses, key=lambda found: found[0])
    _, mark, query = nearest.url.partition("?")
    nearest = structs.replace(nearest, url=compared.url.partition("?")[0] + mark + query)
    return name, diff_requests(compared, nearest, name)


def _load(path: Path, *, missing_ok: bool) -> list[Recording]:
    """Load all recordings in a directory, or a single one."""
    if path.is_dir():
        return [Recording.load(file) for file in _find_files(path)]
    name, _ = split_name(path)
    if not any(Path(name + suffix).exists() for suffix in _SUFFIXES):
        if missing_ok:
            return []
        if path.exists():
            expected = f"a directory of recordings, or a file that ends in {' or '.join(_SUFFIXES)}"
            raise RecordingError(f"{path}: no recording, expected {expected}")
        raise RecordingError(f"{path}: no such directory or recording")
    return [Recording.load(path)]


def find_recording_folders(directory: str | Path) -> list[str]:
    """Return the folders with recordings below a directory, as relative paths."""
    found: list[str] = []
    for folder, _, names in islice(os.walk(directory), _MAX_FOLDERS):
        if any(name.endswith(_SUFFIXES) and not name.startswith(".") for name in names):
            found.append(Path(folder).relative_to(directory).as_posix())
    return sorted(found, key=_split_numbers)


def _find_files(directory: Path) -> list[Path]:
    """Return one file for each recording, in natural order (`2-` before `10-`)."""
    try:
        paths = sorted(path for path in directory.iterdir() if not path.is_dir())
    except OSError as exc:
        raise RecordingError(f"{directory}: {exc.strerror}") from exc
    found: dict[str, Path] = {}
    for path in paths:
        if path.name.endswith(_SUFFIXES) and not path.name.startswith("."):
            name, suffix = split_name(path)
            # The companion, if there is one, names the file of the body.
            if suffix is None or name not in found:
                found[name] = path
    return [found[name] for name in sorted(found, key=_split_numbers)]


def _split_numbers(name: str) -> tuple[list[str | int], str]:
    parts = _DIGITS.split(name)
    return [int(part) if n % 2 else part for n, part in enumerate(parts)], name
