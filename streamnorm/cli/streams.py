"""The commands that translate a stream: `streamnorm transcode` and `decode`."""

from __future__ import annotations

import argparse

import msgspec

from streamnorm._core.errors import LossyEncoding, UnknownDialect
from streamnorm._core.events import Event, Failed, Outcome, StreamError, Truncated
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.losses import ReasoningField
from streamnorm._decoding import decoder
from streamnorm._transcoder import Transcoder
from streamnorm.cli.console import (
    AddParser,
    UsageError,
    complain,
    exit_statuses,
    json_line,
    report_losses,
    text_line,
    write,
)
from streamnorm.cli.source import STATUSES, Source, dialect_names, exit_status, source_options
from streamnorm.inspect.survey import writable

__all__ = ["add_commands"]

_REASONING: dict[str, ReasoningField | None] = {
    "reasoning_content": "reasoning_content",
    "reasoning": "reasoning",
    "reasoning_details": "reasoning_details",
    "none": None,
}

_LOSSES_FORBIDDEN = 5


def add_commands(add_parser: AddParser) -> None:
    """Add `transcode` and `decode`."""
    common = source_options()
    transcode = add_parser(
        "transcode",
        parents=[common],
        help="write the stream as another dialect's SSE",
        description="Write SSE on stdout as it becomes known, losses on stderr.",
        epilog=exit_statuses({**STATUSES, _LOSSES_FORBIDDEN: "losses with --strict"}),
    )
    transcode.add_argument(
        "--to",
        required=True,
        metavar="DIALECT",
        help=f"dialect to write: {dialect_names(writable())}",
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
        epilog=exit_statuses(STATUSES),
    )
    decode.add_argument("--json", action="store_true", help="write JSON lines")
    decode.set_defaults(run=_decode)


def _transcode(arguments: argparse.Namespace) -> int:
    source = Source(arguments)
    try:
        transcoder = Transcoder(
            source.dialect,
            arguments.to,
            ordering=arguments.ordering,
            strict=arguments.strict,
            server=source.server,
            think_tags=arguments.think_tags,
            model=arguments.model,
            verbatim=not arguments.normalize,
            include_usage=not arguments.no_usage,
            reasoning=_REASONING[arguments.reasoning],
        )
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    try:
        for chunk in source.chunks():
            write(transcoder.feed(chunk))
            if source.has_ended(transcoder.outcome):
                break
        write(transcoder.close())
    except LossyEncoding as exc:
        report_losses(exc.losses)
        complain(str(exc))
        return _LOSSES_FORBIDDEN
    report_losses(transcoder.losses)
    return _status(transcoder.outcome, source)


def _decode(arguments: argparse.Namespace) -> int:
    source = Source(arguments)
    try:
        decoding = decoder(source.dialect, server=source.server, think_tags=arguments.think_tags)
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    line = json_line if arguments.json else _event_line
    for chunk in source.chunks():
        write([line(event) for event in decoding.feed(chunk)])
        if source.has_ended(decoding.outcome):
            break
    write([line(event) for event in decoding.close()])
    return _status(decoding.outcome, source)


def _event_line(event: Event) -> bytes:
    fields = msgspec.to_builtins(event)
    name = fields.pop("event")
    shown = " ".join(f"{key}={msgspec.json.encode(item).decode()}" for key, item in fields.items())
    return text_line(f"{name:<16} {shown}".rstrip())


def _status(outcome: Outcome | None, source: Source) -> int:
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
    source.report_wrong_dialect(outcome)
    return exit_status(outcome)
