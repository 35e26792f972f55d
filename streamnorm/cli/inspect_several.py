"""`streamnorm inspect` of several files or of directories of recordings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from streamnorm._core.errors import NotAStream, StreamnormError
from streamnorm.cli import console
from streamnorm.cli.streams import Source, choose_exit_status
from streamnorm.cli.terminal import print_page
from streamnorm.inspect import Survey
from streamnorm.inspect.page import MIN_WIDTH, Style
from streamnorm.inspect.printable import ASCII, BOX, BOX_CHARACTERS
from streamnorm.inspect.report import Report, describe_report
from streamnorm.inspect.table import Table
from streamnorm.recording.format import STREAM_SUFFIXES

MAX_WIDTH = 1000
"""Columns of the widest page."""

_WIDTH_WITHOUT_TERMINAL = 100
_STATUS_OF_USAGE = 2
_STATUS_OF_NO_STREAM = 4


def inspect_several(arguments: argparse.Namespace, targets: Iterable[str], style: Style) -> int:
    """Print a table of streams, and return the highest of their exit statuses.

    Args:
        arguments: The options of the command.
        targets: Dialects whose losses are reported.
        style: How the table looks.
    """
    inspection = _Inspection(arguments, [*targets], style)
    try:
        status = inspection.run()
    finally:  # an interrupt shows the rows so far
        console.show_progress("")
        inspection.print_table()
    return status


class _Inspection:
    """Inspects streams one after another.

    Args:
        arguments: The options of the command.
        targets: Dialects whose losses are reported.
        style: How the table looks.
    """

    def __init__(self, arguments: argparse.Namespace, targets: list[str], style: Style) -> None:
        self._arguments = arguments
        self._targets = targets
        self._style = style
        self._table = Table(style)

    def run(self) -> int:
        """Read all streams, and return the highest of their exit statuses."""
        status = 0
        names: list[str] = []
        for path in self._arguments.files:
            try:
                names += _list_streams(path)
            except console.UsageError as exc:
                self._add_unreadable(path, str(exc))
                status = _STATUS_OF_USAGE
        for number, name in enumerate(names, 1):
            console.show_progress(f"{number}/{len(names)}, {name[-60:]}")
            status = max(status, self._add(name))
        return status

    def print_table(self) -> None:
        """Print the table of the streams inspected so far; print nothing if `--json` is given."""
        if not self._arguments.json:
            print_page(self._table.render(), self._style)

    def _add(self, name: str) -> int:
        """Inspect one stream, and return its exit status."""
        try:
            source = make_source(self._arguments, name)
            report = self._read(source)
        except (console.UsageError, StreamnormError) as exc:
            self._add_unreadable(name, str(exc))
            return _STATUS_OF_NO_STREAM if isinstance(exc, NotAStream) else _STATUS_OF_USAGE
        if self._arguments.json:
            fields = describe_report(report, source.name)
            console.print_json(fields, ascii=self._arguments.ascii)
        else:
            self._table.add(source.name, report)
        return choose_exit_status(report.outcome)

    def _add_unreadable(self, name: str, reason: str) -> None:
        reason = reason.removeprefix(f"{name}: ")
        if self._arguments.json:
            console.print_json({"stream": name, "error": reason}, ascii=self._arguments.ascii)
        else:
            self._table.add_unreadable(name, reason)

    def _read(self, source: Source) -> Report:
        reads = source.load_reads()
        survey = make_survey(source, self._arguments, self._targets, timed=reads is not None)
        for data, gap_ms in source.read_timed_chunks(reads):
            survey.feed(data, gap_ms)
            if source.has_ended(survey.outcome):
                break
        survey.close()
        return survey.report()


def _list_streams(path: str) -> list[str]:
    """Return the paths of a directory's recorded streams, or the path of a file.

    Raises:
        UsageError: A directory cannot be read, or holds no stream.
    """
    from streamnorm.recording.scanning import find_files

    if not os.path.isdir(path):
        return [path]
    with console.convert_os_errors():
        files = [str(file) for file in find_files(Path(path))]
    found = [file for file in files if file.endswith(tuple(STREAM_SUFFIXES))]
    if not found:
        raise console.UsageError(f"{path}: no stream in it, expected recordings")
    return found


def make_source(arguments: argparse.Namespace, file: str) -> Source:
    """Return the source that reads a file or stdin with the command's options.

    Args:
        arguments: The options of the command.
        file: Path of the file; `-` for stdin.
    """
    return Source(file, arguments.source, arguments.server, arguments.framing)


def make_survey(
    source: Source, arguments: argparse.Namespace, targets: Iterable[str] = (), *, timed: bool
) -> Survey:
    """Return a `Survey`, which reads a source's stream and accumulates a report.

    Args:
        source: The source.
        arguments: The options of the command.
        targets: Dialects whose losses are reported.
        timed: Whether the times of the reads are known.
    """
    return Survey(
        source.dialect,
        targets=targets,
        server=source.server,
        think_tags=arguments.think_tags,
        timed=timed,
        framing=source.framing,
    )


def choose_style(arguments: argparse.Namespace) -> Style:
    """Return the style for stdout: its width, characters and bold labels.

    Args:
        arguments: The options of the command.
    """
    on_terminal = sys.stdout.isatty()
    width: int | None = arguments.width
    if width is None:
        width = _WIDTH_WITHOUT_TERMINAL
        if on_terminal:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    is_ascii = arguments.ascii or not _can_write(BOX_CHARACTERS, sys.stdout.encoding)
    return Style(
        width=width,
        glyphs=ASCII if is_ascii else BOX,
        bold=on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )


def _can_write(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
