"""Dashboard data of all workers, exchanged as files while a dashboard page is open.

The directory is that of the metrics, `PROMETHEUS_MULTIPROC_DIR`.  A worker whose page is open
modifies the file `dashboard_watched` once a second; all others then write their boards.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from anyio import to_thread
from msgspec import UNSET, Struct, UnsetType

from streamnorm._core.json import FAST_ERRORS, dumps
from streamnorm.gateway.config import ConfigError
from streamnorm.gateway.dashboard_board import Board
from streamnorm.gateway.observing import workers_directory
from streamnorm.gateway.storing import is_worker

_LOG = logging.getLogger("streamnorm.gateway")

POLL_S = 1.0
"""Seconds between two boards of a worker."""

_WATCHED = "dashboard_watched"
_BOARDS = "dashboard_board_"
# In which a worker that has written no board is taken for one that has ended, and in which a page
# that has not been seen is taken for one that is closed.
_MISSED_S = 5 * POLL_S
# After which the board of a worker that was killed is deleted: one that runs writes it again.
_FORGET_S = 60.0
_MAX_BOARD_BYTES = 16 * 1024 * 1024
_MAX_WORKERS = 256

_DECODER = msgspec.json.Decoder(Board)


class _Row(Struct):
    """Fields that the dashboard's page requires in a request's row."""

    n: int
    stream: tuple[str, str] | UnsetType = UNSET
    timeline: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.stream is UNSET) != (self.timeline is UNSET):
            raise ValueError("a stream or its name alone, expected both or none")


class _RunningRow(_Row, kw_only=True):
    age_s: float


class _EndedRow(_Row, kw_only=True):
    at: float


def find_shared_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the directory that all workers share; None for a server of one process.

    Args:
        environ: The environment of the gateway.

    Raises:
        ConfigError: The process is a worker, and there is no such directory.
    """
    directory = workers_directory()
    if not directory and is_worker(environ):
        # A page would show one of them, and each of its requests may reach another.
        raise ConfigError(
            "dashboard: in a worker process, expected PROMETHEUS_MULTIPROC_DIR to name a "
            "directory that all workers share"
        )
    return Path(directory) if directory else None


class SharedBoards:
    """Exchanges each worker's `Board` with the other workers, by files in a shared directory.

    Args:
        directory: The directory.
        board: Returns the board of this process.
    """

    def __init__(self, directory: Path, board: Callable[[], Board]) -> None:
        self._directory = directory
        self._board = board
        self._file = directory / f"{_BOARDS}{os.getpid()}.json"
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def start(self) -> None:
        """Start a task that writes this process's board while any worker has an open page."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop writing this process's board, and delete its file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    async def others(self) -> list[Board]:
        """Return the other workers' boards, and ask those workers to continue writing boards."""
        return await to_thread.run_sync(self._read_others)

    async def _run(self) -> None:
        while True:
            try:
                if await to_thread.run_sync(self._is_watched):
                    data = dumps(self._board())
                    await to_thread.run_sync(self._write, data)
            except OSError as exc:
                self._report(exc)
            await asyncio.sleep(POLL_S)

    def _is_watched(self) -> bool:
        try:
            return time.time() - (self._directory / _WATCHED).stat().st_mtime < _MISSED_S
        except FileNotFoundError:
            return False

    def _write(self, data: bytes) -> None:
        new = self._file.with_suffix(".new")
        # For its owner alone: it names models, and who asks them.
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        new.replace(self._file)

    def _read_others(self) -> list[Board]:
        boards: list[Board] = []
        try:
            (self._directory / _WATCHED).touch(mode=0o600)
            files = sorted(self._directory.glob(f"{_BOARDS}*.json"))
        except OSError as exc:
            self._report(exc)
            return []
        for file in files:
            with suppress(OSError, *FAST_ERRORS):  # another version wrote it, or its worker ended
                stat = file.stat()
                missed_s = time.time() - stat.st_mtime
                if missed_s > _FORGET_S:
                    file.unlink()
                elif not (
                    file == self._file
                    or missed_s > _MISSED_S
                    or stat.st_size > _MAX_BOARD_BYTES
                    or len(boards) == _MAX_WORKERS
                ):
                    boards.append(_decode_board(file.read_bytes()))
        return boards

    def _report(self, exc: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            _LOG.warning("the boards of the workers cannot be shared: %s", type(exc).__name__)


def _decode_board(data: bytes) -> Board:
    """Return the board of another worker, which may run another version.

    Raises:
        FAST_ERRORS: It is none, or a row lacks what the page needs.
    """
    board = _DECODER.decode(data)
    msgspec.convert(board.running, list[_RunningRow])
    msgspec.convert(board.ended, list[_EndedRow])
    return board
