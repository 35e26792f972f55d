"""Folders of recordings: what is complete in one, and how one takes another's place."""

from __future__ import annotations

from pathlib import Path

from streamnorm._core.errors import RecordingError
from streamnorm.recording.format import split_name
from streamnorm.recording.recording import Recording

__all__ = ["bodies_of", "replace_recordings"]


def bodies_of(path: Path) -> list[Path]:
    """Return the files with the bodies of a folder's recordings, by name.

    Of a file it is the file itself, of what is not there nothing.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    return sorted(file for file in path.iterdir() if split_name(file)[1] is not None)


def replace_recordings(folder: Path, fresh: Path) -> None:
    """Let recordings take the place of those in a folder.

    Timing is kept where the bytes did not change.

    Args:
        folder: Whose recordings go.
        fresh: Where those are that come.

    Raises:
        RecordingError: A file cannot be read, written or deleted.
    """
    bodies = bodies_of(fresh)
    for body in bodies:
        Recording.load(body).save(folder / body.name)
    files = {body.name for body in bodies}
    names = {split_name(folder / body.name)[0] for body in bodies}
    try:
        for old in bodies_of(folder):
            name = split_name(old)[0]
            if old.name not in files:
                old.unlink()
            if name not in names:
                for companion in (f"{name}.json", f"{name}.events.jsonl"):
                    Path(companion).unlink(missing_ok=True)
    except OSError as exc:
        raise RecordingError(f"{folder}: {exc.strerror}") from exc
