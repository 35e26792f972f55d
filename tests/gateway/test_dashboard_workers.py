"""The boards of several workers in the directory that they share."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamnorm._core.json import dumps
from streamnorm.gateway import ConfigError, dashboard_workers
from streamnorm.gateway.dashboard_board import Board, Totals
from streamnorm.gateway.dashboard_workers import SharedBoards, find_shared_directory

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_workers, "POLL_S", 0.01)


def board_of(process: str) -> Callable[[], Board]:
    return lambda: Board(process=process, started_at=1.0, totals=Totals(endings={"failed": 1}))


@asynccontextmanager
async def worker(directory: Path, number: int) -> AsyncIterator[SharedBoards]:
    """Provide the boards of a worker, as a process with a number has them."""
    shared = SharedBoards(directory, board_of(f"{number}@host"))
    shared._file = directory / f"dashboard_board_{number}.json"
    shared.start()
    try:
        yield shared
    finally:
        await shared.stop()


async def others(shared: SharedBoards, expected: list[str]) -> list[Board]:
    """Return the boards of the other workers, once they are those."""
    async with asyncio.timeout(10):
        while True:
            found = await shared.others()
            if [board.process for board in found] == expected:
                return found
            await asyncio.sleep(0.01)


async def test_worker_reads_the_boards_of_all_others(tmp_path: Path) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2) as two:
        async with worker(tmp_path, 3):
            assert (await others(one, ["2@host", "3@host"]))[0].totals.endings == {"failed": 1}
            await others(two, ["1@host", "3@host"])
        await others(one, ["2@host"])  # the third has ended


async def test_nothing_is_written_while_no_page_is_open(tmp_path: Path) -> None:
    async with worker(tmp_path, 1), worker(tmp_path, 2):
        await asyncio.sleep(0.1)
        assert os.listdir(tmp_path) == []


async def test_board_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2):
        await others(one, ["2@host"])
        file = tmp_path / "dashboard_board_2.json"
        assert os.name == "nt" or stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_board_of_a_worker_that_died_is_not_shown(tmp_path: Path) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2):
        await others(one, ["2@host"])
        dead = tmp_path / "dashboard_board_9.json"
        dead.write_bytes((tmp_path / "dashboard_board_2.json").read_bytes())
        await others(one, ["2@host", "2@host"])
        long_ago = time.time() - 60
        os.utime(dead, (long_ago, long_ago))
        await others(one, ["2@host"])


async def test_damaged_board_is_not_shown(tmp_path: Path) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2):
        for number, data in enumerate([b"", b"{}", b"\xff", b"[" * 5000, b'{"process": 1}']):
            (tmp_path / f"dashboard_board_x{number}.json").write_bytes(data)
        await others(one, ["2@host"])


async def test_boards_of_many_dead_workers_hide_no_live_one(tmp_path: Path) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2):
        await others(one, ["2@host"])
        data = (tmp_path / "dashboard_board_2.json").read_bytes()
        for number in range(300):
            dead = tmp_path / f"dashboard_board_1{number:03}.json"
            dead.write_bytes(data)
            long_ago = time.time() - (30 if number == 0 else 90)
            os.utime(dead, (long_ago, long_ago))
        assert [board.process for board in await one.others()] == ["2@host"]
        kept = "dashboard_board_1000.json"  # its worker may have paused
        assert [name for name in os.listdir(tmp_path) if len(name) == len(kept)] == [kept]


@pytest.mark.parametrize(
    "rows",
    [
        '"ended":[{}]',
        '"ended":[{"n":1}]',
        '"ended":[{"n":1,"at":"now"}]',
        '"ended":[{"n":1,"at":2.0,"stream":["","a"]}]',
        '"ended":[{"n":1,"at":2.0,"stream":null,"timeline":"a"}]',
        '"running":[{"n":1}]',
        '"running":[{"age_s":1.0}]',
    ],
)
async def test_board_of_another_version_is_not_shown(tmp_path: Path, rows: str) -> None:
    async with worker(tmp_path, 1) as one, worker(tmp_path, 2):
        await others(one, ["2@host"])
        other = f'{{"process":"x","started_at":1,"totals":{{}},{rows}}}'
        (tmp_path / "dashboard_board_3.json").write_text(other)
        assert [board.process for board in await one.others()] == ["2@host"]


async def test_board_with_rows_is_shown(tmp_path: Path) -> None:
    row = {"n": 1, "at": 2.0, "age_s": 3.0, "stream": ("", "a"), "timeline": "x-1", "model": "m"}
    board = Board(process="3@host", started_at=1.0, totals=Totals(), running=[row], ended=[row])
    async with worker(tmp_path, 1) as one:
        (tmp_path / "dashboard_board_3.json").write_bytes(dumps(board))
        (found,) = await one.others()
        assert found.running == found.ended == [{**row, "stream": ["", "a"]}]


async def test_directory_that_is_gone_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with worker(tmp_path / "gone", 1) as one:
            for _ in range(3):
                assert await one.others() == []
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["the boards of the workers cannot be shared: FileNotFoundError"]


async def test_worker_without_a_directory_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    assert find_shared_directory({}) is None
    with pytest.raises(ConfigError, match="PROMETHEUS_MULTIPROC_DIR"):
        find_shared_directory({"SERVER_SOFTWARE": "gunicorn/23.0"})


async def test_directory_is_that_of_the_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert find_shared_directory({"SERVER_SOFTWARE": "gunicorn/23.0"}) == tmp_path
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="no directory, expected one"):
        find_shared_directory({})
