"""What the messages of an upstream stand for: the ends of responses, their items, other events."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from support.gateway.calls import body_of, called
from support.gateway.socket_upstream import (
    ANTHROPIC,
    MESSAGES,
    SocketUpstream,
    ask,
    asked_over_websocket,
    call_item,
    echo,
    event,
    response_events,
    said,
    text_item,
    text_of,
)
from support.gateway.upstreams import TARGET
from websockets.asyncio.server import ServerConnection

from streamnorm._core.bodies.request import Reply
from streamnorm._upstream.requests import UpstreamRequest
from streamnorm.gateway.receiving import LARGE_BYTES, BodyThread
from streamnorm.gateway.websocket_answers import MessageReader
from streamnorm.gateway.websocket_creates import InputEnd
from streamnorm.gateway.websocket_upstreams import UpstreamSockets

pytestmark = pytest.mark.anyio


def terminal(kind: str, response: str) -> str:
    """Return a terminal with JSON of a response as a server spells it."""
    return f'{{"type":"response.{kind}","response":{response}}}'


def request_to(upstream: SocketUpstream) -> UpstreamRequest:
    """Return a request for a stream."""
    return UpstreamRequest(
        url=f"{upstream.url}/v1/responses",
        headers={},
        body=b'{"model":"m","input":"Hi."}',
        streams=True,
        include_usage=False,
        reply=Reply(),
        losses=(),
        request=None,
    )


ERROR = '"error":{"code":"server_error","message":"cut \\ud83d"}'
CUT = '"incomplete_details":{"reason":"max_output_tokens"}'


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (terminal("failed", f'{{"id":"resp_1","status":"failed",{ERROR}}}'), 500),
        (terminal("failed", f'{{"id":"resp_1",{ERROR}}}'), 500),
        (terminal("failed", '{"id":"resp_1","status":"completed"}'), 502),
        (terminal("completed", '{"id":"resp_1","status":"cancelled"}'), 502),
        ('{"type":"response.failed"}', 502),
        (terminal("cancelled", '{"id":"resp_1"}'), 502),
        ('{"type":"response.completed","response":{"id":"resp_1","sta', 502),
        (terminal("completed", "7"), 502),
        (terminal("incomplete", f'{{"id":"resp_1",{CUT}}}'), "max_tokens"),
        (terminal("incomplete", f'{{"note":"\\ud83d","status":"incomplete",{CUT}}}'), "max_tokens"),
        (terminal("completed", '{"id":"resp_1","note":"\\ud83d"}'), "end_turn"),
    ],
    ids=[
        *("surrogate in an error", "failed without a status", "contradicting status"),
        *(
            "completed as cancelled",
            "nothing failed",
            "cancelled",
            "cut",
            "number",
            "incomplete without a status",
        ),
        *("surrogate in an incomplete", "surrogate in a complete one"),
    ],
)
async def test_end_of_an_answer_without_a_stream_is_that_of_its_terminal(
    last: str, found: int | str
) -> None:
    """A body has no type of an event: one without a status would be a complete answer."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", [text_item("Hello")])[:-1])
        await socket.send(last)

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        request = {**MESSAGES, "stream": False, "messages": said("Hi.")}
        caller = await called(app, ANTHROPIC, request)
    body = body_of(caller)
    if isinstance(found, int):
        assert (caller.status, body["type"]) == (found, "error")
    else:
        assert (caller.status, body["stop_reason"]) == (200, found)
        assert body["content"] == [{"type": "text", "text": "Hello"}]


async def test_item_without_a_stream_is_never_left_out() -> None:
    items = [text_item("tool now \ud83d"), call_item("c1", '{"a":1}')]

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        *events, last = response_events("resp_1", items)
        await upstream.send(socket, *events)
        if len(upstream.creates) == 2:
            await socket.send('{"type":"response.output_item.done","item":')
        await upstream.send(socket, {**last, "response": {**last["response"], "output": []}})

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        request = {**MESSAGES, "stream": False, "messages": said("Hi.")}
        body = body_of(await called(app, ANTHROPIC, request))
        text, call = body["content"]
        assert (text["text"], call["input"]) == ("tool now \ufffd", {"a": 1})
        assert (await called(app, ANTHROPIC, request)).status == 502


@pytest.mark.parametrize("kind", ["response.metadata", "response.keep_alive"])
async def test_event_of_the_connection_is_not_one_of_the_response(kind: str) -> None:
    """An error behind it is a response with a status; behind a response it asks for nothing."""
    error = {"type": "invalid_request_error", "code": "previous_response_not_found"}
    limit = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Wait"}

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, event(kind, headers={}))
        if "previous_response_id" in sent:
            await upstream.send(socket, event("error", status=400, error=error))
        elif len(upstream.creates) == 4:
            headers = {"retry-after": "7"}
            await upstream.send(socket, event("error", status=429, error=limit, headers=headers))
        else:
            await echo(upstream, socket, sent)
            await upstream.send(socket, event(kind, headers={}))
            await asyncio.wait_for(await socket.ping(), 10)  # the gateway has read it

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
        assert (status, text_of(body)) == (200, "It is 3.")
        messages = said("Hi.", "It is 1.", "And?", "Another answer.", "And?")
        caller = await called(app, ANTHROPIC, {**MESSAGES, "messages": messages})
        assert (caller.status, caller.headers.get("retry-after")) == (429, "7")
        assert len(upstream.sockets) == 1


async def test_halves_of_a_surrogate_pair_are_joined_wherever_the_type_stands() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        *before, delta, done, last = response_events("resp_1", [text_item("a\U0001f600b")])
        halves = [{**delta, "delta": half} for half in ("a\ud83d", "\ude00b")]
        for number, each in enumerate([*before, *halves, done, last]):
            await socket.send(json.dumps({**each, "sequence_number": number}, sort_keys=True))

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "a\U0001f600b")
    assert b"message_stop" in body


@pytest.mark.parametrize("stream", [True, False])
async def test_large_item_is_read_beside_the_loop(
    *, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x" * (2 * LARGE_BYTES)
    is_main: dict[bool, set[bool]] = {False: set(), True: set()}  # by whether the message is large
    read = MessageReader.read

    def recorded(reader: MessageReader, message: bytes) -> bytes:
        in_main = threading.current_thread() is threading.main_thread()
        is_main[len(message) > LARGE_BYTES].add(in_main)
        return read(reader, message)

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", [text_item(text)]))

    monkeypatch.setattr(MessageReader, "read", recorded)
    async with asked_over_websocket(SocketUpstream(answer)) as app:
        request = {**MESSAGES, "stream": stream, "messages": said("Hi.")}
        caller = await called(app, ANTHROPIC, request)
        found = (
            text_of(b"".join(caller.bodies)) if stream else body_of(caller)["content"][0]["text"]
        )
    assert found == text
    assert is_main == {True: {False}, False: {True}}


@pytest.mark.parametrize("has_begun", [False, True])
async def test_closed_connections_end_the_answers_on_them(*, has_begun: bool) -> None:
    asked = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        events = response_events("resp_1", [text_item("Hello")])
        await upstream.send(socket, *events[: 4 * has_begun])
        asked.set()

    async def read(sockets: UpstreamSockets, request: UpstreamRequest) -> None:
        found = await sockets.ask(request, structs.replace(TARGET, websocket=True))
        assert found is not None
        while await found.readany():
            pass

    async with SocketUpstream(answer).running() as upstream:
        sockets = UpstreamSockets(65_536, BodyThread())
        reading = asyncio.create_task(read(sockets, request_to(upstream)))
        await asked.wait()
        await sockets.aclose()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await asyncio.wait_for(reading, 10)


async def test_fault_in_reading_a_message_ends_the_answer_at_once() -> None:
    class FaultyThread(BodyThread):
        async def run(self, size: int, work: Any) -> Any:
            if size > LARGE_BYTES:
                raise ZeroDivisionError("secret")
            return await super().run(size, work)

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, event("response.created", text="x" * LARGE_BYTES))
        await socket.wait_closed()

    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with SocketUpstream(answer).running() as upstream:
        sockets = UpstreamSockets(8 * LARGE_BYTES, FaultyThread())
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await asyncio.wait_for(sockets.ask(request_to(upstream), TARGET), 10)
        await sockets.aclose()
    assert faults == [{"message": "ZeroDivisionError at a message of an upstream"}]


# Messages


@pytest.mark.parametrize("continued", [None, "resp_0"])
def test_failure_that_is_no_unicode_is_read(continued: str | None) -> None:
    reader = MessageReader(None, continued, "", max_bytes=9, is_whole=False)
    message = b'{"type":"response.failed","response":{"id":"r","error":{"code":"\xff"}}}'
    assert reader.read(message) == b"event: response.failed\ndata: %b\n\n" % message
    assert (reader.is_ended, reader.error) == (True, None)


DELTA = b'{"type":"response.output_text.delta","delta":"a\\nb","sequence_number":4}'


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (DELTA, DELTA),
        (DELTA + b"\n", DELTA + b" "),
        (b" " + DELTA, b" " + DELTA),
        (DELTA.replace(b",", b",\r\n"), DELTA.replace(b",", b", ")),
        (DELTA.replace(b'"type":', b'"type" :'), DELTA.replace(b'"type":', b'"type" :')),
    ],
)
@pytest.mark.parametrize("has_begun", [False, True])
def test_delta_is_one_line_of_a_server_sent_event(
    message: bytes, line: bytes, *, has_begun: bool
) -> None:
    reader = MessageReader(InputEnd(1, b"x"), "resp_0", "", max_bytes=9, is_whole=False)
    if has_begun:  # by a delta of the same type
        reader.read(b'{"type":"response.created"}')
        reader.read(DELTA)
    assert reader.read(message) == b"event: response.output_text.delta\ndata: %b\n\n" % line
    assert reader.has_begun


@pytest.mark.parametrize(
    ("message", "number"), [(DELTA, 5), (DELTA.replace(b"4", b'"4"'), 0), (b'{"type":"odd"}', 3)]
)
def test_error_within_a_stream_is_that_of_server_sent_events(message: bytes, number: int) -> None:
    """Nested, with status and headers, it is known on WebSockets alone."""
    reader = MessageReader(None, None, "", max_bytes=9, is_whole=False)
    reader.read(b'{"type":"response.created","sequence_number":2}')
    reader.read(message)
    error = {"type": "rate_limit", "code": "rate_limit_exceeded", "message": "Slow."}
    sent = event("error", status=429, headers={"retry-after": "7"}, error=error)
    head, data = reader.read(json.dumps(sent).encode()).removesuffix(b"\n\n").split(b"\ndata: ")
    assert head == b"event: error"
    assert json.loads(data) == {
        "type": "error",
        "code": "rate_limit_exceeded",
        "message": "Slow.",
        "param": None,
        "sequence_number": number,
        "status": 429,
    }


def test_responses_without_fields_are_read() -> None:
    """Minimal servers send events with a type alone."""
    reader = MessageReader(InputEnd(1, b"x"), None, "", max_bytes=9, is_whole=True)
    messages = [b'{"type":"response.created"}', b'{"type":"response.output_item.done"}']
    messages += [b'{"type":"odd kind"}', b'{"type":"response.completed","response":{"a":1}}']
    ended = b'{"a":1,"status":"completed"}'
    assert [reader.read(message) for message in messages] == [b" ", b" ", b" ", ended]
    assert (reader.is_ended, reader.known) == (True, None)
    reader = MessageReader(None, None, "", max_bytes=9, is_whole=False)
    assert reader.read(b'{"type":"odd kind"}') == b'data: {"type":"odd kind"}\n\n'
