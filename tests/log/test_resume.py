"""Law: what follows a cursor is the same at any time, of every stream in every dialect."""

from __future__ import annotations

import hashlib
from itertools import cycle

import anyio
import pytest
from support.log.streams import follow, ids_in, produce
from support.streams.corpus import CorpusStream, each_provider_of, pieces, recordings

from streamnorm import StreamnormError, Transcoder
from streamnorm.log import open_log
from streamnorm.log.cursors import REVISION

DIALECTS = ("openai_chat", "anthropic", "openai_responses", "gemini", "gemini_interactions")
TARGETS = (*DIALECTS, "ui_message_stream", "ag_ui")


def parts_of(body: bytes) -> dict[str, bytes]:
    """Return what follows each cursor of a body, without the blank lines before it."""
    ids = ids_in(body)
    assert len(set(ids)) == len(ids)
    found: dict[str, bytes] = {}
    end = 0
    for id in ids:
        line = b"id: %b" % id.encode()
        end = body.index(line, end) + len(line)  # the last line of its event
        found[id] = body[end:].lstrip(b"\r\n")
    return found


async def assert_resumes(body: bytes, dialect: str, targets: tuple[str, ...], size: int) -> bool:
    """Assert that a stream can be resumed at each of its cursors; return whether it is one."""
    log = open_log("memory:", max_bytes=1 << 30)
    try:
        await produce(log, "a", pieces(body, size), dialect=dialect)
    except StreamnormError:
        return False  # no stream: there is nothing to resume
    for to in targets:
        try:
            whole = await follow(log, "a", to)
        except StreamnormError:
            continue  # nothing was written before it failed
        behind = parts_of(whole)
        assert behind or not whole, to
        # All of a short stream, some of a long one.
        for id in [*behind][:: max(1, len(behind) // 12)] + [*behind][-1:]:
            # Some servers keep a connection alive by blank lines, which belong to no event.
            assert (await follow(log, "a", to, after=id)).lstrip(b"\r\n") == behind[id], (to, id)
    return True


@pytest.mark.parametrize("dialect", DIALECTS)
def test_written_recordings_resume_at_each_cursor(dialect: str) -> None:
    async def resume_all() -> int:
        sizes = cycle((1 << 20, 300, 17))
        # All targets of each take twenty seconds; neighbours are of one kind.
        halves = cycle((TARGETS[::2], TARGETS[1::2]))
        return sum(
            [
                await assert_resumes(recording.body, dialect, next(halves), next(sizes))
                for recording in recordings(dialect)
            ]
        )

    assert anyio.run(resume_all) > (5 if dialect == "gemini_interactions" else 20)


@each_provider_of(*DIALECTS, one_in=8)
def test_real_streams_resume_at_each_cursor(streams: list[CorpusStream]) -> None:
    async def resume_all() -> None:
        for number, stream in enumerate(streams):
            target = TARGETS[number % len(TARGETS)]
            await assert_resumes(stream.body, stream.dialect, (target,), 700)

    anyio.run(resume_all)


# Of what readers get of all written recordings in all dialects, by revision.
_DIGESTS = {1: "55321ce64ab65677"}


def test_other_bytes_have_another_revision() -> None:
    """A cursor of a release that writes other bytes is not taken for one of this release."""
    found = hashlib.sha256()
    for dialect in DIALECTS:
        for recording in recordings(dialect):
            for to in TARGETS:
                transcoder = Transcoder(dialect, to)
                transcoder.set_minted_id("minted")
                for read in (*pieces(recording.body, 200), None):
                    written = transcoder.close() if read is None else transcoder.feed(read)
                    found.update(b"".join(written) + b"\0")
    assert found.hexdigest()[:16] == _DIGESTS[REVISION]
