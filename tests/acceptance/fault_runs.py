"""A run of a cell of the fault matrix: a client, a gateway and an upstream that fails."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anthropic
import openai
from acceptance.fault_cells import Cell
from acceptance.gateways import Gateways, gateways
from acceptance.interactions_client import CLIENTS
from acceptance.transcoding_clients import KEY as CLIENT_KEY
from acceptance.transcoding_clients import SDK, Reading, Responses
from google.genai import _interactions_errors, errors
from openai._models import construct_type
from openai.types.responses import Response
from support.faults.answers import ANSWERS, CITY, TEXT
from support.faults.events import MAX_EVENT_BYTES
from support.faults.responses import ELSEWHERE, KEY
from support.faults.rows import Expected
from support.faults.upstream import FaultyUpstream
from support.gateway.observers import RecordingObserver
from support.gateway.sockets import ENDS
from websockets.exceptions import ConnectionClosed

__all__ = ["Bench", "open_bench"]

_PROMPT = "canary-of-the-prompt"
_QUERY = "canary-of-the-query"
_SECRETS = (CLIENT_KEY, KEY, _PROMPT, _QUERY, "canary-of-the-answer")
_ANSWER = Reading(TEXT, "", (("call_1", "get_weather", {"city": CITY}),))
_TIMEOUT_S = 10
# What the client itself logs is not the gateway's.
_CLIENT_LOGGERS = (
    *("openai", "anthropic", "google_genai", "httpx", "httpx2", "httpcore", "websockets"),
)

_OPENAI: dict[int, type[Exception]] = {
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    429: openai.RateLimitError,
}
_ANTHROPIC: dict[int, type[Exception]] = {
    401: anthropic.AuthenticationError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    409: anthropic.ConflictError,
    413: anthropic.RequestTooLargeError,
    408: anthropic.RequestTimeoutError,
    429: anthropic.RateLimitError,
    503: anthropic.ServiceUnavailableError,
    504: anthropic.GatewayTimeoutError,
    529: anthropic.OverloadedError,
}
# No public name has these; `client.interactions` raises them.
_INTERACTIONS: dict[int, type[Exception]] = {
    400: _interactions_errors.BadRequestError,
    401: _interactions_errors.AuthenticationError,
    403: _interactions_errors.PermissionDeniedError,
    404: _interactions_errors.NotFoundError,
    409: _interactions_errors.ConflictError,
    429: _interactions_errors.RateLimitError,
}


class _Logs(logging.Handler):
    """All that is logged, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] not in _CLIENT_LOGGERS:
            self.lines.append(f"{record.name}: {self.format(record)} {record.args!r}")


class Bench:
    """Gateways in front of an upstream that fails, and clients of them.

    Attributes:
        upstream: The upstream.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self.upstream = FaultyUpstream()
        self._elsewhere = FaultyUpstream()
        self._stack = stack
        self._gateways: dict[str, Gateways] = {}
        self._clients: dict[tuple[str, str, str], Any] = {}
        self._logs = _Logs()
        self._records = RecordingObserver()

    async def open(self) -> None:
        """Start all servers, and collect what is logged."""
        await self._stack.enter_async_context(self.upstream.running())
        await self._stack.enter_async_context(self._elsewhere.running())
        closed = self._stack.enter_context(socket.socket())
        closed.bind(("127.0.0.1", 0))  # and never listens
        url = self.upstream.url
        # The first byte of an upstream in a busy process may be late; what follows has begun.
        hasty = {"first_byte_s": 1.5, "idle_s": 0.3, "progress_s": 0.4}
        for mode, upstream_url, times in (
            ("patient", url, {}),
            ("hasty", url, hasty),
            ("refused", f"http://127.0.0.1:{closed.getsockname()[1]}", {}),
            ("tls", url.replace("http:", "https:"), {}),
        ):
            known = gateways(
                upstream_url,
                options={"key": "env:KEY"},
                environ={"KEY": KEY},
                observers=(self._records,),
                max_event_bytes=MAX_EVENT_BYTES,
                finish_grace_s=0.1,
                has_websockets=True,
                dialects=CLIENTS,
                **times,
            )
            self._gateways[mode] = await self._stack.enter_async_context(known)
        root = logging.getLogger()
        level = root.level
        root.addHandler(self._logs)
        root.setLevel(logging.DEBUG)
        self._stack.callback(root.setLevel, level)
        self._stack.callback(root.removeHandler, self._logs)

    async def run(self, cell: Cell) -> list[str]:
        """Run a cell; return what is wrong, which is nothing if all is as expected."""
        fault, moment, upstream = cell.fault, cell.moment, ANSWERS[cell.upstream]
        address = self._elsewhere.url.removeprefix("http://").encode()
        self.upstream.script = [
            step.replace(ELSEWHERE, address) if isinstance(step, bytes) else step
            for step in fault.script(upstream, moment)
        ]
        self.upstream.requests.clear()
        self._records.begun.clear()
        self._records.ended.clear()
        self._logs.lines.clear()
        expected = _to_client(fault.expected(upstream, moment), cell)
        error: Exception | None = None
        if cell.over_socket:
            events = await self._ask_over_socket(cell)
            said, wrong = json.dumps(events[-2:]), _socket_faults(cell, expected, events)
        else:
            reading, error = await self._ask(cell)
            said = f"{type(error).__name__}: {error}" if error else ""
            wrong = _client_faults(cell, expected, reading, error)
        wrong += [
            *await self._connection_faults(cell),
            *self._request_faults(cell),
            *self._record_faults(cell, expected, error),
            *self._leaks(said),
        ]
        return [said[:300], *wrong] if wrong and said else wrong

    async def _ask_over_socket(self, cell: Cell) -> list[dict[str, Any]]:
        """Return the events of an answer, and of another one if the connection lives."""
        sdk = CLIENTS[cell.client]
        assert isinstance(sdk, Responses)
        client = await self._client(cell, sdk)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await sdk.events_over_socket(client, sdk.first(_PROMPT), {"key": _QUERY})
        except (TimeoutError, ConnectionClosed) as exc:
            return [{"type": type(exc).__name__}]

    async def _ask(self, cell: Cell) -> tuple[Reading | None, Exception | None]:
        sdk = CLIENTS[cell.client]
        client = await self._client(cell, sdk)
        ask = sdk.streamed_async if cell.fault.stream else sdk.whole_async
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return sdk.reading(await ask(client, sdk.first(_PROMPT))), None
        except Exception as exc:  # noqa: BLE001 - which one is checked
            return None, exc

    async def _client(self, cell: Cell, sdk: SDK) -> Any:
        key = (cell.client, cell.fault.mode, cell.upstream)
        if key not in self._clients:
            http = sdk.http.AsyncClient(params={"key": _QUERY})
            await self._stack.enter_async_context(http)
            url = self._gateways[cell.fault.mode].urls[cell.upstream]
            self._clients[key] = sdk.async_client(http, url)
        return self._clients[key]

    async def _connection_faults(self, cell: Cell) -> list[str]:
        for _ in range(100):
            if self._records.ended and not self.upstream.open:
                break
            await asyncio.sleep(0.01)
        in_use = await self._gateways[cell.fault.mode].connections_in_use(cell.upstream)
        wrong = [f"{in_use} connections in use"] if in_use else []
        if self.upstream.open:
            wrong.append(f"{self.upstream.open} connections open at the upstream")
        if self._elsewhere.connections:
            wrong.append("another server was asked")
        return wrong

    def _request_faults(self, cell: Cell) -> list[str]:
        requests = self.upstream.requests
        count = 0 if cell.fault.mode == "refused" else 1
        wrong = [] if len(requests) == count else [f"{len(requests)} requests, expected {count}"]
        for request in requests:
            passed = [s for s in (CLIENT_KEY, _QUERY) if s.encode() in request]
            wrong += [f"the upstream was sent {secret}" for secret in passed]
        return wrong

    def _record_faults(self, cell: Cell, expected: Expected, raised: Exception | None) -> list[str]:
        if len(self._records.begun) != 1 or len(self._records.ended) != 1:
            return [f"{len(self._records.begun)} begun, {len(self._records.ended)} ended"]
        call = self._records.ended[0]
        error = getattr(call.outcome, "error", None)
        found = (type(call.outcome).__name__, error.kind if error else "", call.status)
        wanted = (expected.outcome.__name__, expected.kind, expected.status)
        # An SDK that meets the fault itself may leave before the end.
        has_left = _is_own(cell, expected) and raised is not None and call.ending == "abandoned"
        wrong = [] if found == wanted or has_left else [f"outcome {found}, expected {wanted}"]
        if (call.client, call.upstream, call.attempts) != (cell.client, "local", 1):
            wrong.append(f"record of {call.client}, {call.upstream}, {call.attempts} attempts")
        return wrong

    def _leaks(self, said: str) -> list[str]:
        told = [
            *((line, "log") for line in self._logs.lines),
            *((repr(call), "record") for call in self._records.ended),
        ]
        wrong = [
            f"{secret} in a {what}: {text[:200]}"
            for text, what in told
            for secret in _SECRETS
            if secret in text
        ]
        address = self.upstream.url.removeprefix("http://")
        wrong += [f"{secret} sent to the client" for secret in (KEY, address) if secret in said]
        return wrong


@asynccontextmanager
async def open_bench() -> AsyncIterator[Bench]:
    """Start the servers of a bench."""
    async with AsyncExitStack() as stack:
        bench = Bench(stack)
        await bench.open()
        yield bench


def _to_client(expected: Expected, cell: Cell) -> Expected:
    """Return what is expected if only Anthropic's clients know the status 529."""
    if expected.status != 529 or cell.client in (cell.upstream, "anthropic"):
        return expected
    return expected._replace(status=503)


def _is_own(cell: Cell, expected: Expected) -> bool:
    return expected.own and cell.client == cell.upstream


def _client_faults(
    cell: Cell, expected: Expected, reading: Reading | None, error: Exception | None
) -> list[str]:
    if isinstance(error, TimeoutError):
        return ["no answer"]
    if _is_own(cell, expected):
        return []
    if not expected.fails:
        if error is not None:
            return ["an exception, expected an answer"]
        return [f"read {reading}"] if expected.reads and reading != _ANSWER else []
    if error is None:
        return [f"read {reading}, expected an exception"]
    kind = _exception(cell.client, expected.status)
    if type(error) is not kind:
        return [f"{type(error).__name__}, expected {kind.__name__}"]
    return [] if _has_shape(cell.client, error, expected.status) else [f"shape of {error!r}"]


def _socket_faults(cell: Cell, expected: Expected, events: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with an answer over a WebSocket: it has one end, which is the right one.

    An error before `response.created` has the status that a response over HTTP would have.
    """
    if len(events) == 1:
        return [f"{events[0]['type']}, expected an answer"]
    *answer, end, refusal = events
    ends = [event["type"] for event in answer if event["type"] in ENDS]
    wrong = [f"{ends} before the end"] if ends else []
    if (refusal["type"], refusal.get("status")) != ("error", 400):
        wrong.append(f"{refusal} of a connection that lives, expected an error")
    if _is_own(cell, expected):
        return wrong
    response = end.get("response", {})
    match end["type"]:
        case "response.completed" if not expected.fails:
            read = CLIENTS[cell.client].reading(construct_type(type_=Response, value=response))
            return wrong + ([f"read {read}"] if expected.reads and read != _ANSWER else [])
        case "error" if expected.fails and expected.status != 200:
            if (end["status"], answer) != (expected.status, []):
                wrong.append(f"status {end['status']} behind {len(answer)} events")
            found = end["error"]
        case "response.failed" if expected.fails and expected.status == 200:
            if (answer[0]["type"], response["status"]) != ("response.created", "failed"):
                wrong.append(f"{response['status']} behind {answer[0]['type']}")
            found = response["error"]
        case other:
            return [*wrong, f"{other}, expected {expected}"]
    if not isinstance(found.get("message"), str) or "code" not in found:
        wrong.append(f"shape of {end}")
    return wrong


def _exception(client: str, status: int) -> type[Exception]:
    """Return the SDK's exception for a response; for 200, that for an error in a stream."""
    match client:
        case "gemini":
            return errors.ClientError if 400 <= status < 500 else errors.ServerError
        case "gemini_interactions":
            if status == 200:
                return errors.APIError  # which the reader of the stream raises
            other = _interactions_errors.APIStatusError
            if status >= 500:
                other = _interactions_errors.InternalServerError
            return _INTERACTIONS.get(status, other)
        case "anthropic":
            other = anthropic.InternalServerError if status >= 500 else anthropic.APIStatusError
            return _ANTHROPIC.get(status, other)
        case _:
            if status == 200:
                return openai.APIError
            other = openai.InternalServerError if status >= 500 else openai.APIStatusError
            return _OPENAI.get(status, other)


def _has_shape(client: str, error: Any, status: int) -> bool:
    """Return whether an error response has the status and the fields of its dialect."""
    match client:
        case "gemini":
            body = error.details["error"]
            fields = {"code": int, "message": str, "status": str}
        case "gemini_interactions":
            if status == 200:
                return error.code == 500 and bool(error.message)
            body = error.body["error"]
            fields = {"code": int, "message": str, "status": str}
        case "anthropic":
            body = error.body["error"]
            fields = {"type": str, "message": str}
            if error.body["type"] != "error":
                return False
        case _:
            body = error.body
            fields = {"message": str}
    if any(not isinstance(body.get(name), kind) for name, kind in fields.items()):
        return False
    return status == 200 or status == (error.code if client == "gemini" else error.status_code)
