"""The command line as a whole: its help, its exit statuses and its imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamnorm
from streamnorm.cli import main

TEXT = Path(__file__).parents[2] / "recordings" / "openai_chat" / "openai" / "text.sse"
CUT = TEXT.with_name("cut-in-arguments.sse")


Out = pytest.CaptureFixture[str]


def shown(*arguments: str, capsys: Out) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*arguments])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_version_is_printed(capsys: Out) -> None:
    assert shown("--version", capsys=capsys) == f"streamnorm {streamnorm.__version__}\n"


def test_help_lists_the_commands_and_all_exit_statuses(capsys: Out) -> None:
    out = shown("--help", capsys=capsys)
    assert "  3  truncated\n" in out
    assert [int(line.split()[0]) for line in statuses(out)] == [0, 1, 2, 3, 4, 5, 6, 7]
    for command in COMMANDS:
        assert f"\n    {command}" in out


def statuses(text: str) -> list[str]:
    return [
        line for line in text.partition("exit status:\n")[2].splitlines() if line.startswith("  ")
    ]


COMMANDS = {
    "transcode": [0, 1, 2, 3, 4, 5],
    "decode": [0, 1, 2, 3, 4],
    "request": [0, 2, 4, 5],
    "message": [0, 1, 2, 4, 5],
    "inspect": [0, 1, 2, 3, 4],
    "validate": [0, 2, 4],
    "record": [0, 2, 6, 130],
    "replay": [0, 2, 6, 130],
    "serve": [0, 2, 130],
    "run": [1, 2, 126, 127],
    "import": [0, 2],
    "export": [0, 2],
    "scan": [0, 2, 7],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_lists_its_own_exit_statuses(command: str, capsys: Out) -> None:
    lines = statuses(shown(command, "--help", capsys=capsys))
    assert [int(line.split()[0]) for line in lines] == COMMANDS[command]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_ascii_for_every_terminal(command: str, capsys: Out) -> None:
    assert shown(*command.split(), "--help", capsys=capsys).isascii()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["decode", "--help"]])
def test_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "streamnorm", *arguments],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=300,
        )
    assert done.stderr == b""
    assert done.returncode in (0, 141)


def test_messages_do_not_go_to_stdout_where_stderr_is_closed() -> None:
    command = [sys.executable, "-m", "streamnorm", "decode", "-", "--json"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
        input=b"",
        stdout=subprocess.PIPE,
        timeout=300,
    )
    assert all(line.startswith(b"{") for line in done.stdout.splitlines())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["transcode", TEXT, "--to", "anthropic"], 0),
        (["decode", CUT], 3),
        (["decode", "no such file"], 2),
        (["decode"], 2),
    ],
)
def test_stderr_that_cannot_be_written_leaves_the_status(
    arguments: list[str | Path], status: int
) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "streamnorm", *arguments],
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=300,
        )
    assert done.returncode == status
    assert (done.stdout != b"") == (status in (0, 3))


def test_start_up_loads_no_http_library() -> None:
    code = (
        "import sys; from streamnorm.cli import main; "
        "main(['decode', sys.argv[1]]); "
        "assert not {'httpx', 'anyio', 'asyncio', 'httpx_sse', 'uvicorn'} & set(sys.modules); "
        "assert not {'streamnorm.asgi', 'streamnorm.recording.recorder'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, TEXT], check=True, stdout=subprocess.DEVNULL)
