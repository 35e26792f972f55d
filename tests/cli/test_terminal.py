"""Lines on a terminal: colours, drawing, and what turns them off."""

from __future__ import annotations

import io
import sys

import pytest

from streamnorm.cli.terminal import Terminal, open_terminal, print_page
from streamnorm.inspect.page import Line, Style

LINES: list[Line] = [
    [("outcome", "label"), ("   ", ""), ("[red]completed[/red] :smile:", "good")],
    [("https://example.com 12 True", "")],
]
PLAIN = "outcome   [red]completed[/red] :smile:\nhttps://example.com 12 True\n"


class Screen(io.TextIOWrapper):
    """A stdout that is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, encoding)

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


def open_screen(monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8") -> Screen:
    """Put a terminal in the place of stdout."""
    screen = Screen(encoding)
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_spans_have_colours_and_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    print_page(LINES, Style(bold=True))
    assert screen.written.getvalue().decode() == (
        "\x1b[1moutcome\x1b[0m   \x1b[32m[red]completed[/red] :smile:\x1b[0m\n"
        "https://example.com 12 True\n"
    )


def test_stdout_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    print_page(LINES, Style(bold=True))
    print("more", file=screen, flush=True)
    assert screen.written.getvalue().endswith(b"more\n")


def test_long_lines_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    print_page([[("x" * 500, "")]], Style(width=80, bold=True))
    assert screen.written.getvalue() == b"x" * 500 + b"\n"


def test_characters_that_the_encoding_lacks_are_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = open_screen(monkeypatch, "ascii")
    print_page([[("ü", "")]], Style(bold=True))
    assert screen.written.getvalue() == b"\\xfc\n"


def test_drawn_lines_are_replaced_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    terminal = open_terminal(Style(bold=True))
    assert terminal is not None
    terminal.draw([[("first", "")], [("second", "quiet")]])
    terminal.draw([[("third", "")]])
    written = screen.written.getvalue().decode()
    assert "first" in written
    # One line up and two erased, before the third.
    assert written.index("\x1b[1A") < written.index("third")
    terminal.print(LINES[1:])
    terminal.close()
    assert screen.written.getvalue().decode().endswith("https://example.com 12 True\n")
    assert screen.written.getvalue().count(b"\x1b[?25l") == screen.written.getvalue().count(
        b"\x1b[?25h"
    )


def test_without_bold_or_a_terminal_there_are_no_escape_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = open_screen(monkeypatch)
    assert open_terminal(Style(bold=False)) is None
    print_page(LINES, Style(bold=False))
    assert screen.written.getvalue().decode() == PLAIN
    monkeypatch.setattr(screen, "isatty", lambda: False)
    assert open_terminal(Style(bold=True)) is None


def test_without_rich_labels_are_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        Terminal(Style())
    print_page(LINES, Style(bold=True))
    assert screen.written.getvalue().decode() == PLAIN.replace("outcome", "\x1b[1moutcome\x1b[0m")
