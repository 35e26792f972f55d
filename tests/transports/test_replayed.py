"""A recording answers a client as the server did."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from support.http.families import READS, URL, FamilyUnderTest, each_family

from streamnorm._core.errors import UnrecordedRequest
from streamnorm.recording import Recording
from streamnorm.recording.format import (
    Companion,
    Playback,
    RecordedRead,
    RecordedRequest,
    RecordedResponse,
    Step,
    WireRequest,
)
from streamnorm.transports.httpx import RecordingTransport, ReplayTransport


class Script:
    """A responder with one answer for all requests, which it stores."""

    def __init__(self, playback: Playback) -> None:
        self.asked: list[WireRequest] = []
        self._playback = playback

    def respond(self, request: WireRequest, /) -> Playback:
        self.asked.append(request)
        return self._playback


def steps(*reads: bytes | Step) -> tuple[Step, ...]:
    return tuple(read if isinstance(read, Step) else Step(0.0, read) for read in reads)


def script(*reads: bytes | Step, end: Any = "eof", status: int = 200) -> Script:
    return Script(Playback(status, {"content-type": "text/event-stream"}, steps(*reads), end))


def save(directory: Path, name: str, reads: list[bytes], *, body: object = None) -> None:
    """Save a recording of a request with this body."""
    request = RecordedRequest("POST", URL, {}, body)
    companion = Companion(1, "anthropic", request=request, response=RecordedResponse())
    chunks = [RecordedRead(10, len(read)) for read in reads]
    Recording(b"".join(reads), companion, reads=chunks).save(directory / f"{name}.sse")


# Responses


@each_family
def test_reads_are_played_as_recorded(family: FamilyUnderTest, tmp_path: Path) -> None:
    save(tmp_path, "01", READS, body={"stream": True})
    transport = family.transports.ReplayTransport(tmp_path)
    with (
        family.http.Client(transport=transport) as client,
        client.stream("POST", URL, json={"stream": True}) as response,
    ):
        assert list(response.iter_bytes()) == READS
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert response.http_version == "HTTP/1.1"


@pytest.mark.anyio
@each_family
async def test_asynchronous_reads_are_played_as_recorded(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    save(tmp_path, "01", READS, body={"stream": True})
    transport = family.transports.ReplayTransport(tmp_path)
    async with (
        family.http.AsyncClient(transport=transport) as client,
        client.stream("POST", URL, json={"stream": True}) as response,
    ):
        assert [data async for data in response.aiter_bytes()] == READS
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert response.http_version == "HTTP/1.1"


@each_family
def test_status_of_an_error_is_played(family: FamilyUnderTest) -> None:
    transport = family.transports.ReplayTransport(script(b"{}", status=529))
    with family.http.Client(transport=transport) as client:
        response = client.post(URL)
    assert (response.status_code, response.content) == (529, b"{}")


@each_family
def test_rechunk_option_is_applied(family: FamilyUnderTest, tmp_path: Path) -> None:
    save(tmp_path, "01", READS, body={"stream": True})
    transport = family.transports.ReplayTransport(tmp_path / "01.sse", rechunk=20)
    body = b"".join(READS)
    assert family.fetch(transport) == [body[:20], body[20:40], body[40:]]


# Ends of the connection


@pytest.mark.anyio
@each_family
@pytest.mark.parametrize(("end", "error"), [("reset", "ReadError"), ("timeout", "ReadTimeout")])
async def test_recorded_reset_raises_the_error_of_the_package(
    family: FamilyUnderTest, end: str, error: str
) -> None:
    transport = family.transports.ReplayTransport(script(*READS[:2], end=end))
    request = family.http.Request("POST", URL, extensions={"timeout": {"read": 5.0}})

    body = transport.handle_request(request).stream
    assert [next(body), next(body)] == READS[:2]
    with pytest.raises(getattr(family.http, error)) as raised:
        next(body)
    assert raised.value.request is request
    with pytest.raises(family.http.ReadError, match="closed"):
        next(body)

    body = (await transport.handle_async_request(request)).stream
    assert [await anext(body), await anext(body)] == READS[:2]
    with pytest.raises(getattr(family.http, error)) as raised:
        await anext(body)
    assert raised.value.request is request
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(body)


@pytest.mark.anyio
@each_family
async def test_silence_counts_against_the_read_timeout(family: FamilyUnderTest) -> None:
    transport = family.transports.ReplayTransport(script(b"a", Step(0.0, b"b", stall_s=6.0)))
    patient, hasty = family.http.Timeout(None, read=7.0), family.http.Timeout(None, read=5.0)
    forever = family.http.Timeout(1.0, read=None)

    with family.http.Client(transport=transport, timeout=patient) as client:
        assert client.post(URL).content == b"ab"
    with family.http.Client(transport=transport, timeout=forever) as client:
        assert client.post(URL).content == b"ab"
    with (
        family.http.Client(transport=transport, timeout=hasty) as client,
        pytest.raises(family.http.ReadTimeout),
    ):
        client.post(URL)

    async with family.http.AsyncClient(transport=transport, timeout=patient) as client:
        assert (await client.post(URL)).content == b"ab"
    async with family.http.AsyncClient(transport=transport, timeout=hasty) as client:
        with pytest.raises(family.http.ReadTimeout):
            await client.post(URL)


@pytest.mark.anyio
@each_family
async def test_closed_body_stops(family: FamilyUnderTest) -> None:
    transport = family.transports.ReplayTransport(script(*READS))
    request = family.http.Request("POST", URL)

    body = transport.handle_request(request).stream
    next(body)
    body.close()
    with pytest.raises(family.http.ReadError, match="closed") as raised:
        next(body)
    assert raised.value.request is request

    body = (await transport.handle_async_request(request)).stream
    await anext(body)
    await body.aclose()
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(body)


@pytest.mark.anyio
@each_family
async def test_body_stops_after_a_cancelled_read(family: FamilyUnderTest) -> None:
    """A chunk is lost, as on a connection; a later one must not be mistaken for it."""
    transport = family.transports.ReplayTransport(script(*READS))
    body = (await transport.handle_async_request(family.http.Request("POST", URL))).stream
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(body)
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(body)


@pytest.mark.anyio
@each_family
async def test_body_closed_during_a_read_stops(
    family: FamilyUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = family.transports.ReplayTransport(script(Step(60.0, b"a"), b"b"), speed=1)
    body = (await transport.handle_async_request(family.http.Request("POST", URL))).stream

    async def close(_seconds: float) -> None:
        await body.aclose()

    monkeypatch.setattr("streamnorm.recording.player.anyio.sleep", close)
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(body)


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@each_family
def test_speed_option_is_applied(family: FamilyUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("streamnorm.recording.player.time", clock)
    source = script(Step(2.0, b"a"), Step(30.0, b"b"))
    for options in ({"speed": 1}, {"speed": 10}, {"speed": 2, "max_gap_s": 3}, {}):
        transport = family.transports.ReplayTransport(source, **options)
        assert family.fetch(transport, timeout=None) == [b"a", b"b"]
    assert clock.slept == [2.0, 30.0, 0.2, 3.0, 1.0, 1.5]


@each_family
def test_body_closed_by_another_thread_stops(
    family: FamilyUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("streamnorm.recording.player.time", clock)
    transport = family.transports.ReplayTransport(script(Step(2.0, b"a"), b"b"), speed=1)
    body = transport.handle_request(family.http.Request("POST", URL)).stream

    def close_meanwhile(seconds: float) -> None:
        clock.now += seconds
        body.close()

    monkeypatch.setattr(clock, "sleep", close_meanwhile)
    with pytest.raises(family.http.ReadError, match="closed"):
        next(body)


@each_family
def test_body_stops_after_an_interrupted_read(
    family: FamilyUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    clock = Clock()
    monkeypatch.setattr(clock, "sleep", interrupt)
    monkeypatch.setattr("streamnorm.recording.player.time", clock)
    transport = family.transports.ReplayTransport(script(Step(2.0, b"a"), b"b"), speed=1)
    body = transport.handle_request(family.http.Request("POST", URL)).stream
    with pytest.raises(KeyboardInterrupt):
        next(body)
    with pytest.raises(family.http.ReadError, match="closed"):
        next(body)


# Requests


@pytest.mark.anyio
@each_family
async def test_responder_gets_the_request_as_sent(family: FamilyUnderTest) -> None:
    source = script(b"{}")
    transport = family.transports.ReplayTransport(source)

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"a"'
        yield b": 1}"

    headers = {"x-api-key": "k"}
    family.fetch(transport, json=None, content=b'{"a": 1}', headers=headers)
    family.fetch(transport, json=None, content=iter([b'{"a"', b": 1}"]), headers=headers)
    await family.async_fetch(transport, json=None, content=b'{"a": 1}', headers=headers)
    await family.async_fetch(transport, json=None, content=pieces(), headers=headers)

    assert len(source.asked) == 4
    for request in source.asked:
        assert (request.method, request.url, request.body) == ("POST", URL, b'{"a": 1}')
        assert ("x-api-key", "k") in request.headers


@pytest.mark.anyio
@each_family
async def test_unrecorded_request_raises(family: FamilyUnderTest, tmp_path: Path) -> None:
    save(tmp_path, "01", READS, body={"stream": False})
    transport = family.transports.ReplayTransport(tmp_path)
    with pytest.raises(UnrecordedRequest):
        family.fetch(transport)
    with pytest.raises(UnrecordedRequest):
        await family.async_fetch(transport)
    assert [recording.path for recording in transport.unplayed] == [tmp_path / "01.sse"]


@each_family
def test_unrequested_recordings_are_unplayed(family: FamilyUnderTest, tmp_path: Path) -> None:
    for name in ("01", "02"):
        save(tmp_path, name, READS, body={"stream": True})
    transport = family.transports.ReplayTransport(tmp_path)
    family.fetch(transport)
    assert [recording.path for recording in transport.unplayed] == [tmp_path / "02.sse"]
    family.fetch(transport)
    assert transport.unplayed == ()


@each_family
def test_responder_is_used_directly(family: FamilyUnderTest) -> None:
    source = script(b"{}")
    transport = family.transports.ReplayTransport(source)
    assert transport.responder is source
    assert transport.unplayed == ()
    with pytest.raises(TypeError, match="match"):
        family.transports.ReplayTransport(source, match="exact")


@each_family
def test_invalid_option_is_refused(family: FamilyUnderTest, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="speed -1"):
        family.transports.ReplayTransport(tmp_path, speed=-1)
    with pytest.raises(ValueError, match="max_gap_s -1"):
        family.transports.ReplayTransport(tmp_path, max_gap_s=-1)
    with pytest.raises(ValueError, match="drift"):
        family.transports.ReplayTransport(tmp_path, drift="maybe")


@each_family
def test_threads_get_one_recording_each(family: FamilyUnderTest, tmp_path: Path) -> None:
    answers = [[b"data: %d\n\n" % number, b"data: [DONE]\n\n"] for number in range(8)]
    for number, reads in enumerate(answers):
        save(tmp_path, f"{number:02}", reads, body={"stream": True})
    got: list[list[bytes]] = []
    with family.http.Client(transport=family.transports.ReplayTransport(tmp_path)) as client:

        def ask() -> None:
            with client.stream("POST", URL, json={"stream": True}) as response:
                got.append(list(response.iter_raw()))

        threads = [threading.Thread(target=ask) for _ in answers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == answers


# There and back


@pytest.mark.anyio
@each_family
async def test_recorded_exchange_replays_identically(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    record = family.transports.RecordingTransport
    sync = family.fetch(record(family.answering(family.body(READS)), tmp_path))
    not_sync = await family.async_fetch(
        record(family.answering(family.async_body(READS[1:]), x_request_id="r"), tmp_path)
    )
    transport = family.transports.ReplayTransport(tmp_path)
    assert await family.async_fetch(transport) == sync == READS
    assert family.fetch(transport) == not_sync == READS[1:]
    assert transport.unplayed == ()


def test_redirect_is_followed_in_a_replay_as_it_was(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/old":
            target = str(request.url.copy_with(path="/new"))
            return httpx.Response(307, headers={"location": target})
        return httpx.Response(200, json={"it": "is here"})

    for make in (
        lambda: RecordingTransport(httpx.MockTransport(answer), tmp_path),
        lambda: ReplayTransport(tmp_path),
    ):
        with httpx.Client(transport=make(), follow_redirects=True) as client:
            assert client.post("https://a.example/old", json={}).json() == {"it": "is here"}


@each_family
def test_header_of_any_text_is_replayed(family: FamilyUnderTest, tmp_path: Path) -> None:
    body = b"data: {}\n\n"
    response = RecordedResponse(200, {"content-type": 'application/json; x="caf\xe9 \u20ac"'})
    Recording(body, Companion(1, None, response=response)).save(tmp_path / "a.sse")
    transport = family.transports.ReplayTransport(tmp_path)
    with family.http.Client(transport=transport) as client:
        answer = client.get(URL)
    assert (answer.status_code, answer.content) == (200, body)
    assert "caf\xe9 \u20ac" in answer.headers["content-type"]


def upload(transport: httpx.BaseTransport, language: str, file: bytes, key: str = "") -> str:
    headers = {"authorization": f"Bearer {key or 'unused'}"}
    with httpx.Client(transport=transport, headers=headers) as client:
        form, files = {"language": language, "note": key or "xxxxxxxx"}, {"file": ("a.wav", file)}
        return client.post("https://a.example/v1/audio", data=form, files=files).text


def hear(request: httpx.Request) -> httpx.Response:
    body = request.read()
    heard = "Hei" if b"\nnb\r" in body and b"\xff" in body else "Hello"
    return httpx.Response(200, text=heard, headers={"content-type": "text/plain"})


@pytest.mark.parametrize("file", [b"\xff\x00", b"text"], ids=["binary", "text"])
def test_upload_is_told_from_others_of_its_size(file: bytes, tmp_path: Path) -> None:
    recorder = RecordingTransport(httpx.MockTransport(hear), tmp_path)
    for language, key in (("nb", "cAn4ry-qX8zuk7-wNd51"), ("en", "")):
        upload(recorder, language, file, key)
    replayed = ReplayTransport(tmp_path)
    with pytest.raises(UnrecordedRequest, match="SHA-256" if file == b"\xff\x00" else "language"):
        upload(replayed, "de", file)
    with pytest.raises(UnrecordedRequest):
        upload(replayed, "en", b"\xfe" + file[1:])
    assert upload(replayed, "en", file) == "Hello"
    # Neither the boundary nor the key counts, which are others now.
    answers = upload(replayed, "nb", file, "another-Key-of-1-test")
    assert answers == ("Hei" if file == b"\xff\x00" else "Hello")


def test_upload_of_an_older_recording_is_told_from_others_by_its_size(tmp_path: Path) -> None:
    url = "https://a.example/v1/audio"
    for size in (5, 9):
        request = RecordedRequest("POST", url, {}, bytes=size)
        Recording(b"%d" % size, Companion(1, request=request)).save(tmp_path / f"{size}.sse")
    transport = ReplayTransport(tmp_path)
    with httpx.Client(transport=transport) as client:
        assert client.post(url, content=b"\xff" * 9).text == "9"
        with pytest.raises(UnrecordedRequest):
            client.post(url, content=iter([b"four"]))
        assert client.post(url, content=iter([b"fi", b"ves"])).text == "5"
