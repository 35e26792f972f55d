"""The command `streamnorm serve`, which runs a gateway."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from types import FrameType
from typing import IO, TYPE_CHECKING

from streamnorm._core.errors import UnknownDialect
from streamnorm._registry import lookup
from streamnorm.cli import console

if TYPE_CHECKING:
    from streamnorm.gateway import Config, UpstreamConfig


_STATUSES = {0: "ended by SIGTERM", 2: "wrong usage or configuration", 130: "ended by Ctrl-C"}
_LOOPBACK = "127.0.0.1"
# Load balancers close idle connections after 60 s; the server must not do it before them, or
# it closes one on which a request is on its way.
_KEEP_ALIVE_S = 75
# For what the gateway does after the grace of its streams: their last event, its own end.
_AFTER_GRACE_S = 5.0


def add_commands(add_parser: console.AddParser) -> None:
    """Add `serve`."""
    command = add_parser(
        "serve",
        help="run a gateway: clients of any dialect, providers of any dialect",
        description="Listen, and answer the clients of every dialect from the upstreams.\n"
        "One line a request goes to stdout. SIGTERM and Ctrl-C let running answers end,\n"
        "a second one does not. SIGHUP ends only what runs in a terminal: no configuration is\n"
        "read again.",
        epilog=console.format_statuses(_STATUSES),
    )
    add_upstreams(command)
    console.add_port(command)
    command.add_argument(
        "--host",
        default=_LOOPBACK,
        metavar="ADDRESS",
        help=f"address to listen on (default: {_LOOPBACK})",
    )
    command.add_argument(
        "--open",
        action="store_true",
        help="answer everybody who reaches another --host, although there are no client_keys",
    )
    command.add_argument("--log-json", action="store_true", help="log in JSON lines")
    command.set_defaults(run=_serve)


def add_upstreams(command: argparse.ArgumentParser) -> None:
    """Add the options that define a gateway's upstreams."""
    command.add_argument(
        "--upstream",
        type=_parse_pair,
        action="append",
        default=[],
        metavar="DIALECT=URL",
        help="a provider, as openai_chat=http://127.0.0.1:8000/v1 (may be given once for each"
        " dialect; its name is that of the dialect)",
    )
    command.add_argument(
        "--key",
        type=_parse_pair,
        action="append",
        default=[],
        metavar="DIALECT=WHERE",
        help="where the key of an --upstream comes from: env:NAME, a variable, or client, the key"
        " of each request (default: no key is sent)",
    )
    command.add_argument(
        "--config", metavar="FILE", help="a configuration in TOML, to which --upstream adds"
    )


def _parse_pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        # The text may be a key.
        raise argparse.ArgumentTypeError("no dialect and value, expected DIALECT=...")
    try:
        return lookup(name).name, value
    except UnknownDialect as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _serve(arguments: argparse.Namespace) -> int:
    from msgspec import structs

    from streamnorm.cli.serving import serve
    from streamnorm.gateway import app
    from streamnorm.gateway.pages import is_loopback

    host: str = arguments.host
    config = config_of(arguments)
    config = structs.replace(config, open=config.open or arguments.open)
    gateway = app(config)
    is_open = not (config.has_client_keys or is_loopback(host))
    if is_open and not config.open:
        raise console.UsageError(
            f"--host {host} without client_keys: whoever reaches it may use the upstreams, "
            "expected client_keys in a --config, or --open"
        )
    # The log is the output of the command; the errors of libraries go to stderr.
    write_log(sys.stdout, as_json=arguments.log_json)
    _write_errors()
    _set_hangup_action()

    def announce(url: str) -> None:
        console.print_status(f"listening on {url}")
        shown = ", ".join(f"{name} ({one.dialect})" for name, one in config.upstreams.items())
        console.print_status(f"upstreams: {shown}")
        if config.dashboard is not None:
            console.print_status(f"dashboard: {url}/dashboard")
        if is_open:
            console.print_error(
                f"{host} without client_keys: whoever reaches it may use the upstreams"
            )
        console.print_base_urls(url)

    return serve(
        gateway,
        arguments.port,
        announce,
        host=host,
        max_requests=config.max_streams,
        max_message_bytes=config.max_body_bytes if config.websockets else None,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=config.drain_grace_s + _AFTER_GRACE_S,
    )


def config_of(arguments: argparse.Namespace) -> Config:
    """Return the configuration from `--config` and the command line's upstreams.

    Raises:
        ConfigError: The file is wrong.
        UsageError: The command line is.
    """
    from msgspec import structs

    from streamnorm.gateway import Config, read_config

    upstreams = _read_upstreams(arguments)
    if arguments.config is None:
        if not upstreams:
            raise console.UsageError("no upstream, expected --upstream or --config")
        return Config(upstreams=upstreams)
    config = read_config(arguments.config)
    for name in upstreams:
        if name in config.upstreams:
            raise console.UsageError(f"--upstream {name}: {arguments.config} has one of that name")
    return structs.replace(config, upstreams={**config.upstreams, **upstreams})


def _read_upstreams(arguments: argparse.Namespace) -> dict[str, UpstreamConfig]:
    from streamnorm.gateway import UpstreamConfig

    keys: dict[str, str] = dict(arguments.key)
    upstreams: dict[str, UpstreamConfig] = {}
    for dialect, url in arguments.upstream:
        if dialect in upstreams:
            raise console.UsageError(
                f"--upstream {dialect}: given twice, expected a --config with names"
            )
        if "://" not in url:
            raise console.UsageError(
                f"--upstream {dialect}: no http:// or https:// before the host, "
                f"expected {dialect}=http://HOST:PORT"
            )
        key = keys.pop(dialect, None)
        upstreams[dialect] = UpstreamConfig(dialect=dialect, base_url=url, key=key)
    for dialect in keys:
        raise console.UsageError(f"--key {dialect}: no --upstream of this dialect")
    return upstreams


def write_log(stream: IO[str], *, as_json: bool = False) -> logging.Handler:
    """Write the gateway's log, one line per request; return the handler.

    A full pipe delays no request, and a closed pipe is no error: maybe nobody reads the log.
    """
    from streamnorm.gateway import JSONFormatter, QueuedHandler

    handler = QueuedHandler(stream)
    text = "%(asctime)s %(levelname)s %(message)s"
    handler.setFormatter(JSONFormatter() if as_json else logging.Formatter(text))
    log = logging.getLogger("streamnorm")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    logging.raiseExceptions = False
    return handler


def _write_errors() -> None:
    """Send the warnings and errors of other libraries' loggers to stderr.

    The handler of last resort would block the event loop while it writes.
    """
    from streamnorm.gateway import QueuedHandler

    handler = QueuedHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.addFilter(lambda record: not record.name.startswith("streamnorm"))
    logging.getLogger().addHandler(handler)


def _set_hangup_action() -> None:
    """Set the action at SIGHUP: end as at SIGTERM if there is a terminal, else log a warning."""
    # Windows has no SIGHUP, and `nohup` has it ignored.
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        return
    has_terminal = os.isatty(0)

    def handle(_number: int, _frame: FrameType | None) -> None:
        if has_terminal:
            signal.raise_signal(signal.SIGTERM)
            return
        logging.getLogger("streamnorm.gateway").warning(
            "SIGHUP: nothing is done, the configuration is read at the start alone; "
            "SIGTERM lets running answers end"
        )

    signal.signal(signal.SIGHUP, handle)
