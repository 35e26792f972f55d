"""The command `inspect --compare`: its output, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli.inspect_command import ATTACK, END, ESCAPED
from support.openai_chat.chunks import content

from streamnorm import Transcoder
from streamnorm.cli import main

ANSWER = content("hi") + END
OTHER = content("ho") + END


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with an answer, another one, and its transcoding."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sse").write_bytes(ANSWER)
    (tmp_path / "b.sse").write_bytes(OTHER)
    transcoder = Transcoder("openai_chat", "gemini")
    written = b"".join([*transcoder.feed(ANSWER), *transcoder.close()])
    (tmp_path / "gemini.sse").write_bytes(written)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_equal_streams_are_status_0(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["inspect", "--compare", "a.sse", "a.sse"]) == 0
    out, err = capfdbinary.readouterr()
    assert err == b""
    assert out.endswith(b"\ncompared  5 events, all equal\n")


@pytest.mark.usefixtures("folder")
def test_different_streams_are_status_1(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["inspect", "--compare", "a.sse", "b.sse"]) == 1
    assert capfdbinary.readouterr().out.decode().splitlines()[-3:] == [
        "compared  5 events: 4 equal, 1 changed",
        "differ    event 2 (frame 0) and event 2 (frame 0): text_delta of block 0",
        '            text: "hi" in a, "ho" in b',
    ]


@pytest.mark.usefixtures("folder")
def test_transcoded_stream_has_the_message(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["inspect", "--compare", "a.sse", "gemini.sse"]) == 0
    assert b"messages of two dialects, 4 parts, all equal" in capfdbinary.readouterr().out


@pytest.mark.usefixtures("folder")
def test_json_has_the_counts_and_the_differences(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["inspect", "--compare", "a.sse", "b.sse", "--json"]) == 1
    place = {"number": 2, "frame": 0}
    assert json.loads(capfdbinary.readouterr().out) == {
        "a": "a.sse",
        "b": "b.sse",
        "compared": "events",
        "equal": 4,
        "changed": 1,
        "only_a": 0,
        "only_b": 0,
        "differences": [
            {
                "event": "text_delta",
                "block": 0,
                "a": place,
                "b": place,
                "fields": [{"path": "text", "a": '"hi"', "b": '"ho"'}],
            }
        ],
    }


def test_hostile_text_is_escaped(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / "hostile.sse").write_bytes(content(f"{ATTACK}[red]") + END)
    assert main(["inspect", "--compare", "a.sse", "hostile.sse", "--width", "200"]) == 1
    out = capfdbinary.readouterr().out.decode()
    assert all(line.isprintable() for line in out.split("\n"))
    assert "[red]" in out
    assert ESCAPED[-12:-2] in out


@pytest.mark.usefixtures("folder")
def test_stream_that_cannot_be_read_is_wrong_usage(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["inspect", "--compare", "a.sse", "missing.sse"]) == 2
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"", b"streamnorm: missing.sse: No such file or directory\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.sse"], "--compare with FILE, expected two streams alone"),
        (["--to", "gemini"], "--compare with --to, expected one of them"),
        (["--frames"], "--compare with --frames, expected one of them"),
        (["--html", "x"], "--compare with --html, expected one of them"),
        (["--log", "sqlite:x"], "--compare with --log, expected one of them"),
    ],
)
def test_other_options_are_wrong_usage(
    arguments: list[str], message: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["inspect", "--compare", "a.sse", "b.sse", *arguments])
    assert exited.value.code == 2
    assert message in capfdbinary.readouterr().err.decode()
