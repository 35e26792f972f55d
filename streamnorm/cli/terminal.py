"""Lines on stdout: coloured and redrawn by rich on a terminal, plain anywhere else.

rich is the extra `cli`.  It is imported for a terminal alone, and without it labels are bold.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamnorm.cli import console
from streamnorm.inspect.page import Line, Role, Style, join_spans

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_STYLES: dict[Role, str] = {
    "": "",
    "label": "bold",
    "bar": "cyan",
    "waits": "yellow",
    "quiet": "dim",
    "good": "green",
    "bad": "red",
    "doubtful": "yellow",
}


class Terminal:
    """The terminal on stdout.

    Args:
        style: How lines look.

    Raises:
        ImportError: rich is not installed.
    """

    def __init__(self, style: Style) -> None:
        from rich.console import Console

        # Characters that the encoding lacks are escaped, as in plain output.
        self._file = io.TextIOWrapper(
            sys.stdout.buffer, sys.stdout.encoding, "backslashreplace", write_through=True
        )
        self._console = Console(
            file=self._file, force_terminal=True, width=style.width, markup=False, highlight=False
        )
        self._live: Live | None = None

    @property
    def height(self) -> int:
        """Number of lines of the screen."""
        return self._console.height

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines in place of the drawn lines."""
        self.end_drawing()
        for line in lines:
            self._console.print(_to_text(line), soft_wrap=True)

    def draw(self, lines: Iterable[Line]) -> None:
        """Draw lines in place of the lines drawn before."""
        from rich.console import Group
        from rich.live import Live

        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(Group(*map(_to_text, lines)), refresh=True)

    def end_drawing(self) -> None:
        """Remove the lines that were drawn."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def close(self) -> None:
        """Remove the drawn lines, and release stdout without closing it."""
        self.end_drawing()
        self._file.detach()  # stdout stays open


def open_terminal(style: Style) -> Terminal | None:
    """Return the terminal on stdout; None if there is none, or rich is not installed.

    Args:
        style: How lines look; without bold, escape sequences are not wanted.
    """
    if not style.bold or not sys.stdout.isatty():
        return None
    try:
        return Terminal(style)
    except ImportError:
        return None


def print_page(lines: Iterable[Line], style: Style) -> None:
    """Print lines on stdout.

    Args:
        lines: The lines.
        style: How they look.
    """
    terminal = open_terminal(style)
    if terminal is None:
        console.write(map(console.encode_line, join_spans(lines, bold=style.bold)))
        return
    try:
        terminal.print(lines)
    finally:
        terminal.close()


def _to_text(line: Line) -> Text:
    """Return a line as rich's `Text`, in which no markup is interpreted."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    for part, role in line:
        text.append(part, _STYLES[role])
    return text
