"""The FILE of a command: its dialect, its server, and the help of both."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm._registry import DIALECTS
from streamnorm.cli import main

RECORDINGS = Path(__file__).parents[2] / "recordings"
CLAUDE = RECORDINGS / "anthropic" / "anthropic" / "thinking-then-text.sse"
CHAT = RECORDINGS / "openai_chat" / "openai" / "text.sse"
ARRAY = RECORDINGS / "gemini" / "google" / "array.body.json"
INTERACTION = min((RECORDINGS / "gemini_interactions" / "google").glob("*.sse"))
Out = pytest.CaptureFixture[str]


def errors(*arguments: str | Path, capsys: Out) -> tuple[object, list[str]]:
    """Return the exit status and the lines on stderr."""
    try:
        status: object = main([*map(str, arguments)])
    except SystemExit as stop:
        status = stop.code
    return status, capsys.readouterr().err.splitlines()


def looks_like(read_as: str, found: str) -> str:
    return f"streamnorm: read as {read_as}, it looks like {found}: try --from {found}"


@pytest.mark.parametrize("command", [["decode"], ["transcode", "--to", "chat"], ["inspect"]])
@pytest.mark.parametrize(
    ("path", "given", "read_as", "found", "status"),
    [
        (CLAUDE, "chat", "openai_chat", "anthropic", 3),
        (CHAT, "claude", "anthropic", "openai_chat", 3),
        (ARRAY, "anthropic", "anthropic", "gemini", 4),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else None,
)
def test_wrong_dialect_is_reported_with_what_the_stream_looks_like(
    command: list[str], path: Path, given: str, read_as: str, found: str, status: int, capsys: Out
) -> None:
    ended, lines = errors(*command, path, "--from", given, capsys=capsys)
    assert ended == status
    assert lines[-1] == looks_like(read_as, found)


def test_wrong_dialect_of_a_slow_pipe_is_reported() -> None:
    command = [sys.executable, "-m", "streamnorm", "decode", "-", "--from", "chat"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for line in CLAUDE.read_bytes().splitlines(keepends=True):
            process.stdin.write(line)
            process.stdin.flush()
        process.stdin.close()
        last = process.stderr.read().decode().splitlines()[-1]
    assert last == looks_like("openai_chat", "anthropic")


def test_wrong_dialect_is_reported_with_its_violations(capsys: Out) -> None:
    status, lines = errors("validate", CLAUDE, "--from", "chat", capsys=capsys)
    assert (status, lines) == (4, [looks_like("openai_chat", "anthropic")])


def test_wrong_dialect_of_a_companion_is_reported(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a.sse").write_bytes(CLAUDE.read_bytes())
    companion = {"streamnorm_recording": 1, "dialect": "openai_chat"}
    (tmp_path / "a.json").write_text(json.dumps(companion))
    _, lines = errors("decode", tmp_path / "a.sse", capsys=capsys)
    assert lines[-1] == looks_like("openai_chat", "anthropic")
    assert errors("decode", tmp_path / "a.sse", "--from", "anthropic", capsys=capsys) == (0, [])


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        (RECORDINGS / "openai_chat" / "openai" / "cut-in-arguments.sse", "openai_chat"),
        (RECORDINGS / "openai_chat" / "groq" / "error-event.sse", "anthropic"),
        (INTERACTION, "gemini"),
        (INTERACTION, "gemini_interactions"),
    ],
    ids=["cut", "error of a provider", "variant", "name of a variant"],
)
def test_dialect_is_not_doubted_without_reason(path: Path, dialect: str, capsys: Out) -> None:
    _, lines = errors("decode", path, "--from", dialect, capsys=capsys)
    assert not [line for line in lines if "looks like" in line]


def test_damaged_companion_is_not_needed_where_the_dialect_is_named(
    tmp_path: Path, capsys: Out
) -> None:
    (tmp_path / "a.sse").write_bytes(CHAT.read_bytes())
    (tmp_path / "a.json").write_text("[]")
    assert errors("decode", tmp_path / "a.sse", "--from", "chat", capsys=capsys) == (0, [])


@pytest.mark.parametrize(
    ("server", "suggestion"),
    [("quianfan", "; did you mean qianfan?"), ("openai", ""), ("", ""), ("\x1b[2J", "")],
)
@pytest.mark.parametrize("command", ["decode", "inspect", "validate"])
def test_unknown_server_is_refused_with_the_known_ones(
    command: str, server: str, suggestion: str, capsys: Out
) -> None:
    status, [line] = errors(command, CHAT, "--server", server, capsys=capsys)
    assert status == 2
    assert (
        f"argument --server: {server!r}, expected deepseek, kimi, qianfan, or none: "
        f"no other changes the reading{suggestion} (see streamnorm {command} --help)"
    ) in line.replace(r"\\x1b", r"\x1b")


@pytest.mark.parametrize(
    "command",
    [
        ("decode",),
        ("transcode", "--to", "anthropic"),
        ("inspect",),
        ("validate",),
        ("request", "--from", "chat", "--to", "anthropic"),
        ("message", "--from", "chat", "--to", "anthropic"),
    ],
    ids=lambda command: command[0],
)
def test_compressed_file_is_named_as_such(
    command: tuple[str, ...], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "a.sse.gz"
    path.write_bytes(gzip.compress(CHAT.read_bytes()))
    assert main([*command, str(path)]) == 4
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert err.decode() == (
        f"streamnorm: {path}: gzip data, expected what is in it: "
        "gunzip -c FILE | streamnorm COMMAND -\n"
    )


@pytest.mark.parametrize("server", ["deepseek", "kimi", "qianfan"])
def test_known_server_is_accepted(server: str, capsys: Out) -> None:
    assert errors("decode", CHAT, "--server", server, capsys=capsys) == (0, [])


@pytest.mark.parametrize("command", ["transcode", "decode", "inspect", "validate"])
def test_help_lists_dialects_with_their_aliases_and_servers(command: str, capsys: Out) -> None:
    assert errors(command, "--help", capsys=capsys)[0] == 0
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "openai_chat (openai, chat)" in shown
    assert "anthropic (claude)" in shown
    assert "gemini_interactions" in shown
    assert "deepseek, kimi, qianfan" in shown


def test_help_of_the_program_lists_every_name_of_a_dialect(capsys: Out) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for known in DIALECTS.values():
        assert all(name in out for name in (known.name, *known.aliases))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "nothing.sse") for command in ("decode", "inspect", "validate")),
        *((command, ".") for command in ("decode", "validate")),
    ],
)
def test_file_that_cannot_be_read_is_one_line(command: str, name: str, capsys: Out) -> None:
    status, [line] = errors(command, name, capsys=capsys)
    assert status == 2
    assert line in (
        "streamnorm: nothing.sse: No such file or directory",
        "streamnorm: .: Is a directory",
    )


@pytest.mark.parametrize(
    "beside", ['{"model": "m", "stream": true, "messages": []}', "[{}]"], ids=["request", "array"]
)
@pytest.mark.parametrize("command", [["decode"], ["inspect"], ["validate"]], ids=lambda c: c[0])
def test_json_beside_a_stream_that_is_no_companion_is_not_read(
    command: list[str], beside: str, tmp_path: Path, capsys: Out
) -> None:
    """`curl -d @chat.json … > chat.sse` leaves the request under the name of a companion."""
    (tmp_path / "chat.sse").write_bytes(CHAT.read_bytes())
    (tmp_path / "chat.json").write_text(beside)
    assert errors(*command, tmp_path / "chat.sse", capsys=capsys) == (0, [])


@pytest.mark.parametrize(
    "beside", ["{", '{"streamnorm_recording": 2}', "3"], ids=["cut", "version", "number"]
)
def test_damaged_companion_is_reported(beside: str, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "chat.sse").write_bytes(CHAT.read_bytes())
    (tmp_path / "chat.json").write_text(beside)
    status, (line,) = errors("decode", tmp_path / "chat.sse", capsys=capsys)
    assert status == 2
    assert "chat.json: no companion of a recording: " in line


def test_companion_that_cannot_be_read_is_reported(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "chat.sse").write_bytes(CHAT.read_bytes())
    (tmp_path / "chat.json").mkdir()
    status, lines = errors("decode", tmp_path / "chat.sse", capsys=capsys)
    assert (status, lines) == (2, [f"streamnorm: {tmp_path / 'chat.json'}: not a regular file"])


# Progress


def large(folder: Path) -> Path:
    """Return a file of 3 MiB."""
    head, tail = CHAT.read_bytes().split(b"\n\n", 1)
    comment = b": " + b"a" * (1024 * 1024 - 4) + b"\n\n"
    path = folder / "large.sse"
    path.write_bytes(head + b"\n\n" + 3 * comment + tail)
    return path


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_progress_of_a_large_file_is_shown_on_a_terminal_and_removed(
    command: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main([command, str(path)]) == 0
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert shown[1] == f"2 % of {str(path)[-60:]}"  # 64 KiB
    assert shown[-1] == ""


@pytest.mark.parametrize(
    ("arguments", "path", "is_terminal"),
    [(["inspect"], "", False), (["inspect"], str(CHAT), True), (["inspect", "--frames"], "", True)],
)
def test_no_progress_without_a_terminal_of_a_small_file_or_between_frames(
    arguments: list[str],
    path: str,
    is_terminal: bool,
    tmp_path: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    assert main([*arguments, path or str(large(tmp_path))]) == 0
    assert "%" not in capsys.readouterr().err
