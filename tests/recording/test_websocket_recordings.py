"""The recordings of a conversation over a WebSocket: as events, as messages, and as answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.streams.corpus import recordings

from streamnorm import Failed, Truncated
from streamnorm._core.json import compact
from streamnorm._transcoder import Transcoder
from streamnorm.codec import WS_MESSAGE, decoder
from streamnorm.recording import Recording
from streamnorm.recording.conversations import MessageReader, as_response, body_of_create
from streamnorm.recording.format import WireRequest
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder
from streamnorm.validation import validate

FOLDER = Path(__file__).parents[2] / "recordings" / "openai_responses" / "openai"
SOCKET = {
    each.name.partition("/websocket-")[2]: each
    for each in recordings("openai_responses", framings=True)
    if each.framing is WS_MESSAGE
}
TURNS = ("first-turn", "second-turn", "lane")
each_recorded = pytest.mark.parametrize("recording", SOCKET.values(), ids=SOCKET)


def events_of(recording: Recording) -> bytes:
    """Return the messages as server-sent events, which have no lane."""
    found = [json.loads(line) for line in recording.body.splitlines()]
    for each in found:
        each.pop("stream_id", None)
    pairs = [(each["type"], compact(each)) for each in found]
    return "".join([f"event: {name}\ndata: {data}\n\n" for name, data in pairs]).encode()


def ask(recording: Recording, url: str, **fields: object) -> WireRequest:
    assert recording.request is not None
    body = {**recording.request.body, **fields}
    return WireRequest("POST", url, (), json.dumps(body).encode())


def test_conversation_has_turns_a_lane_and_an_error() -> None:
    assert {*SOCKET} == {*TURNS, "error"}


@each_recorded
def test_no_recording_breaks_a_rule(recording: Recording) -> None:
    assert validate(recording.body, "openai_responses", framing=WS_MESSAGE) == []


@each_recorded
@pytest.mark.parametrize("how", ["event", "byte", "hostile", "random:5"])
def test_chunks_do_not_matter(recording: Recording, how: str) -> None:
    reader = decoder("openai_responses", framing=WS_MESSAGE)
    events = [event for data in recording.chunks(how) for event in reader.feed(data)]
    assert events + reader.close() == recording.expected


@each_recorded
def test_no_prefix_passes_for_the_whole(recording: Recording) -> None:
    # The end of the last message is not needed where the message is whole.
    for cut in range(len(recording.body) - 1):
        reader = decoder("openai_responses", framing=WS_MESSAGE)
        reader.feed(recording.body[:cut])
        reader.close()
        assert isinstance(reader.outcome, Failed | Truncated), cut


@each_recorded
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
def test_framing_does_not_change_what_is_written(recording: Recording, target: str) -> None:
    over_http = Transcoder("openai_responses", target, verbatim=False)
    over_socket = Transcoder("openai_responses", target, verbatim=False, framing=WS_MESSAGE)
    expected = b"".join(over_http.feed(events_of(recording)))
    assert b"".join(over_socket.feed(recording.body)) == expected


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("lane", [{}, {"stream_id": "other"}], ids=["default", "other lane"])
def test_create_of_any_lane_is_answered_by_its_recording(name: str, lane: dict[str, str]) -> None:
    recording = SOCKET[name]
    playback = Library(FOLDER).respond(ask(recording, "wss://here/v1/responses", **lane))
    assert playback.framing is WS_MESSAGE
    assert playback.body == recording.body


@each_recorded
def test_request_over_http_is_answered_by_the_recording_of_a_create(recording: Recording) -> None:
    assert recording.request is not None
    body = json.dumps(body_of_create(recording.request.body)).encode()
    asked = WireRequest("POST", "https://here/v1/responses", (), body)
    playback = as_response(Library(FOLDER).respond(asked))
    if recording is SOCKET["error"]:
        assert playback.status == 400
        assert json.loads(playback.body)["error"]["code"] == "previous_response_not_found"
    else:
        assert playback.body == events_of(recording)


def test_recorded_stream_without_a_content_type_answers_a_create(tmp_path: Path) -> None:
    """Messages of a WebSocket have no content type."""
    sent = [
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
        {"type": "response.completed", "response": {"id": "r1", "status": "completed"}},
    ]
    writer = Recorder(tmp_path).start(
        WireRequest("POST", "https://a.example/v1/responses", (), b'{"input":"Hi"}')
    )
    writer.begin(200, [])
    writer.write(b"".join([f"data: {json.dumps(each)}\n\n".encode() for each in sent]))
    writer.end("eof")
    asked = b'{"type":"response.create","input":"Hi"}'
    request = WireRequest("POST", "wss://a.example/v1/responses", (), asked)
    playback = Library(tmp_path, match="sequence").respond(request)
    reader = MessageReader(playback, None)
    found = [text for step in playback.steps for text in reader.feed(step.data)]
    assert [json.loads(text) for text in (*found, *reader.close())] == sent
    assert reader.has_ended
