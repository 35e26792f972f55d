"""`ReplayApp`: the chunks it sends, their times, and the end of the response."""

from __future__ import annotations

import math
from typing import Any

import anyio
import httpx
import pytest
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message
from trio.testing import MockClock

from streamnorm.asgi import ReplayApp
from streamnorm.recording import UnrecordedRequest
from streamnorm.recording.format import Playback, PlaybackEnd, Step, WireRequest

pytestmark = pytest.mark.anyio

in_virtual_time = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["trio"]
)

STEPS = (Step(1.5, b"data: 1\n\nda"), Step(0.5, b"ta: 2"), Step(0, b"\n\n"))


class Script:
    """A responder with one answer for all requests, or one error."""

    def __init__(
        self,
        steps: tuple[Step, ...] = STEPS,
        end: PlaybackEnd = "eof",
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.asked: list[WireRequest] = []
        given = {"content-type": "text/event-stream"} if headers is None else headers
        self._playback = Playback(status, given, steps, end)
        self._error = error

    def respond(self, request: WireRequest) -> Playback:
        self.asked.append(request)
        if self._error is not None:
            raise self._error
        return self._playback


async def test_each_step_is_one_send_and_the_end_another() -> None:
    caller = Caller()
    await caller.call(ReplayApp(Script(status=201, headers={"content-type": "a/b", "x-c": "ü"})))
    assert caller.status == 201
    assert caller.headers == {"content-type": "a/b", "x-c": "ü"}
    assert caller.bodies == [b"data: 1\n\nda", b"ta: 2", b"\n\n", b""]
    assert [message["more_body"] for message in caller.messages[1:]] == [True] * 3 + [False]


async def test_responder_is_asked_what_the_client_asked() -> None:
    script = Script()
    caller = Caller(
        "/v1/a:b?key=1", headers=[("host", "h:1"), ("x-api-key", "k")], body=[b"{", b"}"]
    )
    await caller.call(ReplayApp(script))
    assert script.asked == [
        WireRequest("POST", "http://h:1/v1/a:b?key=1", (("host", "h:1"), ("x-api-key", "k")), b"{}")
    ]


async def test_headers_of_the_recorded_connection_are_not_repeated() -> None:
    headers = {"content-length": "1", "content-encoding": "gzip", "connection": "x-h", "x-h": "1"}
    caller = Caller()
    await caller.call(ReplayApp(Script(headers={**headers, "x-request-id": "7"})))
    assert caller.headers == {"x-request-id": "7"}


async def test_plain_client_reads_the_whole_body() -> None:
    transport = httpx.ASGITransport(ReplayApp(Script()))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        response = await client.post("/v1/messages", json={})
    assert response.content == b"data: 1\n\ndata: 2\n\n"


async def test_unrecorded_request_is_an_error_that_clients_do_not_retry() -> None:
    caller = Caller()
    await caller.call(ReplayApp(Script(error=UnrecordedRequest("no recording\n-a\n+b"))))
    assert caller.status == 404
    assert caller.headers["x-should-retry"] == "false"
    assert caller.error == {"type": "unrecorded_request", "message": "no recording\n-a\n+b"}
    assert caller.finished


async def test_recorded_reset_is_an_incomplete_response() -> None:
    caller = Caller()
    await caller.call(ReplayApp(Script(end="reset")))
    assert caller.bodies == [b"data: 1\n\nda", b"ta: 2", b"\n\n"]
    assert not caller.finished


async def stay(caller: Caller, app: Any, seconds: float) -> float:
    """Disconnect after `seconds`, and return when the application had ended."""

    async def leave() -> None:
        await anyio.sleep(seconds)
        caller.gone.set()

    start = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await caller.call(app)
        assert caller.gone.is_set()
    return anyio.current_time() - start


@in_virtual_time
async def test_recorded_timeout_is_silence_until_disconnect() -> None:
    caller = Caller()
    stayed_s = await stay(caller, ReplayApp(Script(end="timeout")), 3600)
    assert stayed_s == pytest.approx(3600)
    assert caller.bodies == [b"data: 1\n\nda", b"ta: 2", b"\n\n"]


@in_virtual_time
@pytest.mark.parametrize("speed", [0, 1])
async def test_infinite_stall_is_silence_until_disconnect(speed: float) -> None:
    caller = Caller()
    steps = (Step(0, b"a"), Step(0, b"b", stall_s=math.inf))
    stayed_s = await stay(caller, ReplayApp(Script(steps), speed=speed), 3600)
    assert stayed_s == pytest.approx(3600)
    assert caller.bodies == [b"a"]


@in_virtual_time
@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, [0, 0, 0, 0, 0]),
        ({"speed": 1}, [0, 1.5, 2, 2, 2]),
        ({"speed": 10}, [0, 0.15, 0.2, 0.2, 0.2]),
        ({"speed": 1, "max_gap_s": 1}, [0, 1, 1.5, 1.5, 1.5]),
    ],
)
async def test_steps_are_sent_at_the_recorded_pace(
    options: dict[str, float], times: list[float]
) -> None:
    sent: list[float] = []

    async def note(_: Message) -> None:
        sent.append(anyio.current_time() - start)

    start = anyio.current_time()
    await Caller(on_send=note).call(ReplayApp(Script(), **options))
    assert sent == pytest.approx(times)


@in_virtual_time
async def test_disconnect_stops_the_player() -> None:
    caller = Caller()
    app = ReplayApp(Script((Step(0, b"a"), Step(3600, b"b"))), speed=1)
    assert await stay(caller, app, 2) == pytest.approx(2)
    assert caller.bodies == [b"a"]


async def test_failed_send_is_a_disconnect() -> None:
    async def fail(message: Message) -> None:
        if message.get("body"):
            raise BrokenPipeError

    caller = Caller(on_send=fail)
    await caller.call(ReplayApp(Script()))
    assert caller.bodies == [b"data: 1\n\nda"]


@pytest.mark.parametrize("options", [{"speed": -1}, {"speed": math.nan}, {"max_gap_s": -1}])
def test_invalid_pace_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected 0 or more"):
        ReplayApp(Script(), **options)


def test_responder_is_an_attribute() -> None:
    script = Script()
    assert ReplayApp(script).responder is script
