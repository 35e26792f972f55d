"""The command line, `streamnorm COMMAND`.

`streams` translates streams and `inspecting` judges them, both with the options of `source`;
`bodies` translates whole requests and responses, `requests` reads and judges requests.
`recordings` records and replays, `gateway` runs a gateway, each on a server (`serving`).
`running` runs a command on a gateway: as the job in the `foreground`, set up as its `agents` need.
`converting` imports and exports recordings, `scanning` finds secrets in them.  `console` has the
parser, the messages and the output of all.
What one command alone needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

import streamnorm
from streamnorm._core.errors import NotAStream
from streamnorm._registry import DIALECTS
from streamnorm.cli import (
    bodies,
    converting,
    gateway,
    inspecting,
    recordings,
    running,
    scanning,
    streams,
)
from streamnorm.cli.console import (
    Parser,
    UsageError,
    complain,
    exit_statuses,
    text_line,
    write,
)
from streamnorm.cli.streams import STATUSES, dialect_names

__all__ = ["main"]

_STATUSES = {
    **STATUSES,
    4: "not a stream or body, malformed, or violations",
    5: "losses with --strict",
    6: "a request without a recording, or an exchange that was not recorded",
    7: "scan found a secret",
}
_NOT_A_STREAM = 4
_INTERRUPTED = 130  # as a shell reports a program that SIGINT or SIGPIPE ended
_PIPE_CLOSED = 141


class _Version(argparse.Action):
    """`--version`, read when asked for: that costs more than the rest of the start-up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        write([text_line(f"streamnorm {streamnorm.__version__}")])
        parser.exit()


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    if sys.__stdout__ is None:  # `streamnorm … >&-`
        return 2
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.run(arguments)
    except UsageError as exc:
        complain(str(exc))
        return 2
    except NotAStream as exc:
        complain(str(exc))
        return _NOT_A_STREAM
    except BrokenPipeError:
        _discard_output()
        return _PIPE_CLOSED
    except OSError as exc:
        _discard_output()
        complain(f"cannot write: {exc.strerror}")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _discard_output() -> None:
    """Discard what could not be written: Python would try it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> Parser:
    parser = Parser(
        prog="streamnorm",
        description="Read the stream or body of any LLM provider, and write it as another's.\n\n"
        f"dialects, with their aliases:\n  {dialect_names([*DIALECTS])}",
        epilog=exit_statuses(_STATUSES) + "\n\nstreamnorm COMMAND --help shows those of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    streams.add_commands(commands.add_parser)
    bodies.add_commands(commands.add_parser)
    inspecting.add_commands(commands.add_parser)
    recordings.add_commands(commands.add_parser)
    gateway.add_commands(commands.add_parser)
    running.add_commands(commands.add_parser)
    converting.add_commands(commands.add_parser)
    scanning.add_commands(commands.add_parser)
    return parser
