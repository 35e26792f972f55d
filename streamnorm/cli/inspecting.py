"""The commands that judge a stream: `streamnorm inspect` and `validate`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from streamnorm._core.codec import MAX_PROBLEMS
from streamnorm._core.errors import UnknownDialect
from streamnorm._registry import encoder
from streamnorm.cli.console import (
    AddParser,
    UsageError,
    complain,
    exit_statuses,
    json_line,
    text_line,
    write,
)
from streamnorm.cli.source import STATUSES, Source, dialect_names, exit_status, source_options
from streamnorm.inspect.document import document
from streamnorm.inspect.frames import FrameLines, frame_fields
from streamnorm.inspect.page import BOX_CHARACTERS, Style, amount, render
from streamnorm.inspect.survey import Survey, writable
from streamnorm.inspect.timeline import ASCII, BOX, MIN_WIDTH

__all__ = ["add_commands"]

_MAX_WIDTH = 1000
_WIDTH_WITHOUT_TERMINAL = 100
_VIOLATED = 4


def add_commands(add_parser: AddParser) -> None:
    """Add `inspect` and `validate`."""
    common = source_options()
    inspect = add_parser(
        "inspect",
        parents=[common],
        help="show what the stream holds, and how it ends",
        description="Show the stream's blocks over its course, its times, its end, violations of\n"
        "the protocol, and what would be lost.",
        epilog=exit_statuses(STATUSES),
    )
    inspect.add_argument(
        "--to",
        metavar="DIALECT",
        help=f"dialect whose losses to show: {dialect_names(writable())}; default: all",
    )
    inspect.add_argument(
        "--frames", action="store_true", help="show the frames first, each with its number"
    )
    inspect.add_argument(
        "--json", action="store_true", help="write JSON, with --frames a line for each frame"
    )
    inspect.add_argument(
        "--width", type=_width, metavar="N", help="columns (default: the terminal's, or 100)"
    )
    inspect.add_argument("--ascii", action="store_true", help="write nothing but ASCII")
    inspect.set_defaults(run=_inspect)
    validate = add_parser(
        "validate",
        parents=[common],
        help="check the stream against the rules of its protocol",
        description="Write each violation of the protocol, with the number of its frame from 0.",
        epilog=exit_statuses(
            {0: "no violations", 2: STATUSES[2], _VIOLATED: "not a stream, or violations"}
        ),
    )
    validate.add_argument("--json", action="store_true", help="write JSON")
    validate.set_defaults(run=_validate)


def _inspect(arguments: argparse.Namespace) -> int:
    source = Source(arguments)
    reads = source.reads()
    try:
        targets = writable() if arguments.to is None else [encoder(arguments.to).dialect]
        survey = _survey(source, arguments, targets, timed=reads is not None)
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    ascii: bool = arguments.ascii
    style = _style(arguments.width, ascii)
    lines = FrameLines(style)
    number = elapsed_ms = 0
    for data, gap_ms in source.timed_chunks(reads):
        frames = survey.feed(data, gap_ms)
        elapsed_ms += gap_ms
        if arguments.frames:
            at_ms = None if reads is None else elapsed_ms
            numbered = enumerate(frames, number)
            if arguments.json:
                write(json_line(frame_fields(n, each, at_ms), ascii=ascii) for n, each in numbered)
            else:
                write(_encoded(lines.line(n, each, at_ms)) for n, each in numbered)
        number += len(frames)
        if source.has_ended(survey.outcome):
            break
    survey.close()
    report = survey.report()
    if arguments.json:
        write([json_line(document(report, source.name), ascii=ascii)])
    else:
        blank = [""] if arguments.frames else []
        write([_encoded(line) for line in [*blank, *render(report, source.name, style)]])
    source.report_wrong_dialect(survey.outcome)
    return exit_status(survey.outcome)


def _validate(arguments: argparse.Namespace) -> int:
    source = Source(arguments)
    try:
        survey = _survey(source, arguments, timed=False)
    except UnknownDialect as exc:
        raise UsageError(str(exc)) from exc
    for chunk in source.chunks():
        survey.feed(chunk)
    survey.close()
    report = survey.report()
    if not report.dialect:
        complain("no stream of a known dialect")
        return _VIOLATED
    if report.unchecked:
        raise UsageError(f"{source.name} cannot be validated: {report.unchecked}")
    found = report.violations
    if arguments.json:
        fields = {"stream": source.name, "dialect": report.dialect, "frames": report.frames}
        write([json_line({**fields, "violations": found})])
    else:
        write(text_line(f"frame {each.position}: {each.message}") for each in found)
        count = amount(len(found), "violation")
        if len(found) > MAX_PROBLEMS:
            count = f"more than {MAX_PROBLEMS:,} violations"
        frames = amount(report.frames, "frame")
        write([text_line(f"{count} in {frames} of {report.dialect}")])
    if found:
        source.report_wrong_dialect(survey.outcome)
    return _VIOLATED if found else 0


def _survey(
    source: Source, arguments: argparse.Namespace, targets: Iterable[str] = (), *, timed: bool
) -> Survey:
    return Survey(
        source.dialect,
        targets=targets,
        server=source.server,
        think_tags=arguments.think_tags,
        timed=timed,
    )


def _style(width: int | None, ascii: bool) -> Style:
    """Return the style that stdout supports."""
    on_terminal = sys.stdout.isatty()
    if width is None:
        width = _WIDTH_WITHOUT_TERMINAL
        if on_terminal:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            width = min(max(width, MIN_WIDTH), _MAX_WIDTH)
    return Style(
        width=width,
        glyphs=ASCII if ascii or not _can_write(BOX_CHARACTERS, sys.stdout.encoding) else BOX,
        bold=on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )


def _encoded(line: str) -> bytes:
    return f"{line}\n".encode(sys.stdout.encoding, "backslashreplace")


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
