"""The secrets that stand in files."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from support.bedrock.chunks import chunk, exception
from support.recording.secret_shapes import SHAPED

from streamnorm.eventstream import encode_message
from streamnorm.recording import RecordedRequest, Recording, scanning
from streamnorm.recording.format import Companion, WireRequest
from streamnorm.recording.recorder import Recorder
from streamnorm.recording.scanning import Finding, find_files, scan_file

KEY = "cAn4ry-qX8zuk7-wNd51"


def write(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found(path: Path, content: str | bytes | dict[str, Any]) -> list[tuple[str, str]]:
    """Write a file; return the places and kinds of the secrets in it."""
    findings = list(scan_file(write(path, content)))
    assert all(finding.file == path for finding in findings)
    return [(finding.place, finding.kind) for finding in findings]


KINDS = {
    "openai": "sk- key",
    "google": "Google API key",
    "aws": "AWS access key",
    "jwt": "JSON Web Token",
    "github": "ghp_ key",
    "slack": "Slack token",
    "gitlab": "glpat- key",
}


@pytest.mark.parametrize("name", KINDS)
def test_token_is_found_with_its_line_and_column(tmp_path: Path, name: str) -> None:
    body = f'event: a\ndata: {{"text": "é {SHAPED[name]}"}}\n\n'
    assert found(tmp_path / "a.sse", body) == [("line 2, column 20", KINDS[name])]


def test_all_secrets_of_a_file_are_found_in_order(tmp_path: Path) -> None:
    body = f"{SHAPED['groq']} {SHAPED['xai']}\r\n\n{{'a': 'Bearer {KEY}'}}\n{SHAPED['groq']}"
    assert found(tmp_path / "a.txt", body) == [
        ("line 1, column 1", "gsk_ key"),
        (f"line 1, column {len(SHAPED['groq']) + 2}", "xai- key"),
        ("line 3, column 15", "bearer token"),
        ("line 4, column 1", "gsk_ key"),
    ]


def test_private_key_is_one_finding(tmp_path: Path) -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    body = f"-----BEGIN PRIVATE KEY-----\n{line * 20}-----END PRIVATE KEY-----\n"
    assert found(tmp_path / "a.pem", body * 2) == [
        ("line 2, column 1", "private key"),
        ("line 24, column 1", "private key"),
    ]


def test_key_in_a_secret_field_is_found_once(tmp_path: Path) -> None:
    body = f'{{"n": 1,\n "api_key": "{SHAPED["openai"]}"}}'
    assert found(tmp_path / "a.sse", "data: " + body) == [("line 2, column 14", "sk- key")]
    assert found(tmp_path / "a.json", body) == [("line 2, column 14", "sk- key")]


@pytest.mark.parametrize("size", [1, 100])
def test_places_are_the_same_however_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    pieces = [f"{n:0{n % 97}}\n" * (n % 3) + f"{SHAPED['xai']} " for n in range(300)]
    path = write(tmp_path / "a.sse", "".join(pieces))
    expected = list(scan_file(path))
    assert len(expected) == 300
    monkeypatch.setattr(scanning, "_READ_BYTES", size)
    assert list(scan_file(path)) == expected


def test_known_position_without_a_shape_is_found_in_json(tmp_path: Path) -> None:
    request = RecordedRequest(
        "POST",
        f"https://me:{KEY}@api.example/v1/chat?key=cAn4ry77&alt=sse",
        {"x-api-key": "cAn4ry-header", "content-type": "application/json"},
        {"tools": [{"mcp": {"credentials": {"value": "cAn4ry-field"}}}]},
    )
    Recording(b"data: {}\n\n", Companion(1, request=request)).save(tmp_path / "01-a.sse")
    assert [(f.place, f.kind) for f in scan_file(tmp_path / "01-a.json")] == [
        ("request.url", "credential in a URL"),
        ("request.headers.x-api-key", "credential in a header"),
        ("request.body.tools[0].mcp.credentials", "secret field"),
    ]
    assert list(scan_file(tmp_path / "01-a.sse")) == []


def test_position_in_a_har_is_found(tmp_path: Path) -> None:
    request = {
        "method": "POST",
        "url": "https://api.example/v1",
        "headers": [{"name": "accept", "value": "*/*"}, {"name": "Api-Key", "value": KEY}],
        "cookies": [{"name": "sid", "value": "cAn4ry-cookie"}],
        "queryString": [{"name": "page", "value": "value-7"}, {"name": "sig", "value": "cAn4ry"}],
        "postData": {"mimeType": "application/json", "text": '{"auth_token": "cAn4ry-text"}'},
    }
    har = {"log": {"entries": [{"request": request}]}}
    assert found(tmp_path / "a.har", har) == [
        ("log.entries[0].request.headers[1]", "credential in a header"),
        ("log.entries[0].request.cookies[0]", "cookie"),
        ("log.entries[0].request.queryString[1]", "credential in a URL"),
        ("log.entries[0].request.postData.text", "secret field"),
    ]


def test_key_in_a_pseudo_header_is_found_and_the_host_is_none(tmp_path: Path) -> None:
    headers = [
        {"name": ":authority", "value": "api.example.com"},
        {"name": ":path", "value": f"/v1/models?page=value-7&key={KEY}"},
    ]
    har = {"log": {"entries": [{"request": {"method": "GET", "headers": headers}}]}}
    assert found(tmp_path / "a.har", har) == [
        ("log.entries[0].request.headers[1]", "credential in a header"),
    ]


CASSETTE = f"""\
interactions:
- request:
    method: POST
    uri: https://api.example/v1/messages?api_key=cAn4ry77
    headers:
      Accept: ['*/*']
      x-api-key: [{KEY}]
    body: '{{"a": [{{"secretKey": "cAn4ry-field"}}]}}'
  response: {{status: {{code: 200}}, headers: {{}}, body: {{string: ok}}}}
version: 1
"""


def test_position_in_a_yaml_cassette_is_found(tmp_path: Path) -> None:
    assert found(tmp_path / "a.yaml", CASSETTE) == [
        ("interactions[0].request.uri", "credential in a URL"),
        ("interactions[0].request.headers.x-api-key", "credential in a header"),
        ("interactions[0].request.body", "secret field"),
    ]


@pytest.mark.parametrize("content", [": {", "a: *b", "[" * 300, "\x00"])
def test_broken_yaml_is_searched_as_text(tmp_path: Path, content: str) -> None:
    assert found(tmp_path / "a.yml", f"{content} {SHAPED['xai']}")[0][1] == "xai- key"


@pytest.mark.parametrize("content", ["{", "[" * 300, b"\xff{", "\ufeff{"])
def test_broken_json_is_searched_as_text(tmp_path: Path, content: str | bytes) -> None:
    content = content.encode() if isinstance(content, str) else content
    assert len(found(tmp_path / "a.json", content + f' "{SHAPED["xai"]}"'.encode())) == 1


@pytest.mark.parametrize(
    "value",
    [
        *("xxxxxxxxxxxxxxxxxxxx", "REDACTED", "<redacted-key>", "**FILTERED**", ""),
        *("sk-dummy", "not-needed", "test-api-key", "YOUR_API_KEY", "my-fake-token", "${API_KEY}"),
        *("{{ api_key }}", "placeholder-7", "Bearer xxxxxxxxxx", "Bearer REDACTED", "sanitized"),
    ],
)
def test_replaced_secrets_and_placeholders_are_not_found(tmp_path: Path, value: str) -> None:
    content = {"headers": {"authorization": value, "api-key": [value]}, "api_key": value}
    assert found(tmp_path / "a.json", content) == []


def test_short_value_is_found_in_a_secret_field_alone(tmp_path: Path) -> None:
    content = {"headers": {"api-key": "short"}, "cookies": {"a": "short"}, "password": "short"}
    assert [kind for _, kind in found(tmp_path / "a.json", content)] == ["secret field"]


def test_files_without_secrets_have_no_findings(tmp_path: Path) -> None:
    content = {
        "request": {"method": "GET", "url": "https://api.example/v1?page=value-7", "headers": {}},
        "citation": {"url": "https://news.example/article/ecf774eea5cdc7cbf88adf3887102d9b"},
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"},
        "text": "no JSON",
        "body": "{no JSON",
        "headers": ["a", {"name": "n"}, {"name": 1, "value": KEY}],
        "cookies": {"sid": 1},
        "schema": {"properties": {"password": {"type": "string", "title": "The password"}}},
    }
    assert found(tmp_path / "a.json", content) == []
    assert found(tmp_path / "b.json", "[1, null]") == []
    assert found(tmp_path / "c.bin", gzip.compress(b"")) == []
    assert found(tmp_path / "d", b"") == []


def test_names_that_may_be_secrets_are_not_shown(tmp_path: Path) -> None:
    content = {f"user {KEY}": {SHAPED["xai"]: {"headers": {KEY: {"x": 1}, "x-api-key": KEY}}}}
    places = [place for place, _ in found(tmp_path / "a.json", content)]
    assert len(places) == 2
    assert places[1] == "[0][0].headers.x-api-key"
    assert not [p for p in places if KEY in p or SHAPED["xai"] in p]


def test_same_value_in_text_and_position_is_one_finding(tmp_path: Path) -> None:
    content = {"headers": {"authorization": f"Bearer {SHAPED['xai']}"}}
    assert [kind for _, kind in found(tmp_path / "a.json", content)] == ["xai- key"]


def test_what_the_recorder_writes_has_no_findings(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    headers = (("authorization", f"Bearer {KEY}"), ("x-api-key", SHAPED["openai"]))
    body = json.dumps({"api_key": {"value": KEY}, "password": "abc", "say": KEY}).encode()
    for url in (f"https://a:{KEY}@h.example/v1/chat/completions?key={KEY}", "https://h.example/"):
        writer = recorder.start(WireRequest("POST", url, headers, body))
        writer.begin(200, [("content-type", "text/event-stream"), ("set-cookie", f"a={KEY}")])
        writer.write(f"data: {KEY} {SHAPED['openai']}\n\n".encode())
        writer.end("eof")
    files = list(find_files(tmp_path))
    assert len(files) == 4
    assert [finding for file in files for finding in scan_file(file)] == []


def test_all_regular_files_of_a_directory_are_scanned_in_order(tmp_path: Path) -> None:
    for name in ("b/2.sse", "b/10.sse", "a.json", ".hidden/c.sse", ".env", "a/é"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "x")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "a.json")
    (tmp_path / "loop").symlink_to(tmp_path)
    files = [str(path.relative_to(tmp_path)) for path in find_files(tmp_path)]
    assert files == [".env", "a/é", "a.json", "b/10.sse", "b/2.sse"]
    assert list(find_files(tmp_path / "a.json")) == [tmp_path / "a.json"]


def test_finding_holds_no_secret() -> None:
    assert Finding.__struct_fields__ == ("file", "place", "kind")


def test_secret_in_the_base64_of_a_message_is_found(tmp_path: Path) -> None:
    key = "sk-ant-api03-0123456789abcdefABCDEF"
    path = tmp_path / "a.eventstream"
    texts = ["none", f"the key is {key}", "x" * len(key), f"{key}, and again {key}"]
    path.write_bytes(b"".join(chunk({"type": "ping", "text": text}) for text in texts))
    found = [(finding.place, finding.kind) for finding in scan_file(path)]
    assert found == [("message 1", "sk- key"), ("message 3", "sk- key"), ("message 3", "sk- key")]
    plain = exception("validationException", message=f"wrong key {key}")
    path.write_bytes(chunk({"type": "ping"}) + plain)
    assert [finding.kind for finding in scan_file(path)] == ["sk- key"]


STREAM_KEY = "sk-ant-api03-0123456789abcdefABCDEF"
LEAKY_CHUNK = chunk({"type": "ping", "text": f"the key is {STREAM_KEY}"})


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (LEAKY_CHUNK[:-1], "message 0"),
        (chunk({"type": "ping"}) + LEAKY_CHUNK[:-20], "message 1"),
        (b"\xff" * 16 + LEAKY_CHUNK, "message 0"),
        (chunk({"type": "ping"}) + b"\0" * 16 + chunk({}) + LEAKY_CHUNK, "message 1"),
    ],
    ids=["without its checksum", "cut", "behind garbage", "behind a damaged message"],
)
def test_secret_in_the_base64_of_a_damaged_stream_is_found(
    tmp_path: Path, body: bytes, place: str
) -> None:
    assert found(tmp_path / "a.eventstream", body) == [(place, "sk- key")]


def test_secret_in_unpadded_base64_is_found(tmp_path: Path) -> None:
    base64 = b64encode(f"{STREAM_KEY} ".encode()).rstrip(b"=")
    for payload in (b'{"bytes":"%b"}' % base64, b'{"bytes":"%b","bytes":"eyJ9"}' % base64):
        body = encode_message({":message-type": "event"}, payload)
        assert found(tmp_path / "a.eventstream", body) == [("message 0", "sk- key")]


def test_event_stream_too_large_to_decode_is_searched_as_it_is_and_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_MAX_DECODED_BYTES", 10)
    body = LEAKY_CHUNK + exception("validationException", message=f"wrong key {STREAM_KEY}")
    findings = scan_file(write(tmp_path / "a.eventstream", body))
    assert next(findings).kind == "sk- key"
    with pytest.raises(OSError, match="bytes, expected at most 10") as caught:
        next(findings)
    assert caught.value.strerror == f"{len(body)} bytes, expected at most 10"
