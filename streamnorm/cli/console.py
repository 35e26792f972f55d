"""The parser of all commands, and their messages on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from streamnorm.inspect.printable import printable

__all__ = ["AddParser", "Parser", "UsageError", "complain", "say"]

_STATUSES = """\
exit status:
  0  completed
  1  the provider reported an error
  2  wrong usage
  3  truncated
  4  not a stream, or malformed
  5  losses with --strict
  6  a request without a recording, or an exchange that was not recorded
  7  scan found a secret
"""


class UsageError(Exception):
    """The command cannot be run as given; the text is its message."""


class Parser(argparse.ArgumentParser):
    """The parser of the command line, and of each command."""

    def __init__(self, *, epilog: str | None = _STATUSES, **options: Any) -> None:
        raw = argparse.RawDescriptionHelpFormatter
        super().__init__(epilog=epilog, formatter_class=raw, **options)

    def error(self, message: str) -> NoReturn:
        """Exit with one line that names the error, and not the whole usage."""
        self.exit(2, f"streamnorm: {message} (see {self.prog} --help)\n")


AddParser: TypeAlias = Callable[..., Parser]
"""The `add_parser` of the command line's subparsers: adds the parser of a command."""


def say(text: str) -> None:
    """Write a line on stderr; stdout is for a command's output."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line


def complain(text: str) -> None:
    """Write an error or a warning on stderr, in one line."""
    say(f"streamnorm: {' '.join(text.split())}")
