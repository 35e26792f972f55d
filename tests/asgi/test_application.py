"""The request that an application receives, and the requests that it refuses."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.http.asgi_caller import Caller
from support.http.asgi_client import UNANSWERED, Message

from streamnorm import LocalProtocolError
from streamnorm.asgi.responses import Exchange
from streamnorm.asgi.servers import MAX_BODY_BYTES, Application, ReceivedRequest, refuse, start

pytestmark = pytest.mark.anyio


class Listening(Application):
    """An application that stores its requests and answers with an empty response."""

    def __init__(self) -> None:
        self.asked: list[ReceivedRequest] = []
        self.closed = 0

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        self.asked.append(request)
        await start(exchange, 204, [(b"x-was", b"asked")])
        await exchange.send(b"", more=False)

    async def aclose(self) -> None:
        self.closed += 1


async def receive_request(caller: Caller) -> ReceivedRequest:
    app = Listening()
    await caller.call(app)
    assert caller.status == 204
    (request,) = app.asked
    return request


async def refused(caller: Caller) -> dict[str, str]:
    app = Listening()
    await caller.call(app)
    assert app.asked == []
    assert caller.finished
    (body,) = caller.bodies
    assert caller.headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    return caller.error


async def test_request_is_passed_on_as_sent() -> None:
    headers = [("Host", "a.example"), ("x-b", "1"), ("X-B", "2")]
    request = await receive_request(
        Caller("/v1/a?key=1&b=%20", method="PUT", headers=headers, body=[b"{", b"", b"}"])
    )
    assert request.method == "PUT"
    assert request.origin == "http://a.example"
    assert request.target == b"/v1/a?key=1&b=%20"
    assert request.headers == ((b"host", b"a.example"), (b"x-b", b"1"), (b"x-b", b"2"))
    assert request.body == b"{}"


async def test_path_is_not_decoded() -> None:
    request = await receive_request(Caller("/", path="/a b", raw_path=b"/a%20b"))
    assert request.target == b"/a%20b"


async def test_path_is_encoded_again_if_the_server_has_no_raw_path() -> None:
    caller = Caller("/?b=1", headers=[], path="/root/v1/a:b 100%?\u00e9", root_path="/root")
    del caller.scope["raw_path"]
    request = await receive_request(caller)
    assert request.target == b"/v1/a:b%20100%25%3F%C3%A9?b=1"
    assert request.origin == "http://localhost"


async def test_mount_path_is_removed_from_the_path() -> None:
    request = await receive_request(Caller("/mock/v1/a?b=1", root_path="/mock"))
    assert request.target == b"/v1/a?b=1"


@pytest.mark.parametrize("target", ["*", "http://other.example/v1/a", ""])
async def test_target_that_is_no_path_is_refused(target: str) -> None:
    caller = Caller(target, path=target)
    assert await refused(caller) == {"type": "invalid_request", "message": "target is no path"}
    assert caller.status == 400


@pytest.mark.parametrize("size", [MAX_BODY_BYTES - 1, MAX_BODY_BYTES])
async def test_body_up_to_the_bound_is_accepted(size: int) -> None:
    request = await receive_request(Caller(body=[b"\0" * size]))
    assert len(request.body) == size


async def test_body_above_the_bound_is_refused_before_it_is_complete() -> None:
    class Endless(Caller):
        async def receive(self) -> Message:
            if self.messages:  # refused
                await anyio.sleep_forever()
            return {"type": "http.request", "body": next(pieces), "more_body": True}

    pieces = iter([b"\0" * MAX_BODY_BYTES, b"\0"])
    caller = Endless()
    error = await refused(caller)
    assert error == {"type": "request_too_large", "message": "body of more than 67108864 bytes"}
    assert caller.status == 413


async def test_incomplete_request_of_a_disconnected_client_is_not_answered() -> None:
    class Leaving(Caller):
        async def receive(self) -> Message:
            message = await super().receive()
            return {**message, "more_body": True}

    caller, app = Leaving(body=[b"{"]), Listening()
    caller.gone.set()
    await caller.call(app)
    assert app.asked == caller.messages == []


async def test_response_stops_when_the_client_disconnects() -> None:
    class Silent(Application):
        async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
            caller.gone.set()
            await anyio.sleep_forever()

    caller = Caller()
    with anyio.fail_after(5):
        await caller.call(Silent())
    assert caller.messages == UNANSWERED


async def test_error_of_the_application_is_raised_as_it_is() -> None:
    class Broken(Application):
        async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Caller().call(Broken())


async def test_lone_surrogates_in_a_refusal_are_replaced() -> None:
    class Refusing(Application):
        async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
            await refuse(exchange, 404, "kind", 'say "é" \ud800', [(b"x-a", b"b")])

    caller = Caller()
    await caller.call(Refusing())
    assert caller.status == 404
    assert caller.headers["x-a"] == "b"
    assert caller.error == {"type": "kind", "message": 'say "é" ?'}


async def test_lifespan_is_answered_and_closes_the_application() -> None:
    app = Listening()
    closed: list[int] = []
    told: list[str] = []
    asked = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        closed.append(app.closed)
        return {"type": next(asked)}

    async def send(message: Any) -> None:
        told.append(message["type"])
        closed.append(app.closed)

    await app({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert closed == [0, 0, 0, 1]


async def test_scope_of_another_type_raises_local_protocol_error() -> None:
    caller = Caller(type="x")
    with pytest.raises(LocalProtocolError, match="'x', expected http, websocket or lifespan"):
        await caller.call(Listening())
    assert caller.messages == []


def test_repr_of_a_request_shows_no_secret() -> None:
    request = ReceivedRequest(
        "POST", "http://a", b"/?key=s3cret", ((b"authorization", b"s3cret"),), b"s3c"
    )
    assert repr(request) == "ReceivedRequest('POST', …)"
