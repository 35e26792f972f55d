"""The door of a gateway: what is let in, and how the rest is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.asgi_caller import Caller
from support.asgi_client import Message
from support.gateway_calls import JSON, asked, body_of, called, opened

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a"
SAID = [{"role": "user", "content": "Hi."}]
CHAT: dict[str, Any] = {"model": "m", "messages": SAID}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 9}
RESPONSE: dict[str, Any] = {"model": "m", "input": "Hi."}
CONTENTS: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}

GENERATE = "/v1beta/models/m:generateContent"
# Of each dialect, a path and the body of a request for a message.
POSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", MESSAGES),
    "openai_chat": ("/v1/chat/completions", CHAT),
    "openai_responses": ("/v1/responses", RESPONSE),
    "gemini": (GENERATE, CONTENTS),
}
every_dialect = pytest.mark.parametrize("client", POSTS)


def shape_of(body: Any) -> str:
    """Return whose error a body is; those of Chat and Responses have one shape."""
    match body:
        case {"type": "error", "error": {"type": str(), "message": str()}}:
            return "anthropic"
        case {"error": {"code": int(), "status": str(), "message": str()}}:
            return "gemini"
        case {"error": {"message": str(), "type": str(), "param": _, "code": _}}:
            return "openai"
    raise AssertionError(body)


def shape_for(client: str) -> str:
    return "openai" if client.startswith("openai") else client


def refused(caller: Caller, status: int, client: str = "openai") -> str:
    """Return the message of a refusal, which must have a status and a client's shape."""
    body = body_of(caller)
    assert (caller.status, shape_of(body)) == (status, shape_for(client))
    assert caller.headers["content-type"] == "application/json"
    assert CANARY not in json.dumps(body)
    message: str = body["error"]["message"]
    return message


# Paths and methods


@pytest.mark.parametrize(
    ("target", "body"),
    [
        *POSTS.values(),
        ("/messages", MESSAGES),
        ("//v1//messages/", MESSAGES),
        ("/v1/messages?beta=true", MESSAGES),
        ("/chat/completions", CHAT),
        ("/v1/models/m:generateContent", CONTENTS),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", CONTENTS),
        ("/v1/models/m:streamGenerateContent", CONTENTS),
        ("/v1beta/tunedModels/m:generateContent", CONTENTS),
        ("/v1beta/models/org/name:generateContent", CONTENTS),
        (
            GENERATE,
            {
                "contents": [
                    {"parts": [{"inline_data": {"mime_type": "image/png", "data": "aaaa"}}]}
                ],
                "system_instruction": {"parts": [{"text": "Be brief."}]},
                "generation_config": {"max_output_tokens": 5},
            },
        ),
    ],
)
async def test_request_for_a_message_is_let_in(target: str, body: Any) -> None:
    async with opened() as app:
        status, answer = await asked(app, target, body)
    assert status == 502, answer  # nobody listens there


@pytest.mark.parametrize(
    ("target", "method", "client"),
    [
        ("/", "GET", "openai"),
        ("/v1", "POST", "openai"),
        ("/v2/messages", "POST", "anthropic"),
        ("/v1/organizations/o/messages", "POST", "anthropic"),
        ("/v1/threads/t/messages", "POST", "openai"),
        ("/v1/x/chat/completions", "POST", "openai"),
        ("/v1/embeddings", "POST", "openai"),
        ("/v1/projects/p/publishers/anthropic/models/m:rawPredict", "POST", "anthropic"),
        ("/v1/responses/a/b/c", "GET", "openai"),
        ("/v1/responses/..", "GET", "openai"),
        ("/v1/responses/%2e%2e/cancel", "POST", "openai"),
        ("/v1beta/models/../../x:generateContent", "POST", "gemini"),
        ("/v1beta/models/%2e%2e/x:generateContent", "POST", "gemini"),
        ("/v1beta/cachedContents", "POST", "openai"),
        ("/v1/messages\n", "POST", "openai"),
        ("*", "OPTIONS", "openai"),
        (f"/{CANARY}", "GET", "openai"),
        ("/v1/" + "a/" * 50_000, "GET", "openai"),
    ],
)
async def test_other_path_is_not_found(target: str, method: str, client: str) -> None:
    async with opened() as app:
        caller = await called(app, target, method=method)
    assert refused(caller, 404, client) == "a path of no endpoint of this gateway, expected one"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "X" * 100])
@every_dialect
async def test_other_method_is_refused(client: str, method: str) -> None:
    async with opened() as app:
        caller = await called(app, POSTS[client][0], method=method)
    # The path of Gemini is that of a model with a colon in its name, too.
    methods = "GET, POST" if client == "gemini" else "POST"
    assert refused(caller, 405, client) == f"another method, expected {methods}"
    assert caller.headers["allow"] == methods


async def test_path_below_that_of_the_application_counts() -> None:
    async with opened() as app:
        status, _ = await asked(app, "/llm/v1/messages", MESSAGES, root_path="/llm")
        assert status == 502
        status, _ = await asked(app, "/llm/healthz", method="GET", root_path="/llm")
        assert status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_needs_no_key(method: str) -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        assert await asked(app, "/healthz", method=method) == (200, {"status": "ok"})


# Keys


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("anthropic", {"x-api-key": "second-key"}),
        ("anthropic", {"authorization": "Bearer second-key"}),
        ("anthropic", {"x-api-key": CANARY, "authorization": "bearer  second-key"}),
        ("openai_chat", {"authorization": "Bearer first-key"}),
        ("openai_chat", {"api-key": "first-key"}),
        ("openai_responses", {"authorization": "Bearer first-key"}),
        ("gemini", {"x-goog-api-key": "first-key"}),
        ("gemini", {"authorization": "Bearer first-key"}),
    ],
)
async def test_key_opens_in_any_header_of_the_dialect(client: str, headers: dict[str, str]) -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "first-key, second-key"}) as app:
        target, body = POSTS[client]
        status, _ = await asked(app, target, body, headers=[*JSON, *headers.items()])
    assert status == 502


BAD_KEYS: list[tuple[bytes, ...]] = [
    (),
    (b"",),
    (b"first-ke",),
    (b"first-keyy",),
    (b"FIRST-KEY",),
    (b"first-key,second-key",),
    (b"first-key", b"first-key"),
    (b"\xff" * 20,),
    ("schlüssel".encode(),),
    (b"k" * 513,),
    (b"k" * 1_000_000,),
    (CANARY.encode(),),
]


@pytest.mark.parametrize("keys", BAD_KEYS, ids=lambda keys: repr(keys)[:30])
@every_dialect
async def test_other_key_is_refused(client: str, keys: tuple[bytes, ...]) -> None:
    environ = {"KEYS": "first-key,second-key," + "k" * 512}
    names = {"anthropic": b"x-api-key", "gemini": b"x-goog-api-key"}
    async with opened(client_keys="env:KEYS", environ=environ) as app:
        for name, prefix in ((names.get(client, b"api-key"), b""), (b"authorization", b"Bearer ")):
            headers = [(b"host", b"here"), *((name, prefix + key) for key in keys)]
            caller = Caller(POSTS[client][0])
            caller.scope["headers"] = headers
            await caller.call(app)
            refused(caller, 401, client)


async def test_key_without_its_scheme_is_none() -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        for value in ("k", "Basic k", "Bearer", "Bearer "):
            headers = [*JSON, ("authorization", value)]
            refused(await called(app, "/v1/chat/completions", CHAT, headers=headers), 401)


@pytest.mark.parametrize("target", ["/v1/models", "/", "/v1/messages/count_tokens", "/v1/x"])
async def test_nothing_is_shown_without_a_key(target: str) -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        caller = await called(app, target, method="GET")
        assert caller.status == 401


# Framing


@pytest.mark.parametrize(
    "headers",
    [
        [("content-length", "5"), ("transfer-encoding", "chunked")],
        [("Content-Length", "5"), ("Transfer-Encoding", "identity")],
        [("content-length", "5"), ("content-length", "5")],
        [("host", "other")],
        [("content-length", "-5")],
        [("content-length", "5, 5")],
        [("content-length", "٣")],
        [("content-length", "")],
        [("user-agent", "a\r\nx-evil: 1")],
        [("user-agent", "a\0b")],
        [("x\0", "a")],
    ],
)
@every_dialect
async def test_request_that_can_be_read_in_two_ways_is_refused(
    client: str, headers: list[tuple[str, str]]
) -> None:
    target, body = POSTS[client]
    async with opened() as app:
        caller = await called(app, target, body, headers=[*JSON, *headers])
    refused(caller, 400, client)
    assert caller.headers["connection"] == "close"


async def test_odd_bytes_in_headers_and_query_are_harmless() -> None:
    query = "&".join(f"a{number}=%ff" for number in range(1000))
    async with opened() as app:
        caller = Caller(f"/v1/messages?{query}", body=[json.dumps(MESSAGES).encode()])
        caller.scope["headers"] += [(b"\xff\xfe", b"\x80\xff"), (b"user-agent", b"caf\xe9 \xf0")]
        await caller.call(app)
    assert caller.status == 502


# Bodies


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("content-encoding", "zstd"),
        ("content-encoding", "identity, gzip"),
    ],
)
@every_dialect
async def test_upload_or_compressed_body_is_refused(client: str, name: str, value: str) -> None:
    target, body = POSTS[client]
    async with opened() as app:
        caller = await called(app, target, body, headers=[("host", "here"), (name, value)])
    refused(caller, 415, client)


@pytest.mark.parametrize("length", ["101", "9" * 30, "9" * 5000, "0" * 30 + "101"])
@every_dialect
async def test_announced_body_above_the_bound_is_not_read(client: str, length: str) -> None:
    async with opened(max_body_bytes=100) as app:
        caller = Caller(POSTS[client][0], headers=[*JSON, ("content-length", length)])

        caller.receive = _unread(caller)  # type: ignore[method-assign]  # of this one
        await caller.call(app)
    assert refused(caller, 413, client) == "a body that is too large, expected at most 100 bytes"
    assert caller.headers["connection"] == "close"


def _unread(caller: Caller) -> Callable[[], Any]:
    async def receive() -> Message:  # called by the watch for a disconnect alone
        await caller.gone.wait()
        raise AssertionError("the body was read")

    return receive


async def test_body_is_bounded_while_it_is_read() -> None:
    body = json.dumps(MESSAGES).encode()
    for bound, status in ((len(body), 502), (len(body) - 1, 413)):
        async with opened(max_body_bytes=bound) as app:
            pieces = [body[:10], b"", body[10:]]
            caller = await called(app, "/v1/messages", pieces=pieces)
        assert caller.status == status
    async with opened(max_body_bytes=100) as app:
        caller = await called(app, "/v1/messages", pieces=[b"x" * 60] * 1000)
    refused(caller, 413, "anthropic")


async def test_body_that_does_not_arrive_is_not_waited_for() -> None:
    async with opened(idle_s=0.02) as app:
        caller = Caller("/v1/messages", headers=JSON, body=[])  # only its head arrives
        await caller.call(app)
    assert refused(caller, 408, "anthropic").startswith("no more of the body for 0.02 s")


async def test_client_that_leaves_within_its_body_gets_nothing() -> None:
    async with opened() as app:
        caller = Caller("/v1/messages", headers=JSON, body=[])
        caller.gone.set()
        await caller.call(app)
    assert caller.messages == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"model": }', b"[" * 100_000, b'{"a":' * 5000, b"NaN"],
    ids=lambda body: repr(body)[:20],
)
@every_dialect
async def test_body_that_is_no_json_object_is_refused(client: str, body: bytes) -> None:
    async with opened() as app:
        caller = await called(app, POSTS[client][0], body)
    refused(caller, 400, client)


# The bound on requests


@every_dialect
async def test_request_above_the_bound_is_told_to_come_again(client: str) -> None:
    target, body = POSTS[client]
    statuses: list[int] = []

    async with opened(max_streams=1) as app:
        first = Caller("/v1/messages", headers=JSON, body=[])

        async def receive() -> Message:
            # While the first request is being received, another one comes.
            if not statuses:
                second = await called(app, target, body)
                refused(second, 429, client)
                assert second.headers["retry-after"] == "1"
                statuses.append(second.status)
            return {"type": "http.disconnect"}

        first.receive = receive  # type: ignore[method-assign]  # of this one
        await first.call(app)
        assert statuses == [429]
        assert (await called(app, target, body)).status == 502  # the place is free again


# Upgrades


@pytest.mark.parametrize(
    ("extensions", "expected"),
    [
        ({"websocket.http.response": {}}, [("start", 426), ("body", None)]),
        ({}, [("close", None)]),
        (None, [("close", None)]),
    ],
)
async def test_websocket_is_refused_at_once(
    extensions: dict[str, Any] | None, expected: list[tuple[str, int | None]]
) -> None:
    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async with opened() as app:
        caller = Caller("/v1/responses", type="websocket", extensions=extensions)
        del caller.scope["method"]
        await app(caller.scope, receive, caller.send)
    messages = caller.messages
    assert [
        (message["type"].rpartition(".")[2], message.get("status")) for message in messages
    ] == expected
    if extensions:
        assert shape_of(json.loads(messages[1]["body"])) == "openai"


async def test_upgrade_that_a_server_does_not_know_is_refused_too() -> None:
    headers = [("host", "here"), ("connection", "upgrade"), ("upgrade", "WebSocket")]
    async with opened() as app:
        caller = await called(app, "/v1/responses", method="GET", headers=headers)
    assert refused(caller, 426) == "a WebSocket, expected a request over HTTP"
    assert caller.headers["upgrade"] == "HTTP/1.1"


async def test_other_scope_is_the_servers_fault() -> None:
    async with opened() as app:
        with pytest.raises(Exception, match="scope of type 'x', expected http, websocket or"):
            await called(app, "/", type="x")
