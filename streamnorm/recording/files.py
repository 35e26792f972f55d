"""The files of recordings, HAR files and pages: private, and replaced once complete."""

from __future__ import annotations

import os
import stat
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


class OutputFile:
    """A file that replaces the one at its path once it is complete; only its owner can read it.

    The target of a symbolic link is replaced.  What is no regular file, such as a device or a
    FIFO, is written to.

    Args:
        path: Path of the file.

    Attributes:
        file: The file to write.

    Raises:
        OSError: It cannot be created or opened.
    """

    file: BinaryIO

    def __init__(self, path: Path) -> None:
        self._replaced: Path | None = None
        if _can_replace(path):
            self._replaced = Path(os.path.realpath(path))
            self.file = create_part(self._replaced)
        else:
            self.file = os.fdopen(os.open(path, os.O_WRONLY), "wb")

    def close(self, *, is_complete: bool) -> None:
        """Move a complete file to its path; delete an incomplete one.

        Raises:
            OSError: It cannot be written.
        """
        if self._replaced is None:
            self.file.close()
            return
        part = part_of(self._replaced)
        try:
            self.file.close()
            if is_complete:
                os.replace(part, self._replaced)
        finally:
            part.unlink(missing_ok=True)


def _can_replace(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write an `OutputFile`.

    Raises:
        OSError: It cannot be written.
    """
    out, is_complete = OutputFile(path), False
    try:
        write(out.file)
        is_complete = True
    finally:
        out.close(is_complete=is_complete)
