"""Access to streams in a log: `inspect --log URL ID`."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from streamnorm.cli import console

if TYPE_CHECKING:
    from streamnorm._core.codec.framing import Framing
    from streamnorm.log import Log, LogReader
    from streamnorm.recording.format import End

T = TypeVar("T")

_OPTIONS = ("scope", "client_keys", "save")
_RUNNING = "the stream is running: Ctrl-C shows what there is"


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add `--log` and the options that depend on it."""
    command.add_argument(
        "--log",
        metavar="URL",
        help="read a stream of this log, live to its end: FILE is its id, and URL is\n"
        "sqlite:PATH, redis://HOST, or env:NAME, a variable that holds such a URL",
    )
    scopes = command.add_mutually_exclusive_group()
    scopes.add_argument("--scope", metavar="TEXT", help="with --log, the scope of the id")
    scopes.add_argument(
        "--client-keys",
        metavar="env:NAME",
        help="with --log, a variable with the key of the gateway's client whose stream it is, or\n"
        "with the keys of all, separated by commas; ID:SECRET is an access key",
    )
    command.add_argument(
        "--save", metavar="FILE", help="with --log, write the stream as a recording without secrets"
    )


def require_log(parser: console.Parser, arguments: argparse.Namespace) -> None:
    """Exit with an error if options of a log are given without `--log`."""
    for name in _OPTIONS:
        if getattr(arguments, name) is not None:
            parser.error(f"--{name.replace('_', '-')} without --log")


@asynccontextmanager
async def open_stream(arguments: argparse.Namespace) -> AsyncGenerator[LogReader]:
    """Open the stream that the options name; wait until it has begun.

    Raises:
        UsageError: There is no such log, or no such stream.
        LogError: The stream has expired.
        StoreError: The store failed.
    """
    scopes = _list_scopes(arguments)
    async with aclosing(_open_log(_resolve("--log", arguments.log))) as log:
        for scope in scopes:
            status = await log.status(arguments.file, scope=scope)
            if status.state == "running":
                console.print_status(_RUNNING)
            if status.state != "unknown":
                yield await log.open_reader(arguments.file, scope=scope)
                return
    where = "under the given scope"
    if arguments.scope is None and arguments.client_keys is None:
        where = (
            "without a scope: those of a gateway's clients that send a key need --client-keys or"
            " --scope"
        )
    raise console.UsageError(f"no stream has this id {where}")


def _list_scopes(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the scopes to search for the stream, in order."""
    from streamnorm._exchange import scope_of_access_key, scope_of_keys

    place: str | None = arguments.client_keys
    if place is None:
        # Streams of a program have none; those of a gateway's clients without a key have one.
        return [arguments.scope] if arguments.scope else ["", scope_of_keys([])]
    if not place.startswith("env:"):  # a key must not stand on a command line
        raise console.UsageError(
            "--client-keys: no place of keys, expected env: and the name of a variable"
        )
    listed = [key.strip() for key in _resolve("--client-keys", place).split(",")]
    signing = [id for id, colon, _ in (key.partition(":") for key in listed) if colon]
    return [scope_of_keys([key]) for key in listed] + [scope_of_access_key(id) for id in signing]


def _resolve(option: str, value: str) -> str:
    """Return an option's value, from the environment if it is `env:NAME`."""
    kind, _, name = value.partition(":")
    if kind != "env":
        return value
    if found := os.environ.get(name):
        return found
    raise console.UsageError(f"{option}: {name} is not set in the environment")


def _open_log(url: str) -> Log:
    from streamnorm.log import open_log

    if url == "memory:":
        raise console.UsageError(
            "--log: memory: is a log of one process, expected sqlite:PATH or redis://HOST"
        )
    kind, _, path = url.partition(":")
    # A store is created where none is.
    if kind == "sqlite" and path:
        with console.convert_os_errors(path):
            os.stat(path)
    try:
        return open_log(url)
    except ValueError as exc:
        raise console.UsageError(f"--log: {exc}") from exc


def redact(value: T) -> T:
    """Return a struct whose texts are free of secrets."""
    from streamnorm.recording.secrets import redact_struct

    return redact_struct(value)


def save_stream(
    path: str,
    reader: LogReader,
    reads: Sequence[tuple[bytes, int]],
    dialect: str | None,
    framing: Framing,
) -> None:
    """Save the chunks of a stream as a recording without secrets.

    Args:
        path: Path of the recording; its suffix is replaced.
        reader: The reader of the stream.
        reads: The reads, each with the milliseconds before it.
        dialect: Dialect of the stream; None if it is unknown.
        framing: How its events stand in the bytes.

    Raises:
        RecordingError: A file cannot be written.
    """
    from streamnorm.recording import Recording
    from streamnorm.recording.format import (
        Companion,
        RecordedRead,
        RecordedResponse,
        content_type_of,
        framing_name,
        suffix_of,
    )
    from streamnorm.recording.secrets import Secrets

    secrets = Secrets()
    sent = reader.origin
    content_type = [] if sent.content_type is None else [("content-type", sent.content_type)]
    headers = secrets.scrub_response_headers([*content_type, *sent.headers.items()])
    suffix = suffix_of(content_type_of(content_type), framing) or framing.suffix
    body = secrets.scrub(b"".join([data for data, _ in reads]), framing)
    companion = Companion(
        1,
        dialect,
        framing_name(dialect, framing, suffix),
        sent.server,
        response=RecordedResponse(sent.status or 200, headers, suffix, _find_end(reader)),
        redacted=secrets.count,
    )
    timed = [RecordedRead(gap_ms, len(data)) for data, gap_ms in reads]
    Recording(body, companion, reads=timed).save(path)


def _find_end(reader: LogReader) -> End:
    """Return how a stream's body ended, in the terms of recordings."""
    ending = reader.ending
    if ending is None:
        return "incomplete"
    if ending.cause in ("eof", "timeout"):
        return ending.cause
    if ending.state == "cancelled":
        return "aborted"
    # A producer that stops or dies gives a reason; a connection breaks without.
    return "incomplete" if ending.cause == "lost" and ending.reason else "reset"
