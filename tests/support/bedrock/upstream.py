"""Amazon Bedrock as a fake upstream, which checks signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from streamnorm.eventstream import encode_message
from streamnorm.sse import SSEDecoder
from support.bedrock.chunks import of_sse
from support.bedrock.signatures import assert_signed

__all__ = ["BedrockUpstream", "InvokedRequest", "SignedApp"]

_PATH = re.compile(
    r"/model/(?P<model>[^/]+)"
    r"/(?P<operation>invoke|invoke-with-response-stream|converse|converse-stream)"
)
_STREAM = b"application/vnd.amazon.eventstream"


class InvokedRequest(NamedTuple):
    """A request to a model.

    Attributes:
        model: The model in its path, decoded.
        body: The decoded body.
    """

    model: str
    body: dict[str, Any]


class SignedApp:
    """An ASGI application that answers only correctly signed requests.

    Args:
        app: The application that answers.
        region: Region of AWS in which requests are signed.
    """

    def __init__(self, app: Any, region: str) -> None:
        self._app = app
        self._region = region

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await check_signature(scope, receive, self._region)
        received = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Any:
            return received.pop(0) if received else await receive()

        await self._app(scope, receive_again, send)


async def check_signature(scope: Any, receive: Any, region: str | None) -> bytes:
    """Check a request's signature, and return its body; None for another key."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    if region is not None:
        url = f"http://{headers['host']}{scope['raw_path'].decode()}"
        assert_signed(scope["method"], url, headers, body, region=region)
    return body


class BedrockUpstream:
    """An ASGI application that answers InvokeModel and Converse.

    Args:
        provider: The application of the provider.  It is asked for an invocation at
            `/v1/messages`, and answers in server-sent events.
        region: Region of AWS in which requests are signed; None for those with another key.

    Attributes:
        requests: The requests, whose signatures are right.
    """

    def __init__(self, provider: Any, region: str | None = "eu-west-1") -> None:
        self.requests: list[InvokedRequest] = []
        self._provider = provider
        self._region = region

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._provider(scope, receive, send)
            return
        body = await check_signature(scope, receive, self._region)
        target = scope["raw_path"].decode()
        found = _PATH.fullmatch(target)
        assert found is not None, target
        model, operation = unquote(found["model"]), found["operation"]
        fields = json.loads(body)
        assert {"model", "stream", "modelId"}.isdisjoint(fields)
        self.requests.append(InvokedRequest(model, fields))
        streams = operation.endswith("stream")
        frame, asked = _messages_of, scope
        if operation.startswith("invoke"):
            frame = of_sse
            asked, body = _as_messages(scope, model, fields, streams=streams)
        await self._ask(asked, body, frame, send, receive, streams=streams)

    async def _ask(
        self,
        asked: Any,
        body: bytes,
        frame: Callable[[bytes], bytes],
        send: Any,
        receive: Any,
        *,
        streams: bool,
    ) -> None:
        """Ask the fake provider, and send its answer in Bedrock's framing."""
        received = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive_again() -> Any:
            return received.pop(0) if received else await receive()

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._provider(asked, receive_again, keep)
        start, data = sent[0], b"".join(message.get("body", b"") for message in sent[1:])
        is_framed = (b"content-type", _STREAM) in start["headers"]
        if streams and start["status"] == 200 and not is_framed:
            start = {**start, "headers": [(b"content-type", _STREAM)]}
            data = frame(data)
        kept = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        await send({**start, "headers": [*kept, (b"x-amzn-requestid", b"r-1")]})
        await send({"type": "http.response.body", "body": data})


def _as_messages(
    scope: Any, model: str, fields: dict[str, Any], *, streams: bool
) -> tuple[Any, bytes]:
    """Return an invocation as a request to the vendor's own API."""
    own = {"anthropic_version", "anthropic_beta"}
    rest = {name: value for name, value in fields.items() if name not in own}
    headers = [(b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01")]
    if betas := fields.get("anthropic_beta"):
        headers.append((b"anthropic-beta", ",".join(betas).encode()))
    path = "/v1/messages"
    asked = {**scope, "path": path, "raw_path": path.encode(), "headers": headers}
    return asked, json.dumps({"model": model, "stream": streams, **rest}).encode()


def _messages_of(data: bytes) -> bytes:
    """Return the events of a Converse stream in Bedrock's framing."""
    return b"".join(
        [
            encode_message(
                {
                    ":event-type": frame.event,
                    ":content-type": "application/json",
                    ":message-type": "event",
                },
                frame.data.encode(),
            )
            for frame in SSEDecoder().feed(data)
        ]
    )
