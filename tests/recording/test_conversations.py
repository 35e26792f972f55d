"""Conversations over a WebSocket: their exchanges, as recordings and as answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamnorm import Failed
from streamnorm._core.errors import UnrecordedRequest
from streamnorm.codec import SSE, WS_MESSAGE
from streamnorm.recording import Recording
from streamnorm.recording.conversations import (
    ConversationRecorder,
    MessageReader,
    as_response,
    body_of_create,
)
from streamnorm.recording.format import Playback, Step, WireRequest
from streamnorm.recording.library import Library
from streamnorm.recording.matching import normalise
from streamnorm.recording.recorder import Recorder
from streamnorm.testing import faults

URL = "wss://api.openai.com/v1/responses"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
HANDSHAKE = WireRequest("GET", URL, (("authorization", f"Bearer {KEY}"),), b"")
CREATE = {"type": "response.create", "model": "m", "input": "Hi."}


def event(type: str, stream_id: str | None = None, **fields: Any) -> str:
    lane = {} if stream_id is None else {"stream_id": stream_id}
    return json.dumps({"type": type, **fields, **lane})


def done(id: str, status: str = "completed", **fields: Any) -> str:
    response: dict[str, Any] = {"id": id, "status": status, "output": [], **fields}
    return event(f"response.{status}", sequence_number=1, response=response)


def created(id: str, stream_id: str | None = None) -> str:
    response: dict[str, Any] = {"id": id, "model": "m", "status": "in_progress", "output": []}
    return event("response.created", stream_id, sequence_number=0, response=response)


def create(**fields: Any) -> str:
    return json.dumps({**CREATE, **fields})


def record(folder: Path, **options: Any) -> ConversationRecorder:
    return ConversationRecorder(Recorder(folder, **options), HANDSHAKE, [("date", "now")])


def load(folder: Path) -> list[Recording]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".ws.jsonl"))
    return [Recording.load(folder / name) for name in names]


def ask(library: Library, **fields: Any) -> Playback:
    return library.respond(WireRequest("POST", URL, (), create(**fields).encode()))


# Recording


def test_each_create_is_an_exchange_with_what_answers_it(tmp_path: Path) -> None:
    both = record(tmp_path)
    limits = event("codex.rate_limits", plan_type="plus")
    both.add_received(limits)
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_received(done("r1"))
    both.add_received(event("responsesapi.websocket_timing"))
    both.add_sent(create(previous_response_id="r1"))
    both.add_received(created("r2"))
    both.end("aborted")
    first, second = load(tmp_path)
    assert first.body.decode().splitlines() == [limits, created("r1"), done("r1")]
    assert (first.response.end, first.response.status) == ("eof", 200)
    assert first.framing is WS_MESSAGE
    assert first.request is not None
    assert (first.request.method, first.request.url) == ("POST", URL)
    assert first.request.body == CREATE
    assert json.loads(second.body.splitlines()[0])["type"] == "responsesapi.websocket_timing"
    assert second.response.end == "aborted"
    assert first.server == "openai"


def test_lanes_are_recorded_apart_and_in_the_order_of_their_creates(tmp_path: Path) -> None:
    both = record(tmp_path)
    for name in ("a", "b", "a"):
        both.add_sent(create(stream_id=name))
    both.add_received(created("a1", "a"))
    both.add_received(created("b1", "b"))
    both.add_received(event("error", "a", status=400, error={"message": "No."}))
    both.add_received(created("a2", "a"))
    both.end("reset", 1011)
    a, b, waiting = load(tmp_path)
    assert [json.loads(line)["type"] for line in a.body.splitlines()] == [
        "response.created",
        "error",
    ]
    assert isinstance(a.outcome, Failed)
    assert b.body.decode() == created("b1", "b") + "\n"
    assert waiting.body.decode() == created("a2", "a") + "\n"
    assert [each.response.end for each in (a, b, waiting)] == ["eof", "reset", "reset"]
    assert b.response.close_code == 1011
    assert b.playback().close_code == 1011
    assert a.playback().close_code is None


def test_refusal_of_a_waiting_create_does_not_end_the_running_response(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_sent(create(input="Second."))
    both.add_sent(create(input="Third."))
    refusal = event("error", status=429, error={"type": "rate_limit_error", "message": "Busy."})
    both.add_received(refusal)
    both.add_received(event("response.newer"))
    both.add_received(done("r1"))
    both.add_received(created("r2"))
    both.add_received(done("r2"))
    both.end("aborted")
    first, second, third = load(tmp_path)
    lines = [created("r1"), event("response.newer"), done("r1")]
    assert first.body.decode().splitlines() == lines
    assert second.body.decode().splitlines() == [created("r2"), done("r2")]
    assert third.body.decode().splitlines() == [refusal]
    assert [each.response.end for each in (first, second, third)] == ["eof"] * 3


def test_error_before_any_response_ends_the_oldest_create(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_sent(create(input="Second."))
    both.add_received(event("error", status=400, error={"message": "No."}))
    both.add_received(done("r2"))
    first, second = load(tmp_path)
    assert isinstance(first.outcome, Failed)
    assert second.body.decode().splitlines() == [done("r2")]


def test_second_terminal_of_a_response_is_in_no_exchange(tmp_path: Path) -> None:
    """OpenAI sends an `error` in a response, with a number, and `response.failed` behind it."""
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_sent(create(input="Second."))
    quota = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "None left."}
    failure = event("error", sequence_number=2, error=quota)
    both.add_received(failure)
    both.add_received(done("r1", "failed", error=quota))
    both.add_received(created("r2"))
    both.add_received(done("r1", "failed", error=quota))
    both.add_received(done("r2"))
    both.add_sent(create(input="Third."))
    both.add_received(done("r2"))
    both.add_received(created("r2"))  # a server without ids of its own
    both.add_received(done("r2"))
    both.end("aborted")
    first, second, third = load(tmp_path)
    assert first.body.decode().splitlines() == [created("r1"), failure]
    assert second.body.decode().splitlines() == [created("r2"), done("r2")]
    assert third.body.decode().splitlines() == [created("r2"), done("r2")]
    assert [each.response.end for each in (first, second, third)] == ["eof"] * 3


def test_error_without_a_number_is_that_of_the_response_that_ends_by_it(tmp_path: Path) -> None:
    both = record(tmp_path)
    failure = event("error", error={"message": "It broke."})
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_sent(create(input="Second."))
    both.add_received(failure)
    both.add_received(event("codex.rate_limits"))
    both.add_received(done("r1", "failed"))
    both.add_received(created("r2"))
    both.add_received(done("r2"))
    first, second = load(tmp_path)
    lines = [created("r1"), event("codex.rate_limits"), failure]
    assert first.body.decode().splitlines() == lines
    assert second.body.decode().splitlines() == [created("r2"), done("r2")]


@pytest.mark.parametrize("id", ["r1", None])
def test_creates_are_refused_until_the_connection_ends(tmp_path: Path, id: str | None) -> None:
    both = record(tmp_path)
    refusal = event("error", status=429, error={"message": "Busy."})
    begun = event("response.created", response={"id": id})
    both.add_sent(create())
    both.add_received(begun)
    for number in range(3):
        both.add_sent(create(input=str(number)))
    both.add_received(refusal)
    both.add_received(refusal)
    both.add_received(event("response.failed", response={"id": "other"}))
    both.add_received(created("r2"))
    both.add_sent(create(input="Last."))
    both.add_received(refusal)
    both.end("reset", 1011)
    found = load(tmp_path)
    assert [each.response.end for each in found] == ["eof", "reset", "eof", "eof", "eof"]
    first, second, *refused = [each.body.decode().splitlines() for each in found]
    assert first == [begun, event("response.failed", response={"id": "other"})]
    assert second == [created("r2")]
    assert refused == [[refusal]] * 3


def test_message_whose_type_is_no_text_is_recorded(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received('{"type":[]}')
    both.add_received('{"type":"response.completed","response":{"text":"\\ud83d"}}')
    (recording,) = load(tmp_path)
    assert recording.response.end == "eof"
    assert len(recording.body.splitlines()) == 2


def test_response_that_no_create_waits_for_is_in_no_exchange(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_received(done("r1"))
    both.add_received(created("r2"))
    both.add_sent(create(input="Second."))
    both.add_received(event("response.newer"))
    both.add_received(done("r2"))
    both.add_received(event("codex.rate_limits"))
    both.add_received(created("r3"))
    both.add_received(done("r3"))
    first, second = load(tmp_path)
    assert first.body.decode().splitlines() == [created("r1"), done("r1")]
    lines = [event("codex.rate_limits"), created("r3"), done("r3")]
    assert second.body.decode().splitlines() == lines


@pytest.mark.parametrize("response", [None, "r1", {"id": 1}, {"text": "half: \ud83d"}])
def test_terminal_without_a_readable_id_ends_its_exchange(tmp_path: Path, response: Any) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    terminal = event("response.failed", response=response)
    both.add_received(terminal)
    (recording,) = load(tmp_path)
    assert recording.body.decode().splitlines() == [created("r1"), terminal]
    assert recording.response.end == "eof"


def test_peers_cannot_fill_the_memory(tmp_path: Path) -> None:
    both = record(tmp_path)
    for number in range(200):
        both.add_received(event("response.newer", f"lane-{number}", text="x" * 10_000))
    both.add_sent(create())
    for _ in range(1100):
        both.add_sent(event("response.steer", input="x"))
    both.add_sent(event("response.steer", input="x" * 17_000_000))
    both.end("aborted")
    (recording,) = load(tmp_path)
    assert len(recording.body.splitlines()) == 64
    assert recording.request is not None
    assert len(recording.request.sent) == 1000


def test_steered_response_goes_on_in_its_exchange(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent("no JSON")  # before any create
    both.add_sent(create())
    both.add_received(created("r1"))
    steer = {"type": "response.steer", "previous_response_id": "r1", "input": f"Use {KEY}"}
    both.add_sent(json.dumps(steer))
    both.add_sent("no JSON")
    details = {"reason": "steered"}
    both.add_received(done("r1", "incomplete", incomplete_details=details))
    both.add_received(created("r2"))
    both.add_received(done("r2", text='"steered"'))
    both.add_received(event("error", status=400, error={"message": "of no create"}))
    both.end("aborted")
    (recording,) = load(tmp_path)
    assert recording.response.end == "eof"
    assert len(recording.body.splitlines()) == 4
    assert recording.request is not None
    sent = [(each.after, each.data) for each in recording.request.sent]
    assert sent == [(1, {**steer, "input": f"Use {'x' * len(KEY)}"}), (1, "no JSON")]
    assert recording.redacted > 0


def steer(kind: str, id: str | None = "steer_1") -> str:
    """Return what a provider says of input that is added to a response."""
    known = {} if id is None else {"id": id}
    return event(f"response.steer.{kind}", steer={"previous_response_id": "r1", **known})


STEERED = done("r1", "incomplete", incomplete_details={"reason": "steered"})


@pytest.mark.parametrize(
    "received",
    [
        [STEERED, steer("failed")],
        [STEERED, steer("failed", None)],
        [steer("accepted"), STEERED, steer("failed")],
        [steer("accepted"), steer("accepted", "b"), STEERED, steer("failed"), steer("failed", "b")],
        [steer("accepted"), steer("failed"), done("r1")],
        [steer("failed", None), done("r1")],
        [steer("accepted"), done("r1"), steer("pending")],
        [steer("accepted"), done("r1", "failed"), steer("failed")],
        [steer("accepted"), STEERED, event("error", status=500, error={"message": "Later."})],
        [steer("accepted"), done("r1"), created("r2"), done("r2")],
        [steer("accepted"), STEERED, created("r2"), steer("failed", None), done("r2")],
    ],
    ids=[
        *("failed", "failed without id", "accepted, failed", "both failed"),
        *("failed while running", "refused while running", "pending", "response failed", "error"),
        *("completed, successor", "steered, successor"),
    ],
)
def test_exchange_of_a_steered_response_ends_once_no_other_response_can_follow(
    tmp_path: Path, received: list[str]
) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    for message in received:
        both.add_received(message)
    both.add_sent(create())
    both.add_received(created("r3"))
    both.add_received(done("r3"))
    both.end("aborted")
    first, second = load(tmp_path)
    assert (first.response.end, second.response.end) == ("eof", "eof")
    assert len(first.body.splitlines()) == 1 + len(received)
    assert len(second.body.splitlines()) == 2


def test_exchange_whose_successor_is_missing_is_not_whole(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    for message in (created("r1"), steer("accepted"), steer("accepted", "b"), STEERED):
        both.add_received(message)
    both.add_received(steer("failed"))
    both.end("reset", 1011)
    (recording,) = load(tmp_path)
    assert recording.response.end == "reset"


def test_keys_are_in_no_file(tmp_path: Path) -> None:
    own = "a-password-of-ours"
    both = record(tmp_path, redact=[own])
    both.add_sent(create(input=f"{KEY} {own}", client_metadata={"authorization": KEY}))
    both.add_received(created(KEY))
    both.add_received(event("response.newer", text=f"{KEY} and {own}"))
    both.add_received(done("r1"))
    both.end("aborted")
    for name in os.listdir(tmp_path):
        content = (tmp_path / name).read_bytes()
        assert KEY.encode() not in content
        assert own.encode() not in content
        assert b"authorization: " not in content.lower()
    (recording,) = load(tmp_path)
    assert recording.request is not None
    assert recording.request.headers == {}


@pytest.mark.parametrize(
    ("url", "header", "value"),
    [
        (URL, "authorization", "Bearer {}"),
        (URL, "api-key", "{}"),
        (URL, "cookie", "session={}"),
        (URL, "sec-websocket-protocol", "realtime, openai-insecure-api-key.{}"),
        (f"{URL}?api_key={{}}", "x-request", "1"),
    ],
)
def test_credential_of_a_handshake_is_in_no_file_whatever_its_shape(
    tmp_path: Path, url: str, header: str, value: str
) -> None:
    canary = "Correct.Horse_Battery"
    handshake = WireRequest("GET", url.format(canary), ((header, value.format(canary)),), b"")
    recorder = Recorder(tmp_path)
    both = ConversationRecorder(recorder, handshake, [("set-cookie", f"a={canary}")])
    both.add_sent(create(input=f"I am {canary}."))
    both.add_sent(event("response.steer", input=[f"Still {canary}."]))
    both.add_received(event("response.newer", text=f"You are {canary}."))
    both.end("reset", 1011)
    writer = recorder.start(handshake)  # refused
    writer.begin(401, [("content-type", "application/json")])
    writer.write(f'{{"error":{{"message":"wrong key: {canary}"}}}}'.encode())
    writer.end("eof")
    files = [(tmp_path / name).read_text() for name in os.listdir(tmp_path)]
    assert len(files) == 4
    assert not any(canary in content for content in files)


def test_bodies_of_creates_may_be_left_out(tmp_path: Path) -> None:
    both = record(tmp_path, request_bodies=False)
    both.add_sent(create())
    both.add_sent(event("response.steer", input="x"))
    both.add_received(done("r1"))
    library = Library(tmp_path)
    assert library.recordings[0].request is not None
    assert library.recordings[0].request.sent == []
    assert ask(library, input="anything").status == 200


# Answers


def test_what_a_websocket_adds_is_not_compared(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create(stream_id="a", stream=True, client_metadata={"x": "1"}))
    both.add_received(event("response.completed", "a", response={}))
    both.end("aborted")
    library = Library(tmp_path)
    with pytest.raises(UnrecordedRequest, match="query or body differs"):
        ask(library, input="Else.")
    with pytest.raises(UnrecordedRequest):
        ask(library, generate=False)
    assert ask(library, stream_id="b").framing is WS_MESSAGE
    with pytest.raises(UnrecordedRequest, match="all played"):
        ask(library)
    body = {**CREATE, "background": False}
    assert body_of_create(body) == {"model": "m", "input": "Hi.", "stream": True}
    (recording,) = library.recordings
    assert recording.request is not None
    assert normalise(recording.request).body == {"model": "m", "input": "Hi.", "stream": True}


def test_handshake_is_accepted_unless_the_next_recording_refuses_it(tmp_path: Path) -> None:
    handshake = WireRequest("GET", URL, (), b"")
    recorder = Recorder(tmp_path)
    for status in (426, 101):
        if status == 101:
            both = ConversationRecorder(recorder, HANDSHAKE, ())
            both.add_sent(create())
            both.add_received(done("r1"))
            continue
        writer = recorder.start(handshake)
        writer.begin(status, [("content-type", "application/json")])
        writer.write(b'{"error":{"message":"HTTP"}}')
        writer.end("eof")
    library = Library(tmp_path)
    assert library.respond(handshake).status == 426
    assert library.respond(handshake).status == 101
    assert ask(library).status == 200
    assert library.respond(handshake).status == 101
    assert library.replayed == 2
    assert library.unplayed == ()


def test_create_answers_a_request_over_http(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    both.add_received(created("r1"))
    both.add_received(done("r1"))
    both.add_sent(create())
    error = {"type": "rate_limit_error", "message": "Slow."}
    both.add_received(event("error", status=429, error=error, headers={"retry-after": 3}))
    library = Library(tmp_path)
    body = json.dumps({"model": "m", "input": "Hi.", "stream": True}).encode()
    request = WireRequest("POST", "https://h.example/v1/responses", (), body)
    playback = library.respond(request)
    assert (playback.framing, playback.headers["content-type"]) == (SSE, "text/event-stream")
    assert playback.body.decode() == (
        f"event: response.created\ndata: {created('r1')}\n\n"
        f"event: response.completed\ndata: {done('r1')}\n\n"
    )
    refused = library.respond(request)
    assert (refused.status, refused.headers["retry-after"]) == (429, "3")
    assert json.loads(refused.body) == {"error": error}


@pytest.mark.parametrize(
    ("fields", "status", "body"),
    [
        ({"error": "It broke.", "status": 200}, 502, {"message": "It broke."}),
        ({"code": "a", "message": "Flat."}, 502, {"code": "a", "message": "Flat."}),
    ],
)
def test_error_without_a_status_is_an_error_response(
    fields: dict[str, Any], status: int, body: dict[str, Any]
) -> None:
    line = event("error", **fields).encode() + b"\n"
    playback = as_response(Playback(200, {}, (Step(1.0, line),), framing=WS_MESSAGE))
    assert (playback.status, json.loads(playback.body)) == (status, {"error": body})
    assert playback.steps[0].delay_s == 1.0


def messages(playback: Playback, stream_id: str | None = None) -> tuple[list[Any], bool]:
    reader = MessageReader(playback, stream_id)
    found = [text for step in playback.steps for text in reader.feed(step.data)]
    return [json.loads(text) for text in (*found, *reader.close())], reader.has_ended


def test_answers_over_http_are_messages() -> None:
    sse = {"content-type": "text/event-stream; charset=utf-8"}
    data = b'event: a\ndata: {"type":"a"}\n\ndata: [DONE]\n\ndata: {"type":"response.failed"}\n\n'
    steps = (Step(0, data[:9]), Step(0, data[9:]))
    found, has_ended = messages(Playback(200, sse, steps), "l")
    assert found == [
        {"type": "a", "stream_id": "l"},
        {"type": "response.failed", "stream_id": "l"},
    ]
    assert has_ended
    assert not messages(Playback(200, sse, steps[:1]))[1]
    flat = b'data: {"type":"error","code":"rate_limit_exceeded","message":"Slow."}\n\n'
    ((error,), _) = messages(Playback(200, sse, (Step(0, flat),)))
    assert (error["status"], error["error"]["message"]) == (429, "Slow.")
    with_status = b'data: {"type":"error","status":400,"error":{"message":"No."}}\n\n'
    ((error,), _) = messages(Playback(200, sse, (Step(0, with_status),)))
    assert error == {"type": "error", "status": 400, "error": {"message": "No."}}
    bare = b'data: {"type":"error"}\n\n'
    assert messages(Playback(200, sse, (Step(0, bare),)))[0][0]["status"] == 502


def test_last_message_is_played_without_its_line_end() -> None:
    ws = {"content-type": WS_MESSAGE.media_type}
    whole = f"{created('r1')}\n{done('r1')}".encode()
    cut_at = len(created("r1")) + 20
    steps = (Step(0, whole[:cut_at]), Step(0, whole[cut_at:]), Step(0, b""))
    playback = Playback(200, ws, steps, framing=WS_MESSAGE)
    first, last = json.loads(created("r1")), json.loads(done("r1"))
    assert messages(playback, "l") == (
        [first | {"stream_id": "l"}, last | {"stream_id": "l"}],
        True,
    )
    assert as_response(playback).body.decode() == (
        f"event: response.created\ndata: {created('r1')}\n\n"
        f"event: response.completed\ndata: {done('r1')}\n\n"
    )
    refusal = event("error", status=429, error={"message": "Slow."}).encode()
    refused = as_response(Playback(200, ws, (Step(0, refusal),), framing=WS_MESSAGE))
    assert (refused.status, json.loads(refused.body)) == (429, {"error": {"message": "Slow."}})
    sse = {"content-type": "text/event-stream"}
    data = f"data: {created('r1')}\n\ndata: {done('r1')}"
    for end in ("", "\n"):
        steps = (Step(0, (data + end).encode()),)
        assert messages(Playback(200, sse, steps)) == ([first, last], True)


@pytest.mark.parametrize("cut", [1, 40])
def test_half_a_message_at_the_end_is_not_played(cut: int) -> None:
    ws = {"content-type": WS_MESSAGE.media_type}
    data = f"{created('r1')}\n{done('r1')}"[:-cut].encode()
    playback = Playback(200, ws, (Step(0, data),), framing=WS_MESSAGE)
    assert messages(playback) == ([json.loads(created("r1"))], False)
    as_sse = f"event: response.created\ndata: {created('r1')}\n\n"
    assert as_response(playback).body.decode() == as_sse
    sse = {"content-type": "text/event-stream"}
    over_http = Playback(200, sse, (Step(0, f"{as_sse}data: {done('r1')}"[:-cut].encode()),))
    assert messages(over_http) == ([json.loads(created("r1"))], False)


def test_message_that_a_reset_cuts_is_not_played() -> None:
    steps = (Step(0, f"{created('r1')}\n{done('r1')}".encode()),)
    playback = Playback(200, {}, steps, "reset", framing=WS_MESSAGE)
    as_sse = f"event: response.created\ndata: {created('r1')}\n\n"
    assert as_response(playback).body.decode() == as_sse
    assert as_response(structs.replace(playback, steps=())).body == b""


def test_whole_bodies_are_errors() -> None:
    json_type = {"content-type": "application/json", "retry-after": "1"}
    body = b'{"error":{"message":"Busy.","type":"server_error"}}'
    ((error,), has_ended) = messages(Playback(503, json_type, (Step(0, body),)))
    assert (error["status"], error["headers"]) == (503, {"retry-after": "1"})
    assert error["error"]["message"] == "Busy."
    assert has_ended
    assert messages(Playback(200, json_type, (Step(0, b"{}"),)))[0][0]["status"] == 502


def test_faults_change_messages(tmp_path: Path) -> None:
    both = record(tmp_path)
    both.add_sent(create())
    for text in (created("r1"), event("response.newer"), done("r1")):
        both.add_received(text)
    (recording,) = load(tmp_path)
    for fault in faults.every(recording):
        playback = fault(recording.playback())
        reader = MessageReader(playback, None)
        texts = [text for step in playback.steps for text in reader.feed(step.data)]
        assert len([*texts, *reader.close()]) <= 4, fault
    assert len(messages(faults.cut(event=2)(recording.playback()))[0]) == 2
    assert len(messages(faults.drop_terminal()(recording.playback()))[0]) == 2
    *_, error = messages(faults.error_event(event=1)(recording.playback()))[0]
    assert (error["type"], error["status"]) == ("error", 503)
    assert len(messages(faults.duplicate(event=1)(recording.playback()))[0]) == 4
