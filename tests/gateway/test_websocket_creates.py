"""Creates on a WebSocket: their fields, their lanes, and the messages of their answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.calls import opened, scripted
from support.gateway.observers import RecordingObserver
from support.gateway.servers import served
from support.gateway.sockets import connected, create
from support.gateway.upstreams import ABORT, ANSWER, Head, StepUpstream
from support.http.scripted_upstream import Answered

from streamnorm import StreamError
from streamnorm.gateway import ModelConfig
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

# The events of a text, as the vendor's reference has them.
TEXT = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]
RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_responses" / "openai"
SSE = {"content-type": "text/event-stream"}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_answer_is_one_message_for_each_event() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        for _ in range(2):  # the numbers start anew with each response
            await socket.say(create())
            texts = [await socket.next_text() for _ in TEXT]
            events = [json.loads(text or "") for text in texts]
            assert kinds(events) == TEXT
            assert [event["sequence_number"] for event in events] == list(range(len(TEXT)))
            assert all("stream_id" not in event for event in events)


async def test_fields_of_the_socket_reach_no_upstream() -> None:
    """Codex sends `stream`; `client_metadata` stands for headers of a request over HTTP."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = {"traceparent": trace, "authorization": "Bearer other", "x-codex-turn-state": "s"}
    message = create(
        stream=True,
        background=False,
        stream_options={"include_obfuscation": False},
        generate=True,
        stream_id="a",
        client_metadata=metadata,
    )
    upstream = FakeProvider("Hi.")
    async with (
        served(upstream.app()) as url,
        opened(url, dialect="openai_responses") as app,
        connected(app) as socket,
    ):
        (*_, last) = await socket.ask(message)
    assert last["type"] == "response.completed"
    (request,) = upstream.requests
    expected = {"model": "m", "input": "Hi.", "store": False, "stream": True}
    # What is not stored has to be sent back.
    assert request.body == {**expected, "include": ["reasoning.encrypted_content"]}
    assert request.headers["traceparent"] == trace
    assert "x-codex-turn-state" not in request.headers


async def test_metadata_that_is_none_is_ignored() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        for metadata in ([], "x", None, {"traceparent": 1, "tracestate": "a\nb"}):
            (*_, last) = await socket.ask(create(client_metadata=metadata))
            assert last["type"] == "response.completed"
    assert all("tracestate" not in request.headers for request in upstream.requests)


BAD: list[tuple[dict[str, Any] | str | bytes, int, str | None]] = [
    ("", 400, None),
    ("{", 400, None),
    ("[]", 400, None),
    ("null", 400, None),
    ("1", 400, None),
    ('"response.create"', 400, None),
    ('{"type":"response.create"', 400, None),
    (b'{"type":"response.create"}', 400, None),
    (b"\x00", 400, None),
    ("[" * 2000, 400, None),
    ({}, 400, None),
    ({"type": None}, 400, None),
    ({"type": 1}, 400, None),
    ({"type": "response.append"}, 400, None),
    ({"type": "response.cancel"}, 400, None),
    ({"type": "session.update"}, 400, None),
    ({"type": "error"}, 400, None),
    ({"type": "response.create"}, 400, None),
    ({"type": "response.create", "response": {"model": "m"}}, 400, None),
    (create(background=True), 400, "background"),
    (create(background="x"), 400, "background"),
    (create(generate="no"), 400, "generate"),
    (create(generate=0), 400, "generate"),
    (create(input=7), 400, "input"),
    (create(previous_response_id=7), 400, "previous_response_id"),
    (create(stream_id=""), 400, "stream_id"),
    (create(stream_id=7), 400, "stream_id"),
    (create(stream_id="a b"), 400, "stream_id"),
    (create(stream_id='"}'), 400, "stream_id"),
    (create(stream_id="x" * 257), 400, "stream_id"),
    (create("x" * 3000), 413, None),
    ("{" + " " * 3000 + "}", 413, None),
    ({"type": "response.steer", "x": "\u00e9" * 2000}, 413, None),
]


async def test_bad_message_is_an_error_with_a_status_and_the_connection_lives() -> None:
    """Codex waits for minutes at an error without a status."""
    upstream = FakeProvider("Hi.")
    async with (
        served(upstream.app()) as url,
        opened(url, max_body_bytes=2048) as app,
        connected(app) as socket,
    ):
        for message, status, param in BAD:
            large = isinstance(message, str) and len(message) > 2048
            refused = (await socket.ask(message))[0]
            assert refused["type"] == "error", message
            assert refused["status"] == (413 if large else status), message
            assert {"type", "code", "message"} <= {*refused["error"]}, message
            assert isinstance(refused["error"]["message"], str), message
            if param is not None:
                assert refused["error"]["param"] == param, message
        (*_, last) = await socket.ask(create())
        assert last["type"] == "response.completed"
    assert len(upstream.requests) == 1


async def test_surrogates_and_long_names_pass() -> None:
    upstream = FakeProvider("Hi.")
    text = json.dumps(create("\ud83d\ude00 \ud83d", stream_id="x" * 256))
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        (*_, last) = await socket.ask(text)
    assert (last["type"], last["stream_id"]) == ("response.completed", "x" * 256)


async def test_events_of_a_lane_have_its_name_last() -> None:
    upstream = FakeProvider("Hi.")
    for dialect in ("openai_chat", "openai_responses"):
        async with (
            served(upstream.app()) as url,
            opened(url, dialect=dialect) as app,
            connected(app) as socket,
        ):
            await socket.say(create(stream_id="a.b_c-1"))
            events = []
            while not events or events[-1]["type"] != "response.completed":
                text = await socket.next_text() or ""
                assert text.endswith(',"stream_id":"a.b_c-1"}')
                events.append(json.loads(text))
        assert kinds(events)[0] == "response.created"


async def test_lanes_are_answered_side_by_side_and_creates_of_one_in_turn() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]], [*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        await socket.say(create("first", stream_id="a"))
        await upstream.asked.wait()
        await socket.say(create("second", stream_id="a"))
        await socket.say(create("third", stream_id="b"))
        await socket.say(create("fourth"))
        done = []
        while len(done) < 2:
            event = await socket.next()
            if event["type"] == "response.completed":
                done.append(event.get("stream_id"))
        assert {*done} == {"b", None}
        gate.set()
        while len(done) < 4:
            event = await socket.next()
            if event["type"] == "response.completed":
                done.append(event.get("stream_id"))
        assert done[2:] == ["a", "a"]
    asked = [request["messages"][0]["content"] for request in upstream.requests]
    assert (asked[0], asked[-1]) == ("first", "second")


async def test_lane_has_a_bound_of_creates_that_wait() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]], [*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        await socket.say(create())
        await upstream.asked.wait()
        for _ in range(16):
            await socket.say(create())
        refused = await socket.refusal(create())
        assert (refused["status"], refused["headers"]) == (429, {"retry-after": "1"})
        gate.set()
        for _ in range(17):
            assert (await socket.rest())[-1]["type"] == "response.completed"
    assert len(upstream.requests) == 17


async def test_creates_that_wait_have_a_bound_of_bytes() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]], [*ANSWER])
    async with (
        served(upstream) as url,
        opened(url, max_body_bytes=1000) as app,
        connected(app) as socket,
    ):
        await socket.say(create("x" * 800))
        await upstream.asked.wait()
        await socket.say(create("x" * 800))
        assert (await socket.refusal(create("x" * 800)))["status"] == 429
        gate.set()
        for _ in range(2):
            assert (await socket.rest())[-1]["type"] == "response.completed"


async def test_lanes_have_bounds() -> None:
    """The default lane is none of the 32, and one of the 16 that are answered at once."""
    gate = asyncio.Event()
    upstream = StepUpstream([*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        for number in range(32):
            (*_, last) = await socket.ask(create(stream_id=f"lane{number}"))
            assert last["type"] == "response.completed"
        refused = await socket.refusal(create(stream_id="lane32"))
        assert refused["status"] == 400
        assert refused["error"]["code"] == "websocket_stream_limit_reached"
        assert refused["stream_id"] == "lane32"
        upstream.answer_all([ANSWER[0], gate, *ANSWER[1:]])
        await socket.say(create())
        for number in range(15):
            await socket.say(create(stream_id=f"lane{number}"))
        await upstream.wait_for(48)
        refused = await socket.refusal(create(stream_id="lane15"))
        assert refused["error"]["code"] == "websocket_stream_limit_reached"
        await socket.say(create(stream_id="lane14"))  # which waits in its lane
        gate.set()
        done = 0
        while done < 17:
            done += (await socket.next())["type"] == "response.completed"


STEER = {"type": "response.steer", "input": "Stop."}


async def test_steer_is_refused_with_its_own_failure() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        await socket.say(create(stream_id="a"))
        created = await socket.next()
        running = created["response"]["id"]
        cases: list[tuple[dict[str, Any], str, str | None]] = [
            ({**STEER, "previous_response_id": running}, "steering_not_supported", "a"),
            ({**STEER, "previous_response_id": "resp_none"}, "response_not_found", None),
            ({**STEER}, "invalid_input", None),
            ({**STEER, "previous_response_id": running, "input": []}, "invalid_input", "a"),
        ]
        for message, code, lane in cases:
            await socket.say(message)
            while (event := await socket.next())["type"] != "response.steer.failed":
                pass
            assert event["error"]["type"] == "invalid_request_error"
            assert (event["error"]["code"], event.get("stream_id")) == (code, lane)
            # The input comes back, so that the client can send it in a create.
            assert event["steer"]["input"] == message["input"]
            assert event["steer"]["previous_response_id"] == message.get("previous_response_id")
        gate.set()
        assert (await socket.rest())[-1]["type"] == "response.completed"
        await socket.say({**STEER, "previous_response_id": running})
        assert (await socket.next())["error"]["code"] == "steering_not_supported"


async def test_acknowledgement_has_no_answer() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        await socket.say({"type": "response.processed", "response_id": "resp_1"})
        assert kinds(await socket.ask(create())) == TEXT


async def test_error_of_the_upstream_has_its_status_and_headers() -> None:
    """Codex reads them as those of a response over HTTP."""
    body = {
        "error": {"message": "Slow.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
    }
    headers = {"retry-after": "20", "x-ratelimit-remaining-requests": "0", "set-cookie": "a=b"}
    answers = {"/v1/responses": Answered(body, 429, headers)}
    async with scripted(answers, "openai_responses") as (app, _), connected(app) as socket:
        (event,) = await socket.ask(create(stream_id="a"))
        assert (event["type"], event["status"], event["stream_id"]) == ("error", 429, "a")
        assert event["error"] == body["error"]
        assert event["headers"]["retry-after"] == "20"
        assert event["headers"]["x-ratelimit-remaining-requests"] == "0"
        assert {"set-cookie", "content-type", "content-length"}.isdisjoint(event["headers"])


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StreamError("upstream", "Slow.", status_hint=429), 429, "rate_limit_exceeded"),
        (StreamError("upstream", "Full.", status_hint=529), 503, "server_is_overloaded"),
        (StreamError("upstream", "Down.", status_hint=500), 500, "server_error"),
        (
            StreamError("upstream", "prompt is too long: 9 tokens > 8 maximum", status_hint=400),
            400,
            "context_length_exceeded",
        ),
    ],
)
async def test_error_of_another_dialect_has_the_code_that_clients_act_on(
    error: StreamError, status: int, code: str
) -> None:
    upstream = FakeProvider([error, "Hi."])
    async with (
        served(upstream.app()) as url,
        opened(url, dialect="anthropic") as app,
        connected(app) as socket,
    ):
        (event,) = await socket.ask(create())
        assert (event["status"], event["error"]["code"]) == (status, code)
        assert kinds(await socket.ask(create())) == TEXT


async def test_upstream_that_does_not_answer_is_an_error() -> None:
    async with opened() as app, connected(app) as socket:
        (event,) = await socket.ask(create())
    assert (event["type"], event["status"]) == ("error", 502)


async def test_fallback_goes_on_while_a_client_over_http_would_have_its_status() -> None:
    """There is no status 200 that would have to be sent before a ping."""
    upstream = StepUpstream([Head(), 0.15, ABORT], [*ANSWER])
    async with (
        served(upstream) as url,
        opened(url, keepalive_s=0.02, commit_after_s=0.02, retries=1) as app,
        connected(app) as socket,
    ):
        assert kinds(await socket.ask(create()))[-1] == "response.completed"
    assert len(upstream.requests) == 2


def stream(*events: dict[str, Any] | str) -> Answered:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return Answered("".join(f"data: {line}\n\n" for line in lines).encode(), 200, SSE)


def response(status: str, **fields: Any) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    return {**head, "status": status, "output": [], **fields}


CREATED = {"type": "response.created", "sequence_number": 0, "response": response("in_progress")}
COMPLETED = {"type": "response.completed", "sequence_number": 9, "response": response("completed")}


async def answer_of(socket_events: Answered, **fields: Any) -> list[dict[str, Any]]:
    answers = {"/v1/responses": socket_events}
    async with scripted(answers, "openai_responses") as (app, _), connected(app) as socket:
        return await socket.ask(create(**fields))


async def test_upstream_of_the_dialect_passes_and_the_end_of_its_stream_does_not() -> None:
    limits = {"type": "codex.rate_limits", "plan_type": "plus", "rate_limits": {"allowed": True}}
    own = {"type": "response.own", "sequence_number": 1, "new": [1, {"x": None}]}
    events = await answer_of(stream(limits, CREATED, own, COMPLETED, "[DONE]"))
    assert events == [limits, CREATED, own, COMPLETED]


async def test_terminal_without_its_blank_line_ends_the_response() -> None:
    """As it does for clients of all other dialects; any other event is discarded."""
    body = stream(CREATED, COMPLETED).body
    for end in ("\n", ""):
        cut = Answered(body.decode().rstrip("\n").encode() + end.encode(), 200, SSE)
        assert await answer_of(cut) == [CREATED, COMPLETED]
    own = {"type": "response.own", "sequence_number": 1}
    for lost in (stream(CREATED, own).body[:-2], body[:-20]):
        events = await answer_of(Answered(lost, 200, SSE))
        assert kinds(events) == ["response.created", "response.failed"]


async def test_error_of_an_upstream_of_the_dialect_is_nested_and_has_a_status() -> None:
    flat = {"type": "error", "code": "server_error", "message": "Down.", "param": None}
    (event,) = await answer_of(stream({**flat, "sequence_number": 0}), stream_id="a")
    assert (event["type"], event["stream_id"]) == ("error", "a")
    assert 500 <= event["status"] <= 599
    assert event["error"]["message"] == "Down."


async def test_error_within_a_response_is_its_failure() -> None:
    flat = {"type": "error", "code": "server_error", "message": "Down.", "sequence_number": 4}
    events = await answer_of(stream(CREATED, flat))
    assert kinds(events) == ["response.created", "response.failed"]
    failed = events[-1]["response"]
    assert (failed["id"], failed["status"]) == ("resp_1", "failed")
    assert failed["error"] == {"code": "server_error", "message": "Down."}


async def test_stream_that_is_no_response_has_one_end_all_the_same() -> None:
    """What an upstream of the dialect sends passes, but never without an end."""
    head = {"type": "response.created", "sequence_number": 0}
    odd: list[tuple[list[Any], str]] = [
        (["{}", "[]", "null", '"x"', "no JSON", {"type": 7}], "error"),
        ([{**head, "response": None}], "response.failed"),
        ([{**head, "response": {"id": 7}}, {"type": "error"}], "error"),
        ([CREATED, {"type": "response.output_item.done"}, COMPLETED], "response.completed"),
        ([CREATED, COMPLETED, COMPLETED], "response.completed"),
    ]
    for events, end in odd:
        found = await answer_of(stream(*events), stream_id="a")
        assert found[-1]["type"] == end, events
        assert all(event["stream_id"] == "a" for event in found)
        assert end != "error" or found[-1]["status"] >= 500


async def test_items_that_only_the_last_event_has_can_be_continued() -> None:
    item = {"type": "message", "role": "assistant", "content": [], "id": "msg_1"}
    end = {**COMPLETED, "response": response("completed", output=[item])}
    upstream = {"/v1/responses": stream(CREATED, end)}
    async with scripted(upstream, "openai_responses") as (app, seen), connected(app) as socket:
        await socket.ask(create("one"))
        await socket.ask(create("two", previous_response_id="resp_1"))
    assert [given.get("id") for given in seen.requests[-1].json["input"]] == [None, "msg_1", None]


async def test_failure_of_an_upstream_of_the_dialect_comes_once() -> None:
    error = {"code": "server_error", "message": "Down."}
    failed = {"type": "response.failed", "response": response("failed", error=error)}
    flat = {"type": "error", "sequence_number": 1, "param": None, **error}
    events = await answer_of(stream(CREATED, flat, failed))
    assert events == [CREATED, failed]


async def test_observers_see_each_create_as_a_request() -> None:
    observer = RecordingObserver()
    upstream = FakeProvider(["Hi.", StreamError("upstream", "Slow.", status_hint=429)])
    models = [ModelConfig(match="m", to=["local"])]
    async with (
        served(upstream.app()) as url,
        opened(url, observers=(observer,), models=models) as app,
        connected(app) as socket,
    ):
        await socket.ask(create())
        await socket.ask(create())
        await socket.ask({**create(), "model": "unknown"})
        await socket.ask(create(background=True))
        await socket.ask("no create")
    assert len(observer.begun) == 4
    found = [(call.operation, call.model, call.status, call.ending) for call in observer.ended]
    assert found == [
        ("stream", "m", 200, "completed"),
        ("stream", "m", 429, "failed"),
        ("stream", "unknown", 404, "refused"),
        ("stream", "", 400, "refused"),
    ]


async def test_recorded_streams_come_as_they_were_recorded() -> None:
    """Each event of a stream of the dialect is the JSON of its message, byte for byte."""
    for name in (
        "text",
        "parallel-calls",
        "reasoning-summaries",
        "incomplete-length",
        "web-search",
    ):
        data = (RECORDINGS / f"{name}.sse").read_bytes()
        frames = [frame.data for frame in SSEDecoder().feed(data)]
        answers = {"/v1/responses": Answered(data, 200, SSE)}
        async with scripted(answers, "openai_responses") as (app, _), connected(app) as socket:
            await socket.say(create())
            assert [await socket.next_text() for _ in frames] == frames, name


async def test_stream_that_never_becomes_a_response_is_an_error() -> None:
    limits = {"type": "codex.rate_limits", "plan_type": "plus"}
    events = await answer_of(stream(limits, limits))
    assert kinds(events) == ["codex.rate_limits", "codex.rate_limits", "error"]
    assert events[-1]["status"] >= 500
    assert isinstance(events[-1]["error"]["message"], str)


async def test_events_of_a_response_behind_its_end_are_not_sent() -> None:
    """The client would take them for those of its next response."""
    text = (RECORDINGS / "text.sse").read_bytes()
    frames = [frame + b"\n\n" for frame in text.split(b"\n\n") if frame]
    delta = next(frame for frame in frames if b"output_text.delta" in frame)
    upstream = StepUpstream([Head(), *frames[:-1], frames[-1] + delta, delta, *frames])
    async with (
        served(upstream, strict=False) as url,
        opened(url, dialect="openai_responses") as app,
        connected(app) as socket,
    ):
        for _ in range(2):
            assert kinds(await socket.ask(create()))[0] == "response.created"
            assert kinds(await socket.ask({"type": "-"})) == ["error"]


async def test_error_body_of_another_form_is_an_error_all_the_same() -> None:
    for body, message in (({"detail": "No model."}, "No model."), (b"<html>", None)):
        (event,) = await answer_of(Answered(body, 422))
        assert (event["type"], event["status"]) == ("error", 422)
        assert message is None or event["error"]["message"] == message


async def test_event_of_many_megabytes_is_one_message() -> None:
    """Over HTTP, it is sent in pieces."""
    text = "x" * 3_000_000
    delta = {"type": "response.output_text.delta", "sequence_number": 1, "delta": text}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events = await answer_of(stream(CREATED, {**delta, **place}, COMPLETED), stream_id="a")
    assert [event.get("delta") for event in events] == [None, text, None]
    assert all(event["stream_id"] == "a" for event in events)


async def test_response_of_an_unknown_model_is_not_prepared() -> None:
    models = [ModelConfig(match="m", to=["local"])]
    async with opened(models=models) as app, connected(app) as socket:
        (event,) = await socket.ask({**create(generate=False), "model": "unknown"})
        assert (event["status"], event["error"]["code"]) == (404, "model_not_found")
        assert kinds(await socket.ask(create(generate=False)))[-1] == "response.completed"
