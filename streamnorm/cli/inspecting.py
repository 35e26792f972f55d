"""Commands that examine streams and requests: `streamnorm inspect` and `validate`."""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from streamnorm._core.codec import MAX_PROBLEMS
from streamnorm._registry import encoder, framing_of, stated_framing
from streamnorm.cli import console
from streamnorm.cli.bodies import validate_requests
from streamnorm.cli.inspect_comparing import add_compare_option, compare_streams
from streamnorm.cli.inspect_pages import PageFile, add_page_option, open_page
from streamnorm.cli.inspect_several import (
    MAX_WIDTH,
    choose_style,
    inspect_several,
    make_source,
    make_survey,
)
from streamnorm.cli.logs import add_log_options, open_stream, redact, require_log, save_stream
from streamnorm.cli.streams import (
    STATUSES,
    WHO_SENT,
    Source,
    add_dialect_option,
    add_framing_option,
    add_think_tags_option,
    choose_exit_status,
    list_dialects,
    make_source_options,
    parse_server,
    report_failure,
)
from streamnorm.cli.terminal import Terminal, open_terminal, print_page
from streamnorm.inspect import Survey, list_writable_dialects
from streamnorm.inspect.live import Tail, extend_tail, hide_last_word, render_live
from streamnorm.inspect.page import (
    MIN_WIDTH,
    FrameLines,
    Line,
    describe_frame,
    format_count,
    render_page,
)
from streamnorm.inspect.report import Read, Report, describe_report

if TYPE_CHECKING:
    from streamnorm._core.codec.framing import Framing
    from streamnorm.log import LogReader

_VIOLATED = 4
_REST_PER_DRAWING = 4

_OF_REQUESTS = {
    "model": "with --request, the model whose rules hold (default: the one that it names)",
    "path": "with --request, the path or URL it was sent to: it may name dialect and model",
}


def add_commands(add_parser: console.AddParser) -> None:
    """Add `inspect` and `validate`."""
    common = make_source_options(several=True)
    inspect = add_parser(
        "inspect",
        parents=[common],
        help="show what the stream holds, and how it ends",
        description="Show the stream's blocks over its course, its times, its end, violations of\n"
        "the protocol, and what would be lost; of several streams, a row of each.",
        epilog=console.format_statuses(STATUSES)
        + "\n\nof several streams, the highest; with --compare, 1 if they differ",
    )
    targets = list_dialects(list_writable_dialects())
    inspect.add_argument(
        "--to", metavar="DIALECT", help=f"dialect whose losses to show: {targets}; default: all"
    )
    inspect.add_argument(
        "--frames", action="store_true", help="show the frames first, each with its number"
    )
    inspect.add_argument(
        "--json", action="store_true", help="write JSON, with --frames a line for each frame"
    )
    inspect.add_argument(
        "--width",
        type=partial(console.parse_integer, low=MIN_WIDTH, high=MAX_WIDTH),
        metavar="N",
        help="columns (default: the terminal's, or 100)",
    )
    inspect.add_argument("--ascii", action="store_true", help="write nothing but ASCII")
    add_compare_option(inspect)
    add_page_option(inspect)
    add_log_options(inspect)
    inspect.set_defaults(run=partial(_inspect, inspect))
    validate = add_parser(
        "validate",
        help="check a stream against the rules of its protocol, or requests against a provider's",
        description="Read to the end of the input, and write each violation of the protocol, with\n"
        "the number of its frame from 0; with --request, what providers would refuse of the\n"
        "requests in the files, each with its place in the body, the rule, and the provider's\n"
        "answer.",
        epilog=console.format_statuses(
            {
                0: "no violations",
                2: STATUSES[2],
                _VIOLATED: "not a stream or request, or violations",
            }
        ),
    )
    validate.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a recording's stream, a body, or - for stdin; with --request any number of bodies,\n"
        "of recordings' .json, and of directories of them",
    )
    validate.add_argument("--request", action="store_true", help="check requests, not a stream")
    add_dialect_option(validate, "--from", "--dialect")
    add_framing_option(validate)
    validate.add_argument(
        "--server",
        metavar="NAME",
        help=f"{WHO_SENT}; with --request, who is sent it (default: the recording's, or the"
        " vendor)",
    )
    add_think_tags_option(validate)
    for name, meaning in _OF_REQUESTS.items():
        validate.add_argument(f"--{name}", metavar=name.upper(), help=meaning)
    validate.add_argument(
        "--json", action="store_true", help="write JSON, a line for each stream or request"
    )
    validate.set_defaults(run=partial(_validate, validate))


@console.clean_up_at_sigterm()
def _inspect(parser: console.Parser, arguments: argparse.Namespace) -> int:
    if arguments.compare is not None:
        return compare_streams(parser, arguments)
    files: list[str] = arguments.files
    if not files:
        parser.error("no FILE, expected one or several")
    arguments.file = files[0]
    is_one = len(files) == 1 and not os.path.isdir(files[0])
    if arguments.log is not None:
        if len(files) > 1:
            parser.error(f"--log with {len(files)} streams, expected one")
        return _inspect_stored(arguments)
    require_log(parser, arguments)
    if not is_one:
        for name in ("frames", "html"):
            if getattr(arguments, name):
                parser.error(f"--{name} with several streams, expected one")
        return inspect_several(arguments, _choose_targets(arguments), choose_style(arguments))
    source = make_source(arguments, files[0])
    recorded = source.load_reads()
    source.shows_progress = not arguments.frames
    is_pipe = files[0] == "-" and not os.path.isfile(0)
    with (
        open_page(arguments, source.name) as page,
        closing(_Display(arguments, source.name, page, is_live=is_pipe)) as display,
    ):
        timed = recorded is not None or display.draws
        survey = make_survey(source, arguments, _choose_targets(arguments), timed=timed)
        reads = source.read_timed_chunks(recorded)
        try:
            for data, gap_ms in _measure_gaps(reads) if display.draws else reads:
                display.add(survey.feed(data, gap_ms))
                display.draw(survey, is_latest=display.draws and not _has_input())
                if source.has_ended(survey.outcome):
                    break
        except KeyboardInterrupt:
            if display.draws:
                display.print_report(survey.report())
            raise
        display.add(survey.close())
        display.print_report(survey.report())
    source.report_wrong_dialect(survey.outcome)
    return choose_exit_status(survey.outcome)


def _has_input() -> bool:
    """Return whether stdin has bytes, or has ended."""
    # select knows sockets alone on Windows.
    return sys.platform != "win32" and bool(select.select([0], [], [], 0)[0])


def _measure_gaps(reads: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield chunks as they arrive, each with the milliseconds since the previous chunk."""
    before = time.monotonic()
    for data, _ in reads:
        now = time.monotonic()
        yield data, round((now - before) * 1000)
        before = now


def _choose_targets(arguments: argparse.Namespace) -> list[str]:
    """Return the target dialects whose losses are reported."""
    return list_writable_dialects() if arguments.to is None else [encoder(arguments.to).dialect]


class _Display:
    """Prints a stream's report, and with `--frames` also the frames as they arrive.

    Args:
        arguments: The options of the command.
        name: Name of the stream.
        page: The page to write, too; None for none.
        is_live: Whether the stream may be growing: a terminal shows it as it arrives.
        redacts: Whether to print "x" for each byte of a secret.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        name: str,
        page: PageFile | None,
        *,
        is_live: bool,
        redacts: bool = False,
    ) -> None:
        self._name = name
        self._page = page
        self._redacts = redacts
        self._shows_frames: bool = arguments.frames
        self._as_json: bool = arguments.json
        self._ascii: bool = arguments.ascii
        self._style = choose_style(arguments)
        self._lines = FrameLines(self._style)
        self._terminal: Terminal | None = None
        if is_live and not (self._shows_frames or self._as_json):
            self._terminal = open_terminal(self._style)
        self._tail = Tail()
        self._draw_after = 0.0

    @property
    def draws(self) -> bool:
        """Whether the stream is drawn as it arrives."""
        return self._terminal is not None

    def draw(self, survey: Survey, *, is_latest: bool = False) -> None:
        """Draw the report of a stream so far, if the stream is drawn as it arrives.

        Args:
            survey: The survey of the stream.
            is_latest: Whether nothing more has arrived, so that this must not be left out.
        """
        started = time.monotonic()
        if self._terminal is None or (started < self._draw_after and not is_latest):
            return
        report, tail = survey.report(), self._tail
        if self._redacts:
            report, tail = redact(report), hide_last_word(redact(tail))
        height = self._terminal.height
        self._terminal.draw(render_live(report, tail, self._name, self._style, height))
        # Drawing takes a part of the time alone, however fast the reads are.
        now = time.monotonic()
        self._draw_after = now + _REST_PER_DRAWING * (now - started)

    def close(self) -> None:
        """Remove the drawn lines and the progress from the terminal."""
        console.show_progress("")
        if self._terminal is not None:
            self._terminal.close()

    def add(self, read: Read) -> None:
        """Print the frames of one chunk if `--frames` is given, and add the chunk to the page."""
        if self._page is not None:
            self._page.add(read)
        if self._terminal is not None:
            self._tail = extend_tail(self._tail, read)
        if not self._shows_frames:
            return
        frames = read.frames
        if self._redacts:
            frames = [redact(frame) for frame in frames]
        numbered = enumerate(frames, read.first)
        if self._as_json:
            fields = [describe_frame(n, each, read.ms) for n, each in numbered]
            console.print_json(*fields, ascii=self._ascii)
        else:
            shown = [self._lines.format(n, each, read.ms) for n, each in numbered]
            console.write(map(console.encode_line, shown))

    def print_report(self, report: Report) -> None:
        """Print the report, and write the end of the page."""
        console.show_progress("")
        if self._page is not None:
            self._page.finish(report)
        if self._redacts:
            report = redact(report)
        if self._as_json:
            console.print_json(describe_report(report, self._name), ascii=self._ascii)
            return
        blank: list[Line] = [[("", "")]] if self._shows_frames else []
        lines = [*blank, *render_page(report, self._name, self._style)]
        if self._terminal is None:
            print_page(lines, self._style)
        else:
            self._terminal.print(lines)


def _inspect_stored(arguments: argparse.Namespace) -> int:
    """Inspect a stream in a log."""
    import anyio

    with open_page(arguments, arguments.file, redacts=True) as page:
        inspection = _StoredInspection(arguments, page)
        with closing(inspection):
            try:
                anyio.run(inspection.run)
            except KeyboardInterrupt:
                inspection.finish()
                raise
            return inspection.finish()


class _StoredInspection:
    """Inspection of a stream in a log, followed live to its end.

    Args:
        arguments: The options of the command.
        page: The page to write, too; None for none.
    """

    def __init__(self, arguments: argparse.Namespace, page: PageFile | None) -> None:
        self._arguments = arguments
        self._targets = _choose_targets(arguments)
        self._display = _Display(arguments, arguments.file, page, is_live=True, redacts=True)
        self._opened: tuple[LogReader, Survey, Framing] | None = None
        self._reads: list[tuple[bytes, int]] = []  # to be saved

    async def run(self) -> None:
        """Read the stream to its end."""
        async with open_stream(self._arguments) as reader:
            survey = self._make_survey(reader)
            while True:
                try:
                    data = await reader.read()
                except StopAsyncIteration:
                    self._display.add(survey.close())
                    return
                except Exception as exc:
                    if reader.has_lost_stream:
                        raise
                    # How the source ended.
                    self._display.add(survey.abort(exc))
                    return
                self._display.add(survey.feed(data, reader.gap_ms))
                self._display.draw(survey)
                if self._arguments.save is not None:
                    self._reads.append((data, reader.gap_ms))

    def close(self) -> None:
        """Remove the drawn lines from the terminal."""
        self._display.close()

    def finish(self) -> int:
        """Print the report, save the stream if `--save` is given, and return the exit status."""
        if self._opened is None:
            return 0
        reader, survey, framing = self._opened
        state = "running" if reader.ending is None else reader.ending.state
        report = structs.replace(survey.report(), state=state)
        self._display.print_report(report)
        if self._arguments.save is not None:
            dialect = reader.origin.dialect or report.dialect or None
            save_stream(self._arguments.save, reader, self._reads, dialect, framing)
        return choose_exit_status(report.outcome)

    def _make_survey(self, reader: LogReader) -> Survey:
        """Return a `Survey` of the stream; options of the command override those in the log."""
        from streamnorm.log.records import read_options

        arguments, origin = self._arguments, reader.origin
        dialect = arguments.source or origin.dialect
        framing = arguments.framing or read_options(origin).get("framing")
        framing = framing or stated_framing(origin.content_type, origin.headers)
        framing = framing_of(dialect, framing)
        survey = Survey(
            dialect,
            targets=self._targets,
            server=arguments.server or origin.server,
            think_tags=arguments.think_tags or origin.think_tags,
            timed=True,
            framing=framing,
        )
        self._opened = reader, survey, framing
        return survey


def _validate(parser: console.Parser, arguments: argparse.Namespace) -> int:
    if arguments.request:
        return validate_requests(arguments)
    source = _require_one_stream(parser, arguments)
    source.shows_progress = True
    survey = make_survey(source, arguments, timed=False)
    try:
        for chunk in source.read_chunks():
            survey.feed(chunk)
    finally:  # an interrupt has a line of its own
        console.show_progress("")
    survey.close()
    report = survey.report()
    if not report.dialect:
        # What is no stream of any dialect has failed or is truncated.
        report_failure(report.outcome)
        return _VIOLATED
    if report.unchecked:
        raise console.UsageError(f"{source.name} cannot be validated: {report.unchecked}")
    found = report.violations
    if arguments.json:
        fields = {"stream": source.name, "dialect": report.dialect, "frames": report.frames}
        console.print_json({**fields, "violations": found})
    else:
        console.print_lines(f"frame {each.position}: {each.message}" for each in found)
        count = format_count(len(found), "violation")
        if len(found) > MAX_PROBLEMS:
            count = f"more than {MAX_PROBLEMS:,} violations"
        frames = format_count(report.frames, "frame")
        console.print_lines([f"{count} in {frames} of {report.dialect}"])
    if found:
        source.report_wrong_dialect(survey.outcome)
    return _VIOLATED if found else 0


def _require_one_stream(parser: console.Parser, arguments: argparse.Namespace) -> Source:
    """Return the only stream to validate; exit with an error if there are several."""
    for name in _OF_REQUESTS:
        if getattr(arguments, name) is not None:
            parser.error(f"--{name} without --request")
    first, *further = arguments.files
    if further:
        parser.error(f"{len(arguments.files)} streams, expected one, or --request")
    if arguments.server is not None:
        try:
            parse_server(arguments.server)
        except argparse.ArgumentTypeError as exc:
            parser.error(f"argument --server: {exc}")
    return Source(first, arguments.source, arguments.server, arguments.framing)
