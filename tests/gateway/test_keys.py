"""The keys that clients must have."""

from __future__ import annotations

import pytest
from support.gateway.calls import (
    CANARY,
    CHAT,
    JSON,
    POSTS,
    asked,
    assert_refused,
    called,
    every_dialect,
    opened,
)
from support.gateway.stateful_clients import StateClient, provided
from support.http.asgi_caller import Caller

from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio


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
    (b"k" * 60_000,),
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
            # AWS answers 403, at which its clients say so.
            assert_refused(caller, 403 if client == "bedrock_converse" else 401, client)


async def test_key_without_its_scheme_is_none() -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        for value in ("k", "Basic k", "Bearer", "Bearer "):
            headers = [*JSON, ("authorization", value)]
            assert_refused(await called(app, "/v1/chat/completions", CHAT, headers=headers), 401)


@pytest.mark.parametrize("target", ["/v1/models", "/v1", "/v1/messages/count_tokens", "/v1/x"])
async def test_nothing_is_shown_without_a_key(target: str) -> None:
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}) as app:
        caller = await called(app, target, method="GET")
        assert caller.status == 401


BROUGHT = {
    "authorization": (("authorization", "Bearer a-key"),),
    "scheme": (("authorization", "bearer   a-key"),),
    "api_key": (("api-key", "a-key"),),
    "both": (("authorization", "Bearer a-key"), ("api-key", "a-key")),
}


@pytest.mark.parametrize("stores", BROUGHT.values(), ids=BROUGHT)
async def test_one_key_is_one_scope_whichever_header_has_it(
    stores: tuple[tuple[str, str], ...], state: str
) -> None:
    environ = {"KEYS": "a-key,b-key"}
    provider = FakeProvider(["Hello."] * 9)
    async with provided(provider, state=state, client_keys="env:KEYS", environ=environ) as app:
        response = await StateClient(app, headers=stores).create("Hi.")
        for headers in BROUGHT.values():
            found, _ = await StateClient(app, headers=headers).ask("GET", response["id"])
            assert found == 200
        others = (("authorization", "Bearer a-key"), ("api-key", "b-key"))
        for headers in (others, (("api-key", "b-key"),)):
            missing, _ = await StateClient(app, headers=headers).ask("GET", response["id"])
            assert missing == 404
