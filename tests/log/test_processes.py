"""Streams of several processes that share a file: one is killed, the others read on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from support.log.streams import append, follow, ids_in, produce, wait_for_reads
from support.state.stores import emptied
from support.streams.short import STREAMS

import streamnorm
from streamnorm import Truncated, TruncatedStream
from streamnorm._registry import FRAMINGS
from streamnorm._transcoder import WriterOptions
from streamnorm.log import Log, LogError, open_log
from streamnorm.log import sqlite as sqlite_log
from streamnorm.log.records import Chunk, Reading, Record
from streamnorm.log.sqlite import SQLiteLogStore
from streamnorm.state.sqlite_file import SQLiteFile

pytestmark = pytest.mark.anyio

LEASE_S = 0.5
PACKAGE = Path(streamnorm.__file__).parents[1]
PRODUCER = """
import sys
import anyio
from streamnorm.log import open_log

READS = {reads!r}

async def source():
    for read in READS:
        yield read
    print("produced", flush=True)
    await anyio.sleep_forever()

async def main():
    async with open_log({url!r}, lease_s={lease_s}).produce("a", source()):
        pass

anyio.run(main)
"""

READER = """
import sys
import anyio
from streamnorm._registry import FRAMINGS
from streamnorm.log import LogError, open_log

async def main():
    log = open_log({url!r})
    options = {{"model": "m", "to_framing": FRAMINGS["sse"]}}
    try:
        async with await log.follow("a", to="anthropic", after={after!r}, **options) as stream:
            body = b"".join([data async for data in stream])
    except LogError as exc:
        body = f"{{exc.status}} {{exc.code}}".encode()
    sys.stdout.buffer.write(body)
    await log.aclose()

anyio.run(main)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: the processes are what differs."""
    return "asyncio"


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store that processes share."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/log.db"
    server: str = request.getfixturevalue("valkey_url")
    emptied(server)
    return server


@pytest.fixture
async def log(url: str) -> AsyncIterator[Log]:
    """Provide a log in the store."""
    async with aclosing(open_log(url)) as log:
        yield log


@contextmanager
def producer(url: str, reads: list[bytes]) -> Generator[subprocess.Popen[str]]:
    """Run a process that produces a stream without an end, and has read all that comes."""
    script = PRODUCER.format(reads=reads, url=url, lease_s=LEASE_S)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "produced\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
async def test_killed_producer_is_truncated_for_all(log: Log, url: str, dialect: str) -> None:
    with producer(url, STREAMS["openai_chat"][:2]) as process:
        await wait_for_reads(log, "a", 3)
        async with await log.follow("a", to=dialect) as stream:
            written = await anext(stream)
            process.send_signal(signal.SIGKILL)
            with anyio.fail_after(30):
                written += b"".join([data async for data in stream])
    assert isinstance(stream.outcome, Truncated)
    assert b"its producer died" in written
    assert (await log.status("a")).state == "truncated"
    # Another process, later: the same bytes, whole and from each cursor.
    async with aclosing(open_log(url)) as later:
        assert await follow(later, "a", dialect) == written
        *_, last = ids_in(written)
        assert await follow(later, "a", dialect, after=last) == b""


async def test_cancel_reaches_another_process(log: Log, url: str) -> None:
    with producer(url, STREAMS["openai_chat"][:2]) as process:
        await wait_for_reads(log, "a", 3)
        assert await log.cancel("a")
        with pytest.raises(TruncatedStream, match="the stream was cancelled"), anyio.fail_after(30):
            async with await log.follow("a") as stream:
                assert [event async for event in stream]
        assert process.wait(30) == 0
    assert (await log.status("a")).state == "cancelled"


async def test_second_process_does_not_produce(log: Log, url: str) -> None:

    async def never() -> None:
        raise AssertionError

    with producer(url, STREAMS["openai_chat"][:2]):
        await wait_for_reads(log, "a", 3)
        with pytest.raises(LogError, match="another request"):
            async with log.produce("a", never, fingerprint=b"other"):  # type: ignore[arg-type]
                raise AssertionError
        await log.cancel("a")
        async with log.produce("a", never) as run:  # type: ignore[arg-type]
            assert not run.is_new
            assert await run.wait() in ("cancelled", "truncated")


async def assert_is_woken(path: Path) -> None:
    """Assert that a reader of a file gets what another log stores."""
    here, elsewhere = (SQLiteLogStore(path, ttl_s=100) for _ in range(2))
    await here.aclaim("", "a", Record("e1", b"", 0, 0, False, None, 60.0))
    readings: list[Reading | None] = []

    async def read() -> None:
        readings.append(await elsewhere.aread("", "a", 0, 1000, 60.0))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.sleep(0.05)
            await append(here, "", "a", "e1", Chunk(1, [b"a"], [0]), 60.0)
    [reading] = readings
    assert reading is not None
    assert reading.chunks == [Chunk(1, [b"a"], [0])]
    await here.aclose()
    await elsewhere.aclose()


async def test_reader_of_a_file_sees_that_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "_MAX_POLL_S", 60.0)
    await assert_is_woken(tmp_path / "log.db")


async def test_reader_of_a_file_does_not_depend_on_seeing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQLiteFile, "version", lambda _: None)
    await assert_is_woken(tmp_path / "log.db")


def read_elsewhere(url: str, after: str, package: Path) -> bytes:
    """Return what a process gets, with the package of a folder, behind a cursor."""
    return subprocess.run(
        [sys.executable, "-c", READER.format(url=url, after=after)],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
    ).stdout


async def test_cursor_is_that_of_any_process_with_the_same_options(log: Log, url: str) -> None:
    await produce(log, "a", STREAMS["openai_chat"])
    options: WriterOptions = {"model": "m", "to_framing": FRAMINGS["sse"]}
    whole = await follow(log, "a", "anthropic", **options)
    first, *_ = ids_in(whole)
    rest = await follow(log, "a", "anthropic", after=first, **options)
    assert len(rest) < len(whole)
    found = await to_thread.run_sync(read_elsewhere, url, first, PACKAGE)
    assert found == rest


async def test_cursor_of_another_release_is_refused(log: Log, url: str, tmp_path: Path) -> None:
    """The release writes other bytes, says so by its revision, and gives the whole stream anew."""
    shutil.copytree(
        PACKAGE / "streamnorm",
        tmp_path / "streamnorm",
        ignore=shutil.ignore_patterns("__pycache__", "*.html", "*.js"),
    )
    for path, ours, theirs in (
        ("dialects/anthropic/encode.py", 'b"text_delta", b"text"', 'b"text_delta",  b"TEXT"'),
        ("log/cursors.py", "REVISION = 1\n", "REVISION = 2\n"),
    ):
        file = tmp_path / "streamnorm" / path
        text = file.read_text()
        assert text.count(ours) == 1, path
        file.write_text(text.replace(ours, theirs))
    await produce(log, "a", STREAMS["openai_chat"])
    options: WriterOptions = {"model": "m", "to_framing": FRAMINGS["sse"]}
    whole = await follow(log, "a", "anthropic", **options)
    found = await to_thread.run_sync(read_elsewhere, url, ids_in(whole)[0], tmp_path)
    assert found == b"409 other_bytes"
    anew = await to_thread.run_sync(read_elsewhere, url, "", tmp_path)
    assert b'"TEXT":"a"' in anew
    assert b"event: message_stop" in anew
    # Nor are its cursors ours.
    with pytest.raises(LogError, match="another release") as caught:
        await follow(log, "a", "anthropic", after=ids_in(anew)[0], **options)
    assert caught.value.status == 409
    assert await follow(log, "a", "anthropic", **options) == whole
