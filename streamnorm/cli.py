"""The command line: `streamnorm transcode` and `streamnorm decode`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from io import FileIO
from typing import NoReturn

import msgspec

from streamnorm._registry import DIALECTS, decoder
from streamnorm.errors import LossyEncoding, RecordingError, UnknownDialect
from streamnorm.events import Event, Failed, Outcome, StreamError, Truncated
from streamnorm.losses import Loss
from streamnorm.recording import Recording
from streamnorm.transcode import Transcoder

__all__ = ["main"]

_CHUNK_BYTES = 64 * 1024

_STATUSES = """\
exit status:
  0  completed
  1  the provider reported an error
  2  wrong usage
  3  truncated
  4  not a stream, or malformed
  5  losses with --strict
"""

_LOSSES_FORBIDDEN = 5
_INTERRUPTED = 130  # as a shell reports a program that SIGINT or SIGPIPE ended
_PIPE_CLOSED = 141


class _UsageError(Exception):
    """What the user asked for cannot be done; its text says why."""


class _Parser(argparse.ArgumentParser):
    """Say in one line what is wrong, not how everything is spelt."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"streamnorm: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """Show the version; looking it up costs more than everything else at start-up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"streamnorm {version('streamnorm')}")  # noqa: T201 - this is the command line
        parser.exit()


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = _parser().parse_args(argv)
    if sys.__stdout__ is None:  # `streamnorm … >&-`
        return 2
    try:
        status: int = arguments.run(arguments)
    except _UsageError as exc:
        _complain(str(exc))
        return 2
    except BrokenPipeError:
        # Python would try to flush what nobody reads when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as exc:
        _complain(f"cannot write: {exc.strerror}")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="streamnorm",
        description="Read the stream of any LLM provider, and write it as another's.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    common = _Parser(add_help=False)
    common.add_argument("file", metavar="FILE", help="a recording's .sse, a body, or - for stdin")
    common.add_argument(
        "--from",
        dest="source",
        metavar="DIALECT",
        help="dialect of FILE (default: its companion's, or what the first frames show)",
    )
    common.add_argument(
        "--server", help="who sent it, where that decides between two readings of the bytes"
    )
    common.add_argument(
        "--think-tags", action="store_true", help="read <think>…</think> in text as reasoning"
    )
    transcode = commands.add_parser(
        "transcode",
        parents=[common],
        help="write the stream as another dialect's SSE",
        description="Write SSE on stdout as it becomes known, losses on stderr.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    transcode.add_argument("--to", required=True, metavar="DIALECT", help="dialect to write")
    transcode.add_argument(
        "--ordering",
        choices=("sequential", "interleaved"),
        default="sequential",
        help="one block at a time (default), or blocks as they come",
    )
    transcode.add_argument(
        "--strict", action="store_true", help="stop where something would be lost"
    )
    transcode.add_argument("--model", help="model to name in place of the one that answered")
    transcode.set_defaults(run=_transcode)
    decode = commands.add_parser(
        "decode",
        parents=[common],
        help="write the stream's events",
        description="Write events on stdout as they become known, one a line.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    decode.add_argument("--json", action="store_true", help="write JSON lines")
    decode.set_defaults(run=_decode)
    return parser


def _transcode(arguments: argparse.Namespace) -> int:
    source, server = _origin(arguments)
    try:
        transcoder = Transcoder(
            source,
            arguments.to,
            ordering=arguments.ordering,
            strict=arguments.strict,
            server=server,
            think_tags=arguments.think_tags,
            model=arguments.model,
        )
    except UnknownDialect as exc:
        raise _UsageError(str(exc)) from exc
    try:
        for chunk in _read(arguments.file):
            _write(transcoder.feed(chunk))
            if transcoder.outcome is not None:
                break
        _write(transcoder.close())
    except LossyEncoding as exc:
        _report_losses(exc.losses)
        _complain(str(exc))
        return _LOSSES_FORBIDDEN
    _report_losses(transcoder.losses)
    return _status(transcoder.outcome)


def _decode(arguments: argparse.Namespace) -> int:
    source, server = _origin(arguments)
    try:
        decoding = decoder(source, server=server, think_tags=arguments.think_tags)
    except UnknownDialect as exc:
        raise _UsageError(str(exc)) from exc
    line = _json_line if arguments.json else _text_line
    for chunk in _read(arguments.file):
        _write([line(event) for event in decoding.feed(chunk)])
        if decoding.outcome is not None:
            break
    _write([line(event) for event in decoding.close()])
    return _status(decoding.outcome)


def _origin(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the dialect and server to read as: those asked for, or the companion's."""
    source, server = arguments.source, arguments.server
    if arguments.file != "-" and source is None:
        try:
            recording = Recording.load(arguments.file)
        except RecordingError as exc:
            raise _UsageError(str(exc)) from exc
        if recording.dialect in DIALECTS:
            return recording.dialect, server or recording.server
    return source, server


def _read(name: str) -> Iterator[bytes]:
    """Yield what there is to read, as soon as it is there."""
    try:
        with FileIO(0 if name == "-" else name, closefd=name != "-") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise _UsageError(f"{name}: {exc.strerror}") from exc


def _write(pieces: list[bytes]) -> None:
    if pieces:
        sys.stdout.buffer.write(b"".join(pieces))
        sys.stdout.buffer.flush()


def _json_line(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _text_line(event: Event) -> bytes:
    fields = msgspec.to_builtins(event)
    name = fields.pop("event")
    shown = " ".join(f"{key}={msgspec.json.encode(item).decode()}" for key, item in fields.items())
    return f"{name:<16} {shown}".rstrip().encode() + b"\n"


def _report_losses(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        _complain(f"loss: {loss.feature} in {loss.where}, {loss.count} × {loss.detail}")


def _status(outcome: Outcome | None) -> int:
    match outcome:
        case Failed(StreamError("upstream", message, code, status)):
            about = ", ".join(str(part) for part in (code, status) if part is not None)
            _complain(f"the provider reported an error{f' ({about})' if about else ''}: {message}")
            return 1
        case Failed(error):
            _complain(f"{error.kind.replace('_', ' ')}: {error.message}")
            return 4
        case Truncated(error):
            _complain(f"truncated: {error.message}")
            return 3
        case _:
            return 0


def _complain(text: str) -> None:
    line = " ".join(text.split())
    print(f"streamnorm: {line}", file=sys.stderr)  # noqa: T201 - this is the command line
