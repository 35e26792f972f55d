"""The door of a gateway: what is let in, and how the rest is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.gateway.calls import (
    CANARY,
    CHAT,
    CONTENTS,
    GENERATE,
    JSON,
    MESSAGES,
    POSTS,
    asked,
    assert_refused,
    body_of,
    called,
    every_dialect,
    opened,
    shape_for,
    shape_of,
)
from support.gateway.upstreams import Records
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message

from streamnorm.gateway import ModelConfig

pytestmark = pytest.mark.anyio

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
        ("/v1beta/interactions", {"model": "m", "input": "q"}),
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
        ("/", "POST", "openai"),
        ("/api/hello", "POST", "openai"),
        ("/healthz", "POST", "openai"),
        ("/api", "GET", "openai"),
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
        ("/v1beta/interactions/a/b/c", "GET", "openai"),
        ("/v1/messages\n", "POST", "openai"),
        ("/v1beta/models/a\r\nb:generateContent", "POST", "gemini"),
        ("*", "OPTIONS", "openai"),
        (f"/{CANARY}", "GET", "openai"),
        ("/v1/" + "a/" * 30_000, "GET", "openai"),
    ],
)
async def test_other_path_is_not_found(target: str, method: str, client: str) -> None:
    async with opened() as app:
        caller = await called(app, target, method=method)
    path, _, rest = assert_refused(caller, 404, client).partition(": ")
    assert path.startswith("/")
    assert rest == "no endpoint of this gateway, expected that of a message, a count or a list"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/v1/embeddings?key=secret", "/v1/embeddings"),
        ("/v1beta/models/gemini-9:embedContent", "/v1beta/models/*:embedContent"),
        ("/openai/deployments/gpt-9/chat/completions", "/openai/deployments/*/chat/completions"),
        (f"/{CANARY}/v1/messages", "/*/v1/messages"),
        ("/v1/" + "a" * 25 + "/" + "b" * 24, "/v1/*/" + "b" * 24),
        ("/v1/a\r\nb/%0a/\x1b[31m/é", "/v1/*/*/*/*"),
        ("/a/b/c/d/e/f/g/h/i", "/a/b/c/d/e/f/g/h/..."),
        ("/v1/" + "a/" * 30_000, "/v1/a/a/a/a/a/a/a/..."),
    ],
)
async def test_refused_path_is_named_but_for_what_may_be_secret(target: str, shown: str) -> None:
    """In the answer, and for the log."""
    records = Records()
    async with opened(observers=(records,)) as app:
        caller = await called(app, target, method="POST")
    assert body_of(caller)["error"]["message"].startswith(f"{shown}: ")
    assert records.ended[0].path == shown


@pytest.mark.parametrize(
    ("target", "client", "added", "expected"),
    [
        ("/v1/v1/messages", "anthropic", "/v1", "/v1/messages"),
        ("/v1/v1beta/models/m:countTokens", "gemini", "/v1", "/v1beta/models/m:countTokens"),
        ("/v1beta/v1/responses", "openai", "/v1beta", "/v1/responses"),
    ],
)
async def test_version_that_stands_twice_is_explained(
    target: str, client: str, added: str, expected: str
) -> None:
    async with opened() as app:
        caller = await called(app, target, method="POST")
    assert assert_refused(caller, 404, client) == (
        f"{target}: no endpoint of this gateway, expected {expected}: "
        f"leave {added} out of the client's base URL"
    )


async def test_version_that_stands_twice_is_no_explanation_of_another_path() -> None:
    async with opened() as app:
        caller = await called(app, "/v1/v1/embeddings", method="POST")
    assert "base URL" not in assert_refused(caller, 404)


async def test_wrong_base_url_is_no_missing_model() -> None:
    async with opened() as app:
        _, body = await asked(app, "/api/v1/responses", {"model": "m", "input": "Hi."})
    assert body["error"]["code"] == "unknown_url"


async def test_path_that_no_url_has_is_not_found() -> None:
    async with opened() as app:
        caller = Caller("/")
        caller.scope["path"] = "/v1beta/models/\ud800:generateContent"
        await caller.call(app)
    assert_refused(caller, 404, "gemini")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "X" * 100])
@every_dialect
async def test_other_method_is_refused(client: str, method: str) -> None:
    async with opened() as app:
        caller = await called(app, POSTS[client][0], method=method)
    # The path of Gemini is that of a model with a colon in its name, too.
    methods = "GET, POST" if client == "gemini" else "POST"
    found = "another method" if len(method) == 100 else f"method {method}"
    path = POSTS[client][0]
    assert assert_refused(caller, 405, client) == f"{path}: {found}, expected {methods}"
    assert caller.headers["allow"] == methods


async def test_path_below_that_of_the_application_counts() -> None:
    async with opened() as app:
        status, _ = await asked(app, "/llm/v1/messages", MESSAGES, root_path="/llm")
        assert status == 502
        status, _ = await asked(app, "/llm/healthz", method="GET", root_path="/llm")
        assert status == 200


@pytest.mark.parametrize("path", ["/healthz", "/", "/api/hello"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_needs_no_key(method: str, path: str) -> None:
    """Claude Code asks for the second or third, and takes another status for a failure."""
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        assert await asked(app, path, method=method) == (200, {"status": "ok"})


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
    assert_refused(caller, 400, client)
    assert caller.headers["connection"] == "close"


@every_dialect
async def test_flood_of_headers_is_refused_in_linear_time(client: str) -> None:
    target, body = POSTS[client]
    flood = [("x-a", "b" * 20)] * 50_000  # some servers have no bound of their own
    async with opened() as app:
        caller = await called(app, target, body, headers=[*JSON, *flood])
    assert_refused(caller, 431, client)
    assert caller.headers["connection"] == "close"


@pytest.mark.parametrize(("surplus", "status"), [(0, 502), (1, 431)])
async def test_head_is_bounded(surplus: int, status: int) -> None:
    target = "/v1/chat/completions?alt=sse"
    used = len(target) - 1 + sum(len(name) + len(value) for name, value in JSON)
    filler = ("x-a", "b" * (64 * 1024 - used - len("x-a") + surplus))
    async with opened() as app:
        caller = await called(app, target, CHAT, headers=[*JSON, filler])
    assert caller.status == status


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
    ],
)
@every_dialect
async def test_upload_is_refused(client: str, name: str, value: str) -> None:
    target, body = POSTS[client]
    async with opened() as app:
        caller = await called(app, target, body, headers=[("host", "here"), (name, value)])
    assert_refused(caller, 415, client)


@pytest.mark.parametrize("length", ["101", "9" * 30, "9" * 5000, "0" * 30 + "101"])
@every_dialect
async def test_announced_body_above_the_bound_is_not_read(client: str, length: str) -> None:
    async with opened(max_body_bytes=100) as app:
        caller = Caller(POSTS[client][0], headers=[*JSON, ("content-length", length)])

        caller.receive = _unread(caller)  # type: ignore[method-assign]  # of this one
        await caller.call(app)
    assert (
        assert_refused(caller, 413, client)
        == "a body that is too large, expected at most 100 bytes"
    )
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
    assert_refused(caller, 413, "anthropic")


async def test_body_that_does_not_arrive_is_not_waited_for() -> None:
    async with opened(idle_s=0.02) as app:
        caller = Caller("/v1/messages", headers=JSON, body=[])  # only its head arrives
        await caller.call(app)
    assert assert_refused(caller, 408, "anthropic") == (
        "a body that arrives too slowly, expected it within 0.02 s, or 16384 bytes a second"
    )
    assert caller.headers["connection"] == "close"


class SlowCaller(Caller):
    """A client whose body arrives piece by piece."""

    async def receive(self) -> Message:
        await asyncio.sleep(0.005)
        return await super().receive()


@pytest.mark.parametrize(("size", "status"), [(1, 408), (4096, 400)])
async def test_time_of_a_body_grows_with_what_has_arrived_of_it(size: int, status: int) -> None:
    """All of its pieces take longer than one of them may, so a byte now and then is not enough."""
    async with opened(idle_s=0.4) as app:
        caller = SlowCaller("/v1/messages", headers=JSON, body=[b"x" * size] * 120)
        await caller.call(app)
    assert_refused(caller, status, "anthropic")


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
    assert_refused(caller, 400, client)


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
                assert_refused(second, 429, client)
                assert second.headers["retry-after"] == "1"
                statuses.append(second.status)
            return {"type": "http.disconnect"}

        first.receive = receive  # type: ignore[method-assign]  # of this one
        await first.call(app)
        assert statuses == [429]
        assert (await called(app, target, body)).status == 502  # the place is free again


# Secrets


def bodies_of(client: str) -> dict[str, bytes]:
    """Return bodies of which each is refused in another way, with a canary in each."""
    body = {**POSTS[client][1], "user": CANARY, "metadata": {CANARY: CANARY}}
    text = json.dumps(body)[1:-1]
    return {
        "no JSON": f'{{"a":"{CANARY}'.encode(),
        "a key twice": f'{{{text},"{CANARY}":1,"{CANARY}":2}}'.encode(),
        "a wrong type": json.dumps(
            {**body, "messages": CANARY, "input": 5, "contents": 5}
        ).encode(),
        "deep": f'{{{text},"{CANARY}":{"[" * 200}{"]" * 200}}}'.encode(),
        "no UTF-8": f"{{{text}}}".encode() + b"\xff",
        "whole": f"{{{text}}}".encode(),
    }


@pytest.mark.parametrize("kind", bodies_of("gemini"))
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
@every_dialect
async def test_refusal_shows_nothing_of_a_request(client: str, upstream: str, kind: str) -> None:
    key = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(client, "api-key")
    secret = {key: CANARY, "cookie": CANARY, "user-agent": CANARY}
    headers = [*JSON, *secret.items(), ("authorization", f"Bearer {CANARY}")]
    settings: list[dict[str, Any]] = [
        {},
        {"max_body_bytes": 5},
        {"client_keys": "env:KEYS"},
        {"models": [ModelConfig(match="other", to=["local"])]},
    ]
    path = POSTS[client][0]
    for options in settings:
        async with opened(dialect=upstream, environ={"KEYS": "k"}, **options) as app:
            for target in (path, f"{path}/{CANARY}", f"/{CANARY}{path}"):
                body = bodies_of(client)[kind]
                caller = await called(app, f"{target}?key={CANARY}", body, headers=headers)
                assert caller.status >= 400
                assert shape_of(body_of(caller)) in ("openai", shape_for(client))
                assert CANARY not in str(caller.messages)


async def test_other_scope_is_the_servers_fault() -> None:
    async with opened() as app:
        with pytest.raises(Exception, match="scope of type 'x', expected http, websocket or"):
            await called(app, "/", type="x")
