"""`import_file`: detects the format of a file, and saves its exchanges as recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from streamnorm._core.errors import RecordingError
from streamnorm._core.json import compact, is_object
from streamnorm._core.limits import Limits
from streamnorm.recording.format import read_bounded, split_name
from streamnorm.recording.importing.archives import read_cassette, read_har
from streamnorm.recording.importing.entries import (
    MAX_FILE_DEPTH,
    ForeignExchange,
    Unreadable,
    make_recording,
    read_json,
    read_yaml,
)
from streamnorm.recording.recorder import Recorder, slug_of
from streamnorm.recording.recording import Recording

_LIMITS = Limits()


def import_file(
    path: Path | str,
    directory: Path | str,
    *,
    on_present: Callable[[Recording], None] | None = None,
) -> list[Recording]:
    """Write the exchanges of a cassette or a HAR file as recordings.

    Cassettes of vcrpy and cassetter are read.  The format is detected from the content, YAML
    or JSON from the suffix.  Secrets are removed as when a stream is recorded.  These formats
    have no reads and no timing, so neither have the recordings; a HAR file that `export_har`
    wrote gives the exported recordings.

    Args:
        path: The file.
        directory: Directory of the recordings; new ones are numbered after those in it.  An
            exchange with the request and the response of one of those is not written again.
        on_present: Called with each recording that was not written again.

    Returns:
        The recordings, in the order of the file.

    Raises:
        RecordingError: The file cannot be read, or holds something that is no HTTP exchange;
            or a recording cannot be written.  In that case nothing is written.
        ModuleNotFoundError: PyYAML (of the extra `import`) is not installed.
    """
    path = Path(path)
    data = read_bounded(path, _LIMITS.max_companion_bytes)
    try:
        exchanges = list(_read_exchanges(data, path))
        recordings = [make_recording(exchange) for exchange in exchanges]
    except Unreadable as exc:
        raise RecordingError(f"{path}: {exc}") from exc
    _save(recordings, Path(directory), on_present or (lambda recording: None))
    return recordings


def _read_exchanges(data: bytes, path: Path) -> Iterator[ForeignExchange]:
    is_yaml = _is_yaml(data, path)
    value = (read_yaml if is_yaml else read_json)(data, max_depth=MAX_FILE_DEPTH)
    if is_object(value) and "interactions" in value:
        return read_cassette(value, _LIMITS.max_recording_bytes)
    if is_object(value) and "log" in value and not is_yaml:
        return read_har(value, path, _LIMITS)
    raise Unreadable("neither a cassette of version 1 nor a HAR file")


def _is_yaml(data: bytes, path: Path) -> bool:
    if path.suffix.lower() in (".yaml", ".yml"):
        return True
    return not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _save(
    recordings: list[Recording], directory: Path, on_present: Callable[[Recording], None]
) -> None:
    """Save all recordings that the directory lacks, or none."""
    present = _find_saved(directory, {len(recording.body) for recording in recordings})
    recorder = Recorder(directory)
    saved: list[tuple[str, Recording]] = []
    try:
        for recording in recordings:
            same = present.get(_identify(recording))
            if same:
                recording.path = same.pop(0)
                on_present(recording)
                continue
            # The recorded URL has no secrets, which a path may contain.
            url = "" if recording.request is None else recording.request.url
            name = recorder.take_name(slug_of(url))
            saved.append((name, recording))
            recording.save(name + recording.response.body)
    except RecordingError:
        for name, recording in saved:
            for suffix in (recording.response.body, ".json"):
                with suppress(OSError):
                    Path(name + suffix).unlink()
        raise


def _find_saved(directory: Path, sizes: set[int]) -> dict[tuple[str, bytes], list[Path]]:
    """Return the recordings of a directory whose bodies have one of these sizes."""
    present: dict[tuple[str, bytes], list[Path]] = {}
    with suppress(OSError):  # there is no such directory yet
        for path in sorted(directory.iterdir()):
            if split_name(path)[1] is None or path.stat().st_size not in sizes:
                continue
            with suppress(RecordingError):  # a damaged recording is no copy
                present.setdefault(_identify(Recording.load(path)), []).append(path)
    return present


def _identify(recording: Recording) -> tuple[str, bytes]:
    """Return the request and the response of a recording, which are equal in a copy."""
    return compact([recording.request, recording.response]), recording.body
