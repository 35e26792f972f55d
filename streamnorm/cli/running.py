"""The command `streamnorm run`, which runs an agent on a gateway of its own."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streamnorm.cli import console
from streamnorm.cli.gateway import add_upstreams, config_of, write_log

if TYPE_CHECKING:
    from streamnorm.gateway import CallRecord, Config


_STATUSES = {
    1: "no upstream can be reached",
    2: "wrong usage or configuration",
    126: "the command cannot be executed",
    127: "the command was not found",
}
_UNREACHABLE = 1
_CONNECT_S = 5.0
_PORTS = {"http": 80, "https": 443}
_CLIENT_KEY = "STREAMNORM_CLIENT_KEY"


def add_commands(add_parser: console.AddParser) -> None:
    """Add `run`."""
    command = add_parser(
        "run",
        help="run an agent, or any other client, on a gateway of its own",
        usage="%(prog)s [OPTION ...] -- COMMAND [ARGUMENT ...]",
        description="Start a gateway on 127.0.0.1, run a command that asks it, and stop the\n"
        "gateway when the command ends. Claude Code, Codex, Gemini CLI and opencode are set up\n"
        "by their own variables and options; any other command gets the variables of the\n"
        "official SDKs: OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, and a key\n"
        "that only this command has. No file is written.",
        epilog=console.format_statuses(_STATUSES)
        + "\nelse that of the command; 128 + N if signal N"
        " ended it",
    )
    add_upstreams(command)
    console.add_port(command)
    command.add_argument(
        "--log", metavar="FILE", help="where to append the log, a line for each request"
    )
    command.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if sys.platform == "win32":
        raise console.UsageError(
            "run: Windows, expected Linux or macOS; `streamnorm serve` runs here"
        )
    command: list[str] = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise console.UsageError("no command, expected -- COMMAND")
    from streamnorm.cli.agents import ForegroundCommand, launch
    from streamnorm.cli.serving import LOOPBACK, open_listener, serve_in_thread
    from streamnorm.gateway import app

    requests = _Requests()
    config, key = _add_key(config_of(arguments))
    environ = {**os.environ, _CLIENT_KEY: key or ""}
    gateway = app(config, environ=environ, observers=(requests,))
    with _open_log(arguments.log), open_listener(LOOPBACK, arguments.port) as listening:
        if not _is_reachable(config):
            return _UNREACHABLE
        url = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        launched = launch(command, os.environ, url, key, config)
        with (
            ForegroundCommand(launched.command, launched.environ) as running,
            serve_in_thread(gateway, listening, max_requests=config.max_streams),
        ):
            status = running.run()
            failed = requests.failed
    if failed and arguments.log is None:
        console.print_error(f"{failed} of {requests.count} requests failed; --log FILE says how")
    return status


def _add_key(config: Config) -> tuple[Config, str | None]:
    """Return a configuration that requires a key, and a new random key.

    Other users of the machine reach the port, and must not spend the keys of the upstreams.  An
    upstream that is sent the client's own key leaves no room for a key of the gateway.
    """
    from msgspec import structs

    if any(upstream.key == "client" for upstream in config.upstreams.values()):
        return config, None
    return structs.replace(config, client_keys=f"env:{_CLIENT_KEY}"), secrets.token_urlsafe(32)


class _Requests:
    """Gateway observer that counts requests.

    Attributes:
        count: Requests that have ended.
        failed: Those whose answer failed or was truncated.
    """

    def __init__(self) -> None:
        self.count = self.failed = 0

    def begin(self, call: CallRecord) -> None:
        """Do nothing: requests are counted when they end."""

    def end(self, call: CallRecord) -> None:
        """Count a request."""
        self.count += 1
        self.failed += call.ending in ("failed", "truncated")


@contextmanager
def _open_log(path: str | None) -> Generator[None]:
    """Write the log to a file or discard it: the terminal belongs to the command."""
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)  # instead of the handler of last resort, which writes on stderr
    try:
        if path is None:
            yield
            return
        with console.convert_os_errors(f"--log {path}"):
            file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed below
        with file:
            handler = write_log(file)
            try:
                yield
            finally:
                handler.flush()
                logging.getLogger("streamnorm").removeHandler(handler)
    finally:
        root.removeHandler(silence)


def _is_reachable(config: Config) -> bool:
    """Return whether any upstream accepts connections; report each upstream that does not."""
    errors = dict.fromkeys(config.upstreams, "no answer")

    def connect(name: str, host: str, port: int) -> None:
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError as exc:
            errors[name] = exc.strerror or "no answer"
        else:
            errors[name] = ""

    addresses: dict[str, tuple[str, int]] = {}
    for name, upstream in config.upstreams.items():
        parts = urlsplit(upstream.base_url)
        addresses[name] = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    # Not joined at the end of the process: the look-up of a name has no time-out.
    threads = [
        threading.Thread(target=connect, args=(name, *address), daemon=True)
        for name, address in addresses.items()
    ]
    for thread in threads:
        thread.start()
    end = monotonic() + _CONNECT_S
    for thread in threads:
        thread.join(max(0.0, end - monotonic()))
    for name, (host, port) in addresses.items():
        if errors[name]:
            console.print_error(f"upstream {name}: {host} port {port}: {errors[name]}")
    return not all(errors.values())
