"""Lock between the processes of a test run that record in one folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Wait until no other process holds the lock of a folder, and hold the lock.

    Without locks (on Windows, or where no temporary file can be created) nothing is held.

    Args:
        folder: The folder, which need not exist.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    digest = blake2b(os.fsencode(folder.resolve()), digest_size=16).hexdigest()
    # Not in the folder: it is part of a repository, and may be read-only.
    path = Path(gettempdir(), f"streamnorm-{os.getuid()}-{digest}.lock")
    with ExitStack() as stack:
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, file)
            # A process holds it, unlike that of `flock`: two tests that one event loop runs at
            # once must not wait for each other.
            fcntl.lockf(file, fcntl.LOCK_EX)
        yield
