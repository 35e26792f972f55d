"""The dashboard's page of one stream in the log; `inspect --html` writes the same page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import TypeAlias

import anyio
from anyio import to_thread
from msgspec import structs

from streamnorm._core.errors import LogError, StoreError
from streamnorm._registry import framing_of, stated_framing
from streamnorm._upstream.requests import RequestRefused
from streamnorm.inspect import Survey
from streamnorm.inspect.html_page import PageWriter
from streamnorm.inspect.report import Read
from streamnorm.log import Log, LogReader
from streamnorm.log.records import Key, read_options
from streamnorm.recording.secrets import Secrets, redact_struct

_Read: TypeAlias = tuple[bytes, int]  # with the milliseconds since the one before
_End: TypeAlias = Callable[[Survey], Read]

# What arrives within it is on the page of a running stream, behind what was stored before.
_WAIT_S = 0.5


class Timelines:
    """Writes the HTML pages of streams in the log.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._one_by_one = asyncio.Lock()  # a page takes several times the memory of its stream

    async def page_of(self, key: Key) -> bytes:
        """Return the HTML page of a stream, up to the bytes that the log has so far.

        Each letter of a secret in it is an "x".

        Args:
            key: Scope and id of the stream.

        Raises:
            RequestRefused: The log has no such stream, or does not answer.
        """
        async with self._one_by_one:
            try:
                with anyio.fail_after(_WAIT_S):
                    reader = await self._log.open_reader(key[1], scope=key[0])
                end, reads = await _read_all(reader, await self._count_stored(key))
            except StoreError as exc:
                raise RequestRefused("a log that does not answer, expected a stream", 503) from exc
            except LogError as exc:
                raise RequestRefused(
                    "a stream that has expired, expected one of the log", 404
                ) from exc
            except Exception as exc:
                raise RequestRefused("a stream that has not begun, expected one", 404) from exc
            return await to_thread.run_sync(partial(_write_page, reader, reads, end, key[1]))

    async def _count_stored(self, key: Key) -> int:
        """Return the number of a stream's chunks in the store; 0 if the store does not answer."""
        # A producer in this process has the reads that the store lacks.
        with suppress(StoreError), anyio.move_on_after(_WAIT_S):
            return (await self._log.status(key[1], scope=key[0])).reads
        return 0


async def _read_all(reader: LogReader, stored: int) -> tuple[_End | None, list[_Read]]:
    """Return how a stream ended (None if the stream is running), and the chunks of the stream.

    Args:
        reader: The reader of the stream.
        stored: Number of the reads to wait for, however many they are.

    Raises:
        StoreError: The log does not answer.
        LogError: The stream has expired meanwhile.
    """
    reads: list[_Read] = []
    deadline = anyio.current_time() + _WAIT_S
    while True:
        # One for all later reads: a stream that never pauses would be read to its end.
        if reader.position < stored:
            deadline = anyio.current_time() + _WAIT_S
        try:
            with anyio.CancelScope(deadline=deadline) as waiting:
                data = await reader.read()
                reads.append((data, reader.gap_ms))
        except StopAsyncIteration:
            return Survey.close, reads
        except Exception as exc:
            if reader.has_lost_stream:
                raise
            return partial(_abort, exc), reads
        if waiting.cancelled_caught:
            return None, reads


def _abort(cause: Exception, survey: Survey) -> Read:
    return survey.abort(cause)


def _write_page(reader: LogReader, reads: list[_Read], end: _End | None, name: str) -> bytes:
    origin = reader.origin
    framing = read_options(origin).get("framing")
    framing = framing or stated_framing(origin.content_type, origin.headers)
    survey = Survey(
        origin.dialect,
        server=origin.server,
        think_tags=origin.think_tags,
        timed=True,
        framing=framing_of(origin.dialect, framing),
    )
    page = BytesIO()
    writer = PageWriter(page.write, name, scrub=Secrets().scrub_text)
    for data, gap_ms in reads:
        writer.add(survey.feed(data, gap_ms))
    if end is not None:
        writer.add(end(survey))
    state = "running" if reader.ending is None else reader.ending.state
    writer.finish(redact_struct(structs.replace(survey.report(), state=state)))
    return page.getvalue()
