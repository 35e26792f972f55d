"""Import and export of HAR 1.2."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from support.bedrock.chunks import EVENTS, chunk
from support.streams.corpus import recordings

from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.recording import RecordedRequest, RecordedResponse, Recording, RecordingError
from streamnorm.recording.format import Companion, RecordedRead, split_name
from streamnorm.recording.importing import export_har, import_file
from streamnorm.recording.recording import companion_of

STREAM = 'data: {"n": 1}\r\n\r\ndata: Ünd 💡\n\n'


def entry(**changes: Any) -> dict[str, Any]:
    """Return an entry as a browser writes it."""
    request: dict[str, Any] = {
        "method": "POST",
        "url": "https://api.mistral.ai/v1/chat/completions",
        "httpVersion": "http/2.0",
        "headers": [
            {"name": ":path", "value": "/v1/chat/completions"},
            {"name": "Content-Type", "value": "application/json"},
        ],
        "queryString": [],
        "cookies": [],
        "headersSize": -1,
        "bodySize": 17,
        "postData": {"mimeType": "application/json", "text": '{"stream": true}'},
    }
    response: dict[str, Any] = {
        "status": 200,
        "statusText": "",
        "httpVersion": "http/2.0",
        "headers": [{"name": "Content-Type", "value": "text/event-stream"}],
        "cookies": [],
        "content": {"size": 1, "mimeType": "text/event-stream", "text": STREAM},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }
    request.update(changes.pop("request", {}))
    response.update(changes.pop("response", {}))
    return {
        "startedDateTime": "2026-11-22T10:00:00.000Z",
        "time": 12.5,
        "request": request,
        "response": response,
        "cache": {},
        "timings": {"send": 0.5, "wait": 10, "receive": 2},
        **changes,
    }


def imported(tmp_path: Path, *entries: Any, **options: Any) -> list[Recording]:
    creator = {"name": "WebInspector", "version": "537.36"}
    log = {"version": "1.2", "creator": creator, "pages": [], "entries": list(entries)}
    (tmp_path / "a.har").write_text(json.dumps({"log": log}))
    return import_file(tmp_path / "a.har", tmp_path / "out", **options)


def content(**fields: Any) -> dict[str, Any]:
    return {"content": {"size": 1, "mimeType": "text/event-stream", **fields}}


def exported(tmp_path: Path, *given: Recording) -> dict[str, Any]:
    export_har(given, tmp_path / "x.har")
    value = json.loads((tmp_path / "x.har").read_bytes())
    assert isinstance(value, dict)
    return value


def test_entry_of_a_browser_is_read(tmp_path: Path) -> None:
    (recording,) = imported(tmp_path, entry())
    assert recording.body == STREAM.encode()
    assert recording.path == tmp_path / "out" / "01-chat-completions.sse"
    assert recording.request is not None
    assert recording.request.headers == {"content-type": "application/json"}
    assert recording.request.body == {"stream": True}
    assert recording.response.headers == {"content-type": "text/event-stream"}
    assert (recording.dialect, recording.server) == ("openai_chat", "mistral")
    assert (recording.reads, recording.provenance) == (None, "recorded")


def test_body_in_base64_is_decoded(tmp_path: Path) -> None:
    text = base64.b64encode(b"data: \xff\n\n").decode()
    (recording,) = imported(tmp_path, entry(response=content(text=text, encoding="base64")))
    assert recording.body == b"data: \xff\n\n"


def test_har_body_is_never_decompressed(tmp_path: Path) -> None:
    headers = [{"name": "content-encoding", "value": "br"}]
    (recording,) = imported(tmp_path, entry(response={"headers": headers}))
    assert recording.body == STREAM.encode()


@pytest.mark.parametrize(
    ("mime", "header", "kept"),
    [
        ("application/json; charset=utf-8", [], "application/json; charset=utf-8"),
        (
            "text/plain",
            [{"name": "Content-Type", "value": "text/event-stream"}],
            "text/event-stream",
        ),
        ("x-unknown", [], None),
        ("", [], None),
    ],
)
def test_content_type_header_precedes_the_mime_type_of_the_content(
    mime: str, header: list[dict[str, str]], kept: str | None, tmp_path: Path
) -> None:
    response = {"headers": header, **content(text="{}", mimeType=mime)}
    (recording,) = imported(tmp_path, entry(response=response))
    assert recording.response.headers.get("content-type") == kept


def test_response_without_a_body_is_empty(tmp_path: Path) -> None:
    for size in (0, -1):
        (recording,) = imported(tmp_path, entry(response=content(size=size)))
        assert recording.body == b""


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (None, (UNSET, None)),
        ({"mimeType": "text/plain", "text": "words"}, (UNSET, "words")),
        ({"mimeType": "a/b", "text": "eyJhIjogMX0=", "encoding": "base64"}, ({"a": 1}, None)),
        ({"mimeType": "multipart/form-data", "params": [{"name": "a"}]}, (UNSET, None)),
        ({"mimeType": "a/b", "text": "", "params": [{"name": "a", "value": "b"}]}, (UNSET, None)),
        (
            {
                "mimeType": "application/x-www-form-urlencoded; charset=utf-8",
                "params": [{"name": "a b", "value": "c&d"}, {"name": "e"}],
            },
            (UNSET, "a+b=c%26d&e="),
        ),
    ],
)
def test_request_body_is_imported_if_present(
    data: object, kept: tuple[object, object], tmp_path: Path
) -> None:
    (recording,) = imported(tmp_path, entry(request={"postData": data}))
    assert recording.request is not None
    assert (recording.request.body, recording.request.text) == kept


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_secret_of_a_form_is_hidden_in_its_answer(kind: str, tmp_path: Path) -> None:
    """Of an upload, a file may hold the fields alone."""
    secret = "Zq8vLk3pTn5wYx2c"  # noqa: S105 - of nobody
    file = {"name": "file", "fileName": "a.png", "contentType": "image/png"}
    params = [{"name": "client_secret", "value": secret}, file]
    data = {"mimeType": kind, "params": params}
    content = {"mimeType": "application/json", "text": f'{{"echo": "{secret}"}}'}
    header = {"name": "content-type", "value": kind}
    exchange = entry(request={"postData": data, "headers": [header]})
    exchange["response"]["content"] = content
    (recording,) = imported(tmp_path, exchange)
    assert secret.encode() not in recording.body
    assert recording.request is not None
    assert secret not in str(recording.request.text)


MULTIPART = """\
--x\r
Content-Disposition: form-data; name="api_key"\r
\r
%s\r
--x--\r
"""


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("application/x-www-form-urlencoded", "a=x y&client_secret=%s"),
        ("application/x-www-form-urlencoded; charset=utf-8", "a&client_secret=%s"),
        ("multipart/form-data; boundary=x", MULTIPART),
    ],
)
def test_secret_of_a_form_is_hidden_if_the_posted_data_alone_has_its_type(
    kind: str, text: str, tmp_path: Path
) -> None:
    secret = "Zq8vLk3pTn5wYx2c"  # noqa: S105 - of nobody
    data = {"mimeType": kind, "text": text % secret}
    exchange = entry(
        request={"headers": [], "postData": data}, response=content(text=f"data: {secret}\n\n")
    )
    (recording,) = imported(tmp_path, exchange)
    assert recording.request is not None
    assert recording.request.text == text % ("x" * len(secret))
    assert recording.request.headers == {"content-type": kind}
    assert recording.body == b"data: xxxxxxxxxxxxxxxx\n\n"


@pytest.mark.parametrize(
    ("mime", "header", "stored"),
    [
        ("text/plain", [{"name": "Content-Type", "value": "application/json"}], "application/json"),
        ("x-unknown", [], None),
        ("", [], None),
    ],
)
def test_content_type_header_precedes_the_mime_type_of_the_posted_data(
    mime: str, header: list[dict[str, str]], stored: str | None, tmp_path: Path
) -> None:
    request = {"headers": header, "postData": {"mimeType": mime, "text": "{}"}}
    (recording,) = imported(tmp_path, entry(request=request))
    assert recording.request is not None
    assert recording.request.headers.get("content-type") == stored


def test_host_in_a_pseudo_header_of_http_2_is_no_secret(tmp_path: Path) -> None:
    url = "https://api.mistral.ai/v1/chat/completions?key=Zq8vLk3pTn5wYx2c"
    headers = [
        {"name": ":authority", "value": "api.mistral.ai"},
        {"name": ":method", "value": "POST"},
        {"name": ":path", "value": "/v1/chat/completions?key=Zq8vLk3pTn5wYx2c"},
        {"name": ":scheme", "value": "https"},
    ]
    text = '{"input": "Is api.mistral.ai the host?"}'
    data = {"mimeType": "application/json", "text": text}
    exchange = entry(
        request={"url": url, "headers": headers, "postData": data},
        response=content(text="data: api.mistral.ai knows Zq8vLk3pTn5wYx2c\n\n"),
    )
    (recording,) = imported(tmp_path, exchange)
    assert recording.request is not None
    assert recording.request.url == "https://api.mistral.ai/v1/chat/completions"
    assert recording.request.body == {"input": "Is api.mistral.ai the host?"}
    assert recording.body == b"data: api.mistral.ai knows xxxxxxxxxxxxxxxx\n\n"


HOSTILE = {
    r"object missing required field `entries` - at `\$\.log`": {"log": {}},
    r"expected `object`, got `array` - at `\$\.log`": {"log": []},
    r"expected `array`, got `int` - at `\$\.log\.entries`": {"log": {"entries": 5}},
    r"expected `object`, got `int` - at `\$\.log\.entries\[1\]`": {
        "log": {"entries": [entry(), 5]}
    },
    r"log\.entries\[1\]: no http or https URL": {
        "log": {"entries": [entry(), entry(request={"url": "//h/path"})]}
    },
    r"log\.entries\[0\]: no HTTP status": {"log": {"entries": [entry(response={"status": 9})]}},
    r"log\.entries\[0\]: 60 bytes of a status 204": {
        "log": {"entries": [entry(response={"status": 204, **content(text="7" * 60)})]}
    },
    r"log\.entries\[0\]: no HTTP status from 200 to 599": {
        "log": {"entries": [entry(response={"status": 10**40})]}
    },
    r"log\.entries\[0\]: a body that is no base64": {
        "log": {"entries": [entry(response=content(text="é", encoding="base64"))]}
    },
    r"expected `str \| null`, got `array` - at .*\.text": {
        "log": {"entries": [entry(response=content(text=[]))]}
    },
    r"log\.entries\[0\]: _streamnorm that is no object": {
        "log": {"entries": [entry(_streamnorm=[])]}
    },
    r"log\.entries\[0\]: no companion of a recording": {
        "log": {"entries": [entry(_streamnorm={"streamnorm_recording": 2})]}
    },
    r"log\.entries\[0\]: _chunks of another size": {
        "log": {"entries": [entry(_streamnorm={"streamnorm_recording": 1}, _chunks=["+0 1"])]}
    },
    r'log\.entries\[0\]: chunk 0 is not as "\+<ms> <bytes>"': {
        "log": {"entries": [entry(_streamnorm={"streamnorm_recording": 1}, _chunks=["canary"])]}
    },
}


@pytest.mark.parametrize(("wrong", "value"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_file_that_is_no_har_is_refused(wrong: str, value: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.har").write_text(json.dumps(value))
    with pytest.raises(RecordingError, match=rf"a\.har: .*{wrong}") as refused:
        import_file(tmp_path / "a.har", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert "canary" not in str(refused.value)


EMPTY = {"content": {"size": 0, "mimeType": "x-unknown"}}
# Entries of browsers, and why they are skipped.
SKIPPED: list[tuple[str, dict[str, Any]]] = [
    ("no response", entry(response={"status": 0, "headers": [], **EMPTY})),
    ("no http or https URL", entry(request={"method": "GET", "url": "data:image/png;base64,AA=="})),
    ("no http or https URL", entry(request={"method": "GET", "url": "Chrome-Extension://x/y.js"})),
    (
        "no http or https URL",
        entry(request={"method": "GET", "url": "wss://h/a"}, response={"status": 101, **EMPTY}),
    ),
    (
        "a WebSocket",
        entry(request={"method": "GET", "url": "https://h/a"}, response={"status": 101, **EMPTY}),
    ),
    (
        "a body that the file does not hold",
        entry(response={"content": {"size": 1234, "mimeType": "image/png"}}),
    ),
    ("a body from the cache", entry(response={"status": 304, **content(text="cached")})),
    ("a body from the cache", entry(response={"status": 304, **content(size=9)})),
]


@pytest.mark.parametrize(("reason", "other"), SKIPPED)
def test_entry_that_cannot_be_replayed_is_skipped_and_reported(
    reason: str, other: dict[str, Any], tmp_path: Path
) -> None:
    skipped: list[tuple[int, str]] = []
    found = imported(
        tmp_path, entry(), other, entry(), on_skipped=lambda *each: skipped.append(each)
    )
    assert [recording.body for recording in found] == [STREAM.encode()] * 2
    assert skipped == [(1, reason)]
    assert len(imported(tmp_path, entry(), other)) == 1


def test_response_that_is_empty_by_its_status_is_imported(tmp_path: Path) -> None:
    response = {"status": 304, **EMPTY}
    (recording,) = imported(tmp_path, entry(response=response))
    assert (recording.response.status, recording.body) == (304, b"")


def test_har_of_skipped_entries_alone_is_refused(tmp_path: Path) -> None:
    blocked, image = SKIPPED[0][1], SKIPPED[5][1]
    expected = (
        r"a\.har: no entry that can be replayed, expected one: "
        r"2 \(no response\), 1 \(a body that the file does not hold\)$"
    )
    with pytest.raises(RecordingError, match=expected):
        imported(tmp_path, blocked, image, blocked)
    assert not (tmp_path / "out").exists()


def test_exported_recording_of_a_websocket_is_no_skipped_entry(tmp_path: Path) -> None:
    request = RecordedRequest("GET", "wss://h.example/v1/responses", {})
    export_har([recording(b"data: 1\n\n", request=request)], tmp_path / "x.har")
    (found,) = import_file(tmp_path / "x.har", tmp_path / "out")
    assert found.request == request


def test_read_timings_of_other_tools_are_ignored(tmp_path: Path) -> None:
    (recording,) = imported(tmp_path, entry(_chunks=[{"at": 1}]))
    assert recording.reads is None


def recording(body: bytes, **fields: Any) -> Recording:
    reads = fields.pop("reads", None)
    return Recording(body, Companion(1, **fields), reads=reads)


def test_event_stream_is_exported_and_restored(tmp_path: Path) -> None:
    fields = {"dialect": "anthropic", "framing": "invoke_chunks"}
    given = recording(
        b"".join(map(chunk, EVENTS)), response=RecordedResponse(body=".eventstream"), **fields
    )
    export_har([given], tmp_path / "a.har")
    (entry,) = json.loads((tmp_path / "a.har").read_text())["log"]["entries"]
    content = entry["response"]["content"]
    assert (content["mimeType"], content["encoding"]) == (
        "application/vnd.amazon.eventstream",
        "base64",
    )
    (found,) = import_file(tmp_path / "a.har", tmp_path / "out")
    assert (found.body, found.framing, found.is_stream) == (given.body, INVOKE_CHUNKS, True)
    assert found.path is not None
    assert found.path.name.endswith(".eventstream")


def test_unknown_framing_in_a_har_is_refused(tmp_path: Path) -> None:
    companion = {"streamnorm_recording": 1, "framing": "morse"}
    with pytest.raises(
        RecordingError, match=r"log\.entries\[0\]: framing 'morse', expected one of"
    ):
        imported(tmp_path, entry(_streamnorm=companion))


def test_export_is_a_har_of_version_1_2(tmp_path: Path) -> None:
    asked = RecordedRequest(
        "POST",
        "https://h.example/v1/messages?beta=true&x=",
        {"content-type": "application/json"},
        {"é": 1},
    )
    answered = RecordedResponse(529, {"content-type": "text/event-stream"})
    reads = [RecordedRead(412, 6), RecordedRead(35, 2), RecordedRead(0, 2)]
    har = exported(
        tmp_path, recording(b"data: \xc3\xa9\n\n", request=asked, response=answered, reads=reads)
    )
    log = har["log"]
    assert (log["version"], log["creator"]["name"]) == ("1.2", "streamnorm")
    assert "startedDateTime" in log["comment"]
    assert log["entries"] == [
        {
            "startedDateTime": "1970-01-01T00:00:00.000Z",
            "time": 447,
            "request": {
                "method": "POST",
                "url": "https://h.example/v1/messages?beta=true&x=",
                "httpVersion": "unknown",
                "cookies": [],
                "headers": [{"name": "content-type", "value": "application/json"}],
                "queryString": [{"name": "beta", "value": "true"}, {"name": "x", "value": ""}],
                "headersSize": -1,
                "bodySize": 8,
                "postData": {"mimeType": "application/json", "text": '{"é":1}'},
            },
            "response": {
                "status": 529,
                "statusText": "",
                "httpVersion": "unknown",
                "cookies": [],
                "headers": [{"name": "content-type", "value": "text/event-stream"}],
                "content": {"size": 10, "mimeType": "text/event-stream", "text": "data: é\n\n"},
                "redirectURL": "",
                "headersSize": -1,
                "bodySize": -1,
            },
            "cache": {},
            "timings": {"send": 0, "wait": 412, "receive": 35},
            "_streamnorm": {
                "streamnorm_recording": 1,
                "dialect": None,
                "server": None,
                "provenance": "recorded",
                "request": {
                    "method": "POST",
                    "url": "https://h.example/v1/messages?beta=true&x=",
                    "headers": {"content-type": "application/json"},
                    "body": {"é": 1},
                },
                "response": {
                    "status": 529,
                    "headers": {"content-type": "text/event-stream"},
                    "body": ".sse",
                    "end": "eof",
                },
                "redacted": 0,
            },
            "_chunks": ["+412 6", "+35 2", "+0 2"],
        }
    ]


def test_export_without_times_has_zero_timings(tmp_path: Path) -> None:
    for reads in (None, []):
        (exchange,) = exported(tmp_path, recording(b"", reads=reads))["log"]["entries"]
        assert exchange["timings"] == {"send": 0, "wait": 0, "receive": 0}
        assert exchange["time"] == 0
        assert exchange.get("_chunks") == reads


@pytest.mark.parametrize(
    ("suffix", "mime"),
    [
        (".sse", "text/event-stream"),
        (".body.json", "application/json"),
        (".body.bin", "application/octet-stream"),
    ],
)
def test_export_of_a_bare_body_has_its_content_type(suffix: Any, mime: str, tmp_path: Path) -> None:
    response = RecordedResponse(200, {}, suffix)
    (exchange,) = exported(tmp_path, recording(b"\xff\x00", response=response))["log"]["entries"]
    assert exchange["response"]["content"] == {
        "size": 2,
        "mimeType": mime,
        "text": "/wA=",
        "encoding": "base64",
    }
    assert exchange["response"]["statusText"] == "OK"
    assert exchange["request"]["url"] == "http://unknown.invalid/"
    assert "postData" not in exchange["request"]


def test_export_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    given = [
        recording(b"data: 1\n\n"),
        recording(b"{}", response=RecordedResponse(body=".body.json")),
    ]
    export_har(given, tmp_path / "one.har")
    export_har(iter(given), str(tmp_path / "two.har"))
    assert (tmp_path / "one.har").read_bytes() == (tmp_path / "two.har").read_bytes()


def test_export_without_recordings_has_no_entries(tmp_path: Path) -> None:
    assert exported(tmp_path)["log"]["entries"] == []
    assert import_file(tmp_path / "x.har", tmp_path / "out") == []


def test_export_to_an_unwritable_path_is_a_recording_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone/x\.har: No such file"):
        export_har([], tmp_path / "gone" / "x.har")


URL = "https://api.example.com/v1/messages"
ROUND = {
    "nothing-told": recording(b"data: 1\n\n"),
    "reads": recording(
        b"data: 1\n\n", reads=[RecordedRead(3, 4), RecordedRead(0, 0), RecordedRead(99, 5)]
    ),
    "no-reads": recording(b"", reads=[]),
    "bytes": recording(b"\xff\x00", response=RecordedResponse(body=".body.bin")),
    "bom": recording(b"\xef\xbb\xbfdata: 1\r\r", dialect="gemini", server="mine"),
    "written": recording(b"", provenance="written", redacted=3),
    "end": recording(b"data", response=RecordedResponse(404, {}, ".sse", "reset")),
    "null": recording(b"", request=RecordedRequest("POST", URL, {}, None)),
    "deep": recording(
        b"", request=RecordedRequest("POST", URL, {}, json.loads("[" * 128 + "]" * 128))
    ),
    "numbers": recording(b"", request=RecordedRequest("POST", URL, {}, [2**63, 1.5, 1e22, 0.1])),
    "text": recording(b"", request=RecordedRequest("POST", URL, {}, text='{"is": "text"}')),
    "redacted": recording(
        b"data: xxxxxxxxx\n\n",
        request=RecordedRequest("POST", URL, {}, {"api_key": "xxxxxxxx", "a": "xxxxxxxx"}),
        redacted=3,
    ),
    "form": recording(b"", request=RecordedRequest("POST", URL, {}, text="a=1&b=2")),
    "size": recording(b"", request=RecordedRequest("POST", URL, {}, bytes=12)),
    "none": recording(b"", request=RecordedRequest("GET", URL, {})),
    "no-url": recording(b"", request=RecordedRequest("GET", "/v1/messages", {})),
    "redirect": recording(
        b"",
        request=RecordedRequest("GET", URL, {}),
        response=RecordedResponse(307, {"location": "/v2?limit=2"}),
    ),
    "redirect-elsewhere": recording(
        b"",
        request=RecordedRequest("GET", URL, {}),
        response=RecordedResponse(307, {"location": "https://other.example/v2"}),
    ),
    "redirect-no-url": recording(
        b"",
        request=RecordedRequest("GET", "/v1/messages", {}),
        response=RecordedResponse(307, {"location": "/v2"}),
    ),
    "redirect-no-request": recording(b"", response=RecordedResponse(307, {"location": "/v2"})),
}


def assert_comes_back(given: Iterable[Recording], paths: list[Path], tmp_path: Path) -> None:
    export_har(given, tmp_path / "x.har")
    back = import_file(tmp_path / "x.har", tmp_path / "out")
    for before, after in zip(paths, back, strict=True):
        assert after.path is not None
        assert after.path.read_bytes() == before.read_bytes()
        companions = [Path(split_name(path)[0] + ".json") for path in (before, after.path)]
        assert companions[0].read_text() == companions[1].read_text()


@pytest.mark.parametrize("given", ROUND.values(), ids=ROUND)
def test_export_and_import_round_trip_to_the_same_files(given: Recording, tmp_path: Path) -> None:
    given = Recording(given.body, companion_of(given), reads=given.reads)
    given.save(tmp_path / "before" / f"a{given.response.body}")
    assert given.path is not None
    assert_comes_back([given], [given.path], tmp_path)
    (back,) = import_file(tmp_path / "x.har", tmp_path / "again")
    assert back.reads == given.reads


def test_own_recordings_round_trip_to_the_same_files(tmp_path: Path) -> None:
    given = recordings("openai_chat", "anthropic")
    assert len(given) > 100
    assert_comes_back(given, [r.path for r in given if r.path], tmp_path)
