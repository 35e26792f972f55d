"""The lock of a folder of recordings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm.testing import locking
from streamnorm.testing.locking import lock_folder

TRIES = """
import fcntl, os, sys
try:
    fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks on this system")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(locking, "gettempdir", lambda: str(folder))
    return folder


def test_another_process_cannot_lock_the_folder_meanwhile(tmp_path: Path, temporary: Path) -> None:
    def try_to_lock() -> int:
        (file,) = temporary.iterdir()
        return subprocess.run([sys.executable, "-c", TRIES, str(file)], check=False).returncode

    with lock_folder(tmp_path / "missing"):
        assert try_to_lock() == 7
    assert try_to_lock() == 0


def test_process_does_not_wait_for_itself(tmp_path: Path, temporary: Path) -> None:
    with lock_folder(tmp_path), lock_folder(tmp_path / "a" / ".."):
        assert len(list(temporary.iterdir())) == 1


def test_folders_have_locks_of_their_own_that_only_their_user_can_read(
    tmp_path: Path, temporary: Path
) -> None:
    with lock_folder(tmp_path / "a"), lock_folder(tmp_path / "b"):
        files = list(temporary.iterdir())
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]


def test_link_in_place_of_the_lock_file_is_not_followed(tmp_path: Path, temporary: Path) -> None:
    with lock_folder(tmp_path):
        pass
    (file,) = temporary.iterdir()
    file.unlink()
    os.symlink(tmp_path / "target", file)
    with lock_folder(tmp_path):
        assert not (tmp_path / "target").exists()


def test_without_a_temporary_folder_nothing_is_locked(tmp_path: Path, temporary: Path) -> None:
    temporary.rmdir()
    with lock_folder(tmp_path):
        assert not temporary.exists()
