"""The files of recordings: private, and replaced once complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def create_file(path: Path) -> BinaryIO:
    """Create a file that only its owner can read, and open it for writing.

    Raises:
        FileExistsError: There is one of this name.
        OSError: It cannot be created.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def create_part(path: Path) -> BinaryIO:
    """Create and open the partial file for `path`.

    One that was left by a process that ended is replaced.

    Raises:
        OSError: It cannot be created.
    """
    part = part_of(path)
    part.unlink(missing_ok=True)
    return create_file(part)


def part_of(path: Path) -> Path:
    """Return the path of the partial file for `path`."""
    return path.with_name(path.name + ".part")


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file that only its owner can read, atomically; a symbolic link is replaced.

    Raises:
        OSError: It cannot be written.
    """
    part = part_of(path)
    try:
        with create_part(path) as out:
            write(out)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
