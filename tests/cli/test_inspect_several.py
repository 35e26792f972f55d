"""The command `inspect` on several streams: a table, unreadable files, progress, statuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.cli.inspect_command import ATTACK, END, ESCAPED
from support.openai_chat.chunks import content, frame

from streamnorm.cli import inspect_several, main
from streamnorm.validation import Validator

WHOLE = content("hi") + END
CUT = content("hi")
ERROR = frame({"error": {"message": "no", "type": "server_error"}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with a whole, a cut and a failed stream."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs" / "old").mkdir(parents=True)
    (tmp_path / "logs" / "whole.sse").write_bytes(WHOLE)
    (tmp_path / "logs" / "old" / "cut.sse").write_bytes(CUT)
    (tmp_path / "logs" / "notes.txt").write_text("no stream")
    (tmp_path / "failed.sse").write_bytes(ERROR)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["inspect", *arguments])


def count_violations(data: bytes) -> int:
    validator = Validator("openai_chat")
    return len([*validator.feed(data), *validator.close()])


@pytest.mark.usefixtures("folder")
def test_directory_is_a_table_of_its_recordings(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("logs", "--to", "anthropic") == 3
    out, err = capfdbinary.readouterr()
    assert err == b""
    head, *rows, blank, count = out.decode().splitlines()
    assert head == "file              dialect      events  blocks  outcome    violations  losses"
    # Start, block, text; then the error of a cut, or two stops.
    assert [row[:56] for row in rows] == [
        "logs/old/cut.sse  openai_chat       4       1  truncated",
        "logs/whole.sse    openai_chat       5       1  completed",
    ]
    assert [int(row.split()[5]) for row in rows] == [count_violations(CUT), count_violations(WHOLE)]
    assert (blank, count) == ("", "2 streams: 1 completed, 1 truncated")


@pytest.mark.usefixtures("folder")
def test_status_is_the_highest_of_all(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("logs/whole.sse", "failed.sse") == 1
    assert run("logs/whole.sse", "failed.sse", "missing.sse") == 2
    assert run("missing.sse", "logs/whole.sse", "logs/old") == 3
    assert run("logs/whole.sse", "logs/whole.sse") == 0
    out, _ = capfdbinary.readouterr()
    assert b"\nmissing.sse     No such file or directory\n" in out


def test_unreadable_files_have_their_reason(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "empty.sse").write_bytes(b"\n")
    (folder / "zipped.sse").write_bytes(b"\x1f\x8b\x08")
    (folder / "nothing").mkdir()
    assert run("empty.sse", "zipped.sse", "nothing", "logs/whole.sse") == 4
    lines = capfdbinary.readouterr().out.decode().splitlines()
    reasons = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:5]}
    assert reasons["empty.sse"] == "no stream of a known dialect: the input is empty"
    assert reasons["zipped.sse"].startswith("gzip data, expected what is in it")
    assert reasons["nothing"] == "no stream in it, expected recordings"
    assert lines[-1] == "4 streams: 1 completed, 3 unreadable"


@pytest.mark.usefixtures("folder")
def test_json_is_a_line_for_each_stream(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("logs", "missing.sse", "--json", "--to", "gemini") == 3
    cut, whole, missing = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert (cut["stream"], cut["outcome"]["type"]) == ("logs/old/cut.sse", "truncated")
    assert (whole["stream"], whole["losses"].keys()) == ("logs/whole.sse", {"gemini"})
    assert missing == {"stream": "missing.sse", "error": "No such file or directory"}


def test_recorded_times_are_columns(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    companion = {
        "streamnorm_recording": 1,
        "dialect": "openai_chat",
        "chunks": [f"+700 {len(CUT)}", f"+800 {len(WHOLE) - len(CUT)}"],
    }
    (folder / "logs" / "whole.json").write_text(json.dumps(companion))
    assert run("logs") == 3
    _, cut, whole, *_ = capfdbinary.readouterr().out.decode().splitlines()
    assert whole.split()[4:9] == ["0.700", "s", "1.500", "s", "completed"]
    assert cut.split()[4:7] == ["-", "-", "truncated"]


def test_hostile_names_are_escaped(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / f"{ATTACK}[red].sse").write_bytes(WHOLE)
    assert run(".", "--width", "300") == 3
    out = capfdbinary.readouterr().out.decode()
    assert f"{ESCAPED}[red].sse" in out
    assert all(line.isprintable() for line in out.split("\n"))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no FILE, expected one or several"),
        (["logs", "--frames"], "--frames with several streams, expected one"),
        (["a", "b", "--html", "out.html"], "--html with several streams, expected one"),
        (["a", "b", "--log", "sqlite:x"], "--log with 2 streams, expected one"),
    ],
)
def test_options_of_one_stream_are_wrong_usage(
    arguments: list[str], message: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as exited:
        run(*arguments)
    assert exited.value.code == 2
    assert message in capfdbinary.readouterr().err.decode()


@pytest.mark.usefixtures("folder")
def test_interrupt_shows_the_rows_so_far(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys = iter([inspect_several.make_survey])

    def interrupt(*arguments: object, **options: object) -> object:
        make = next(surveys, None)
        if make is None:
            raise KeyboardInterrupt
        return make(*arguments, **options)  # type: ignore[arg-type] - passed through

    monkeypatch.setattr(inspect_several, "make_survey", interrupt)
    assert run("logs") == 130
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[-1] == "1 stream: 1 truncated"


@pytest.mark.usefixtures("folder")
def test_progress_is_shown_on_a_terminal_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(inspect_several.console, "write", lambda pieces: None)
    run("logs", "failed.sse")
    assert capsys.readouterr().err.split("\r\x1b[K") == [
        "",
        "1/3, logs/old/cut.sse",
        "2/3, logs/whole.sse",
        "3/3, failed.sse",
        "",
    ]
