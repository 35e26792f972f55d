"""Requests cancelled at random points, and the resources left behind.

The server is in the same event loop: it stops each response at a byte that the plan of its
request names, and the client is cancelled a few steps later.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
import anyio.abc
import httpx
import httpx2
from anyio.lowlevel import checkpoint
from sniffio import current_async_library

from support.http.families import FamilyUnderTest
from support.http.transcoding_clients import MESSAGES, chat_stream

__all__ = ["Leftovers", "cancel_requests"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_PIECES = [b"%x\r\n%b\r\n" % (len(data), data) for data in chat_stream("It snows in Oslo. " * 20)]
_RESPONSE = _HEAD + b"".join(_PIECES) + b"0\r\n\r\n"
# Half of the requests wait for a connection: cancelling those is where httpx leaks.
_AT_A_TIME = 40
_MAX_CONNECTIONS = 20
_POOL_TIMEOUT_S = 2  # reached only if all connections have leaked
_ROUNDS = 5
_MAX_STEPS = 12  # of the event loop, between the server's write and the cancellation
_MAX_SETTLE_STEPS = 2000
_PATIENCE_S = 20  # with a test that has failed


class Leftovers(NamedTuple):
    """Resources left when all requests were cancelled.

    Attributes:
        slots: Connections in the pool that nobody opens or uses: httpcore lost them when it
            assigned them to a request that was cancelled.  On trio, whose scheduler is random,
            their number varies.
        connections: Open connections in the pool that are in use.
        requests: Requests in the pool that have or wait for a connection.
        refused: Requests that found no connection, because all had leaked.
        sockets: Connections at the server that the pool does not hold as idle ones.
        tasks: Tasks, the server's excepted.
        after_close: Connections at the server once the client is closed.
        memory_bytes: Growth of the memory of the process since the first fifth, which fills the
            caches; the least of four samples, because queues of the event loops vary.
    """

    slots: int
    connections: int
    requests: int
    refused: int
    sockets: int
    tasks: int
    after_close: int
    memory_bytes: int

    def counts_exceed(self, other: Leftovers) -> bool:
        """Return whether any count but the slots exceeds another client's."""
        pairs = zip(self[1:-1], other[1:-1], strict=True)
        return any(count > known for count, known in pairs)


@dataclass
class _Plan:
    """Plan of one request and its cancellation.

    Attributes:
        stop: Bytes of the response that the server sends; -1 to cancel before it has the request.
        steps: Steps of the event loop between that and the cancellation.
        cancels_task: Whether asyncio cancels the task, once, and not a scope of anyio.
        reached: Set when the server has sent them.
    """

    stop: int
    steps: int
    cancels_task: bool
    reached: anyio.Event = field(default_factory=anyio.Event)


class _Provider:
    """A server that stops its responses as planned.

    Attributes:
        plans: Plans by the name of the model that is asked for.
        open: Connections.
    """

    def __init__(self) -> None:
        self.plans: dict[str, _Plan] = {}
        self.open = 0

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer the requests of a connection until the client closes it."""
        self.open += 1
        try:
            async with stream:
                while (body := await _read_request(stream)) is not None:
                    plan = self.plans.get(json.loads(body)["model"])
                    if plan is None:
                        return  # cancelled long ago
                    await stream.send(_RESPONSE[: max(plan.stop, 0)])
                    plan.reached.set()
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            pass  # the client has closed it
        finally:
            self.open -= 1


async def _read_request(stream: anyio.abc.SocketStream) -> bytes | None:
    """Return the body of the next request."""
    data = await stream.receive()
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = (
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += await stream.receive()
    return body


def _plan(dice: random.Random) -> _Plan:
    """Return a random plan: cancellation before, within or after the response."""
    whole, head = len(_RESPONSE), len(_HEAD)
    places = [(-1, -1), (0, 0), (1, head), (head, whole - 1), (whole - 5, whole), (whole, whole)]
    return _Plan(
        dice.randint(*dice.choice(places)), dice.randrange(_MAX_STEPS), dice.random() < 0.5
    )


async def cancel_requests(
    family: FamilyUnderTest, count: int, seed: int, *, through: bool
) -> Leftovers:
    """Cancel requests of one client; return the leftovers.

    Args:
        family: Package of the client.
        count: Number of requests.
        seed: Seed of the points.
        through: Whether the client has a `TranscodingTransport`.
    """
    dice = random.Random(seed)  # noqa: S311 - a seed is the point
    # What others have left is collected once, not with each sample.
    gc.collect()
    gc.freeze()
    provider = _Provider()
    (listener,) = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners
    port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
    url = f"http://127.0.0.1:{port}/v1/{'messages' if through else 'chat/completions'}"
    async with listener, anyio.create_task_group() as server:
        server.start_soon(listener.serve, provider.serve)
        await checkpoint()
        tasks = len(anyio.get_running_tasks())
        network, client = _client(family, url, through=through)
        pool = network._pool
        async with client:
            refused, samples = 0, list[int]()
            for _ in range(_ROUNDS):
                refused += await _cancel_all(client, url, provider, dice, count // _ROUNDS)
                await _settle(provider, tasks, len(pool.connections))
                samples.append(_traced_bytes())
            idle = sum(connection.is_idle() for connection in pool.connections)
            in_use = [c for c in pool.connections if not (c.is_idle() or c.is_closed())]
            slots = sum(connection._connection is None for connection in in_use)
            left = Leftovers(
                slots=slots,
                connections=len(in_use) - slots,
                requests=len(pool._requests),
                refused=refused,
                sockets=provider.open - idle,
                tasks=len(anyio.get_running_tasks()) - tasks - provider.open,
                after_close=0,
                memory_bytes=min(samples[1:]) - samples[0],
            )
        await _settle(provider, tasks, 0)
        left = left._replace(after_close=provider.open)
        server.cancel_scope.cancel()
    return left


def _client(family: FamilyUnderTest, url: str, *, through: bool) -> tuple[Any, Any]:
    """Return a client, and its network transport."""
    limits = family.http.Limits(max_connections=_MAX_CONNECTIONS)
    network = transport = family.http.AsyncHTTPTransport(limits=limits)
    if through:
        transport = family.transports.TranscodingTransport(
            network, client="anthropic", upstream="openai_chat", base_url=url.partition("/v1")[0]
        )
    timeout = family.http.Timeout(_PATIENCE_S, pool=_POOL_TIMEOUT_S)
    return network, family.http.AsyncClient(transport=transport, timeout=timeout)


async def _cancel_all(
    client: Any, url: str, provider: _Provider, dice: random.Random, count: int
) -> int:
    """Cancel `count` requests, some at a time; return how many got no connection."""
    refused = 0

    async def cancel(model: str, plan: _Plan) -> None:
        nonlocal refused
        refused += await _cancel_one(client, url, model, plan)

    for start in range(0, count, _AT_A_TIME):
        with anyio.fail_after(_PATIENCE_S):
            async with anyio.create_task_group() as requests:
                for number in range(start, min(start + _AT_A_TIME, count)):
                    provider.plans[f"m-{number}"] = plan = _plan(dice)
                    requests.start_soon(cancel, f"m-{number}", plan)
        provider.plans.clear()
    return refused


async def _cancel_one(client: Any, url: str, model: str, plan: _Plan) -> bool:
    """Send a request, and cancel it as planned; return whether it got no connection."""
    body = {**MESSAGES, "model": model, "stream": True}
    got_none = False

    async def exchange() -> None:
        nonlocal got_none
        try:
            async with client.stream("POST", url, json=body) as response:
                async for _ in response.aiter_bytes():
                    pass
        except (httpx.PoolTimeout, httpx2.PoolTimeout):
            got_none = True

    async with anyio.create_task_group() as watch:
        if plan.cancels_task and current_async_library() == "asyncio":
            task = asyncio.ensure_future(exchange())
            watch.start_soon(_cancel_at, plan, task.cancel)
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None
        else:
            with anyio.CancelScope() as scope:
                watch.start_soon(_cancel_at, plan, scope.cancel)
                await exchange()
        watch.cancel_scope.cancel()
    return got_none


async def _cancel_at(plan: _Plan, cancel: Callable[[], object]) -> None:
    if plan.stop >= 0:
        await plan.reached.wait()
    for _ in range(plan.steps):
        await checkpoint()
    cancel()


async def _settle(provider: _Provider, tasks: int, expected: int) -> None:
    """Wait until the server has seen closed connections, and its tasks have ended."""
    for _ in range(_MAX_SETTLE_STEPS):
        if len(anyio.get_running_tasks()) - tasks <= provider.open <= expected:
            return
        await checkpoint()


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
