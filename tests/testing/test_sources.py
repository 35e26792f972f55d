"""A recording as a source of bytes: its chunks and its end."""

from __future__ import annotations

import math
from pathlib import Path

import anyio
import pytest

import streamnorm
from streamnorm import LocalProtocolError, Text, TruncatedStream, UpstreamError
from streamnorm.recording import RecordedResponse, Recording, RecordingError
from streamnorm.recording.format import Companion, End, Playback, RecordedRead, Step
from streamnorm.testing import ReplaySource, replay

BODY = (
    b'data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":"Gr\xc3\xbcezi"},"finish_reason":null}]}\n\n'
    b'data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
    b'"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
FIRST_EVENT = BODY.index(b"\n\n") + 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(tmp_path)


def save(folder: Path, end: End = "eof", reads: list[RecordedRead] | None = None) -> Path:
    companion = Companion(1, "openai_chat", response=RecordedResponse(end=end))
    Recording(BODY, companion, reads=reads).save(folder / "answer.sse")
    return folder / "answer.sse"


async def read(source: ReplaySource) -> list[bytes]:
    return [chunk async for chunk in source]


@pytest.mark.anyio
async def test_reads_arrive_as_they_were_recorded(tmp_path: Path) -> None:
    path = save(tmp_path, reads=[RecordedRead(5, 100), RecordedRead(1, len(BODY) - 100)])
    assert list(replay(path)) == [BODY[:100], BODY[100:]]
    assert await read(replay(str(path))) == [BODY[:100], BODY[100:]]
    assert next(replay(path, rechunk="event")) == BODY[:FIRST_EVENT]
    assert next(replay(path, rechunk=7)) == BODY[:7]


@pytest.mark.anyio
async def test_source_is_read_by_events(path: Path) -> None:
    async with streamnorm.events(replay(path, rechunk="byte")) as stream:
        async for _ in stream:
            pass
    with streamnorm.iter_events(replay(path, rechunk="hostile")) as sync_stream:
        for _ in sync_stream:
            pass
    assert stream.message == sync_stream.message == Recording.load(path).message()
    assert stream.message.blocks == (Text("Grüezi"),)


@pytest.mark.parametrize(
    ("end", "error"), [("reset", ConnectionResetError), ("timeout", TimeoutError)]
)
@pytest.mark.anyio
async def test_source_raises_as_the_recorded_connection_ended(
    tmp_path: Path, end: End, error: type[OSError]
) -> None:
    source = replay(save(tmp_path, end), rechunk="event")
    assert len([next(source) for _ in range(3)]) == 3
    with pytest.raises(error):
        next(source)
    with pytest.raises(error):
        await read(replay(save(tmp_path, end)))


def test_events_distinguish_a_recorded_break_from_an_end(path: Path) -> None:
    def cut(playback: Playback) -> Playback:
        return Playback(200, playback.headers, playback.steps[:1], "reset", playback.dialect)

    stream = streamnorm.iter_events(replay(path, faults=[cut]))
    with pytest.raises(TruncatedStream) as raised:
        list(stream)
    assert isinstance(raised.value.__cause__, ConnectionResetError)


def test_faults_apply_in_their_order(path: Path) -> None:
    def bodies(data: bytes, playback: Playback) -> Playback:
        return Playback(200, {}, (*playback.steps, Step(0, data)))

    source = replay(path, faults=[lambda p: bodies(b"1", p), lambda p: bodies(b"2", p)])
    assert b"".join(source) == BODY + b"12"


def test_recorded_error_response_raises_upstream_error(tmp_path: Path) -> None:
    response = RecordedResponse(429, {"content-type": "application/json"}, ".body.json")
    body = b'{"error":{"message":"too fast","type":"rate_limit_error","code":null}}'
    Recording(body, Companion(1, "openai_chat", response=response)).save(tmp_path / "refused")
    source = replay(tmp_path / "refused.body.json")
    assert (source.status_code, source.headers["content-type"]) == (429, "application/json")
    with pytest.raises(UpstreamError) as raised:
        list(streamnorm.iter_events(source, dialect="openai_chat"))
    assert (raised.value.status, raised.value.message) == (429, "too fast")


@pytest.mark.anyio
async def test_closing_is_seen_and_ends_the_source(path: Path) -> None:
    source, sync_source = replay(path), replay(path)
    stream = streamnorm.events(source)
    await anext(stream)
    assert not source.closed
    await stream.aclose()
    assert source.closed
    with pytest.raises(LocalProtocolError):
        await anext(source)
    sync_source.close()
    sync_source.close()
    assert sync_source.closed
    with pytest.raises(LocalProtocolError):
        next(sync_source)


@pytest.mark.anyio
async def test_speed_and_max_gap_are_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [RecordedRead(4_000, 10), RecordedRead(60_000, len(BODY) - 10)]
    path = save(tmp_path, reads=reads)
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)

    monkeypatch.setattr(anyio, "sleep", sleep)
    monkeypatch.setattr(anyio, "current_time", lambda: 0.0)
    await read(replay(path, speed=2, max_gap_s=10))
    assert waits == [2.0, 7.0]  # of 4 s and 10 s, twice as fast, counted from the start
    waits.clear()
    await read(replay(path))
    assert waits == [0.0, 0.0]


def test_stall_without_an_end_is_a_timeout(path: Path) -> None:
    def stall(playback: Playback) -> Playback:
        return Playback(200, {}, (Step(0, BODY[:9]), Step(0, BODY[9:], math.inf)))

    source = replay(path, faults=[stall])
    assert next(source) == BODY[:9]
    with pytest.raises(TimeoutError):
        next(source)


def test_bad_input_is_refused_before_the_first_read(path: Path) -> None:
    with pytest.raises(RecordingError, match=r"missing\.sse"):
        replay(path.with_name("missing.sse"))
    with pytest.raises(ValueError, match="speed"):
        replay(path, speed=-1)
    with pytest.raises(ValueError, match="rechunk"):
        replay(path, rechunk="sideways")
