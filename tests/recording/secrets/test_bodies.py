"""The credentials in a request's body, whatever its format and its coding."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
import zlib
from urllib.parse import quote_plus

import brotli
import pytest
from support.http.content_codings import ENCODERS, every_coding, raw_deflate, zstd

from streamnorm.recording.format import RecordedRequest, WireRequest
from streamnorm.recording.secrets import Secrets, decoding

MEBIBYTE = 1024 * 1024
URL = "https://api.example.com/v1/messages"
KEY = "cAn4ry-qX8zuk7-wNd51"
HIDDEN = "x" * len(KEY)
BODY = {"model": "m", "metadata": {"api_key": KEY}}
BODY_BYTES = json.dumps(BODY).encode()
RECORDED_BODY = {"model": "m", "metadata": {"api_key": HIDDEN}}


def record(body: bytes, kind: str = "application/json", coding: str = "") -> RecordedRequest:
    """Record a request, and check that its key is replaced in a response."""
    secrets = Secrets()
    headers = (("Content-Type", kind), ("Content-Encoding", coding))
    recorded = secrets.scrub_request(WireRequest("POST", URL, headers, body))
    assert secrets.scrub(f"wrong key {KEY}".encode()) == f"wrong key {HIDDEN}".encode()
    return recorded


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(BODY_BYTES)),
        ("X-GZIP", gzip.compress(BODY_BYTES)),
        ("", gzip.compress(BODY_BYTES)),
        ("gzip", gzip.compress(BODY_BYTES[:20]) + gzip.compress(BODY_BYTES[20:])),
        ("gzip", gzip.compress(BODY_BYTES) + b"rest"),
        ("deflate", zlib.compress(BODY_BYTES)),
        ("deflate", raw_deflate(BODY_BYTES)),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY_BYTES))),
        ("br", brotli.compress(BODY_BYTES)),
        ("zstd", zstd.compress(BODY_BYTES)),
        ("zstd", zstd.compress(BODY_BYTES[:20]) + zstd.compress(BODY_BYTES[20:])),
        ("br, zstd", zstd.compress(brotli.compress(BODY_BYTES))),
        ("identity", BODY_BYTES),
        ("gzip", BODY_BYTES),
        ("", b"\xef\xbb\xbf" + BODY_BYTES),
        ("gzip", gzip.compress(b"\xef\xbb\xbf" + BODY_BYTES)),
        ("", json.dumps(BODY).encode("utf-16")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_coded_json_is_recorded_decoded_without_its_secrets(coding: str, body: bytes) -> None:
    assert record(body, coding=coding).body == RECORDED_BODY


def test_cut_gzip_is_searched_as_far_as_it_goes() -> None:
    body = gzip.compress(BODY_BYTES + bytes(range(256)) * 50)[:-20]
    recorded = record(body, coding="gzip")
    assert recorded.bytes == len(body)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"\x1f\x8b\x08" + b"\x00" * 7 + b"\xff" * 40),
        ("deflate", b"\x78\x9c" + b"\xff" * 40),
        ("deflate", b"\xff" * 40),
        ("br", b"\xff" * 40),
        ("br", brotli.compress(BODY_BYTES)[:-3]),
        ("zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 40),
        ("compress", b"\x1f\x9d\x90\x80"),
    ],
)
def test_body_that_cannot_be_decoded_is_recorded_by_its_size(coding: str, body: bytes) -> None:
    recorded = Secrets().scrub_request(
        WireRequest("POST", URL, (("content-encoding", coding),), body)
    )
    assert recorded == RecordedRequest("POST", URL, {}, bytes=len(body))


@pytest.mark.parametrize("coding", ["deflate", "br", "zstd", "compress"])
# The latter is the begin of a block in br.
@pytest.mark.parametrize("body", [BODY_BYTES, f"grant_type=a&api_key={KEY}".encode()])
def test_credential_is_found_in_a_body_that_is_not_of_its_coding(coding: str, body: bytes) -> None:
    kind = "application/json" if body == BODY_BYTES else "application/x-www-form-urlencoded"
    assert record(body, kind, coding).bytes == len(body)


@pytest.mark.parametrize(
    ("coding", "module"),
    [("br", "brotli"), ("zstd", zstd.__name__)],
)
def test_body_is_recorded_by_its_size_if_its_decoder_is_not_installed(
    coding: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = ENCODERS[coding](BODY_BYTES)
    monkeypatch.setitem(sys.modules, module, None)
    request = WireRequest("POST", URL, (("content-encoding", coding),), body)
    assert Secrets().scrub_request(request) == RecordedRequest("POST", URL, {}, bytes=len(body))


@pytest.mark.parametrize("layers", [1, 2])
def test_gzip_bomb_is_recorded_by_its_size_in_bounded_memory(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_MAX_DECODED_BYTES", MEBIBYTE)
    body = gzip.compress(b" " * MEBIBYTE) * 256
    for _ in range(layers - 1):
        body = gzip.compress(body)
    coding = ", ".join(["gzip"] * layers)
    request = WireRequest("POST", URL, (("content-encoding", coding),), body)
    tracemalloc.start()
    try:
        recorded = Secrets().scrub_request(request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recorded.bytes == len(body)
    assert peak < 8 * MEBIBYTE


@every_coding
@pytest.mark.parametrize("excess", [0, 1])
def test_bodies_are_decoded_up_to_32_mebibytes(coding: str, excess: int) -> None:
    body = ENCODERS[coding](b"7".rjust(32 * MEBIBYTE + excess))
    recorded = Secrets().scrub_request(
        WireRequest("POST", URL, (("content-encoding", coding),), body)
    )
    expected = {"bytes": len(body)} if excess else {"body": 7}
    assert recorded == RecordedRequest("POST", URL, {}, **expected)


def test_lines_of_json_are_recorded_as_text_without_their_secrets() -> None:
    lines = [
        json.dumps({"custom_id": "1", "body": {"api_key": KEY, "password": "abc"}}),
        "",
        '{"authorization":{"value":"' + KEY + '"},"n":1}',
        '{"client_secret": "é\\"b", "broken": ',
    ]
    recorded = record("\n".join(lines).encode(), "application/x-ndjson")
    assert recorded.text == "\n".join(
        [
            lines[0].replace(KEY, HIDDEN).replace("abc", "xxx"),
            "",
            lines[2].replace(KEY, HIDDEN),
            '{"client_secret": "xxxxx", "broken": ',
        ]
    )


def test_json_that_nests_too_deep_is_recorded_as_text_without_its_secrets() -> None:
    body = '{"api_key": "abc", "x": ' + "[" * 300 + f'"api_key is {KEY}", {{"token": 1}}'
    recorded = Secrets([KEY]).scrub_request(WireRequest("POST", URL, (), body.encode()))
    assert recorded.text == body.replace("abc", "xxx").replace(KEY, HIDDEN)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded; charset=utf-8", ""])
def test_form_is_recorded_without_its_secrets(kind: str) -> None:
    body = f"grant=a&client_secret={quote_plus(KEY)}&password=a%62c&password=&scope=all+of+it"
    recorded = record(body.encode(), kind)
    assert (
        recorded.text == f"grant=a&client_secret={HIDDEN}&password=xxxxx&password=&scope=all+of+it"
    )


def part(disposition: str, content: str, *headers: str) -> str:
    lines = [f"Content-Disposition: form-data; {disposition}", *headers, "", content]
    return "--bOuNd\r\n" + "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize(
    "kind", ['multipart/form-data; boundary="bOuNd"', "Multipart/Mixed;Boundary=bOuNd"]
)
def test_parts_of_multipart_are_recorded_without_their_secrets(kind: str) -> None:
    body = "".join(
        [
            part('name="model"', "whisper"),
            part('name="api_key"', KEY),
            part("name=password", "abc"),
            part('name="config"', json.dumps({"secret": "é"}), "Content-Type: application/json"),
            part('name="x"', "y", f"Authorization: Bearer {KEY}"),
        ]
    )
    recorded = record(f"{body}--bOuNd--\r\n".encode(), kind)
    hidden = body.replace(KEY, HIDDEN).replace("abc", "xxx").replace(r"\u00e9", "xxxxxx")
    assert recorded.text == f"{hidden}--bOuNd--\r\n"


def test_multipart_with_a_file_is_recorded_by_its_size() -> None:
    body = part('name="file"; filename="a.bin"', "\0{}\0").encode().replace(b"{}", b"\xff\xfe")
    body += part('name="api_key"', KEY).encode() + b"--bOuNd--\r\n"
    recorded = record(body, "multipart/form-data; boundary=bOuNd")
    assert (recorded.bytes, recorded.text) == (len(body), None)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", "--\r\n\r\nx"),
        ("multipart/form-data; boundary=", "--\r\n\r\nx"),
        ("multipart/form-data; boundary=b", "no part"),
        ("multipart/form-data; boundary=b", "--b"),
        ("multipart/form-data; boundary=b", "--b\r\nno end of headers"),
        ("multipart/form-data; boundary=b", "--b\r\n\r\n--b--"),
        (
            "multipart/mixed; boundary=b",
            '--b\r\nContent-Type: a; name="password"\r\n\r\nx\r\n--b--',
        ),
        ("multipart/mixed; boundary=b", "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--"),
        ("text/plain", "password: abc, and a=b&c"),
        ("application/x-ndjson", '{"a":1}\n{"b":2}\n'),
    ],
)
def test_text_without_secrets_stays(kind: str, body: str) -> None:
    headers = (("content-type", kind),)
    secrets = Secrets()
    assert secrets.scrub_request(WireRequest("POST", URL, headers, body.encode())).text == body
    assert secrets.count == 0


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("multipart/form-data; boundary=b", b"--b\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nA: b\r\n"),
        ("application/x-www-form-urlencoded", b"password="),
        ("application/x-www-form-urlencoded", b"password=a&"),
        ("application/x-ndjson", b'{"a":\n'),
        ("text/plain", b'"'),
        ("text/plain", b'\\"'),
        ("text/plain", b'"api_key'),
        ("text/plain", b'"api_key":"\\'),
        ("text/plain", b'"password" '),
        ("text/plain", b"sk-ant-"),
    ],
)
def test_time_is_linear_in_the_size_of_the_body(kind: str, unit: bytes) -> None:
    """A quadratic search would take minutes."""
    body = unit * (MEBIBYTE // 2 // len(unit))
    recorded = Secrets().scrub_request(WireRequest("POST", URL, (("content-type", kind),), body))
    assert recorded.text is not None
    assert len(recorded.text) == len(body)
