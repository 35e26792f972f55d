"""What all commands have in common: how they are asked, and how they complain."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from streamnorm.inspect.printable import printable

__all__ = ["STATUSES", "AddParser", "Parser", "UsageError", "complain", "say"]

STATUSES = """\
exit status:
  0  completed
  1  the provider reported an error
  2  wrong usage
  3  truncated
  4  not a stream, or malformed
  5  losses with --strict
  6  a request without a recording, or an exchange that was not recorded
"""


class UsageError(Exception):
    """What the user asked for cannot be done; its text says why."""


class Parser(argparse.ArgumentParser):
    """Say in one line what is wrong, not how everything is spelt."""

    def error(self, message: str) -> NoReturn:
        """Exit with the line."""
        self.exit(2, f"streamnorm: {message} (see {self.prog} --help)\n")


AddParser: TypeAlias = Callable[..., Parser]
"""Makes the parser of a new command, as `add_parser` of argparse does."""


def say(text: str) -> None:
    """Write a line on stderr: stdout is for what a command makes."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line


def complain(text: str) -> None:
    """Write on stderr, in one line, what is wrong."""
    say(f"streamnorm: {' '.join(text.split())}")
