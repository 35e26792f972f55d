"""The command `inspect`: its output on various terminals, and its exit status."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from support.cli.inspect_command import ATTACK, COMMAND, END, ESCAPED, ROOT, page, run
from support.openai_chat.chunks import call, calls, content, frame, reasoning

from streamnorm.cli import main
from streamnorm.inspect import list_writable_dialects

pytestmark = pytest.mark.slow

RECORDINGS = Path("recordings") / "openai_chat"
REASONING = RECORDINGS / "deepseek" / "reasoning-then-text.sse"
OVERLAPPING = RECORDINGS / "openai" / "parallel-tools-interleaved-two.sse"
CUT = RECORDINGS / "openai" / "cut-in-arguments.sse"
ERROR = RECORDINGS / "groq" / "error-event.sse"
REFUSAL = RECORDINGS / "openai" / "refusal.sse"


def on_terminal(columns: int, **variables: str) -> str:
    """Return what is written on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [*COMMAND, REASONING],
        cwd=ROOT,
        env={**env, **variables},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    ) as process:
        os.close(theirs)
        written = bytearray()
        try:
            while piece := os.read(ours, 4096):
                written += piece
        except OSError:  # how Linux ends it
            pass
        assert process.wait(30) == 0
    os.close(ours)
    return written.decode()


def test_whole_page_of_a_recording() -> None:
    # 13 events.  Of 80 columns the table takes 36 and the edges two; 42 are three an event.
    assert page(REASONING, "--to", "anthropic", "--width", "80") == [
        "stream    recordings/openai_chat/deepseek/reasoning-then-text.sse",
        "          2,649 bytes, 9 frames, 13 events",
        "dialect   openai_chat",
        "server    deepseek",
        "message   5e0d31c7-40aa-4a52-9f0e-2b7c61d8e901",
        "model     deepseek-v4-flash",
        "",
        "blocks    2 in 13 events: █ of the block, ─ of others while it is open",
        "  #  kind       name  chars  bytes",
        "  0  reasoning           11     12  │   ███████████████                     │",
        "  1  text                14     14  │                  ████████████───███   │",
        "",
        "content",
        "  0  51 = 3 × 17",
        "  1  No, it is not.",
        "",
        "times     not recorded",
        "usage     input 87 (64 from cache), output 15 (8 reasoning)",
        "stop      end_turn (stop)",
        "outcome   completed",
        "losses    anthropic: extra in prompt_cache_miss_tokens, 1 × dropped",
        "validity  frame 7: usage beside 1 choices, expected it in a last chunk without",
        "          any",
        "notes     none",
    ]


def test_overlapping_calls_overlap_in_the_timeline() -> None:
    first, second = (line.split("│")[1] for line in page(OVERLAPPING) if "│" in line)
    both = sum(one != " " != other for one, other in zip(first, second, strict=True))
    # Of fourteen events, those from the start of the second to the stop of the first.
    assert both / len(first) == 8 / 14


def test_losses_are_reported_for_all_dialects_or_one() -> None:
    told = [line[10:] for line in page(REFUSAL) if line.startswith(("losses", " " * 10))][1:]
    # A line a loss, so that a dialect may have several.
    assert list(dict.fromkeys(line.partition(":")[0] for line in told)) == list_writable_dialects()
    assert page(REFUSAL, "--to", "claude")[-3] == (
        "losses    anthropic: refusal in block, 1 × written as text"
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "line"),
    [
        pytest.param(
            [ERROR], b"", 1, "outcome   failed, the provider reported an error (tool_use_", id="1"
        ),
        pytest.param([CUT], b"", 3, "outcome   truncated: connection lost: the", id="cut"),
        pytest.param(["-"], b"<html>", 4, "outcome   failed, malformed: an HTML page", id="html"),
        pytest.param(
            ["-"], b"data: {\n\n" * 20, 4, "outcome   failed, malformed: no stream", id="4"
        ),
    ],
)
def test_page_is_printed_however_the_stream_ends(
    arguments: list[str | Path], stdin: bytes, status: int, line: str
) -> None:
    done = run(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (status, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("stream    ")
    assert any(each.startswith(line) for each in lines)
    assert lines[-1] == "notes     none"


def test_stream_from_a_pipe_has_no_file() -> None:
    assert page("-", stdin=content("hi") + END)[0] == "stream    standard input"


def test_options_equal_those_of_decode() -> None:
    thought = content("<think>a</think>b") + END
    lines = page(
        *("-", "--from", "chat", "--server", "qianfan", "--think-tags"),
        stdin=thought,
    )
    assert lines[2:4] == ["dialect   openai_chat", "server    qianfan"]
    assert lines[lines.index("content") + 1 :][:2] == ["  0  a", "  1  b"]


def test_escape_sequences_of_the_server_are_escaped(tmp_path: Path) -> None:
    error = frame({"error": {"message": ATTACK, "code": ATTACK, "type": ATTACK}})
    start = frame({"id": ATTACK, "model": ATTACK, "choices": [{"index": 0, "delta": {}}]})
    body = start + reasoning(ATTACK) + content(ATTACK)
    body += calls(call(0, ATTACK, ATTACK, ATTACK)) + error
    (tmp_path / "a.sse").write_bytes(body)
    (tmp_path / "a.json").write_text(
        json.dumps({"streamnorm_recording": 1, "dialect": "openai_chat", "server": ATTACK})
    )
    done = run(tmp_path / "a.sse", "--width", "500")
    assert (done.returncode, done.stderr) == (1, b"")
    out = done.stdout.decode()
    assert all(line.isprintable() for line in out.split("\n"))
    # Server, id, model, name (cut), reasoning, text, arguments, id of the call, code, message.
    assert out.count(ESCAPED) == 9
    assert out.count(r"\x1b[2J") == 10


def test_huge_arguments_are_one_line() -> None:
    arguments = json.dumps({"text": "a" * 300_000})
    pieces = [arguments[start : start + 5000] for start in range(0, len(arguments), 5000)]
    body = calls(call(0, "call_1", "write", pieces[0]))
    body += b"".join(calls(call(0, arguments=piece)) for piece in pieces[1:])
    lines = page("-", stdin=body + END)
    assert "  0  " + arguments[:94] + "…" in lines
    assert any("  300,012  300,012  " in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_arguments_that_are_no_object_are_marked() -> None:
    lines = page(
        "-", stdin=calls(call(0, "call_1", "f", "[1]"), call(1, "call_2", "g", "{}")) + END
    )
    start = lines.index("content")
    assert lines[start + 1 :][:4] == [
        "  0  [1]",
        "     no valid JSON object, id call_1",
        "  1  {}",
        "     id call_2",
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_encoding_without_box_characters_gets_ascii(encoding: str) -> None:
    done = run(REASONING, PYTHONIOENCODING=encoding)
    assert done.stdout == run(REASONING, "--ascii").stdout
    assert rb"  0  51 = 3 \xd7 17" in done.stdout
    assert done.stdout.isascii()


def test_unencodable_characters_are_escaped() -> None:
    done = run("-", stdin=content("今日 ü") + END, PYTHONIOENCODING="gbk")
    assert "  0  今日 ü" in done.stdout.decode("gbk")
    done = run("-", stdin=content("🙂") + END, PYTHONIOENCODING="gbk")
    assert b"  0  \\U0001f642" in done.stdout


def test_terminal_has_bold_labels_and_its_own_width() -> None:
    written = on_terminal(120)
    assert written.startswith("\x1b[1mstream\x1b[0m    recordings/")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    [row] = [line for line in plain.split("\r\n") if line.startswith("  0  reasoning")]
    # 120 columns less 36 of the table and two edges are 82: six for each of 13 events.
    assert row == "  0  reasoning           11     12  │" + " " * 6 + "█" * 30 + " " * 42 + "│"


@pytest.mark.parametrize(
    "variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda value: next(iter(value))
)
def test_no_color_disables_escape_sequences(variables: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal(100, **variables)


def test_narrow_terminal_gets_the_minimum_width() -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(20))
    rows = [line for line in plain.split("\r\n") if line.startswith("  0  reasoning")]
    assert len(rows[0]) == 36 + 1 + 39 + 1


def test_closed_pipe_ends_quietly() -> None:
    with subprocess.Popen(
        [*COMMAND, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(content("hi") + END)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_command_does_not_wait_for_an_open_pipe() -> None:
    with subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(content("hi") + END)
        process.stdin.flush()
        assert process.wait(30) == 0  # its stdin is still open
        assert b"outcome   completed" in process.stdout.read()


def test_file_is_counted_to_its_end(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rest = b": nobody reads this\n" * 20_000
    whole = content("hi") + END
    (tmp_path / "a.sse").write_bytes(whole + rest)
    assert main(["inspect", str(tmp_path / "a.sse")]) == 0
    size = f"{len(whole) + len(rest):,} bytes, 3 frames".encode()
    assert size in capfdbinary.readouterr().out
