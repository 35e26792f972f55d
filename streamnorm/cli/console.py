"""Argument parser of all commands, and their output on stdout and stderr."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from streamnorm._core.errors import did_you_mean
from streamnorm.inspect.printable import escape_unprintable, is_printable

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from streamnorm._core.losses import Loss


class UsageError(Exception):
    """The command cannot be run as given; the text is the message for the user."""


class Terminated(Exception):
    """SIGTERM has ended the command, which has cleaned up."""


@contextmanager
def clean_up_at_sigterm() -> Generator[None]:
    """Handle SIGTERM as SIGINT within the context, which then raises `Terminated`."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    is_terminated = False

    def end(_number: int, frame: FrameType | None) -> None:
        nonlocal is_terminated
        # `timeout` sends two, to the process and to its group: the second disturbs no clean-up.
        if is_terminated:
            return
        is_terminated = True
        # asyncio has a handler of its own, which cancels the main task at an await.
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)
            return
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        if is_terminated:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def convert_os_errors(name: object = None) -> Generator[None]:
    """Raise an OSError as a UsageError.

    Args:
        name: What cannot be used, for the message; None for the file that the error names.
    """
    try:
        yield
    except OSError as exc:
        raise UsageError(f"{name or exc.filename}: {exc.strerror}") from exc


def check_output(option: str, name: str) -> None:
    """Raise `UsageError` for `-`, which names standard input in other places."""
    if name == "-":
        raise UsageError(f"{option}: -, expected a file (./- if that is its name)")


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths lead to one file that exists."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def is_stdout(path: Path) -> bool:
    """Return whether a path leads to standard output, as `/dev/stdout` does."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


class Parser(argparse.ArgumentParser):
    """Argument parser of the command line and of each command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self.suggest_on_error = False  # from Python 3.14 on, argparse has suggestions of its own

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Write the help and flush stdout, so that a closed pipe raises its error at once."""
        write([self.format_help().encode()])

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - it has overloads
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; report unknown options with the command's own usage."""
        found, unknown = super().parse_known_args(None if args is None else [*args], namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            suggestion = did_you_mean(name, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a choice; the error for an unknown choice suggests a similar choice."""
        # No public method of argparse is given the value and its choices.
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as exc:
            exc.message += did_you_mean(value, map(str, action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        """Exit with the error on one line, without the usage."""
        self.exit(2, f"streamnorm: {escape_unprintable(message)} (see {self.prog} --help)\n")


def format_statuses(statuses: Mapping[int, str]) -> str:
    """Return a help text's list of exit statuses with their meanings."""
    return "\n".join(
        ["exit status:", *(f"  {n:>3}  {text}" for n, text in sorted(statuses.items()))]
    )


AddParser: TypeAlias = Callable[..., Parser]
"""The `add_parser` of the command line's subparsers: adds the parser of a command."""


def add_port(command: argparse.ArgumentParser) -> None:
    """Add `--port` to a command that listens."""
    command.add_argument(
        "--port",
        type=partial(parse_integer, low=0, high=65535),
        default=0,
        metavar="N",
        help="where to listen (default: any free)",
    )


def parse_integer(text: str, low: int, high: int) -> int:
    """Return an option's value as an integer within bounds.

    Raises:
        argparse.ArgumentTypeError: It is not.
    """
    number = int(text) if text.isdecimal() and len(text) <= len(str(high)) else low - 1
    if not low <= number <= high:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {low} to {high}")
    return number


def print_base_urls(url: str, upstream_path: str = "") -> None:
    """Print the base URLs to set in official SDKs."""
    if re.search(r"/v[0-9][^/]*/?$", upstream_path):
        print_status(f"  OPENAI_BASE_URL={url}")
        return
    print_status(f"  OPENAI_BASE_URL={url}/v1")
    print_status(f"  ANTHROPIC_BASE_URL={url}")
    print_status(f"  GOOGLE_GEMINI_BASE_URL={url}")
    print_status(f"  AWS_ENDPOINT_URL_BEDROCK_RUNTIME={url}")


def print_status(text: str) -> None:
    """Write a line on stderr; stdout is for the command's output."""
    if sys.stderr is None:  # `streamnorm … 2>&-`: print would write on stdout
        return
    # A command does its work where nobody can read its messages, as it does without a stderr.
    with suppress(OSError):
        print(escape_unprintable(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line


def show_progress(text: str) -> None:
    """Show a line on the terminal in place of the previous one; "" removes it."""
    if sys.stderr is not None and sys.stderr.isatty():
        shown = escape_unprintable(text)
        print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True)  # noqa: T201 - progress


def print_error(text: str) -> None:
    """Write an error or a warning as one line on stderr."""
    print_status(f"streamnorm: {' '.join(text.split())}")


def report_losses(losses: Iterable[Loss]) -> None:
    """Write losses on stderr, one per line."""
    for loss in losses:
        print_error(f"loss: {loss.feature} in {loss.where}, {loss.count} × {loss.detail}")


def write(pieces: Iterable[bytes]) -> None:
    """Write pieces of output on stdout, and flush."""
    if data := b"".join(pieces):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def print_lines(texts: Iterable[str]) -> None:
    """Write lines of text on stdout, and flush."""
    write(map(encode_text, texts))


def print_json(*values: object, ascii: bool = False) -> None:
    """Write lines of JSON on stdout, and flush."""
    write(encode_json(value, ascii=ascii) for value in values)


def encode_text(text: str) -> bytes:
    """Return a line of text in stdout's encoding, with unprintable characters escaped."""
    return encode_line(escape_unprintable(text))


def encode_line(line: str) -> bytes:
    """Return a line in stdout's encoding."""
    return f"{line}\n".encode(sys.stdout.encoding, "backslashreplace")


def encode_json(value: object, *, ascii: bool = False) -> bytes:
    """Return a value as one line of JSON, with unprintable characters escaped."""
    # msgspec cannot encode a name of a file that is no UTF-8.
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    if not is_printable(text, ascii):
        text = "".join([c if is_printable(c, ascii) else _escape(c) for c in text])
    return f"{text}\n".encode()


def _escape(character: str) -> str:
    """Return the JSON escape of a character, including DEL, which JSON leaves unescaped."""
    return r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
