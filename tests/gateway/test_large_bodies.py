"""Large bodies are worked on beside the event loop, one at a time."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import tracemalloc
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
from support.gateway.calls import GENERATE, NOWHERE, called, opened
from support.http.raw_http import raw_upstream
from support.operation_counts import operations_of_thread

from streamnorm.gateway.receiving import LARGE_BYTES, BodyThread

TEXT_BYTES = 4 * LARGE_BYTES
FEW, MANY = 20, 2_000  # messages, or parts of an answer, of as many bytes in all

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": GENERATE,
    "gemini_interactions": "/v1beta/interactions",
}
COUNTS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai_responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/m:countTokens",
}


def request_of(client: str, count: int) -> bytes:
    """Return a request of so many messages, which all have the same bytes of text together."""
    text = "word " * (TEXT_BYTES // count // 5)
    messages: list[Any] = [{"role": "user", "content": text}] * count
    match client:
        case "gemini":
            body: dict[str, Any] = {
                "contents": [{"role": "user", "parts": [{"text": text}]}] * count
            }
        case "openai_responses":
            body = {"model": "m", "input": messages}
        case "gemini_interactions":
            content = [{"type": "text", "text": text}]
            body = {"model": "m", "input": [{"type": "user_input", "content": content}] * count}
        case "anthropic":
            body = {"model": "m", "max_tokens": 9, "messages": messages}
        case _:
            body = {"model": "m", "messages": messages}
    return json.dumps(body).encode()


def calls_of_loop(ask: Callable[[int], Coroutine[Any, Any, object]], count: int) -> int:
    """Return how many functions the thread of the event loop calls."""
    return operations_of_thread(lambda: asyncio.run(ask(count)))


def assert_loop_does_as_much(ask: Callable[[int], Coroutine[Any, Any, object]]) -> None:
    """Assert that the loop calls as many functions, whatever the number of parts.

    A call for each part is less than any decoding or encoding takes.
    """
    few, many = (calls_of_loop(ask, count) for count in (FEW, MANY))
    assert many - few < MANY


# A dialect is read and written by the same code, whatever the other one is.
NAMES = list(PATHS)
PAIRS = [*zip(NAMES, NAMES, strict=True), *zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)]


@pytest.mark.parametrize(
    ("client", "upstream", "state"),
    [
        *((client, upstream, None) for client, upstream in PAIRS),
        # Clients of Responses alone have state here.
        ("openai_responses", "openai_responses", "memory:"),
        ("openai_responses", "anthropic", "memory:"),
    ],
)
def test_messages_are_translated_or_passed_beside_the_loop(
    client: str, upstream: str, state: str | None
) -> None:
    async def ask(count: int) -> None:
        async with opened(NOWHERE, dialect=upstream, state=state) as app:
            caller = await called(app, PATHS[client], request_of(client, count))
        assert caller.status == 502

    assert_loop_does_as_much(ask)


@pytest.mark.parametrize("client", COUNTS)
@pytest.mark.parametrize("upstream", ["openai_chat", "gemini"])
def test_tokens_are_estimated_or_asked_for_beside_the_loop(client: str, upstream: str) -> None:
    async def ask(count: int) -> None:
        async with opened(NOWHERE, dialect=upstream) as app:
            await called(app, COUNTS[client], request_of(client, count))

    assert_loop_does_as_much(ask)


@pytest.mark.parametrize("upstream", ["openai_responses", "anthropic", "gemini_interactions"])
def test_conversations_are_compacted_beside_the_loop(upstream: str) -> None:
    async def ask(count: int) -> None:
        async with opened(NOWHERE, dialect=upstream) as app:
            body = request_of("openai_responses", count)
            caller = await called(app, "/v1/responses/compact", body)
        assert caller.status == 502

    assert_loop_does_as_much(ask)


@pytest.mark.parametrize(
    "path", [PATHS["openai_responses"], COUNTS["openai_responses"], "/v1/responses/compact"]
)
@pytest.mark.parametrize("upstream", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_history_takes_few_times_its_size_of_memory(path: str, upstream: str) -> None:
    """What was decoded of it, its texts once more, and what the upstream is sent."""
    body = request_of("openai_responses", 10 * FEW)

    async def ask() -> int:
        async with opened(NOWHERE, dialect=upstream) as app:
            await called(app, path, request_of("openai_responses", FEW))  # caches of first use
            tracemalloc.start()
            try:
                caller = await called(app, path, body)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert caller.status == (
            200 if path in COUNTS.values() and upstream == "openai_chat" else 502
        )
        return peak

    assert asyncio.run(ask()) < 3.5 * len(body)


@pytest.mark.parametrize("state", [None, "memory:"])
def test_whole_answer_is_translated_and_stored_beside_the_loop(state: str | None) -> None:
    def answer(count: int) -> bytes:
        text = "word " * (TEXT_BYTES // count // 5)
        parts = [{"type": "text", "text": text}] * count
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "x", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        body = json.dumps({**message, "content": parts, "stop_reason": "end_turn"}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        return head % len(body) + body

    async def ask(count: int) -> None:
        async with opened(servers[count].url, dialect="anthropic", state=state) as app:
            caller = await called(app, PATHS["openai_responses"], {"model": "m", "input": "Hi."})
        assert caller.status == 200
        assert len(b"".join(caller.bodies)) > TEXT_BYTES * 0.9

    with ExitStack() as stack:
        servers = {count: stack.enter_context(raw_upstream(answer(count))) for count in (FEW, MANY)}
        assert_loop_does_as_much(ask)


@pytest.mark.anyio
async def test_small_body_is_worked_on_in_place_and_a_large_one_in_a_thread() -> None:
    bodies, here = BodyThread(), threading.get_ident()
    assert await bodies.run(LARGE_BYTES, threading.get_ident) == here
    assert await bodies.run(LARGE_BYTES + 1, threading.get_ident) != here


@pytest.mark.anyio
async def test_one_large_body_is_worked_on_at_a_time() -> None:
    bodies, running, most = BodyThread(), 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.001)
        running -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(bodies.run, LARGE_BYTES + 1, work)
    assert most == 1


@pytest.mark.anyio
async def test_work_in_the_thread_raises_what_it_raises() -> None:
    def work() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        await BodyThread().run(LARGE_BYTES + 1, work)


@pytest.mark.anyio
@pytest.mark.parametrize("is_enabled", [True, False])
async def test_garbage_is_not_collected_in_the_thread(*, is_enabled: bool) -> None:
    def work() -> bool:
        return gc.isenabled()

    before = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        assert await BodyThread().run(LARGE_BYTES, work) is is_enabled
        assert await BodyThread().run(LARGE_BYTES + 1, work) is False
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if before else gc.disable)()
