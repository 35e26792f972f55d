"""An exchange of a foreign file, and the recording made of it."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
from msgspec import structs
from support.http.content_codings import ENCODERS, raw_deflate, zstd

from streamnorm.recording import Recording
from streamnorm.recording.format import WireRequest
from streamnorm.recording.importing.entries import (
    ForeignExchange,
    Unreadable,
    check_exchange,
    decode_body,
    make_recording,
)

CHAT_URL = "https://api.deepseek.com/v1/chat/completions"


def entry(
    *,
    url: str = CHAT_URL,
    method: str = "POST",
    status: int = 200,
    kind: str = "",
    body: bytes = b"",
) -> ForeignExchange:
    headers = (("Content-Type", kind),) if kind else ()
    request = WireRequest(method, url, (("Content-Type", "application/json"),), b'{"n": 1}')
    return ForeignExchange(request, status, headers, body)


def gzipped(data: bytes) -> bytes:
    """Return what is the same at any time: workers of a test run must agree on their tests."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("kind", "body", "suffix"),
    [
        ("text/event-stream", b"data: 1\n\n", ".sse"),
        ("Text/Event-Stream; charset=utf-8", b"", ".sse"),
        ("application/json", b"{}", ".body.json"),
        ("application/problem+json", b"{}", ".body.json"),
        ("application/json", b"no json", ".body.json"),
        ("text/plain", b"data: 1\n\n", ".body.bin"),
        ("application/octet-stream", b"{}", ".body.bin"),
        ("", b"data: 1\n\n", ".sse"),
        ("", b": comment\n\n", ".sse"),
        ("", b"\xef\xbb\xbfevent: a\n\n", ".sse"),
        ("", b'{"a": 1}', ".body.json"),
        ("", b"<html>", ".body.bin"),
        ("", b"\xff", ".body.bin"),
        ("", b"", ".body.bin"),
    ],
)
def test_suffix_of_the_body_file_is_that_of_its_kind(kind: str, body: bytes, suffix: str) -> None:
    recording = make_recording(entry(kind=kind, body=body))
    assert (recording.response.body, recording.body) == (suffix, body)


def test_imported_recording_has_the_exchange_without_timing() -> None:
    recording = make_recording(entry(kind="text/event-stream", status=201))
    assert recording.request is not None
    assert (recording.request.method, recording.request.url) == ("POST", CHAT_URL)
    assert recording.request.headers == {"content-type": "application/json"}
    assert recording.request.body == {"n": 1}
    assert (recording.dialect, recording.server) == ("openai_chat", "deepseek")
    assert (recording.provenance, recording.reads) == ("recorded", None)
    assert (recording.response.status, recording.response.end) == (201, "eof")
    assert recording.response.headers == {"content-type": "text/event-stream"}


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("https://api.deepseek.com/v2/chat?key=K3aBcDeFgHiJ", "/v2/chat"),
        ("https://elsewhere.example/v2/chat", "https://elsewhere.example/v2/chat"),
        ("http://[", None),
    ],
)
def test_redirect_is_imported_as_it_is_recorded(location: str, kept: str | None) -> None:
    told = entry(status=307)
    recording = make_recording(ForeignExchange(told.request, 307, (("Location", location),), b""))
    assert recording.response.headers.get("location") == kept


def test_headers_of_the_transfer_are_left_out() -> None:
    told = entry(kind="text/event-stream")
    sent = (("Content-Encoding", "gzip"), ("content-length", "3"), ("Transfer-Encoding", "chunked"))
    recording = make_recording(ForeignExchange(told.request, 200, told.headers + sent, b""))
    assert recording.response.headers == {"content-type": "text/event-stream"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/v1/messages",
        "ftp://host/",
        "wss://host/",
        "data:text/plain,a",
        "https://",
        "http://[::1",
        "http://host:99999/",
        "http://host:x/",
    ],
)
def test_exchange_without_an_http_url_is_refused(url: str) -> None:
    with pytest.raises(Unreadable, match="no http or https URL"):
        check_exchange(entry(url=url))


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "https://h", "http://[::1]:80/x?y#z"])
def test_exchange_with_an_http_url_passes(url: str) -> None:
    assert check_exchange(entry(url=url)).request.url == url


@pytest.mark.parametrize("method", ["", "GET /", "PÖST", "PO\nST"])
def test_exchange_without_a_method_is_refused(method: str) -> None:
    with pytest.raises(Unreadable, match="no HTTP method"):
        check_exchange(entry(method=method))


@pytest.mark.parametrize("status", [-1, 0, 101, 199, 600, 10**30])
def test_status_that_no_recording_has_is_refused(status: int) -> None:
    with pytest.raises(Unreadable, match="no HTTP status"):
        check_exchange(entry(status=status))


@pytest.mark.parametrize("status", [204, 304])
def test_body_of_a_status_that_has_none_is_refused(status: int) -> None:
    """It would be a recording that does not load."""
    with pytest.raises(Unreadable, match=f"2 bytes of a status {status}, expected none"):
        check_exchange(entry(status=status, body=b"ab"))
    assert check_exchange(entry(status=status)).status == status


@pytest.mark.parametrize("status", [200, 599])
def test_status_of_a_final_response_passes(status: int) -> None:
    assert check_exchange(entry(status=status)).status == status


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzipped(b"data: 1\n\n")),
        ("X-GZIP", gzipped(b"data: 1\n\n")),
        ("deflate", zlib.compress(b"data: 1\n\n")),
        ("deflate", raw_deflate(b"data: 1\n\n")),
        ("identity, gzip", gzipped(b"data: 1\n\n")),
        ("deflate, gzip", gzipped(zlib.compress(b"data: 1\n\n"))),
        ("", b"data: 1\n\n"),
        ("identity", b"data: 1\n\n"),
        ("br", brotli.compress(b"data: 1\n\n")),
        ("zstd", zstd.compress(b"data: 1\n\n")),
        ("br, zstd", zstd.compress(brotli.compress(b"data: 1\n\n"))),
        ("gzip", gzipped(b"data:") + gzipped(b" 1\n\n")),
        ("zstd", zstd.compress(b"data:") + zstd.compress(b" 1\n\n")),
        ("zstd", b"\x50\x2a\x4d\x18\x01\0\0\0a" + zstd.compress(b"data: 1\n\n")),
    ],
)
def test_content_coding_is_decoded(coding: str, body: bytes) -> None:
    assert decode_body(body, [("Content-Encoding", coding)], 100) == b"data: 1\n\n"


def test_body_without_a_content_coding_is_unchanged() -> None:
    body = gzipped(b"data: 1\n\n")
    assert decode_body(body, [("content-type", "application/gzip")], 100) == body


def test_content_codings_of_several_headers_are_one_list() -> None:
    body = gzip.compress(zlib.compress(b"a"))
    headers = [("content-encoding", "deflate"), ("content-encoding", "gzip")]
    assert decode_body(body, headers, 100) == b"a"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br", "compress"])
@pytest.mark.parametrize(
    "body",
    [
        b"data: 1\n\n",
        b'{"a": 1}',
        b"grant_type=a",  # the beginning of a block in br
        "\xef\xbb\xbfdata: grün\r\n\r\n".encode(),
        b"",
    ],
)
def test_text_that_a_client_had_decoded_is_unchanged(coding: str, body: bytes) -> None:
    assert decode_body(body, [("content-encoding", coding)], 100) == body


MP3 = b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x64"
LARGE = len(MP3) + 9


@pytest.mark.parametrize(
    ("coding", "length"),
    [
        ("gzip", None),  # it has no magic number of gzip
        ("zstd", None),
        ("br", len(MP3) - 1),
        ("br", LARGE),
        ("deflate", LARGE),
    ],
)
def test_bytes_that_a_client_had_decoded_are_unchanged(coding: str, length: int | None) -> None:
    headers = [("content-encoding", coding)]
    if length is not None:
        headers.append(("Content-Length", str(length)))
    assert decode_body(MP3, headers, 100) == MP3


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("br", brotli.compress(b"abc" * 30)[:-2]),
        ("deflate", zlib.compress(b"abc" * 30)[:-2]),
        ("zstd", zstd.compress(b"abc" * 30)[:-2]),
    ],
)
def test_body_that_was_cut_is_refused_though_it_has_another_size(coding: str, body: bytes) -> None:
    headers = [("content-encoding", coding), ("content-length", str(len(body) + 2))]
    with pytest.raises(Unreadable, match="ends early"):
        decode_body(body, headers, 100)


def test_unknown_content_coding_is_refused() -> None:
    with pytest.raises(Unreadable, match="a body of an unknown content coding"):
        decode_body(b"\x1f\x9d\x90\x80", [("content-encoding", "compress")], 100)


@pytest.mark.parametrize(
    ("coding", "module", "package"),
    [("br", "brotli", "brotli>=1.2"), ("zstd", zstd.__name__, "backports.zstd")],
)
def test_coding_without_its_package_names_the_extra(
    coding: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = ENCODERS[coding](b"abc" * 30)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=f"^{coding} needs {package}, of the extra"):
        decode_body(body, [("content-encoding", coding)], 100)
    assert decode_body(b"{}", [("content-encoding", coding)], 100) == b"{}"


@pytest.mark.parametrize(
    ("coding", "body", "wrong"),
    [
        ("gzip", gzipped(b"abc")[:-9], "ends early"),
        ("gzip", gzipped(b"abc")[:-8] + b"\x00" * 8, "damaged"),
        ("gzip", gzipped(b"abc") + b"rest", "more behind its end"),
        ("gzip", b"\x1f\x8b\xff", "damaged|ends early"),
        ("deflate", b"\xff\xff\xff", "damaged"),
        ("deflate", zlib.compress(b"abc") * 2, "more behind its end"),
        ("br", b"\xff\xff\xff", "damaged"),
        ("zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "damaged"),
    ],
)
def test_damaged_body_is_refused(coding: str, body: bytes, wrong: str) -> None:
    # As large as it was sent: nobody has decoded it.
    headers = [("content-encoding", coding), ("content-length", str(len(body)))]
    with pytest.raises(Unreadable, match=wrong):
        decode_body(body, headers, 100)
    with pytest.raises(Unreadable, match=wrong):
        decode_body(body, headers[:1], 100)


@pytest.mark.parametrize(("coding", "compress"), [*ENCODERS.items(), ("deflate", raw_deflate)])
def test_decoded_size_is_bounded(coding: str, compress: Callable[[bytes], bytes]) -> None:
    headers = [("content-encoding", coding)]
    assert decode_body(compress(b"a" * 100), headers, 100) == b"a" * 100
    with pytest.raises(Unreadable, match="more than 100 bytes"):
        decode_body(compress(b"a" * 101), headers, 100)


def test_repr_shows_no_secret() -> None:
    request = WireRequest("GET", "https://h/?key=canary", (("authorization", "canary"),), b"canary")
    shown = repr(ForeignExchange(request, 200, (("set-cookie", "canary"),), b"canary"))
    assert "canary" not in shown


@pytest.mark.parametrize(
    "value", [" text/event-stream", "text/event-stream\t", " \ttext/event-stream "]
)
def test_white_space_around_a_header_is_no_part_of_it(value: str, tmp_path: Path) -> None:
    exchange = check_exchange(entry(kind=value, body=b"data: {}\n\n"))
    file = tmp_path / "a.sse"
    make_recording(exchange).save(file)
    assert Recording.load(file).response.headers == {"content-type": "text/event-stream"}


@pytest.mark.parametrize("value", ["text\0/plain", "a\nb: c", "a\x7f"])
def test_header_that_no_server_can_send_is_refused(value: str) -> None:
    """It would be a recording that does not load."""
    exchange = check_exchange(entry(kind=value))
    with pytest.raises(Unreadable, match="header 0 of a response is no HTTP header"):
        make_recording(exchange)
    private = structs.replace(exchange, headers=(("x-private", value),))
    assert make_recording(private).response.headers == {}  # what is not stored may be anything
