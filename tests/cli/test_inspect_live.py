"""The command `inspect -` on a terminal: the stream is drawn as it arrives."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cli.inspect_command import ATTACK, COMMAND, END, ESCAPED
from support.openai_chat.chunks import content

pytestmark = pytest.mark.slow


class Drawn:
    """A process whose stdout is a terminal, and what it has written there."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.text = ""
        self._terminal = terminal

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, until: str | None = None) -> str:
        """Return what is written, up to a text, or to the end."""
        try:
            while until is None or until not in self.text:
                assert select.select([self._terminal], [], [], 30)[0], self.text
                if not (piece := os.read(self._terminal, 4096)):
                    break
                self.text += piece.decode()
        except OSError:  # how Linux ends it
            pass
        return self.text


@contextmanager
def inspector(*options: str, command: list[str] = COMMAND, **variables: str) -> Generator[Drawn]:
    """Run `inspect -` on a terminal of 100 columns and 30 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*command, "-", "--to", "anthropic", *options],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**env, "TERM": "xterm-256color", **variables},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(theirs)
        try:
            yield Drawn(process, ours)
        finally:
            process.kill()
            os.close(ours)


def test_stream_is_drawn_as_it_arrives_and_replaced_by_its_page() -> None:
    with inspector() as drawn:
        drawn.send(content("Hello"))
        assert "0: Hello" in drawn.read(until="0: Hello")
        drawn.send(content(f", {ATTACK}[red]world[/red] now"))
        drawn.read(until=" now")
        drawn.send(END)
        written = drawn.read()
        assert drawn.process.wait(30) == 0
    # The drawing is removed, the cursor is back, and the page has the times.
    page = written.rpartition("\x1b[?25h")[2]
    plain = re.sub(r"\x1b\[[0-9;]*[A-Zm]", "", page).replace("\r", "").strip().split("\n")
    assert plain[0] == "stream    standard input"
    assert f"  0  Hello, {ESCAPED}[red]world[/red] now" in plain
    assert any(line.startswith("times     first bytes after ") for line in plain)
    assert "\x1b[32mcompleted\x1b[0m" in page
    assert set(re.findall(r"\x1b.[^a-zA-Z]*[a-zA-Z]?", written)) <= {
        *("\x1b[?25l", "\x1b[?25h", "\x1b[1A", "\x1b[2K"),
        *(f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33", "36")),
    }


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_nothing_is_drawn_without_escape_sequences(variables: dict[str, str]) -> None:
    with inspector(**variables) as drawn:
        drawn.send(content("Hello") + END)
        written = drawn.read()
        assert drawn.process.wait(30) == 0
    assert "\x1b" not in written
    assert written.startswith("stream    standard input")
    assert "times     not recorded" in written


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_shows_what_there_is(number: int, status: int, tmp_path: Path) -> None:
    page_file = tmp_path / "page.html"
    with inspector("--ascii", "--html", str(page_file)) as drawn:
        drawn.send(content("Hello"))
        drawn.read(until="0: Hello")
        drawn.process.send_signal(number)
        written = drawn.read()
        assert drawn.process.wait(30) == status
        assert list(tmp_path.iterdir()) == [page_file]
        assert drawn.process.stderr is not None
        assert drawn.process.stderr.read() == b""
    page = written.rpartition("\x1b[?25h")[2]
    assert "still open" in page
    assert written.isascii()


def test_interrupt_just_before_a_read_is_not_lost(tmp_path: Path) -> None:
    """Such a signal sets what the interpreter looks at, and no call returns for it."""
    code = f"""
import _thread, os, sys, threading, time
from streamnorm.cli import main
def interrupt():
    while not os.path.exists({str(tmp_path / "now")!r}):
        time.sleep(0.01)
    _thread.interrupt_main()
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main(sys.argv[1:]))
"""
    with inspector("--ascii", command=[sys.executable, "-c", code, "inspect"]) as drawn:
        drawn.send(content("Hello"))
        drawn.read(until="0: Hello")
        (tmp_path / "now").touch()
        written = drawn.read()
        assert drawn.process.wait(30) == 130
    assert "still open" in written
