"""`streamnorm inspect --compare A B`: print the differences of two streams."""

from __future__ import annotations

import argparse

import msgspec

from streamnorm.cli import console
from streamnorm.cli.inspect_several import choose_style, make_source, make_survey
from streamnorm.cli.terminal import print_page
from streamnorm.inspect.compare import compare
from streamnorm.inspect.compare_page import render_comparison
from streamnorm.inspect.report import Report, TimedEvent

_DIFFERENT = 1
_OTHER_OPTIONS = ("to", "frames", "html", "log")


def add_compare_option(command: argparse.ArgumentParser) -> None:
    """Add `--compare`."""
    command.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="show where two streams differ, event by event; of two dialects, where their\n"
        "messages do; exit status 1 if they do",
    )


def compare_streams(parser: console.Parser, arguments: argparse.Namespace) -> int:
    """Print the differences of two streams, and return 1 if there are any.

    Args:
        parser: The parser of the command.
        arguments: The options of the command.
    """
    if arguments.files:
        parser.error("--compare with FILE, expected two streams alone")
    for name in _OTHER_OPTIONS:
        if getattr(arguments, name):
            parser.error(f"--compare with --{name}, expected one of them")
    first, second = arguments.compare
    (name_a, of_a, a), (name_b, of_b, b) = (_read(arguments, name) for name in (first, second))
    found = compare(a, b, same_dialect=of_a.dialect == of_b.dialect)
    if arguments.json:
        fields = msgspec.to_builtins(found)
        console.print_json({"a": name_a, "b": name_b, **fields}, ascii=arguments.ascii)
    else:
        style = choose_style(arguments)
        print_page(render_comparison(found, (name_a, name_b), (of_a, of_b), style), style)
    return _DIFFERENT if found.differs else 0


def _read(arguments: argparse.Namespace, name: str) -> tuple[str, Report, list[TimedEvent]]:
    """Return the name, the report and the events of a stream."""
    source = make_source(arguments, name)
    survey = make_survey(source, arguments, timed=False)
    events: list[TimedEvent] = []
    for data in source.read_chunks():
        events += survey.feed(data).events
        if source.has_ended(survey.outcome):
            break
    events += survey.close().events
    return source.name, survey.report(), events
