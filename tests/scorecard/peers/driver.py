"""The loop of a script that runs in a peer's interpreter: jobs in, what the peer answered out.

Each line of stdin is a job: `{"source", "target", "model", "request", "rounds"}`, where `request`
is what a client of `target` sends, and `source` names the upstream that the peer must ask, for
`model` if that is not None, as its vendor.  The upstream is at
the base URL in the script's first argument, and answers with the stream of the case whatever it is
asked.  Each line of stdout is `{"status", "out", "error", "cpu_s"}`: the bytes that the client
received, in base64, and the CPU of the process, the least of the rounds.

The first line of stdout is `{"version", "converts"}`.  Whatever the peer prints goes to stderr.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

__all__ = ["Answer", "Job", "ask_asgi", "path_of", "run", "sse"]

Answer = tuple[int, bytes]
Ask = Callable[["Job"], Awaitable[Answer]]

_TIMEOUT_S = 60.0


class Job(NamedTuple):
    """One request of a client.

    Attributes:
        source: The dialect of the upstream.
        target: The client's dialect.
        model: The model of the vendor; None for any server of the dialect.
        request: The body.
    """

    source: str
    target: str
    model: str | None
    request: dict[str, Any]


_PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/{model}:streamGenerateContent",
}


def path_of(target: str, model: str) -> str:
    """Return the path at which a client of a dialect asks for a stream."""
    return _PATHS[target].format(model=model)


def sse(data: str, event: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data}\n\n".encode()


async def ask_asgi(app: Any, path: str, request: dict[str, Any]) -> Answer:
    """Return the status and the body that an ASGI app answers a request with."""
    body, query = json.dumps(request).encode(), b""
    if "?" in path:
        path, _, rest = path.partition("?")
        query = rest.encode()
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    headers |= {"content-length": str(len(body)), "host": "127.0.0.1", "x-api-key": "none"}
    headers["authorization"] = "Bearer none"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    unread, parts, status = [body], [], 500
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    try:
        await app(scope, receive, send)
    except Exception:
        # A server would close the connection behind what was sent.
        if not parts:
            raise
    return status, b"".join(parts)


async def _answer(ask: Ask, job: dict[str, Any]) -> dict[str, Any]:
    least = None
    for _ in range(job.get("rounds", 1)):
        begun = time.process_time()
        status, out = await asyncio.wait_for(
            ask(Job(job["source"], job["target"], job.get("model"), job["request"])), _TIMEOUT_S
        )
        spent = time.process_time() - begun
        least = spent if least is None else min(least, spent)
    return {"status": status, "out": base64.b64encode(out).decode(), "error": None, "cpu_s": least}


def run(
    version: str,
    converts: list[tuple[str, str]],
    ask: Ask,
    start: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Start the peer, and answer the jobs of stdin until it ends."""
    asyncio.run(_run(version, converts, ask, start))


async def _run(
    version: str,
    converts: list[tuple[str, str]],
    ask: Ask,
    start: Callable[[], Awaitable[object]] | None,
) -> None:
    # The peer's own output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if start is not None:
        await start()
    print(json.dumps({"version": version, "converts": converts}), file=answers, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            answer = await _answer(ask, json.loads(line))
        except Exception as exc:  # noqa: BLE001 - whatever a peer raises is its answer
            error = f"{type(exc).__name__}: {exc}"[:300]
            answer = {"status": 0, "out": "", "error": error, "cpu_s": None}
        print(json.dumps(answer), file=answers, flush=True)
