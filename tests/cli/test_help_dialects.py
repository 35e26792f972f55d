"""The dialects that a command's help names are those that it reads and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamnorm.cli import main

ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "finish_reason": "stop",
        }
    ],
}
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
# Protocols of pages: a page asks in them, and is answered by a stream.
PAGES = {"ui_message_stream", "ag_ui"}
Out = pytest.CaptureFixture[str]


def listed(command: str, option: str, capsys: Out) -> list[str]:
    """Return the dialects in the help of an option."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    names = text.rpartition(f" {option} DIALECT ")[2].partition(": ")[2].partition(" --")[0]
    names = names.partition(";")[0].replace(" or ", ", ")
    depth, kept = 0, ""
    for character in names:  # aliases stand in brackets
        depth += (character == "(") - (character == ")")
        kept += character if not depth else ""
    return [name.strip(" )") for name in kept.split(",")]


@pytest.mark.parametrize(("command", "body"), [("message", ANSWER), ("request", REQUEST)])
def test_each_target_in_the_help_of_a_body_is_written(
    command: str, body: dict[str, object], tmp_path: Path, capsys: Out
) -> None:
    (tmp_path / "a").write_text(json.dumps(body))
    targets = listed(command, "--to", capsys)
    assert "anthropic" in targets
    assert not PAGES & {*targets}
    for target in targets:
        file = str(tmp_path / "a")
        assert main([command, file, "--from", "openai_chat", "--to", target]) == 0, target


def test_sources_in_the_help_are_those_that_are_read(capsys: Out) -> None:
    assert not PAGES & {*listed("message", "--from", capsys)}
    assert {*PAGES, "gemini"} <= {*listed("request", "--from", capsys)}
    assert {*PAGES, "gemini"} <= {*listed("transcode", "--to", capsys)}


@pytest.mark.parametrize("options", [["--to", "ag_ui"], ["--to", "gemini", "--from", "ag_ui"]])
def test_refusal_of_a_response_names_what_is_read(
    options: list[str], capsys: Out, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text(json.dumps(ANSWER))
    assert main(["message", str(tmp_path / "a"), *options]) == 2
    assert capsys.readouterr().err.startswith(
        "streamnorm: of dialect 'ag_ui' only requests are read, expected one of "
    )
