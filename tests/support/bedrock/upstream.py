"""Amazon Bedrock as an upstream: InvokeModel in front of a fake provider, signatures checked."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from support.bedrock.chunks import of_sse
from support.bedrock.signatures import assert_signed

__all__ = ["BedrockUpstream", "InvokedRequest"]

_PATH = re.compile(r"/model/(?P<model>[^/]+)/(?P<operation>invoke|invoke-with-response-stream)")
_STREAM = b"application/vnd.amazon.eventstream"


class InvokedRequest(NamedTuple):
    """A request for a model.

    Attributes:
        model: The model in its path, decoded.
        body: The decoded body.
    """

    model: str
    body: dict[str, Any]


class BedrockUpstream:
    """An ASGI application that answers InvokeModel as a provider of Anthropic's dialect does.

    Args:
        provider: The application of the provider, which is asked at `/v1/messages`.
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
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        target = scope["raw_path"].decode()
        if self._region is not None:
            url = f"http://{headers['host']}{target}"
            assert_signed(scope["method"], url, headers, body, region=self._region)
        found = _PATH.fullmatch(target)
        assert found is not None, target
        model, streams = unquote(found["model"]), found["operation"] != "invoke"
        fields = json.loads(body)
        assert {"model", "stream"}.isdisjoint(fields)
        self.requests.append(InvokedRequest(model, fields))
        await self._ask(scope, model, fields, send, receive, streams=streams)

    async def _ask(
        self,
        scope: Any,
        model: str,
        fields: dict[str, Any],
        send: Any,
        receive: Any,
        *,
        streams: bool,
    ) -> None:
        """Ask the provider, and send its answer in the framing of Bedrock."""
        own = {"anthropic_version", "anthropic_beta"}
        rest = {name: value for name, value in fields.items() if name not in own}
        body = json.dumps({"model": model, "stream": streams, **rest}).encode()
        headers = [(b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01")]
        if betas := fields.get("anthropic_beta"):
            headers.append((b"anthropic-beta", ",".join(betas).encode()))
        path = "/v1/messages"
        asked = {**scope, "path": path, "raw_path": path.encode(), "headers": headers}
        received = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive_again() -> Any:
            return received.pop(0) if received else await receive()

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._provider(asked, receive_again, keep)
        start, data = sent[0], b"".join(message.get("body", b"") for message in sent[1:])
        if streams and start["status"] == 200:
            start = {**start, "headers": [(b"content-type", _STREAM)]}
            data = of_sse(data)
        kept = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        await send({**start, "headers": [*kept, (b"x-amzn-requestid", b"r-1")]})
        await send({"type": "http.response.body", "body": data})
