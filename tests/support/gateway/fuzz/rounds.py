"""Fuzzing rounds against a running gateway."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.gateway.fuzz.answers import KEY, wild_steps
from support.gateway.fuzz.requests import (
    CANARY,
    CLIENTS,
    UPSTREAMS,
    WildRequest,
    honest_request,
    wild_request,
)
from support.gateway.processes import COMMANDS, gateway_process
from support.gateway.watch import GatewayWatch
from support.http.echo_upstream import MARKER, EchoUpstream, new_marker
from support.http.raw_client import RawAnswer, converse

__all__ = ["REQUESTS_OF_A_ROUND", "FuzzedGateway", "fuzzed_gateway"]

_CLIENT_KEYS = ("key-of-tenant-a-77c1", "key-of-tenant-b-0f3d")
REQUESTS_OF_A_ROUND = 40
_WARM_ROUNDS = 20
_MAX_GROWTH_BYTES = 128 * 1024 * 1024
_ANSWER_S = 45.0  # many times the bounds of the gateway, for a machine that does other work
_UNFRAMED_S = 0.5
_CLOSE_S = 45.0
_SETTLE_S = 0.02
_HTTP2 = b"\0\0"  # how the settings begin with which hypercorn answers `PRI`
# What a server answers for an application that fails.
_PLAIN_500 = b"\r\n\r\nInternal Server Error"
# `useChat` gets the sentence alone.
_FAULTS = b"gateway_fault", b"a fault of the gateway"

_SETTINGS = """
client_keys = "env:FUZZ_CLIENT_KEYS"
seal_key = "env:FUZZ_SEAL_KEY"
state = {state}
first_byte_s = 2
idle_s = 2
progress_s = 2
finish_grace_s = 0.5
keepalive_s = 0.3
retries = 1
max_body_bytes = 4_000_000
max_event_bytes = 262_144

[log]
url = {log}
lease_s = 5
"""
# hypercorn holds a connection that its client has half closed as long as an idle one.
_RUN = COMMANDS | {"hypercorn": (*COMMANDS["hypercorn"], "--keep-alive", "1")}
_DIALECTS = {
    "chat": "openai_chat",
    "messages": "anthropic",
    "responses": "openai_responses",
    "contents": "gemini",
    "chat-again": "openai_chat",
    "messages-again": "anthropic",
}
_PAGES = {"ui_message_stream": "chat-again", "ag_ui": "messages"}
_SEAL_KEY = "canary-of-a-seal-key-0123456789abcdef"


class FuzzedGateway:
    """A gateway with an upstream whose answers are damaged.

    Attributes:
        rounds: Rounds so far.
        requests: Connections so far.
        answers: Their answers by status; `none` where there is none.
    """

    def __init__(self, url: str, upstream: EchoUpstream, watch: GatewayWatch) -> None:
        self.rounds = self.requests = 0
        self.answers = Counter[str]()
        self._url = url
        self._upstream = upstream
        self._watch = watch
        self._least_bytes = 0

    async def round(self, seed: int) -> list[str]:
        """Send damaged requests, then valid ones; return the problems."""
        rng = random.Random(seed)  # noqa: S311 - no secret
        wild = [wild_request(rng, _CLIENT_KEYS) for _ in range(REQUESTS_OF_A_ROUND)]
        answers = random.Random(seed + 1)  # noqa: S311 - no secret
        self._upstream.plan = lambda request: wild_steps(answers, request)
        results = await asyncio.gather(*(self._converse(each) for each in wild))
        known = frozenset[bytes]().union(*(each.markers for each in wild))
        found = []
        for request, answer in zip(wild, results, strict=True):
            found += [f"{request.kind}: {text}" for text in self._judge(request, answer, known)]
        self._upstream.plan = lambda _request: None
        await self._settle()
        found += await self._ask_honestly(rng)
        found += self._watch.problems()
        self.rounds += 1
        return found + self._judge_memory()

    async def _converse(self, request: WildRequest) -> RawAnswer:
        self.requests += 1
        answer_s = _ANSWER_S if request.is_framed else _UNFRAMED_S
        answer = await converse(self._url, request.pieces, answer_s=answer_s, close_s=_CLOSE_S)
        status = answer.data[9:12].decode("latin-1") if answer.data else "none"
        self.answers[status] += 1
        return answer

    def _judge(self, request: WildRequest, answer: RawAnswer, known: frozenset[bytes]) -> list[str]:
        found = []
        data = answer.data
        if not answer.is_closed:
            found.append(f"the connection does not end, after {len(data)} bytes")
        if request.is_framed and not data:
            found.append("no answer")
        if data and not data.startswith((b"HTTP/1.1 ", _HTTP2)):
            found.append(f"the answer begins with {data[:20]!r}")
        if any(fault in data for fault in _FAULTS) or data.endswith(_PLAIN_500):
            found.append("a fault of the gateway")
        others = {*MARKER.findall(data)} & known - request.markers
        found += [f"the marker {marker.decode()} of another client" for marker in others]
        plain = data.replace(b"\\/", b"/")
        secrets = [name for name, secret in _SECRETS.items() if secret in plain]
        return found + [f"{name} in the answer" for name in secrets]

    async def _settle(self) -> None:
        """Wait until the gateway has read everything the upstream sends."""
        async with asyncio.timeout(_ANSWER_S):
            while self._upstream.running:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(_SETTLE_S)
        await asyncio.sleep(_SETTLE_S)

    async def _ask_honestly(self, rng: random.Random) -> list[str]:
        found = []
        for client in CLIENTS:
            marker, upstream = new_marker(), rng.choice(UPSTREAMS)
            data = honest_request(client, upstream, rng.choice(_CLIENT_KEYS), marker)
            answer = await converse(self._url, [data], answer_s=_ANSWER_S, close_s=_CLOSE_S)
            text = f"The answer to {marker}".replace(" ", "")
            said = "".join(_words(answer.data))
            if not answer.data.startswith(b"HTTP/1.1 200") or text not in said.replace(" ", ""):
                head = answer.data[:12].decode("latin-1")
                found.append(f"honest request of {client} to {upstream}: {head!r}, not its answer")
        return found

    def _judge_memory(self) -> list[str]:
        size = self._watch.resident_bytes()
        if self.rounds <= _WARM_ROUNDS:
            self._least_bytes = size
        growth = size - self._least_bytes
        return [f"{growth:,} bytes more memory"] if growth > _MAX_GROWTH_BYTES else []


_SECRETS = {
    "the upstream's key": KEY.encode(),
    "the seal key": _SEAL_KEY.encode(),
    **{f"client key {number}": key.encode() for number, key in enumerate(_CLIENT_KEYS)},
}
_TEXT = re.compile(rb'"(?:text|content|delta)":"((?:[^"\\]|\\.)*)"')


def _words(data: bytes) -> list[str]:
    """Return the texts in an answer, in order."""
    return [json.loads(b'"' + text + b'"') for text in _TEXT.findall(data)]


@asynccontextmanager
async def fuzzed_gateway(server: str, directory: Path) -> AsyncIterator[FuzzedGateway]:
    """Run a gateway in one kind of server, with an upstream of damaged answers."""
    stores = {name: json.dumps(f"sqlite:{directory / name}.db") for name in ("state", "log")}
    settings = _SETTINGS.format(**stores)
    tables = ['key = "env:FUZZ_UPSTREAM_KEY"']
    for name, dialect in _DIALECTS.items():
        normalize = "true" if name.endswith("-again") else "false"
        tables.append(f'[upstreams.{name}]\ndialect = "{dialect}"\nbase_url = "{{url}}"')
        tables.append(f'key = "env:FUZZ_UPSTREAM_KEY"\nnormalize = {normalize}')
    tables += [f'[[models]]\nmatch = "{name}-mk*"\nto = ["{name}"]' for name in _DIALECTS]
    for page, name in _PAGES.items():
        tables.append(f'[pages.{page}]\nmodel = "{name}-mk"\nallow_tools = true')
    environ = {
        "FUZZ_CLIENT_KEYS": ",".join(_CLIENT_KEYS),
        "FUZZ_UPSTREAM_KEY": KEY,
        "FUZZ_SEAL_KEY": _SEAL_KEY,
    }
    path = directory / "gateway.log"
    with path.open("wb") as log:
        async with (
            EchoUpstream().serving() as upstream,
            gateway_process(
                upstream.url,
                directory,
                _RUN[server],
                settings=settings,
                upstream="\n".join(tables),
                log=log,
                environ=environ,
            ) as gateway,
        ):
            secrets = (KEY, _SEAL_KEY, CANARY, *_CLIENT_KEYS)
            yield FuzzedGateway(gateway.url, upstream, GatewayWatch(gateway, path, secrets))
