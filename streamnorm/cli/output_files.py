"""The files that options of commands name: private, and replaced once complete."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from streamnorm.cli import console
from streamnorm.recording.files import create_part, part_of


class OutputFile:
    """A file that replaces the one at its path once it is complete; only its owner can read it.

    The target of a symbolic link is replaced.  What is no regular file, such as a device or a
    FIFO, is written to, and so is standard output, also where the shell has redirected it to a
    file.

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
        if console.is_stdout(path):
            # Opened by its name, a file would be written from its start; other commands write
            # to it before and after.
            self.file = os.fdopen(os.dup(1), "wb")
        elif _can_replace(path):
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


def write_output(path: Path, data: bytes) -> None:
    """Write an `OutputFile`.

    Raises:
        UsageError: It cannot be written.
    """
    with console.convert_os_errors(path):
        out, is_complete = OutputFile(path), False
        try:
            out.file.write(data)
            is_complete = True
        finally:
            out.close(is_complete=is_complete)


def _can_replace(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True
