"""Transcripts of conversations over a WebSocket: what is imported of them, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.streams.corpus import needs_corpus

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.errors import RecordingError
from streamnorm.recording import Recording
from streamnorm.recording.conversations import as_response
from streamnorm.recording.importing import import_file

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
CREATE = {"type": "response.create", "model": "m", "input": "Hi."}
TRANSCRIPT: list[dict[str, Any]] = [
    {"at": "handshake", "path": "/v1/responses", "headers": {"authorization": KEY}, "status": 101},
    {"at": "client", "data": CREATE},
    {"at": "server", "data": {"type": "response.created", "response": {"id": "r", "key": KEY}}},
    {"at": "client", "data": {"type": "response.steer", "input": KEY}},
    {"at": "close", "by": "server", "code": 1011, "reason": ""},
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_transcript_becomes_its_exchanges(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", TRANSCRIPT)
    (recording,) = import_file(path, tmp_path / "out")
    assert recording.request is not None
    assert recording.request.body == CREATE
    assert (recording.response.end, recording.response.close_code) == ("reset", 1011)
    assert (recording.request.sent[0].after, len(recording.request.sent)) == (1, 1)
    names = os.listdir(tmp_path / "out")
    assert sorted(names) == ["01-responses.json", "01-responses.ws.jsonl"]
    assert not any(KEY in (tmp_path / "out" / name).read_text() for name in names)
    present: list[Recording] = []
    import_file(path, tmp_path / "out", on_present=present.append)
    assert len(present) == 1
    left = write(tmp_path / "b.jsonl", [*TRANSCRIPT[:3], {"at": "close", "by": "client"}])
    assert import_file(left, tmp_path / "b")[0].response.end == "aborted"
    open_end = write(tmp_path / "c.jsonl", TRANSCRIPT[:3])
    assert import_file(open_end, tmp_path / "c")[0].response.end == "incomplete"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([{"at": "client", "data": {}}], "line 1: no handshake, expected one first"),
        ([{**TRANSCRIPT[0], "path": "/v1/files"}], "a handshake at another path than that of"),
        ([{**TRANSCRIPT[0], "status": None}], "line 1: a handshake without a status"),
        ([{**TRANSCRIPT[0], "status": 7}], "line 1: a handshake without a status"),
        ([TRANSCRIPT[0], {"at": "server"}], "line 2: no JSON object as data"),
        ([TRANSCRIPT[0], {"at": "x"}], "line 2: expected client, server or close"),
        ([TRANSCRIPT[0], [1]], "line 2: no JSON object"),
    ],
)
def test_what_is_no_transcript_is_refused(tmp_path: Path, lines: list[Any], problem: str) -> None:
    path = write(tmp_path / "a.jsonl", lines)
    with pytest.raises(RecordingError, match=problem):
        import_file(path, tmp_path / "out")
    path.write_text(json.dumps(TRANSCRIPT[0]) + "\n{")
    with pytest.raises(RecordingError, match="line 2: "):
        import_file(path, tmp_path / "out")


# Real and made transcripts


OK: list[Event] = [
    BlockStart(0, Text("")),
    TextDelta(0, "ok"),
    BlockStop(0),
    UsageUpdate(Usage(5, 2, 0, None, 0)),
    MessageStop("end_turn", "completed"),
]


def answered(id: str, text: str = "ok") -> list[Event]:
    return [
        MessageStart(id, "gpt-test"),
        *(TextDelta(0, text) if isinstance(each, TextDelta) else each for each in OK),
    ]


def failed(message: str, code: str, status: int | None, **extra: Any) -> list[Event]:
    retryable = None if status is None else status in (408, 409, 429) or status >= 500
    return [StreamError("upstream", message, code, status, retryable, extra or None)]


INVALID = "invalid_request_error"
LIMIT = (
    "Responses websocket connection limit reached (60 minutes)."
    " Create a new websocket connection to continue."
)
GONE = "Previous response with id 'resp_gone' not found."
PREWARMED: list[Event] = [MessageStart("resp_w", "gpt-test"), *OK[-2:]]
MADE: dict[str, list[list[Event] | str]] = {
    # What was cut is named by the kind of its outcome.
    "closed-1011": ["truncated"],
    "cut-mid-response": ["truncated"],
    "codex-extras": [answered("resp_1")],
    "connection-limit": [failed(LIMIT, "websocket_connection_limit_reached", 400, type=INVALID)],
    "error-without-status": [
        failed("The usage limit has been reached", "usage_limit_reached", None)
    ],
    "failed-turn-then-next": [
        [
            MessageStart("resp_f", "gpt-test"),
            *failed("The model failed.", "server_error", 500),
        ],
        answered("resp_2"),
    ],
    "previous-response-not-found": [
        failed(
            GONE, "previous_response_not_found", 400, type=INVALID, param="previous_response_id"
        ),
        answered("resp_2"),
    ],
    "prewarm-then-delta": [PREWARMED, answered("resp_1", "Hi.")],
    "rate-limited-with-headers": [
        failed(
            "Rate limit reached.",
            "rate_limit_exceeded",
            429,
            type="rate_limit_error",
            headers={"retry-after": "3", "x-ratelimit-remaining-requests": 0},
        )
    ],
    "steered": ["other"],
    "three-turns": [answered(f"resp_{n}", str(n)) for n in (1, 2, 3)],
    "two-lanes-interleaved": [answered("resp_a", "A"), answered("resp_b", "B")],
}


def plain(events: list[Event]) -> list[Event]:
    """Return events without what the vendor's server adds to all responses."""
    found: list[Event] = []
    for each in events:
        match each:
            case MessageStart(id, model):
                found.append(MessageStart(id, model))
            case BlockStart(index, block):
                found.append(BlockStart(index, block))
            case MessageStop(reason, raw):
                found.append(MessageStop(reason, raw))
            case Opaque():
                pass
            case _:
                found.append(each)
    return found


@needs_corpus
def test_made_transcripts_say_what_was_written_into_them(tmp_path: Path) -> None:
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "responses-websocket"
    for name, expected in MADE.items():
        recordings = import_file(folder / f"made__{name}.jsonl", tmp_path / name)
        assert len(recordings) == len(expected), name
        for recording, events in zip(recordings, expected, strict=True):
            match events:
                case "truncated":
                    assert isinstance(recording.outcome, Truncated), name
                case str(reason):
                    assert isinstance(recording.outcome, Completed), name
                    assert recording.outcome.reason == reason, name
                case _:
                    assert plain(recording.events()) == events, name
    refused = import_file(folder / "made__upgrade-refused-426.jsonl", tmp_path / "refused")
    assert [(each.response.status, each.is_stream) for each in refused] == [(426, False)]


@needs_corpus
def test_rebuilt_transcripts_are_the_streams_that_they_were(tmp_path: Path) -> None:
    """A message is the JSON of an event, and as server-sent events they are the same stream."""
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "responses-websocket"
    paths = [
        path for path in sorted(folder.glob("*__*.jsonl")) if not path.name.startswith("made__")
    ]
    assert len(paths) == 24
    for path in paths:
        (recording,) = import_file(path, tmp_path / path.stem)
        assert isinstance(recording.outcome, Completed), path.name
        as_sse = as_response(recording.playback())
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        events = [line["data"] for line in lines if line["at"] == "server"]
        data = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        decoded = Recording(data.encode())
        assert Recording(as_sse.body).events() == decoded.events() == recording.events(), path.name
