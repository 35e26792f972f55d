"""The commands that read a stream: `streamnorm transcode`, `decode` and `inspect`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import msgspec

from streamnorm._core.errors import LossyEncoding, NotAStream, RecordingError, UnknownDialect
from streamnorm._core.events import Event, Failed, Outcome, StreamError, Truncated
from streamnorm._core.losses import Loss, ReasoningField
from streamnorm._core.stream_failures import NOT_A_STREAM
from streamnorm._registry import DIALECTS, decoder, encoder
from streamnorm._transcoder import Transcoder
from streamnorm.cli.console import AddParser, Parser, UsageError, complain
from streamnorm.inspect.page import BOX_CHARACTERS, render
from streamnorm.inspect.printable import printable
from streamnorm.inspect.survey import Report, Survey, writable
from streamnorm.inspect.timeline import MIN_WIDTH
from streamnorm.recording import load_companion
from streamnorm.recording.format import split_name

__all__ = ["add_commands"]

_CHUNK_BYTES = 64 * 1024
_MAX_WIDTH = 1000
_WIDTH_WITHOUT_TERMINAL = 100

_REASONING: dict[str, ReasoningField | None] = {
    "reasoning_content": "reasoning_content",
    "reasoning": "reasoning",
    "reasoning_details": "reasoning_details",
    "none": None,
}

_LOSSES_FORBIDDEN = 5


def _or(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def add_commands(add_parser: AddParser) -> None:
    """Add `transcode`, `decode` and `inspect`."""
    common = Parser(add_help=False)
    common.add_argument("file", metavar="FILE", help="a recording's .sse, a body, or - for stdin")
    common.add_argument(
        "--from",
        dest="source",
        metavar="DIALECT",
        help=f"dialect of FILE, {_or([*DIALECTS])}"
        " (default: its companion's, or what the first frames show)",
    )
    common.add_argument(
        "--server",
        help="who sent it, as qianfan, where that decides between two readings of the bytes",
    )
    common.add_argument(
        "--think-tags", action="store_true", help="read <think>…</think> in text as reasoning"
    )
    transcode = add_parser(
        "transcode",
        parents=[common],
        help="write the stream as another dialect's SSE",
        description="Write SSE on stdout as it becomes known, losses on stderr.",
    )
    transcode.add_argument(
        "--to", required=True, metavar="DIALECT", help=f"dialect to write: {_or(writable())}"
    )
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
    transcode.add_argument(
        "--normalize",
        action="store_true",
        help="write a stream of the same dialect anew (default: its bytes as they are)",
    )
    transcode.add_argument(
        "--reasoning",
        choices=_REASONING,
        default="reasoning_content",
        help="field of Chat Completions for reasoning (default: reasoning_content), or none",
    )
    transcode.add_argument(
        "--no-usage", action="store_true", help="leave the tokens out of Chat Completions"
    )
    transcode.set_defaults(run=_transcode)
    decode = add_parser(
        "decode",
        parents=[common],
        help="write the stream's events",
        description="Write events on stdout as they become known, one a line.",
    )
    decode.add_argument("--json", action="store_true", help="write JSON lines")
    decode.set_defaults(run=_decode)
    inspect = add_parser(
        "inspect",
        parents=[common],
        help="show what the stream holds, and how it ends",
        description="Show the stream's blocks over its course, its end, and what would be lost.",
    )
    inspect.add_argument(
        "--to", metavar="DIALECT", help="dialect whose losses to show (default: all)"
    )
    inspect.add_argument(
        "--width", type=_width, metavar="N", help="columns (default: the terminal's, or 100)"
    )
    inspect.add_argument("--ascii", action="store_true", help="write nothing but ASCII")
    inspect.set_defaults(run=_inspect)


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
            verbatim=not arguments.normalize,
            include_usage=not arguments.no_usage,
            reasoning=_REASONING[arguments.reasoning],
        )
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    try:
        for chunk in _read(arguments.file):
            _write(transcoder.feed(chunk))
            if _has_ended(transcoder.outcome, arguments.file):
                break
        _write(transcoder.close())
    except LossyEncoding as exc:
        _report_losses(exc.losses)
        complain(str(exc))
        return _LOSSES_FORBIDDEN
    _report_losses(transcoder.losses)
    return _status(transcoder.outcome)


def _decode(arguments: argparse.Namespace) -> int:
    source, server = _origin(arguments)
    try:
        decoding = decoder(source, server=server, think_tags=arguments.think_tags)
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    line = _json_line if arguments.json else _text_line
    for chunk in _read(arguments.file):
        _write([line(event) for event in decoding.feed(chunk)])
        if _has_ended(decoding.outcome, arguments.file):
            break
    _write([line(event) for event in decoding.close()])
    return _status(decoding.outcome)


def _inspect(arguments: argparse.Namespace) -> int:
    source, server = _origin(arguments)
    try:
        survey = Survey(
            source,
            targets=writable() if arguments.to is None else [encoder(arguments.to).dialect],
            server=server,
            think_tags=arguments.think_tags,
        )
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    name = "standard input" if arguments.file == "-" else arguments.file
    for chunk in _read(arguments.file):
        survey.feed(chunk)
        if _has_ended(survey.outcome, arguments.file):
            break
    survey.close()
    _print_report(survey.report(), name, arguments.width, arguments.ascii)
    return _exit_status(survey.outcome)


def _print_report(report: Report, name: str, width: int | None, ascii: bool) -> None:
    """Write a report in the width, encoding and style that stdout supports."""
    on_terminal = sys.stdout.isatty()
    if width is None:
        width = _WIDTH_WITHOUT_TERMINAL
        if on_terminal:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            width = min(max(width, MIN_WIDTH), _MAX_WIDTH)
    encoding = sys.stdout.encoding
    lines = render(
        report,
        name,
        width=width,
        ascii=ascii or not _can_write(BOX_CHARACTERS, encoding),
        bold=on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )
    _write([f"{line}\n".encode(encoding, "backslashreplace") for line in lines])


def _width(text: str) -> int:
    width = int(text) if text.isdecimal() and len(text) <= len(str(_MAX_WIDTH)) else 0
    if not MIN_WIDTH <= width <= _MAX_WIDTH:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {MIN_WIDTH} to {_MAX_WIDTH}")
    return width


def _can_write(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _has_ended(outcome: Outcome | None, file: str) -> bool:
    """Return whether to stop reading: the writer of a pipe may keep it open after the end."""
    return outcome is not None and not os.path.isfile(file)


def _origin(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the dialect and server to read as: the arguments, or else the companion's."""
    source, server = arguments.source, arguments.server
    # A JSON body, such as Gemini's array, may be named like a companion: it has none itself.
    is_bare = arguments.file.endswith(".json") and split_name(Path(arguments.file))[1] is None
    if arguments.file != "-" and source is None and not is_bare:
        try:
            companion = load_companion(arguments.file)
        except RecordingError as exc:
            raise UsageError(str(exc)) from exc
        if companion.dialect in DIALECTS:
            return companion.dialect, server or companion.server
    return source, server


def _read(name: str) -> Iterator[bytes]:
    """Yield the bytes of a file or of stdin as they arrive.

    Raises:
        NotAStream: It has ended and was empty, or white space alone.
    """
    is_blank = True
    try:
        with FileIO(0 if name == "-" else name, closefd=name != "-") as file:
            while chunk := file.read(_CHUNK_BYTES):
                is_blank = is_blank and chunk.isspace()
                yield chunk
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise UsageError(f"{name}: {exc.strerror}") from exc
    if is_blank:
        raise NotAStream("no stream of a known dialect: the input is empty")


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
    return printable(f"{name:<16} {shown}".rstrip()).encode() + b"\n"


def _report_losses(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        complain(f"loss: {loss.feature} in {loss.where}, {loss.count} × {loss.detail}")


def _status(outcome: Outcome | None) -> int:
    """Report a failed or truncated outcome, and return the exit status."""
    match outcome:
        case Failed(StreamError("upstream", message, code, status)):
            about = ", ".join(str(part) for part in (code, status) if part is not None)
            complain(f"the provider reported an error{f' ({about})' if about else ''}: {message}")
        case Failed(StreamError(message=message, code=code)) if code == NOT_A_STREAM:
            complain(f"no stream of a known dialect: {message}")
        case Failed(error):
            complain(f"{error.kind.replace('_', ' ')}: {error.message}")
        case Truncated(error):
            complain(f"truncated: {error.message}")
        case _:
            pass
    return _exit_status(outcome)


def _exit_status(outcome: Outcome | None) -> int:
    match outcome:
        case Failed(StreamError("upstream")):
            return 1
        case Failed():
            return 4
        case Truncated():
            return 3
        case _:
            return 0
