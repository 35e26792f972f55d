"""The recording proxy behind uvicorn, with requests and responses in bytes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli.servers import provider
from support.http.raw_http import RawUpstream, raw_exchange, raw_upstream, serving

from streamnorm.asgi import RecordingProxy, ReplayApp
from streamnorm.recording import Recording

BASE = b"/base/v1"
CLOSE = b"host: here\r\nconnection: close\r\n"


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    with raw_upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy_url(upstream: RawUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    app = RecordingProxy(upstream.url + BASE.decode(), tmp_path_factory.mktemp("out"))
    with provider(app) as url:
        yield url


def get(url: str, target: bytes) -> bytes:
    return raw_exchange(url, b"GET %b HTTP/1.1\r\n%b\r\n" % (target, CLOSE))


def split(response: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = response.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body


@pytest.mark.parametrize(
    ("target", "forwarded"),
    [
        (b"/models", b"/models"),
        (b"/m/x%2Fy:z?q=%20+&a[]=1", b"/m/x%2Fy:z?q=%20+&a[]=1"),
        (b"/a\\b?c=\\", b"/a%5Cb?c=%5C"),
        (b"/a#b?c=#d", b"/a%23b?c=%23d"),
        (b"/\\host/#x", b"/%5Chost/%23x"),
        (b"//host/x", b"//host/x"),
        (b"/@host:1/x", b"/@host:1/x"),
        (b'/a"<>^`{|}b', b"/a%22%3C%3E%5E%60%7B%7C%7Db"),
        (b"/100%", b"/100%"),
        # No segment of these is "." or "..".
        (b"/a..b/...", b"/a..b/..."),
        (b"/a?path=../../x", b"/a?path=../../x"),
    ],
)
def test_target_is_appended_to_the_base_path(
    target: bytes, forwarded: bytes, proxy_url: str, upstream: RawUpstream
) -> None:
    upstream.requests.clear()
    assert split(get(proxy_url, target))[0][0] == b"HTTP/1.1 200 OK"
    assert upstream.targets == [BASE + forwarded]


@pytest.mark.parametrize(
    "target",
    [
        *(b"/..", b"/../x", b"/a/../../../x", b"/a/..?b", b"/./x", b"/x/."),
        # Servers decode these before or after they remove dot segments, some of them twice.
        *(b"/%2e%2e/x", b"/.%2E/x", b"/..%2fx", b"/%2F..%2Fx", b"/%252e%252e/x", b"/..%252Fx"),
        # Some take a backslash for a slash.
        *(b"/\\..\\x", b"/..\\x", b"/..%5cx"),
        # And some let parameters follow each segment.
        *(b"/..;/x", b"/..;a=b/x", b"/..%3b/x"),
    ],
)
def test_dot_segments_are_refused(target: bytes, proxy_url: str, upstream: RawUpstream) -> None:
    upstream.requests.clear()
    (status, *_), body = split(get(proxy_url, target))
    assert status == b"HTTP/1.1 400 Bad Request"
    assert json.loads(body)["error"] == {
        "type": "invalid_request",
        "message": "path has dot segments, expected none",
    }
    assert upstream.requests == []


@pytest.mark.parametrize("target", [b"http://host/x", b"host:80", b"*"])
def test_target_that_is_no_path_is_refused(
    target: bytes, proxy_url: str, upstream: RawUpstream
) -> None:
    upstream.requests.clear()
    assert split(get(proxy_url, target))[0][0] == b"HTTP/1.1 400 Bad Request"
    assert upstream.requests == []


def test_target_that_is_too_long_once_encoded_is_refused(
    proxy_url: str, upstream: RawUpstream
) -> None:
    upstream.requests.clear()
    (status, *_), body = split(get(proxy_url, b"/" + b"\\" * 30_000))
    assert status == b"HTTP/1.1 400 Bad Request"
    assert json.loads(body)["error"]["message"] == "target is too long"
    assert upstream.requests == []


HEADERS = [
    b"x-latin-1: caf\xe9",
    b"x-utf-8: caf\xc3\xa9 \xe2\x82\xac",
    b"x-neither: \xff\xfe\xa0",
    b"x-empty: ",
    b"x-inner: a  b\tc",
    b"x-twice: 1",
    b"x-twice: 2",
]


def test_request_header_bytes_are_forwarded_unchanged(
    proxy_url: str, upstream: RawUpstream
) -> None:
    upstream.requests.clear()
    head = b"\r\n".join(HEADERS)
    raw_exchange(proxy_url, b"GET /a HTTP/1.1\r\n%b%b\r\n\r\n" % (CLOSE, head))
    ((received, _),) = upstream.requests
    assert received[0] == b"GET /base/v1/a HTTP/1.1"
    assert [line for line in received if line.startswith(b"x-")] == HEADERS


def test_response_header_bytes_are_returned_unchanged(tmp_path: Path) -> None:
    head = b"\r\n".join([b"Content-Type: text/plain; x=\xe9", *HEADERS])
    response = b"HTTP/1.1 200 OK\r\n%b\r\nconnection: close\r\n\r\nhello" % head
    with (
        raw_upstream(response) as upstream,
        provider(RecordingProxy(upstream.url, tmp_path)) as url,
    ):
        received, body = split(get(url, b"/a"))
    assert [line for line in received if line.startswith(b"x-")] == HEADERS
    assert b"content-type: text/plain; x=\xe9" in received
    assert body == b"5\r\nhello\r\n0\r\n\r\n"
    (path,) = tmp_path.glob("*.body.bin")
    assert Recording.load(path).body == b"hello"


def test_client_that_leaves_ends_the_upstream_response(tmp_path: Path) -> None:
    left = threading.Event()

    def respond(connection: socket.socket) -> None:
        connection.recv(100_000)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: a\n\n")
        if connection.recv(1) == b"":
            left.set()

    with serving(respond) as address:
        app = RecordingProxy(f"http://{address}", tmp_path)
        with provider(app) as url:
            host, _, port = url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port)), 30) as client:
                client.sendall(b"GET /v1/messages HTTP/1.1\r\nhost: here\r\n\r\n")
                received = b""
                while b": a\n\n" not in received:
                    received += client.recv(1000)
            assert left.wait(30)
    recording = Recording.load(tmp_path / "01-messages.sse")
    assert recording.body == b": a\n\n"
    assert recording.response.end == "aborted"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: here\r\n\r\n"
CHUNKED = b"2\r\n{}\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 12\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    ],
)
def test_content_length_with_transfer_encoding_is_refused(
    framing: bytes, proxy_url: str, upstream: RawUpstream
) -> None:
    upstream.requests.clear()
    head = b"POST /a HTTP/1.1\r\nhost: here\r\n%b\r\n" % framing
    received = raw_exchange(proxy_url, head + CHUNKED + SMUGGLED)
    (status, *headers), body = split(received)
    assert status == b"HTTP/1.1 400 Bad Request"
    assert b"connection: close" in headers
    # One response and the end of the connection: what follows is no request.
    assert json.loads(body)["error"] == {
        "type": "invalid_request",
        "message": "content-length and transfer-encoding, expected one of them",
    }
    assert upstream.requests == []


def test_replay_server_refuses_content_length_with_transfer_encoding(tmp_path: Path) -> None:
    Recording(b"data: 1\n\n").save(tmp_path / "a.sse")
    head = b"POST /a HTTP/1.1\r\nhost: here\r\ncontent-length: 12\r\ntransfer-encoding: chunked\r\n"
    with provider(ReplayApp(tmp_path)) as url:
        received = raw_exchange(url, head + b"\r\n" + CHUNKED + SMUGGLED)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert received.count(b"HTTP/1.1") == 1


def test_replay_server_accepts_any_header_bytes(tmp_path: Path) -> None:
    Recording(b"data: 1\n\n").save(tmp_path / "a.sse")
    head = b"\r\n".join(HEADERS)
    with provider(ReplayApp(tmp_path)) as url:
        received = raw_exchange(url, b"GET /a\\#b HTTP/1.1\r\n%b%b\r\n\r\n" % (CLOSE, head))
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
