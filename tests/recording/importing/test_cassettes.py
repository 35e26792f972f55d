"""Cassettes of vcrpy and cassetter, as recordings."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import aiohttp
import httpx
import pytest
import vcr
from support.bedrock.chunks import EVENTS, chunk, invoked
from support.http.content_codings import ENCODERS, every_coding

from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.recording import Recording, RecordingError
from streamnorm.recording.importing import import_file

STREAM = (
    'event: a\r\ndata: {"x": "grün \\ud83d\\udca1 💡"}\r\n\r\n: \t \n\ndata: [DONE]\n\n'.encode()
)
ANSWERS = {
    "/v1/chat/completions": ("text/event-stream; charset=utf-8", STREAM),
    "/v1/models": ("application/json", b'{"b": 1.50,  "a": [null]}\n'),
    "/zipped": ("application/json", b'{"zipped": true}'),
    "/speech": ("audio/wav", b"RIFF\x00\xff\xfe"),
    "/empty": ("", b""),
}
INVOKED = "/model/eu.anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream"
CHUNKS = b"".join(map(chunk, EVENTS))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        kind, body = ANSWERS.get(path, ("application/vnd.amazon.eventstream", CHUNKS))
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(404 if self.path == "/empty" else 200)
        if kind:
            self.send_header("Content-Type", kind)
        if self.path == "/zipped":
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        coding = self.path.partition("?")[2]
        if coding in ENCODERS:
            body = ENCODERS[coding](body)
            self.send_header("Content-Encoding", coding)
        self.send_header("Set-Cookie", "session=one")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def imported(text: str, tmp_path: Path, name: str = "cassette.yaml") -> list[Recording]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return import_file(tmp_path / name, tmp_path / "out")


def test_cassette_of_vcrpy_has_the_served_bytes(base_url: str, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.yaml"
    with vcr.use_cassette(str(cassette)), httpx.Client(trust_env=False) as client:
        asked = {"model": "m", "stream": True}
        assert client.post(f"{base_url}/v1/chat/completions", json=asked).content == STREAM
        client.get(f"{base_url}/v1/models")
        client.post(f"{base_url}/zipped", content="plain words")
        client.post(f"{base_url}/speech", content=b"\xff\xfb")
        client.get(f"{base_url}/empty")
    recordings = import_file(cassette, tmp_path / "out")
    assert [recording.body for recording in recordings] == [body for _, body in ANSWERS.values()]
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "01-chat-completions.json",
        "01-chat-completions.sse",
        "02-models.body.json",
        "02-models.json",
        "03-zipped.body.json",
        "03-zipped.json",
        "04-speech.body.bin",
        "04-speech.json",
        "05-empty.body.bin",
        "05-empty.json",
    ]
    stream, models, zipped, speech, empty = [r.request for r in recordings if r.request]
    assert (stream.method, stream.body) == ("POST", {"model": "m", "stream": True})
    assert stream.url == f"{base_url}/v1/chat/completions"
    assert (models.method, zipped.text) == ("GET", "plain words")
    assert (speech.bytes, empty.method) == (2, "GET")
    assert [recording.response.status for recording in recordings] == [200, 200, 200, 200, 404]
    assert (recordings[0].dialect, recordings[0].reads) == ("openai_chat", None)


@every_coding
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", STREAM), (INVOKED, CHUNKS)], ids=("text", "bytes")
)
def test_compressed_body_in_a_cassette_of_httpx_is_decoded(
    path: str, body: bytes, coding: str, base_url: str, tmp_path: Path
) -> None:
    cassette = tmp_path / "cassette.yaml"
    with vcr.use_cassette(str(cassette)), httpx.Client(trust_env=False) as client:
        client.post(f"{base_url}{path}?{coding}")
    (recording,) = import_file(cassette, tmp_path / "out")
    assert recording.body == body


@every_coding
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", STREAM), (INVOKED, CHUNKS)], ids=("text", "bytes")
)
def test_body_that_aiohttp_has_decoded_is_imported_as_it_is(
    path: str, body: bytes, coding: str, base_url: str, tmp_path: Path
) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{base_url}{path}?{coding}"):
            pass

    cassette = tmp_path / "cassette.yaml"
    with vcr.use_cassette(str(cassette)):
        asyncio.run(ask())
    assert coding in cassette.read_text()
    (recording,) = import_file(cassette, tmp_path / "out")
    assert recording.body == body


def test_event_stream_in_a_cassette_of_vcrpy_is_read(base_url: str, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.yaml"
    with vcr.use_cassette(str(cassette)), httpx.Client(trust_env=False) as client:
        client.post(base_url + INVOKED, json={"messages": []})
    assert "!!binary" in cassette.read_text()
    (recording,) = import_file(cassette, tmp_path / "out")
    assert recording.path is not None
    assert recording.path.name.endswith("-v1-0-invoke-with-response-stream.eventstream")
    assert (recording.body, recording.is_stream) == (CHUNKS, True)
    assert (recording.dialect, recording.framing) == ("anthropic", INVOKE_CHUNKS)
    assert Recording.load(recording.path).message().text == "It snows."


def test_secret_in_an_imported_event_stream_is_replaced(tmp_path: Path) -> None:
    event = {"type": "ping", "text": "sk-ant-api03-0123456789abcdefABCDEF"}
    body = b64encode(chunk(event)).decode()
    interaction = {
        "request": {"method": "POST", "uri": f"https://bedrock.example{INVOKED}", "body": "{}"},
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {"Content-Type": ["application/vnd.amazon.eventstream"]},
            "body": {"encoding": "ASCII-8BIT", "base64_string": body},
        },
    }
    text = json.dumps({"version": 1, "interactions": [interaction]})
    (recording,) = imported(text, tmp_path, "cassette.json")
    assert invoked(recording.body).events == [{"type": "ping", "text": "x" * len(event["text"])}]
    assert recording.redacted == 1


def test_cassette_of_vcrpy_in_json_is_read(base_url: str, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.json"
    with vcr.use_cassette(str(cassette), serializer="json"), httpx.Client(trust_env=False) as http:
        http.post(f"{base_url}/v1/chat/completions", json=[1])
    (recording,) = import_file(cassette, tmp_path / "out")
    assert (recording.body, recording.is_stream) == (STREAM, True)
    assert recording.request is not None
    assert recording.request.body == [1]


def test_cassette_of_vcrpy_for_another_client_is_read(base_url: str, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette.yaml"
    with vcr.use_cassette(str(cassette), decode_compressed_response=True):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(f"{base_url}/v1/chat/completions", data=b'{"a": 1}').close()
        opener.open(f"{base_url}/zipped").close()
    stream, zipped = import_file(cassette, tmp_path / "out")
    assert (stream.body, zipped.body) == (STREAM, b'{"zipped": true}')


VCR = """\
version: 1
interactions:
- request:
    method: POST
    uri: https://api.example.com/v1/messages
    headers: {}
    body: %s
  response:
    status: {code: 200, message: OK}
    headers:
      Content-Type: [text/event-stream]
    body: {string: "data: 1\\n\\n"}
"""


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("null", (None, None)),
        ("''", (None, None)),
        ("'{\"a\": 1}'", ({"a": 1}, None)),
        ("!!binary eyJhIjogMX0=", ({"a": 1}, None)),
        ("{a: 1, b: [x, 'true']}", ({"a": 1, "b": ["x", "true"]}, None)),
        ("{encoding: UTF-8, string: words}", (None, "words")),
        ("2026-01-01", (None, "2026-01-01")),
        ("!!python/unicode 'words'", (None, "words")),
    ],
)
def test_request_body_of_vcrpy_is_stored(
    written: str, kept: tuple[object, object], tmp_path: Path
) -> None:
    (recording,) = imported(VCR % written, tmp_path)
    assert recording.request is not None
    assert (recording.request.body or None, recording.request.text) == kept


def test_pickled_upload_of_vcrpy_is_left_out(tmp_path: Path) -> None:
    upload = "!!python/object/new:_io.BytesIO\n      state: !!python/tuple [!!binary eA==, 0, null]"
    (recording,) = imported(VCR % upload, tmp_path)
    assert recording.request is not None
    assert (recording.request.body or None, recording.request.text) == (None, None)


def test_body_stored_as_text_is_not_decompressed(tmp_path: Path) -> None:
    text = VCR.replace("Content-Type:", "content-encoding: br\n      Content-Type:")
    (recording,) = imported(text % "''", tmp_path)
    assert recording.body == b"data: 1\n\n"


def test_body_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    (recording,) = imported(VCR.replace('"data: 1\\n\\n"', "1.50") % "''", tmp_path)
    assert recording.body == b"1.50"


def test_response_of_old_versions_of_vcrpy_is_read(tmp_path: Path) -> None:
    text = """\
version: 1
interactions:
- request: {method: GET, uri: 'http://h.example/', headers: {accept: ['*/*']}, body: ''}
  response:
    content: "data: 1\\n\\n"
    headers: {content-type: [text/event-stream]}
    http_version: HTTP/1.1
    status_code: 203
"""
    (recording,) = imported(text, tmp_path)
    assert (recording.body, recording.response.status) == (b"data: 1\n\n", 203)


def test_header_value_may_be_text_bytes_or_a_list(tmp_path: Path) -> None:
    for written in ("text/event-stream", "[!!binary dGV4dC9ldmVudC1zdHJlYW0=]"):
        text = VCR.replace("[text/event-stream]", written)
        (recording,) = imported(text % "''", tmp_path)
        assert recording.response.headers == {"content-type": "text/event-stream"}


def test_headers_shared_by_a_yaml_alias_are_read(tmp_path: Path) -> None:
    once = VCR % "''"
    text = once.replace("[text/event-stream]", "&id001 [text/event-stream]")
    text += once.partition("interactions:\n")[2].replace("[text/event-stream]", "*id001")
    first, second = imported(text, tmp_path)
    assert first.response.headers == second.response.headers != {}


def test_parsed_body_is_serialized_for_replay(tmp_path: Path) -> None:
    text = """\
version: 1
interactions:
- request:
    method: POST
    uri: https://api.anthropic.com/v1/messages
    headers: {content-type: [application/json]}
    parsed_body: {model: m, n: 1, s: '1'}
  response:
    status: {code: 200}
    headers: {content-type: [application/json]}
    parsed_body:
      id: msg_1
      price: 1.50
      words: [ünder, null, true, 'true']
"""
    (recording,) = imported(text, tmp_path)
    assert recording.body == (
        b'{"id": "msg_1", "price": 1.5, "words": ["\\u00fcnder", null, true, "true"]}'
    )
    assert recording.request is not None
    assert recording.request.body == {"model": "m", "n": 1, "s": "1"}


CASSETTER = """\
version: 1
interactions:
- request:
    method: POST
    uri: https://api.deepseek.com/chat/completions
    headers:
      content-type:
      - application/json
    body:
      type: json
      content:
        model: deepseek-chat
        day: 2026-11-22
        "n": 1.0e+22
        seed: "007"
  response:
    status: 200
    headers:
      content-type:
      - text/event-stream
    body:
      type: text
      content: |+
        : keep-alive

        data: {"choices": [{"index": 0, "delta": {"content": "Törn"}}]}

        data: [DONE]

  recorded_at: 2026-11-22T10:00:02.500000+00:00
- request:
    method: GET
    uri: https://api.deepseek.com/models
    headers: {}
    body:
      type: none
  response:
    status: 429
    headers:
      content-encoding:
      - gzip
      content-type:
      - application/json
    body:
      type: json
      content:
        error: null
        wait: 2.0
  recorded_at: 2026-11-22T12:00:01+02:00
- request:
    method: GET
    uri: https://api.deepseek.com/sound
    headers: {}
    body:
      type: text
      content: yes
  response:
    status: 206
    headers: {}
    body:
      type: binary
      content: ff00
  recorded_at: 2026-11-22T10:00:03.250000001Z
"""


def test_cassette_of_cassetter_is_read_in_time_order(tmp_path: Path) -> None:
    models, chat, sound = imported(CASSETTER, tmp_path)
    assert (
        chat.body
        == (
            ': keep-alive\n\ndata: {"choices": [{"index": 0, "delta": {"content": "Törn"}}]}\n\n'
            "data: [DONE]\n\n"
        ).encode()
    )
    assert (chat.path, chat.server) == (tmp_path / "out" / "02-chat-completions.sse", "deepseek")
    assert chat.request is not None
    assert chat.request.body == {
        "model": "deepseek-chat",
        "day": "2026-11-22",
        "n": 1e22,
        "seed": "007",
    }
    assert models.body == b'{"error": null, "wait": 2.0}'
    assert (models.path, models.response.status) == (tmp_path / "out" / "01-models.body.json", 429)
    assert (sound.body, sound.response.body) == (b"\xff\x00", ".body.bin")
    assert sound.request is not None
    assert sound.request.text == "yes"


@pytest.mark.parametrize("time", ["", "yesterday", "!!binary YQ==", "2026-11-22T09:00:00"])
def test_cassette_with_a_missing_time_is_read_in_file_order(time: str, tmp_path: Path) -> None:
    text = CASSETTER.replace("2026-11-22T12:00:01+02:00", time)
    names = [recording.name for recording in imported(text, tmp_path)]
    assert names == ["out/01-chat-completions", "out/02-models", "out/03-sound"]


def test_cassette_without_interactions_gives_no_recording(tmp_path: Path) -> None:
    assert imported("version: 1\ninteractions: []\n", tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_other_fields_of_a_cassette_are_left_out(tmp_path: Path) -> None:
    text = VCR % "''" + "recorded_with: vcr\nmetadata: {a: 1}\nws_interactions: []\n"
    assert len(imported(text, tmp_path)) == 1


GOOD = VCR % "''"
HOSTILE = {
    "more than HTTP interactions": GOOD + "ws_interactions: [{uri: 'wss://h/'}]\n",
    "a cassette of version 2, expected 1": GOOD.replace("version: 1", "version: 2"),
    "no cassette: object missing required field `version`": GOOD.replace("version: 1\n", ""),
    r"`int`, got `str` - at `\$\.version`": GOOD.replace("version: 1", "version: one"),
    r"`array`, got `null` - at `\$\.interactions`": "version: 1\ninteractions:\n",
    r"`object`, got `str` - at `\$\.interactions\[0\]`": "version: 1\ninteractions: [a]\n",
    r"required field `uri` - at `\$\.interactions\[0\]\.request`": GOOD.replace("uri:", "url:"),
    r"interactions\[0\]: no http or https URL": GOOD.replace("https:", "wss:"),
    r"interactions\[0\]: no HTTP status": GOOD.replace("code: 200", "code: 9"),
    r"interactions\[0\]: no cassette: expected `int`": GOOD.replace("code: 200", "code: [200]"),
    r"interactions\[0\]: no cassette: integer value out of range": GOOD.replace(
        "code: 200", "code: " + "9" * 5000
    ),
    r"interactions\[0\]: no cassette: expected `int`, got `null`": GOOD.replace("status:", "sta:"),
    r"interactions\[0\]: headers that are no mapping": GOOD.replace("headers: {}", "headers: [a]"),
    r"interactions\[0\]: a header that is no text": GOOD.replace("headers: {}", "headers: {a: {}}"),
    r"interactions\[0\]: a body that is neither text nor bytes": VCR % "[a]",
    r"interactions\[0\]: a body that is not of type": VCR % "{type: protobuf, content: a}",
    r"interactions\[0\]: a body that is not of type json": VCR % "{type: text, content: [a]}",
    r"interactions\[0\]: a binary body that is not hexadecimal": VCR % "{type: binary, content: x}",
    r"interactions\[0\]: a JSON body with a value that JSON has not": VCR % "{a: !!python/none ''}",
    r"interactions\[0\]: a compressed body that": GOOD.replace(
        'Content-Type: [text/event-stream]\n    body: {string: "data: 1\\n\\n"}',
        "content-encoding: [gzip]\n    body: {string: !!binary H4sI}",
    ),
    "no YAML in line": GOOD[:-3],
    "nested deeper than 144": VCR % ("[" * 1000),
    "aliases repeat": VCR % ("[&a [" + "x," * 40_000 + "], " + "*a, " * 20 + "]"),
}


@pytest.mark.parametrize(("wrong", "text"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_file_that_is_no_cassette_is_refused(wrong: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=rf"cassette\.yaml: .*{wrong}"):
        imported(text, tmp_path)
    assert not (tmp_path / "out").exists()


def test_unreadable_interaction_prevents_the_whole_import(tmp_path: Path) -> None:
    response = {"status": {"code": 200}, "body": {"string": "a"}}
    good = {"request": {"method": "GET", "uri": "http://h.example/"}, "response": response}
    bad = {"request": {"method": "GET", "uri": "nowhere"}, "response": response}
    text = json.dumps({"version": 1, "interactions": [good, good, bad]})
    with pytest.raises(RecordingError, match=r"c\.json: interactions\[2\]: no http"):
        imported(text, tmp_path, "c.json")
    assert not (tmp_path / "out").exists()
    text = json.dumps({"version": 1, "interactions": [good, good]})
    assert len(imported(text, tmp_path, "c.json")) == 2


def test_error_quotes_nothing_of_the_cassette(tmp_path: Path) -> None:
    for wrong, text in HOSTILE.items():
        with pytest.raises(RecordingError) as refused:
            imported(text.replace("api.example.com", "canary.example.com"), tmp_path)
        assert "canary" not in str(refused.value), wrong
        assert "data:" not in str(refused.value), wrong
