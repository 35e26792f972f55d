"""`streamnorm validate`: its output and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm.cli import main
from streamnorm.validation import validate

RECORDINGS = Path(__file__).parents[2] / "recordings"
LEGAL = RECORDINGS / "openai_chat" / "openai" / "text.sse"
REPEATED = RECORDINGS / "openai_chat" / "fireworks" / "id-and-name-repeated.sse"
ARRAY = RECORDINGS / "gemini" / "google" / "array.body.json"
Out = pytest.CaptureFixture[str]


def test_legal_stream_has_no_violations(capsys: Out) -> None:
    assert main(["validate", str(LEGAL)]) == 0
    assert capsys.readouterr() == ("0 violations in 12 frames of openai_chat\n", "")


def test_each_violation_is_a_line_with_the_number_of_its_frame(capsys: Out) -> None:
    assert main(["validate", str(REPEATED)]) == 4
    out, err = capsys.readouterr()
    *lines, last = out.splitlines()
    assert lines[0] == ("frame 2: second id of tool call 0, expected it in the first piece alone")
    assert lines[-1] == ("frame 7: usage beside 1 choices, expected it in a last chunk without any")
    assert last == f"{len(lines)} violations in 9 frames of openai_chat"
    assert err == ""


def test_violations_are_limited_to_a_thousand(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a").write_bytes(LEGAL.read_bytes() + b"data: {}\n\n" * 3000)
    assert main(["validate", str(tmp_path / "a")]) == 4
    *lines, marker, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 1000
    assert marker.endswith(": more than 1000 violations, expected none")
    assert last == "more than 1,000 violations in 3,012 frames of openai_chat"


def test_json_is_one_object(capsys: Out) -> None:
    for path, status in ((LEGAL, 0), (REPEATED, 4)):
        assert main(["validate", str(path), "--json"]) == status
        out, err = capsys.readouterr()
        assert err == ""
        [line] = out.splitlines()
        written = json.loads(line)
        found = written.pop("violations")
        assert [(each["position"], each["message"]) for each in found] == [
            (each.position, each.message) for each in validate(path.read_bytes(), "openai_chat")
        ]
        frames = path.read_bytes().count(b"\n\n")
        assert written == {"stream": str(path), "dialect": "openai_chat", "frames": frames}


def test_stdin_is_validated_to_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamnorm", "validate", "-"],
        input=LEGAL.read_bytes() + b"data: {}\n\n",
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 4
    assert done.stdout.endswith(b" in 13 frames of openai_chat\n")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the input is empty"),
        (b"<html>", "an HTML page, expected an event stream (is the URL of the request right?)"),
        (b"words\n", "plain text, expected an event stream"),
        (b"\x7fELF\x00\x00\n\n" * 50, "binary data, expected an event stream"),
        (
            b'{"choices":[]}',
            'a JSON body, expected an event stream (is "stream": true missing in the request, or'
            " streamGenerateContent in its URL?)",
        ),
    ],
)
def test_what_is_no_stream_is_named(body: bytes, reason: str, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a").write_bytes(body)
    assert main(["validate", str(tmp_path / "a")]) == 4
    assert capsys.readouterr() == ("", f"streamnorm: no stream of a known dialect: {reason}\n")


def test_frames_of_no_dialect_are_no_stream(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a").write_bytes(b"data: {}\n\n")
    assert main(["validate", str(tmp_path / "a")]) == 4
    assert "no stream of a known dialect\n" in capsys.readouterr().err


def test_error_of_the_provider_is_shown(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a").write_bytes(b'{"error":{"message":"Rate limit","code":429}}')
    assert main(["validate", str(tmp_path / "a")]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamnorm: the provider reported an error")
    assert err.endswith(": Rate limit\n")


def test_stream_that_nothing_validates_is_wrong_usage(capsys: Out) -> None:
    assert main(["validate", str(ARRAY)]) == 2
    reason = "its format is not server-sent events"
    assert capsys.readouterr() == ("", f"streamnorm: {ARRAY} cannot be validated: {reason}\n")


def test_variant_is_validated_by_its_own_checker(capsys: Out) -> None:
    path = RECORDINGS / "gemini_interactions" / "google" / "thought-and-text.sse"
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().out.startswith("0 violations in ")
