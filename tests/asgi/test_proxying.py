"""`RecordingProxy`: the upstream request, the response, and the closing of both."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import anyio
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.http.asgi_caller import Caller, Upstream
from support.http.asgi_client import CHUNKS, UNANSWERED, Message
from support.http.byte_source import AsyncBytes
from support.http.raw_http import raw_upstream

from streamnorm.asgi import RecordingProxy
from streamnorm.recording import Recording
from streamnorm.transports.httpx import RecordingTransport

pytestmark = pytest.mark.anyio

KEY = "sk-secret-of-the-client"


def proxy(
    upstream: httpx.AsyncBaseTransport, url: str = "https://api.provider.example", path: Any = "out"
) -> RecordingProxy:
    return RecordingProxy(url, path, client=httpx.AsyncClient(transport=upstream))


def recording_proxy(upstream: Upstream, directory: Path) -> RecordingProxy:
    return proxy(RecordingTransport(upstream, directory), path=directory)


def files_of(directory: Path) -> list[bytes]:
    files = [path.read_bytes() for path in directory.iterdir()]
    assert files
    return files


async def passed_on(caller: Caller, url: str = "https://api.provider.example") -> httpx.Request:
    upstream = Upstream(AsyncBytes([]))
    await caller.call(proxy(upstream, url))
    (request,) = upstream.requests
    return request


@pytest.mark.parametrize(
    ("upstream", "target", "url"),
    [
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/", "/v1/messages?b=1&b", "https://a.example/v1/messages?b=1&b"),
        ("http://a.example:81/api/v1", "/chat", "http://a.example:81/api/v1/chat"),
        ("http://a.example/api/v1/", "/", "http://a.example/api/v1/"),
        ("https://a.example", "/m/x%2Fy:z?q=%20+", "https://a.example/m/x%2Fy:z?q=%20+"),
        ("https://a.example", "//b.example/", "https://a.example//b.example/"),
    ],
)
async def test_path_and_query_are_appended_to_the_url(upstream: str, target: str, url: str) -> None:
    assert str((await passed_on(Caller(target), upstream)).url) == url


_TARGET_PARTS = [b"/", b"a", b".", b"..", b"%2e", b"%2F", b"%", b"\\", b"?", b"#", b";", b"@", b":"]


@given(
    target=st.lists(st.sampled_from(_TARGET_PARTS) | st.binary(max_size=3))
    .map(b"/".join)
    .map(b"/".__add__)
)
@example(b"/v1/\xc3\xa9\xff?\xe9#")
@example(b"/?/?")
@example(b"/?")
def test_no_target_leaves_the_path_of_the_upstream(target: bytes) -> None:
    async def request() -> None:
        caller, upstream = Caller(raw_path=path, query_string=query), Upstream(AsyncBytes([]))
        await caller.call(proxy(upstream, "http://a.example:81/base"))
        if caller.status == 400:
            assert caller.error["message"] == "path has dot segments, expected none"
            return
        (sent,) = upstream.requests
        assert sent.headers["host"] == sent.url.netloc.decode() == "a.example:81"
        assert sent.url.raw_path.startswith(b"/base/")
        assert unquote_to_bytes(sent.url.raw_path[5:]) == unquote_to_bytes(expected)

    path, _, query = target.partition(b"?")
    expected = path + b"?" + query if query else path
    anyio.run(request)


async def test_method_body_and_credentials_are_forwarded_unchanged() -> None:
    headers = [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY), ("cookie", "a=1; b=2")]
    request = await passed_on(Caller(method="PATCH", headers=headers, body=[b'{"a"', b":1}"]))
    assert request.method == "PATCH"
    assert request.content == b'{"a":1}'
    for name, value in headers:
        assert request.headers[name] == value


async def test_forwarded_request_has_only_the_headers_of_the_connection_added() -> None:
    given = [
        ("host", "127.0.0.1:1"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("content-length", "99"),
        ("accept-encoding", "gzip, br"),
        ("expect", "100-continue"),
        ("x-end", "2"),
    ]
    request = await passed_on(Caller(headers=given, body=[b"{}"]))
    assert dict(request.headers) == {
        "host": "api.provider.example",
        "x-end": "2",
        "accept-encoding": "identity",
        "content-length": "2",
    }


async def test_get_has_no_body() -> None:
    request = await passed_on(Caller(method="GET"))
    assert "content-length" not in request.headers
    assert "transfer-encoding" not in request.headers


async def test_only_connect_timeout_is_set() -> None:
    request = await passed_on(Caller())
    timeout = request.extensions["timeout"]
    assert timeout == {"connect": 30, "read": None, "write": None, "pool": None}


async def test_status_headers_and_reads_are_returned_unchanged() -> None:
    headers = [
        ("content-type", "text/event-stream"),
        ("x-request-id", "7"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
    ]
    caller, source = Caller(), AsyncBytes(CHUNKS)
    await caller.call(proxy(Upstream(source, 203, headers)))
    assert caller.status == 203
    assert caller.headers == {"content-type": "text/event-stream", "x-request-id": "7"}
    assert caller.bodies == [*CHUNKS, b""]
    assert caller.finished
    assert source.closed == 1


async def test_repeated_response_headers_are_returned() -> None:
    headers = [("set-cookie", "a=1"), ("set-cookie", "b=2")]
    caller = Caller()
    await caller.call(proxy(Upstream(AsyncBytes([]), headers=headers)))
    assert caller.messages[0]["headers"] == [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]


async def test_each_read_is_sent_before_the_next() -> None:
    source, reads = AsyncBytes(CHUNKS), []

    async def note(_: Message) -> None:
        reads.append(source.reads)

    await Caller(on_send=note).call(proxy(Upstream(source)))
    assert reads == [0, 1, 2, 3, 4, 4]


async def test_compressed_response_is_passed_unchanged() -> None:
    caller = Caller()
    headers = [("content-encoding", "gzip")]
    await caller.call(proxy(Upstream(AsyncBytes([b"\x1f\x8b", b"?"]), headers=headers)))
    assert caller.headers == {"content-encoding": "gzip"}
    assert caller.bodies == [b"\x1f\x8b", b"?", b""]


async def test_redirect_is_passed_to_the_client() -> None:
    headers = [("location", "https://b.example/")]
    caller, upstream = Caller(), Upstream(AsyncBytes([]), 307, headers)
    await caller.call(proxy(upstream))
    assert caller.status == 307
    assert caller.headers == {"location": "https://b.example/"}
    assert len(upstream.requests) == 1


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request() -> None:
    app = proxy(upstream := Upstream(AsyncBytes([]), headers=[("set-cookie", "a=1")]))
    await Caller().call(app)
    upstream._source = AsyncBytes([])
    await Caller().call(app)
    assert "cookie" not in upstream.requests[1].headers


# Failures


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpx.ConnectError(KEY), "connection error: the provider could not be reached"),
        (httpx.ConnectTimeout(KEY), "connection timed out before the first event"),
        (httpx.ReadTimeout(KEY), "connection timed out before the first event"),
        (httpx.ReadError(KEY), "connection lost before the first event"),
        (httpx.RemoteProtocolError(KEY), "connection lost before the first event"),
    ],
)
async def test_failure_is_a_502_without_data_of_the_request(
    error: httpx.HTTPError, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(f"/?key={KEY}", headers=[("authorization", KEY)])
    with caplog.at_level(logging.WARNING, "streamnorm"):
        await caller.call(proxy(Upstream(AsyncBytes([]), error=error)))
    assert caller.status == 502
    assert caller.error == {"type": "upstream_failed", "message": reason}
    (record,) = caplog.records
    assert record.getMessage() == f"no answer from upstream: {reason}"
    assert KEY not in caplog.text


@pytest.mark.parametrize("status", [101, 199, 600, 999])
async def test_status_that_no_server_can_send_is_a_502(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 9110, section 15: a response has a status from 100 to 599, and one of 1xx is interim."""
    caller, source = Caller(), AsyncBytes(CHUNKS)
    with caplog.at_level(logging.WARNING, "streamnorm"):
        await caller.call(proxy(Upstream(source, status)))
    reason = f"status {status} of the provider, expected 200 to 599"
    assert caller.status == 502
    assert caller.error == {"type": "upstream_failed", "message": reason}
    assert source.closed == 1
    (record,) = caplog.records
    assert record.getMessage() == f"no answer from upstream: {reason}"


@pytest.mark.parametrize("status", [200, 599])
async def test_status_that_a_server_can_send_is_returned(status: int) -> None:
    caller = Caller()
    await caller.call(proxy(Upstream(AsyncBytes(CHUNKS), status)))
    assert caller.status == status
    assert caller.bodies == [*CHUNKS, b""]


@pytest.mark.parametrize("error", [httpx.ReadError("cut"), httpx.RemoteProtocolError("cut")])
async def test_broken_upstream_response_is_left_incomplete(error: Exception) -> None:
    caller, source = Caller(), AsyncBytes(CHUNKS[:2], error=error)
    await caller.call(proxy(Upstream(source)))
    assert caller.bodies == CHUNKS[:2]
    assert not caller.finished
    assert source.closed == 1


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_disconnect_closes_the_upstream_response(before: int) -> None:
    caller = Caller()
    upstream = Upstream(source := AsyncBytes(CHUNKS[:before], stays_open=True))

    async def leave() -> None:
        await source.silent.wait()
        caller.gone.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await caller.call(proxy(upstream))
    assert caller.bodies == CHUNKS[:before]
    assert upstream.let_go == source.closed == 1


async def test_disconnect_before_the_response_cancels_the_request() -> None:
    stopped = anyio.Event()

    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            caller.gone.set()
            try:
                await anyio.sleep_forever()
            finally:
                stopped.set()
            raise AssertionError

    caller = Caller()
    await caller.call(proxy(Silent()))
    assert stopped.is_set()
    assert caller.messages == UNANSWERED


@pytest.mark.parametrize(
    "url",
    [
        "api.provider.example",
        "ftp://a.example",
        "https://",
        "https:///v1",
        "/v1",
        "",
        "http://a.example:port",
        "https://a.example?key=1",
        "https://a.example/#a",
    ],
)
def test_upstream_that_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="upstream"):
        RecordingProxy(url, "out")


# Recordings


async def test_exchange_is_recorded_read_by_read_and_without_credentials(tmp_path: Path) -> None:
    headers = [("authorization", f"Bearer {KEY}"), ("content-type", "application/json")]
    caller = Caller("/v1/chat/completions", headers=headers, body=[b'{"model":"m"}'])
    await caller.call(recording_proxy(Upstream(AsyncBytes(CHUNKS)), tmp_path))
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    assert recording.chunks() == CHUNKS
    assert recording.response.end == "eof"
    assert recording.request is not None
    assert recording.request.url == "https://api.provider.example/v1/chat/completions"
    assert recording.request.body == {"model": "m"}
    assert all(KEY.encode() not in data for data in files_of(tmp_path))


@pytest.mark.parametrize("request_bodies", [True, False])
async def test_request_bodies_are_written_unless_switched_off(
    request_bodies: bool, tmp_path: Path
) -> None:
    with raw_upstream() as upstream:
        app = RecordingProxy(upstream.url, tmp_path, request_bodies=request_bodies)
        caller = Caller("/v1/chat/completions", body=[b'{"prompt":"private"}'])
        await caller.call(app)
        await app.aclose()
    assert upstream.requests[0][1] == b'{"prompt":"private"}'
    assert any(b"private" in data for data in files_of(tmp_path)) is request_bodies


async def test_disconnect_is_recorded_as_aborted(tmp_path: Path) -> None:
    caller, source = Caller("/v1/chat/completions"), AsyncBytes(CHUNKS[:2], stays_open=True)

    async def leave() -> None:
        await source.silent.wait()
        caller.gone.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await caller.call(recording_proxy(Upstream(source), tmp_path))
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    assert recording.chunks() == CHUNKS[:2]
    assert recording.response.end == "aborted"


async def test_broken_response_is_recorded_as_reset(tmp_path: Path) -> None:
    source = AsyncBytes(CHUNKS[:2], error=httpx.ReadError("cut"))
    await Caller("/v1/chat/completions").call(recording_proxy(Upstream(source), tmp_path))
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    assert recording.chunks() == CHUNKS[:2]
    assert recording.response.end == "reset"


async def test_client_of_the_caller_is_not_closed() -> None:
    client = httpx.AsyncClient(transport=Upstream(AsyncBytes([])))
    await RecordingProxy("https://a.example", "out", client=client).aclose()
    assert not client.is_closed
