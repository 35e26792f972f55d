"""The command line, `streamnorm COMMAND`.

`streams` translates streams and reads their sources, `inspecting` inspects and validates them,
also those of a log (`logs`);
`bodies` translates whole requests and responses, and validates requests.
`recordings` records and replays, `gateway` runs a gateway, each on a server (`serving`).
`running` runs a command on a gateway: as the job in the foreground, set up as its `agents` need.
`recordings` also imports and exports recordings, and finds secrets in them.  `console` has the
parser, the messages and the output of all.
What one command alone needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

import streamnorm
from streamnorm._core.errors import (
    DecodeError,
    EncodeError,
    LossyEncoding,
    NotAStream,
    StreamnormError,
    UpstreamError,
)
from streamnorm._registry import DIALECTS
from streamnorm.cli import (
    bodies,
    console,
    gateway,
    inspecting,
    recordings,
    running,
    streams,
)
from streamnorm.cli.streams import STATUSES, list_dialects

__all__ = ["main"]

# In the order of the help text.
_ADD_COMMANDS = (
    *(streams.add_commands, bodies.add_commands, inspecting.add_commands),
    *(recordings.add_commands, gateway.add_commands, running.add_commands),
    recordings.add_file_commands,
)
_STATUSES = {
    **STATUSES,
    4: "not a stream or body, malformed, or violations",
    5: "losses with --strict",
    6: "a request without a recording, or an exchange that was not recorded",
    7: "scan found a secret",
}
# Other errors of the package are wrong usage: what the command line names cannot be used.
_STATUS_OF: dict[type[Exception], int] = {
    UpstreamError: 1,
    NotAStream: 4,
    DecodeError: 4,
    EncodeError: 4,
    LossyEncoding: 5,
}
_INTERRUPTED = 130  # as a shell reports a program that SIGINT, SIGPIPE or SIGTERM ended
_PIPE_CLOSED = 141
_TERMINATED = 143


class _Version(argparse.Action):
    """The action of `--version`, which reads the version only when needed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        console.print_lines([f"streamnorm {streamnorm.__version__}"])
        parser.exit()


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    if sys.__stdout__ is None:  # `streamnorm … >&-`
        return 2
    try:
        arguments = _make_parser().parse_args(argv)
        status: int = arguments.run(arguments)
    # ImportError: an extra is not installed.
    except (console.UsageError, StreamnormError, ImportError) as exc:
        if isinstance(exc, LossyEncoding):
            console.report_losses(exc.losses)
        reported = "the provider reported an error: " if isinstance(exc, UpstreamError) else ""
        console.print_error(f"{reported}{exc}")
        return _STATUS_OF.get(type(exc), 2)
    except BrokenPipeError:
        _discard_output()
        return _PIPE_CLOSED
    except OSError as exc:
        _discard_output()
        console.print_error(f"cannot write: {exc.strerror}")
        return 2
    except console.Terminated:
        return _TERMINATED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _discard_output() -> None:
    """Discard unwritten output, which Python would try to write again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_parser() -> console.Parser:
    parser = console.Parser(
        prog="streamnorm",
        description="Read the stream or body of any LLM provider, and write it as another's.\n\n"
        f"dialects, with their aliases:\n  {list_dialects([*DIALECTS])}",
        epilog=console.format_statuses(_STATUSES)
        + "\n\nstreamnorm COMMAND --help shows those of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_commands in _ADD_COMMANDS:
        add_commands(commands.add_parser)
    return parser
