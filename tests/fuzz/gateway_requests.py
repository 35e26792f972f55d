"""Requests to a gateway: whatever a client sends is answered once, legally, and without secrets.

A request is read by the application itself, without a server before it.  Its upstreams cannot be
reached: a request that is let in is answered with 502.  No other answer is an error of the server,
and no body, header or line of the log has a key of the configuration.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import AsyncExitStack
from urllib.parse import unquote

from support.gateway.calls import NOWHERE, POSTS, opened
from support.http.asgi_caller import Caller

from streamnorm.gateway import Gateway, UpstreamConfig

MAX_BYTES = 4096

_KEYS = {"CLIENT_KEYS": "client-key-5b0a", "UPSTREAM_KEY": "upstream-key-91c7"}
_AUTHORIZED = b"authorization: Bearer client-key-5b0a\ncontent-type: application/json"
_UNREACHABLE = 502
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_PATHS = (
    *("GET /v1/models", "GET /v1beta/models/m", "POST /v1/messages/count_tokens"),
    *("POST /v1/responses/compact", "GET /v1/responses/resp_1", "GET /streams/a?after=1"),
    *("DELETE /v1/responses/resp_1", "GET /metrics", "OPTIONS /v1/messages", "GET /health"),
)

_runner = asyncio.Runner()
_exits = AsyncExitStack()
_made: list[Gateway] = []
_logged: list[str] = []


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _logged.append(self.format(record))


logging.getLogger("streamnorm").addHandler(_Log())
logging.getLogger("streamnorm").propagate = False


def samples() -> list[bytes]:
    """Return a request for each path: its line, its headers, a blank line and its body."""
    found = [
        b"POST %b\n%b\n\n%b" % (path.encode(), _AUTHORIZED, json.dumps(body).encode())
        for path, body in POSTS.values()
    ]
    found += [b"%b\n%b\n\n{}" % (line.encode(), _AUTHORIZED) for line in _PATHS]
    streamed = json.dumps({**POSTS["openai_chat"][1], "stream": True, "n": 2}).encode()
    fields = b"x-streamnorm-stream: a\naccept: text/event-stream\nidempotency-key: b"
    found.append(b"POST /v1/chat/completions\n%b\n%b\n\n%b" % (_AUTHORIZED, fields, streamed))
    return found


def check(data: bytes) -> None:
    """Send one request."""
    _logged.clear()
    caller = _runner.run(_call(data))
    # What a client puts into the model's name or its texts is no secret.
    hidden = [key for key in _KEYS.values() if key.encode() not in _without_headers(data)]
    assert not any(key in line for key in hidden for line in _logged), "a key in the log"
    assert not any("Traceback" in line for line in _logged), "a traceback in the log"
    starts = [each for each in caller.messages if each["type"] == "http.response.start"]
    assert len(starts) == 1, f"{len(starts)} answers"
    assert caller.messages[0] is starts[0], "a body before its head"
    assert caller.finished, "an answer without an end"
    status, headers = starts[0]["status"], starts[0]["headers"]
    assert 200 <= status < 500 or status == _UNREACHABLE, f"status {status}"
    for name, value in headers:
        assert _HEADER_NAME.fullmatch(name), "a header's name is illegal"
        assert not {*value} & {0, 10, 13}, "a header's value is illegal"
    shown = b"".join(caller.bodies) + repr(headers).encode()
    assert not any(key.encode() in shown for key in hidden), "a key in the answer"
    if dict(headers).get(b"content-type") == b"application/json" and b"".join(caller.bodies):
        json.loads(b"".join(caller.bodies))


def _without_headers(data: bytes) -> bytes:
    head, _, body = data.partition(b"\n\n")
    return head.partition(b"\n")[0] + b"\n" + body


def close() -> None:
    """End the gateway."""
    _runner.run(_exits.aclose())


async def _call(data: bytes) -> Caller:
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.decode("latin-1").partition(" ")
    pairs = (line.partition(b":") for line in lines)
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]
    caller = Caller(target, method=method.upper() or "GET", body=(body,))
    caller.scope["path"] = unquote(caller.scope["path"]) or "/"
    caller.scope["raw_path"] = target.partition("?")[0].encode("latin-1")
    caller.scope["query_string"] = target.partition("?")[2].encode("latin-1")
    caller.scope["headers"] = headers
    # The body of such a request never ends by itself: its client leaves.
    caller.gone.set()
    await caller.call(await _gateway())
    return caller


async def _gateway() -> Gateway:
    if not _made:
        local = UpstreamConfig(dialect="openai_chat", base_url=NOWHERE, key="env:UPSTREAM_KEY")
        settings = {"client_keys": "env:CLIENT_KEYS", "state": "memory:"}
        gateway = opened({"local": local}, environ=_KEYS, **settings)
        _made.append(await _exits.enter_async_context(gateway))
    return _made[0]
