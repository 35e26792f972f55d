"""The value of the pytest fixture `streamnorm_recording`: the recordings of one test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload
from uuid import uuid4

import pytest

from streamnorm._core.errors import RecordingError
from streamnorm.recording.format import WireRequest, split_name
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder, RecordingWriter
from streamnorm.recording.recording import Recording
from streamnorm.testing.locking import lock_folder
from streamnorm.testing.plugin import (
    REPLAY_OPTIONS,
    MarkerOptions,
    Mode,
    locate_recordings,
    read_markers,
    write_command,
)
from streamnorm.testing.transports import (
    NETWORK_OPTIONS,
    FamilyName,
    family_of,
    make_recording_transport,
    make_replaying_transport,
)

if TYPE_CHECKING:
    from typing import Literal

    from streamnorm.asgi import RecordingProxy, ReplayApp
    from streamnorm.testing.transports import Httpx2Transport, HttpxTransport


ClientT = TypeVar("ClientT")

_PACE = ("speed", "max_gap_s")


class RecordingFixture:
    """The recordings of one test, with factories of replaying or recording clients.

        @pytest.mark.parametrize("fault", faults.every(RECORDING), ids=str)
        @pytest.mark.streamnorm("agent")
        def test_agent_survives(streamnorm_recording, fault):
            http = streamnorm_recording.client(httpx2.Client, faults=[fault])
            ...

    All clients of a test share its recordings: each is played once, in order, to whichever
    client asks.  A test that passed fails afterwards if a recording was not asked for, or if a
    request was not answered by a recording (its client may have swallowed the error).

    A test with faults replays in every mode, and may leave recordings unplayed: after a
    failure it may not send its later requests.  If it has no recordings, the modes that record
    send its requests without the faults, so that the next run can replay with them.  A test's
    parameters are part of the name of its recordings unless a marker names them.

    Attributes:
        path: Folder of the recordings, or a single file that answers any number of requests.
            Neither need exist.
    """

    def __init__(
        self, path: Path, mode: Mode, marks: MarkerOptions, command: Callable[[str], str]
    ) -> None:
        self.path = path
        self._mode: Mode = "none" if path.is_file() else mode
        self._marker = marks
        self._command = command
        self._options: dict[str, Any] | None = None  # those of the first client
        self._library: Library | None = None
        self._recorder: EndingRecorder | None = None
        self._recorded: list[Path] = []
        self._failures: list[str] = []
        self._lock = ExitStack()  # holds the folder's lock while the test records

    @property
    def directory(self) -> Path:
        """The folder of the recordings."""
        return self.path.parent if self.path.is_file() else self.path

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The complete recordings, sorted by name; in mode `rewrite`, only new recordings.

        Raises:
            RecordingError: One cannot be read.
        """
        folder = self.path if self._recorder is None else self._recorder.directory
        return tuple(Recording.load(path) for path in _bodies_of(folder))

    @property
    def unplayed(self) -> tuple[Recording, ...]:
        """The recordings that were not played.

        Raises:
            RecordingError: One cannot be read.
        """
        self._start({})
        return () if self._library is None else self._library.unplayed

    @property
    def recorded(self) -> int:
        """Number of recorded exchanges."""
        return len(self._recorded)

    @property
    def replayed(self) -> int:
        """Number of requests answered by recordings."""
        return 0 if self._library is None else self._library.replayed

    @property
    def failures(self) -> tuple[str, ...]:
        """Messages about exchanges that could not be recorded."""
        return tuple(self._failures)

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Messages about requests that no recording could answer."""
        if self._library is None or self._recorder is not None:
            return ()
        return tuple(dict.fromkeys(map(str, self._library.unrecorded)))

    @property
    def ran_without_faults(self) -> bool:
        """Whether the test ran without its faults, because it was recorded."""
        return bool(self._recorded) and self._has_faults

    def client(self, kind: Callable[..., ClientT], /, **options: object) -> ClientT:
        """Return a client that replays or records.  The test must close it.

        Args:
            kind: `Client` or `AsyncClient` of httpx or httpx2, or a subclass, such as
                `openai.DefaultHttpxClient`.
            **options: Options of `ReplayTransport`, which override the marker's, and options
                of `kind`.  Recorded requests are sent through `transport`, or else through a
                transport made with `verify`, `proxy` and the like.

        Raises:
            TypeError: `kind` is not one of these classes, or an option would bypass the recordings.
            pytest.UsageError: The options differ from those of an earlier client.
            RecordingError: A recording cannot be read.
        """
        family = family_of(kind)
        if "mounts" in options:
            raise TypeError("mounts would evade the recordings, expected none")
        replay = {name: options.pop(name) for name in REPLAY_OPTIONS if name in options}
        network = {name: options[name] for name in NETWORK_OPTIONS if name in options}
        options.pop("proxy", None)  # it would become a mount
        inner = options.pop("transport", None)
        return kind(transport=self._make_transport(family, inner, network, replay), **options)

    @overload
    def transport(
        self, family: Literal["httpx"], *, inner: object = ..., **options: object
    ) -> HttpxTransport: ...
    @overload
    def transport(
        self, family: Literal["httpx2"], *, inner: object = ..., **options: object
    ) -> Httpx2Transport: ...

    def transport(
        self, family: FamilyName, *, inner: object = None, **options: object
    ) -> HttpxTransport | Httpx2Transport:
        """Return a transport, synchronous and asynchronous, that replays or records.

        Args:
            family: Name of the package.
            inner: Transport that sends recorded requests; None for the package's default.
            **options: Options of `ReplayTransport`, which override the marker's.

        Raises:
            TypeError: An option is unknown.
            pytest.UsageError: The options differ from those of an earlier client.
            RecordingError: A recording cannot be read.
        """
        self._check_options(options)
        transport = self._make_transport(family, inner, {}, options)
        # The classes derive from those of a package that may not be installed.
        return cast("HttpxTransport | Httpx2Transport", transport)

    def app(self, upstream: str, **options: object) -> ReplayApp | RecordingProxy:
        """Return an ASGI application that replays, or records while it forwards.

        For what no transport answers, such as a client that opens a WebSocket: the test serves it
        on loopback.  Where something is recorded it replays, also in mode `new`.

        Args:
            upstream: URL of the provider.
            **options: Options of `ReplayApp`, which override the marker's.

        Raises:
            TypeError: An option is unknown.
            pytest.UsageError: The options differ from those of an earlier client.
            RecordingError: A recording cannot be read.
        """
        from streamnorm.asgi import RecordingProxy, ReplayApp

        self._check_options(options)
        given: dict[str, Any] = {**self._marker.options, **options}
        self._start({name: options[name] for name in options if name not in _PACE})
        if self._library is None and self._recorder is not None:
            return RecordingProxy(upstream, self._recorder)
        pace = {name: given[name] for name in _PACE if name in given}
        return ReplayApp(cast("Library", self._library), **pace)  # one of the two is set

    def finish(self, *, passed: bool) -> list[str]:
        """End the recordings after the test; return reasons to fail a passed test.

        Args:
            passed: Whether the test passed.

        Raises:
            RecordingError: A recording cannot be read.
        """
        with self._lock:
            if self._recorder is not None:
                self._finish_recording(self._recorder, passed=passed)
            if not passed:
                return []
            self._start({})  # if no client was made, nothing was played or recorded
            library = self._library
            return self._find_left() if library is None else self._find_problems(library)

    @staticmethod
    def _check_options(options: dict[str, object]) -> None:
        unknown = sorted(options.keys() - set(REPLAY_OPTIONS))
        if unknown:
            raise TypeError(f"{', '.join(unknown)}, expected {', '.join(REPLAY_OPTIONS)}")

    def _make_transport(
        self, family: FamilyName, inner: object, network: dict[str, object], given: dict[str, Any]
    ) -> object:
        options = {**self._marker.options, **given}
        self._start({name: given[name] for name in given if name not in _PACE})
        pace = {name: options[name] for name in _PACE if name in options}
        replay = None
        if self._library is not None:
            replay = make_replaying_transport(family, self._library, pace)
        if self._recorder is None:
            return replay
        return make_recording_transport(family, self._recorder, replay, inner, network)

    def _start(self, given: dict[str, Any]) -> None:
        """Set up replay and recording for the first client; check later clients' options."""
        if self._options is not None:
            first = self._options
            changed = sorted(n for n in given if n not in first or first[n] != given[n])
            if changed:
                raise pytest.UsageError(
                    f"second client of a test with other {', '.join(changed)}, expected those of"
                    " the first: they share their recordings"
                )
            return
        options = {**self._marker.options, **given}
        self._options = {name: options[name] for name in options if name not in _PACE}
        mode = self._mode
        if mode != "none":
            # A test that shares the recordings may record them now, in another worker of xdist:
            # this test replays them then.
            self._lock.enter_context(lock_folder(self.path))
        recorded = bool(_bodies_of(self.path))
        if self._has_faults and mode != "none":
            # After a failure a client may send requests that it would not send otherwise.
            mode = "none" if recorded else "new"
        if mode == "none" or (recorded and mode != "rewrite"):
            self._library = Library(self.path, missing_ok=True, **self._options)
            self._library.how_to_record = self._explain_recording()
        if mode in ("new", "rewrite") or (mode == "once" and not recorded):
            self._recorder = self._make_recorder(mode)
        else:
            self._lock.close()

    @property
    def _has_faults(self) -> bool:
        return self._options is not None and bool(self._options.get("faults"))

    def _explain_recording(self) -> str:
        """Return instructions to record a missing recording."""
        command = self._command("new")
        if self.path.is_file():
            return f"delete {self.path}, which answers all requests, then run: {command}"
        if self._has_faults and _bodies_of(self.path):
            return (
                f"delete {self.path}, as a test with faults records only where nothing is"
                f" recorded, then run: {command}"
            )
        return command

    def _make_recorder(self, mode: Mode) -> EndingRecorder:
        folder = self.path
        if mode == "rewrite":
            folder = folder.with_name(f".{folder.name}-{uuid4().hex[:8]}")
        redact = () if self._options is None else self._options.get("redact", ())
        return EndingRecorder(
            folder, redact=redact, on_failure=self._add_failure, on_recorded=self._recorded.append
        )

    def _add_failure(self, error: RecordingError) -> None:
        self._failures.append(str(error))

    def _finish_recording(self, recorder: EndingRecorder, *, passed: bool) -> None:
        recorder.end()
        if recorder.directory == self.path:
            return
        try:
            if passed and not self._failures and self._recorded:
                _replace_recordings(self.path, recorder.directory)
            else:
                self._recorded.clear()
        except RecordingError as exc:
            self._failures.append(str(exc))
        finally:
            shutil.rmtree(recorder.directory, ignore_errors=True)

    def _find_left(self) -> list[str]:
        """Return the problem that old recordings are left, which nothing has replaced."""
        left = (
            () if self._recorded or self._failures else Library(self.path, missing_ok=True).unplayed
        )
        if not left or self._marker.allow_unplayed:
            return []
        # Other tests may share the recordings, so none are deleted.
        names = ", ".join(recording.name for recording in left)
        return [
            f"the test passed, though it recorded nothing to replace what is there: {names}\n\n"
            "to allow it: @pytest.mark.streamnorm(allow_unplayed=True)\n"
            f"if it is right that it asked for nothing: delete {self.path}"
        ]

    def _find_problems(self, library: Library) -> list[str]:
        problems: list[str] = []
        if self.unrecorded:
            messages = "\n\n".join(self.unrecorded)
            problems.append(
                f"the test passed, though it asked for what is not recorded\n\n{messages}"
            )
        if library.unplayed and not self._marker.allow_unplayed and not self._has_faults:
            names = ", ".join(recording.name for recording in library.unplayed)
            is_file = self.path.is_file()
            anew = self._explain_recording() if is_file else self._command("rewrite")
            advice = f"to record anew: {anew}"
            if not (library.replayed or is_file):  # without a request nothing is recorded anew
                advice += f"\nif it is right that it asked for nothing: delete {self.path}"
            problems.append(
                f"the test passed, though it did not ask for all that is recorded: {names}\n\n"
                "to allow it: @pytest.mark.streamnorm(allow_unplayed=True)\n"
                f"{advice}"
            )
        return problems


def open_recordings(item: pytest.Item, mode: Mode) -> RecordingFixture:
    """Return the recordings of a test.

    Raises:
        pytest.UsageError: A marker or an ini option is invalid.
    """
    marks = read_markers(item)
    path = locate_recordings(item, marks.name)
    return RecordingFixture(path, mode, marks, lambda record: write_command(item, record))


def _bodies_of(path: Path) -> list[Path]:
    """Return the body files of recordings at `path`, sorted by name.

    `path` is a folder, one body file, or nothing yet.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    return sorted(file for file in path.iterdir() if split_name(file)[1] is not None)


def _replace_recordings(folder: Path, fresh: Path) -> None:
    """Replace the recordings in a folder by new ones.

    The timing of a recording is preserved if its body is the same.

    Args:
        folder: The folder to change.
        fresh: The folder with the new recordings.

    Raises:
        RecordingError: A file cannot be read, written or deleted.
    """
    bodies = _bodies_of(fresh)
    for body in bodies:
        Recording.load(body).save(folder / body.name)
    files = {body.name for body in bodies}
    names = {split_name(folder / body.name)[0] for body in bodies}
    try:
        for old in _bodies_of(folder):
            name = split_name(old)[0]
            if old.name not in files:
                old.unlink()
            if name not in names:
                for companion in (f"{name}.json", f"{name}.events.jsonl"):
                    Path(companion).unlink(missing_ok=True)
    except OSError as exc:
        raise RecordingError(f"{folder}: {exc.strerror}") from exc


class EndingRecorder(Recorder):
    """A recorder that can end all open exchanges of its test."""

    def __init__(self, directory: Path, **options: Any) -> None:
        super().__init__(directory, **options)
        # References: a client may have dropped a response without closing it.
        self._writers: list[RecordingWriter] = []

    def start(self, request: WireRequest) -> RecordingWriter:
        """Begin to record an exchange, when its request is sent."""
        writer = super().start(request)
        self._writers.append(writer)
        return writer

    def end(self) -> None:
        """End all open recordings as `aborted`."""
        for writer in self._writers:
            writer.end("aborted")  # ignored if it has ended
