"""The files that a recorder writes, and that it never breaks an exchange."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamnorm import Abandoned, Completed, Truncated
from streamnorm.recording import Recording, RecordingError
from streamnorm.recording.format import End, RecordedRead, WireRequest
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder

REQUEST = WireRequest(
    "POST",
    "https://api.example-models.com/v1/chat/completions?key=K1aBcDeFgHiJ",
    (("content-type", "application/json"), ("authorization", "Bearer K2aBcDeFgHiJ")),
    b'{"model":"m","messages":[{"role":"user","content":"Two stones, please."}]}',
)
STREAM = [("content-type", "text/event-stream"), ("x-request-id", "r-1")]
BODY = [
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":',
    b'[{"index":0,"delta":{"role":"assistant","content":"Here."},"finish_reason":null}]}\n\n',
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]


def companion(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def record(recorder: Recorder, end: End = "eof", body: list[bytes] = BODY) -> None:
    writer = recorder.start(REQUEST)
    writer.begin(200, STREAM)
    for data in body:
        writer.write(data)
    writer.end(end)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times that the clock reports, the last of them forever."""
    times = [100.0]

    def tell() -> float:
        return times.pop(0) if len(times) > 1 else times[0]

    monkeypatch.setattr(time, "monotonic", tell)
    return times


def test_exchange_becomes_a_body_and_its_companion(tmp_path: Path, clock: list[float]) -> None:
    directory = tmp_path / "deep" / "recordings"
    clock[:] = [100.0, 100.412, 100.447, 100.447, 101.0]
    record(Recorder(directory))
    assert names(directory) == ["01-chat-completions.json", "01-chat-completions.sse"]
    assert (directory / "01-chat-completions.sse").read_bytes() == b"".join(BODY)
    assert companion(directory / "01-chat-completions.json") == {
        "streamnorm_recording": 1,
        "dialect": "openai_chat",
        "server": "example-models",
        "provenance": "recorded",
        "request": {
            "method": "POST",
            "url": "https://api.example-models.com/v1/chat/completions",
            "headers": {"content-type": "application/json"},
            "body": {
                "model": "m",
                "messages": [{"role": "user", "content": "Two stones, please."}],
            },
        },
        "response": {
            "status": 200,
            "headers": {"content-type": "text/event-stream"},
            "body": ".sse",
            "end": "eof",
        },
        "redacted": 0,
        "chunks": [
            f"+412 {len(BODY[0])}",
            f"+35 {len(BODY[1])}",
            f"+0 {len(BODY[2])}",
            f"+553 {len(BODY[3])}",
        ],
    }


def test_recording_loads_as_it_was_written(tmp_path: Path) -> None:
    record(Recorder(tmp_path))
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    assert recording.chunks() == BODY
    assert isinstance(recording.outcome, Completed)
    assert recording.message().text == "Here."


def test_rounding_of_gaps_never_adds_up(tmp_path: Path, clock: list[float]) -> None:
    clock[:] = [100.0, *(100 + n * 0.0004 for n in range(1, 1001))]
    record(Recorder(tmp_path), body=[b"a"] * 1000)
    reads = Recording.load(tmp_path / "01-chat-completions.sse").reads
    assert reads is not None
    assert sum(read.gap_ms for read in reads) == 400
    assert {read.gap_ms for read in reads} == {0, 1}


def test_same_stream_at_the_same_pace_gives_the_same_bytes(
    tmp_path: Path, clock: list[float]
) -> None:
    for folder in ("a", "b"):
        clock[:] = [100.0, 100.1, 100.2, 100.3, 100.4]
        record(Recorder(tmp_path / folder))
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_save_writes_the_files_of_the_recorder(tmp_path: Path) -> None:
    record(Recorder(tmp_path))
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    recording.save(tmp_path / "copy.sse")
    for suffix in (".sse", ".json"):
        written = (tmp_path / f"01-chat-completions{suffix}").read_bytes()
        assert (tmp_path / f"copy{suffix}").read_bytes() == written


def test_recordings_are_numbered_in_request_order(tmp_path: Path) -> None:
    (tmp_path / "07-messages.sse").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    recorder = Recorder(tmp_path)
    first, second = recorder.start(REQUEST), recorder.start(REQUEST)
    for writer, body in ((second, b"data: 2\n\n"), (first, b"data: 1\n\n")):
        writer.begin(200, STREAM)
        writer.write(body)
        writer.end("eof")
    assert (tmp_path / "08-chat-completions.sse").read_bytes() == b"data: 1\n\n"
    assert (tmp_path / "09-chat-completions.sse").read_bytes() == b"data: 2\n\n"


def test_recorders_of_one_directory_never_overwrite_each_other(tmp_path: Path) -> None:
    recorders = [Recorder(tmp_path), Recorder(tmp_path)]
    writers = [recorder.start(REQUEST) for recorder in (*recorders, *recorders)]
    for number, writer in enumerate(writers):
        writer.begin(200, STREAM)
        writer.write(b"data: %d\n\n" % number)
    for writer in writers:
        writer.end("eof")
    bodies = [path.read_bytes() for path in sorted(tmp_path.glob("*.sse"))]
    assert sorted(bodies) == [b"data: %d\n\n" % number for number in range(4)]
    assert len(list(tmp_path.glob("*.json"))) == 4


@pytest.mark.parametrize(
    ("end", "outcome"),
    [("reset", Truncated), ("timeout", Truncated), ("aborted", Abandoned)],
)
def test_end_of_the_connection_is_stored(tmp_path: Path, end: End, outcome: type) -> None:
    record(Recorder(tmp_path), end, BODY[:2])
    recording = Recording.load(tmp_path / "01-chat-completions.sse")
    assert recording.response.end == end
    assert isinstance(recording.outcome, outcome)


def test_only_the_first_end_counts(tmp_path: Path) -> None:
    writer = Recorder(tmp_path).start(REQUEST)
    writer.begin(200, STREAM)
    writer.end("reset")
    writer.end("eof")
    writer.write(b"late")
    assert companion(tmp_path / "01-chat-completions.json")["response"]["end"] == "reset"
    assert (tmp_path / "01-chat-completions.sse").read_bytes() == b""


@pytest.mark.parametrize(
    ("content_type", "suffix"),
    [
        ("text/event-stream; charset=utf-8", ".sse"),
        (None, ".sse"),
        ("application/json", ".body.json"),
        ("application/problem+json", ".body.json"),
        ("audio/mpeg", ".body.bin"),
        ("application/x-ndjson", ".body.bin"),
    ],
)
def test_suffix_of_the_body_is_that_of_its_kind(
    tmp_path: Path, content_type: str | None, suffix: str
) -> None:
    writer = Recorder(tmp_path).start(REQUEST)
    writer.begin(429, [] if content_type is None else [("Content-Type", content_type)])
    writer.write(b'{"error":1}')
    writer.end("eof")
    assert (tmp_path / f"01-chat-completions{suffix}").read_bytes() == b'{"error":1}'
    assert companion(tmp_path / "01-chat-completions.json")["response"]["status"] == 429
    assert Recording.load(tmp_path / "01-chat-completions.json").body == b'{"error":1}'


@pytest.mark.parametrize("headers", [{}, {"retry-after": "2"}])
def test_answer_without_a_content_type_is_replayed_without_one(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """Clients such as httpx-sse refuse a stream without one."""
    writer = Recorder(tmp_path).start(REQUEST)
    writer.begin(200, headers.items())
    writer.write(b"data: 1\n\n")
    writer.end("eof")
    path = tmp_path / "01-chat-completions.sse"
    assert json.loads(path.with_suffix(".json").read_text())["response"] == {
        "status": 200,
        "headers": headers,
        "content_type": None,
        "body": ".sse",
        "end": "eof",
    }
    recording = Recording.load(path)
    assert recording.playback().headers == headers
    recording.save(tmp_path / "copy.sse")
    assert Recording.load(tmp_path / "copy.sse").playback().headers == headers


def test_recorded_content_type_stands_in_the_headers_alone(tmp_path: Path) -> None:
    record(Recorder(tmp_path))
    companion = json.loads((tmp_path / "01-chat-completions.json").read_text())
    assert "content_type" not in companion["response"]


def test_open_recording_is_marked_incomplete(tmp_path: Path) -> None:
    writer = Recorder(tmp_path).start(REQUEST)
    writer.begin(200, STREAM)
    writer.write(b"x" * 100_000)
    assert names(tmp_path) == ["01-chat-completions.json", "01-chat-completions.sse.part"]
    assert companion(tmp_path / "01-chat-completions.json")["response"]["end"] == "incomplete"
    assert "chunks" not in companion(tmp_path / "01-chat-completions.json")
    writer.end("eof")
    assert names(tmp_path) == ["01-chat-completions.json", "01-chat-completions.sse"]


def test_request_without_a_response_leaves_nothing(tmp_path: Path) -> None:
    Recorder(tmp_path).start(REQUEST).end("reset")
    assert names(tmp_path) == []


def test_request_credentials_are_redacted_in_the_body(tmp_path: Path) -> None:
    record(Recorder(tmp_path), body=[b"data: you sent K2aB", b"cDeFgHiJ and K1aBcDeFgHiJ\n\n"])
    text = (tmp_path / "01-chat-completions.sse").read_bytes()
    assert text == b"data: you sent xxxxxxxxxxxx and xxxxxxxxxxxx\n\n"
    told = companion(tmp_path / "01-chat-completions.json")
    assert told["redacted"] == 2
    assert told["chunks"][0].endswith(" 19")


def test_redact_option_is_applied(tmp_path: Path) -> None:
    record(Recorder(tmp_path, redact=["stones"]), body=[b"data: stones\n\n"])
    assert (tmp_path / "01-chat-completions.sse").read_bytes() == b"data: xxxxxx\n\n"
    asked = companion(tmp_path / "01-chat-completions.json")["request"]["body"]
    assert asked["messages"][0]["content"] == "Two xxxxxx, please."


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt":"A private matter.","api_key":"K9aBcDeFgHiJ"}',
        b"A private matter.",
        b"\xff\xfe private",
        b"null",
    ],
)
def test_request_bodies_can_be_left_out(tmp_path: Path, body: bytes) -> None:
    recorder = Recorder(tmp_path, request_bodies=False)
    writer = recorder.start(structs.replace(REQUEST, body=body))
    writer.begin(200, STREAM)
    writer.write(b"data: you sent K9aBcDeFgHiJ\n\n")
    writer.end("eof")
    asked = companion(tmp_path / "01-chat-completions.json")["request"]
    assert sorted(asked) == ["headers", "method", "url"]
    # Credentials in the body are secrets all the same.
    answer = (tmp_path / "01-chat-completions.sse").read_bytes()
    assert (b"K9aBcDeFgHiJ" in answer) is (b"api_key" not in body)


def test_recording_without_a_request_body_answers_any_body(tmp_path: Path) -> None:
    record(Recorder(tmp_path, request_bodies=False))
    library = Library(tmp_path / "01-chat-completions.sse")
    assert library.respond(structs.replace(REQUEST, body=b'{"other":1}')).body == b"".join(BODY)


def test_complete_recordings_are_reported(tmp_path: Path) -> None:
    told: list[Path] = []
    record(Recorder(tmp_path, on_recorded=told.append))
    assert told == [tmp_path / "01-chat-completions.sse"]


class TestBadDisk:
    def test_unwritable_directory_is_reported_once_for_each_exchange(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_bytes(b"")
        told: list[RecordingError] = []
        recorder = Recorder(tmp_path / "file" / "below", on_failure=told.append)
        with caplog.at_level(logging.WARNING, "streamnorm"):
            record(recorder)
        [failure] = recorder.failures
        assert told == [failure]
        assert str(failure).startswith(f"{tmp_path}/file/below/01-chat-completions: Not a dir")
        assert [entry.getMessage() for entry in caplog.records] == [f"not recorded: {failure}"]

    def test_body_over_the_bound_is_cut_and_marked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streamnorm.recording.recorder._MAX_BYTES", 200_000)
        recorder = Recorder(tmp_path)
        record(recorder, body=[b"y" * 70_000] * 5)
        assert [str(failure).rpartition(": ")[2] for failure in recorder.failures] == [
            "more than 200000 bytes"
        ]
        recording = Recording.load(tmp_path / "01-chat-completions.sse")
        assert recording.response.end == "incomplete"
        assert len(recording.body) <= 200_000

    @pytest.mark.parametrize("status", [101, 199, 600, 999])
    def test_status_that_cannot_be_replayed_is_reported(self, tmp_path: Path, status: int) -> None:
        recorder = Recorder(tmp_path)
        writer = recorder.start(REQUEST)
        writer.begin(status, STREAM)
        writer.write(b"data: 1\n\n")
        writer.end("eof")
        [failure] = recorder.failures
        assert str(failure).endswith(f": status {status}, expected 200 to 599")
        assert names(tmp_path) == []

    @pytest.mark.parametrize("room", [150_000, 0])
    def test_full_disk_leaves_an_incomplete_recording(self, tmp_path: Path, room: int) -> None:
        code = """
            import resource, sys
            from streamnorm.recording.format import WireRequest
            from streamnorm.recording.recorder import Recorder

            recorder = Recorder(sys.argv[1])
            writer = recorder.start(WireRequest("POST", "https://api.example.com/v1/messages"))
            room = int(sys.argv[2])
            if room:
                writer.begin(200, [("content-type", "text/event-stream")])
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            if not room:
                writer.begin(200, [("content-type", "text/event-stream")])
            for _ in range(10):
                writer.write(b"z" * 65_536)
            writer.end("eof")
            [failure] = recorder.failures
            print(failure)
        """
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(tmp_path), str(room)],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        assert done.stdout == f"{tmp_path}/01-messages: File too large\n"
        assert done.stderr == f"not recorded: {tmp_path}/01-messages: File too large\n"
        if not room:
            assert names(tmp_path) == []
            return
        assert names(tmp_path) == ["01-messages.json", "01-messages.sse"]
        recording = Recording.load(tmp_path / "01-messages.sse")
        assert recording.response.end == "incomplete"
        assert recording.body == b"z" * 150_000


def test_memory_does_not_grow_with_the_body(tmp_path: Path) -> None:
    """Neither bytes nor reads pile up: 40 MB in reads of 100 bytes."""
    code = """
        import resource, sys
        from streamnorm.recording.format import WireRequest
        from streamnorm.recording.recorder import Recorder

        writer = Recorder(sys.argv[1]).start(WireRequest("GET", "https://api.example.com/v1/x"))
        writer.begin(200, [("content-type", "text/event-stream")])
        data = b"data: water and stone, and what the river says of both of them tonight.\\n\\n"
        for _ in range(20_000):
            writer.write(data)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(400_000):
            writer.write(data)
        writer.end("eof")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.stderr == ""
    assert int(done.stdout) < 4096  # KiB


def test_str_of_a_read_is_its_line() -> None:
    assert str(RecordedRead(35, 36)) == "+35 36"


@pytest.mark.parametrize(
    ("status", "location", "kept"),
    [
        (307, "https://api.example-models.com/v2/chat/completions", "/v2/chat/completions"),
        (308, "/v2/chat/completions?limit=2&key=K3aBcDeFgHiJ", "/v2/chat/completions?limit=2"),
        (302, "other", "/v1/chat/other"),
        (301, "https://api.example-models.com", "/"),
        (303, "https://u:K4aBcDeFgHiJ@elsewhere.example/x", "https://elsewhere.example/x"),
        (307, "http://[", None),
        (200, "/v2", None),
    ],
)
def test_redirect_is_recorded_without_its_secrets_and_the_host_of_the_request(
    tmp_path: Path, status: int, location: str, kept: str | None
) -> None:
    writer = Recorder(tmp_path).start(REQUEST)
    writer.begin(status, [("content-type", "text/plain"), ("Location", location)])
    writer.write(b"K3aBcDeFgHiJ")
    writer.end("eof")
    found = companion(next(tmp_path.glob("*-completions.json")))["response"]["headers"]
    assert found.get("location") == kept
    (recording,) = Library(tmp_path).recordings
    assert recording.playback().headers.get("location") == kept
    assert b"K3aBcDeFgHiJ" not in recording.body or "K3" not in location


UPLOAD_URL = (
    "https://up.example/upload/v1beta/files?upload_id=K5aBcDeFgHiJ&upload_protocol=resumable"
)


def test_url_of_an_upload_to_google_is_recorded_without_its_id(tmp_path: Path) -> None:
    """google-genai sends the file there, and demands both headers."""
    writer = Recorder(tmp_path).start(REQUEST)
    headers = [("X-Goog-Upload-URL", UPLOAD_URL), ("X-Goog-Upload-Status", "active")]
    writer.begin(200, [("content-type", "application/json"), *headers])
    writer.write(b'{"id": "K5aBcDeFgHiJ", "is": "resumable"}')
    writer.end("eof")
    (recording,) = Library(tmp_path).recordings
    assert recording.body == b'{"id": "xxxxxxxxxxxx", "is": "resumable"}'
    assert recording.playback().headers == {
        "content-type": "application/json",
        "x-goog-upload-status": "active",
        "x-goog-upload-url": "https://up.example/upload/v1beta/files?upload_protocol=resumable",
    }
