"""The commands on a JSON array of chunks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamnorm.cli import main

FOLDER = Path(__file__).parents[2] / "recordings" / "gemini" / "google"
ARRAY = FOLDER / "array.body.json"
CUT = FOLDER / "array-cut.body.json"
ERROR = FOLDER / "array-of-an-error.body.json"
Out = pytest.CaptureFixture[bytes]


def test_array_is_decoded(capfdbinary: Out) -> None:
    assert main(["decode", "--json", str(ARRAY)]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    expected = (FOLDER / "array.events.jsonl").read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in expected]


@pytest.mark.parametrize(
    ("target", "start"),
    [
        ("anthropic", b"event: message_start"),
        ("gemini", b"data: {"),
        ("gemini_interactions", b"event: interaction.created"),
    ],
)
def test_array_is_transcoded(capfdbinary: Out, target: str, start: bytes) -> None:
    assert main(["transcode", str(ARRAY), "--to", target]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(start)
    assert out.endswith(b"\n\n")


def test_array_is_inspected(capfdbinary: Out) -> None:
    assert main(["inspect", str(ARRAY), "--width", "100"]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert "gemini" in out
    assert "2 frames" in out
    assert "tool_use" in out


@pytest.mark.parametrize(("path", "status"), [(CUT, 3), (ERROR, 1)], ids=["cut", "error"])
def test_exit_status_reports_the_outcome_of_an_array(
    capfdbinary: Out, path: Path, status: int
) -> None:
    for command in (["decode"], ["inspect"], ["transcode", "--to", "gemini"]):
        assert main([*command, str(path)]) == status
        capfdbinary.readouterr()
