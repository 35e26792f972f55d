"""`streamnorm validate --request`: the files that it reads, its output and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamnorm.cli import main

RECORDINGS = Path(__file__).parents[2] / "recordings"
LEGAL = {"model": "gpt-5", "instructions": "Be brief.", "input": "Hi."}
REFUSED = {**LEGAL, "max_output_tokens": 10}
RULE = "openai_responses.max_output_tokens"
SAYS = (
    "Invalid 'max_output_tokens': integer below minimum value. "
    "Expected a value >= 16, but got 10 instead."
)
LINE = f"max_output_tokens: {RULE}: {SAYS}\n"
Out = pytest.CaptureFixture[str]


def recorded(body: object, server: str | None = "openai", **request: Any) -> dict[str, Any]:
    """Return the companion of a recording with a request."""
    url = "https://api.openai.com/v1/responses"
    found = {"method": "POST", "url": url, "headers": {}, "body": body, **request}
    return {
        "streamnorm_recording": 1,
        "dialect": "openai_responses",
        "server": server,
        "request": found,
    }


def stored(folder: Path, name: str, value: object) -> str:
    """Return the path of a file with JSON."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def validated(*arguments: object) -> int:
    return main(["validate", "--request", *map(str, arguments)])


def test_each_violation_is_a_line_with_file_place_rule_and_answer(
    tmp_path: Path, capsys: Out
) -> None:
    file = stored(tmp_path, "a.json", REFUSED)
    assert validated(file) == 4
    assert capsys.readouterr() == (f"{file}: {LINE}1 violation in 1 request\n", "")


def test_legal_request_has_no_violations(tmp_path: Path, capsys: Out) -> None:
    assert validated(stored(tmp_path, "a.json", LEGAL)) == 0
    assert capsys.readouterr() == ("0 violations in 1 request\n", "")


def test_several_files_are_counted_together(tmp_path: Path, capsys: Out) -> None:
    files = [stored(tmp_path, f"{n}.json", body) for n, body in enumerate([REFUSED, LEGAL] * 2)]
    assert validated(*files) == 4
    out = capsys.readouterr().out
    assert out == f"{files[0]}: {LINE}{files[2]}: {LINE}2 violations in 4 requests\n"


def test_request_of_a_recording_is_validated(tmp_path: Path, capsys: Out) -> None:
    file = stored(tmp_path, "a.json", recorded(REFUSED))
    assert validated(file) == 4
    assert capsys.readouterr().out == f"{file}: {LINE}1 violation in 1 request\n"


@pytest.mark.parametrize(
    ("server", "status"), [(None, 4), ("openai", 4), ("azure", 4), ("vllm", 0), ("fireworks", 4)]
)
def test_rules_are_those_of_the_recorded_server(
    server: str | None, status: int, tmp_path: Path
) -> None:
    """Of `fireworks` no rules of Responses are known: it is taken for the vendor."""
    assert validated(stored(tmp_path, "a.json", recorded(REFUSED, server))) == status


def test_option_names_the_server(tmp_path: Path) -> None:
    file = stored(tmp_path, "a.json", recorded(REFUSED))
    assert validated(file, "--server", "vllm") == 0
    assert validated(file, "--server", "openai") == 4


def test_unknown_server_is_wrong_usage(tmp_path: Path, capsys: Out) -> None:
    assert validated(stored(tmp_path, "a.json", LEGAL), "--server", "opneai") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamnorm: server 'opneai', expected anthropic, azure, bedrock, ")
    assert err.endswith(", zai, or none: no other has rules\n")


def test_dialect_is_that_of_the_option_the_path_or_the_body(tmp_path: Path, capsys: Out) -> None:
    bare = stored(tmp_path, "a.json", {"model": "gpt-5", "max_output_tokens": 10})
    assert validated(bare) == 4
    expected = "$: request of no known dialect, or of several, expected --from DIALECT"
    assert capsys.readouterr() == (
        "0 violations in 0 requests\n",
        f"streamnorm: {bare}: {expected}\n",
    )
    for option in (
        ("--dialect", "responses"),
        ("--from", "openai_responses"),
        ("--path", "https://h/v1/responses?x=1"),
    ):
        assert validated(bare, *option) == 4
        assert f"{bare}: {LINE}" in capsys.readouterr().out
    assert validated(bare, "--dialect", "esperanto") == 2
    assert "'esperanto'" in capsys.readouterr().err


def test_option_names_the_model(tmp_path: Path) -> None:
    file = stored(tmp_path, "a.json", {**LEGAL, "max_output_tokens": 16})
    assert validated(file, "--model", "gpt-4.1") == 0


def test_stdin_is_one_request() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamnorm", "validate", "--request", "-"],
        input=json.dumps(REFUSED).encode(),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 4
    assert done.stdout.decode() == f"standard input: {LINE}1 violation in 1 request\n"
    assert done.stderr == b""


def test_stdin_without_a_request_is_named_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamnorm", "validate", "--request", "-"],
        input=b"[]",
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 4
    assert done.stderr == b"streamnorm: standard input: $: no JSON object, expected one\n"


def test_json_is_a_line_for_each_request(tmp_path: Path, capsys: Out) -> None:
    files = [stored(tmp_path, "a.json", REFUSED), stored(tmp_path, "b.json", LEGAL)]
    assert validated("--json", *files) == 4
    out, err = capsys.readouterr()
    violation = {
        "rule": RULE,
        "path": "max_output_tokens",
        "message": SAYS,
        "status": 400,
        "type": None,
        "code": "integer_below_min_value",
    }
    assert [json.loads(line) for line in out.splitlines()] == [
        {"request": files[0], "dialect": "openai_responses", "violations": [violation]},
        {"request": files[1], "dialect": "openai_responses", "violations": []},
    ]
    assert err == ""


# What is no request


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "$: no JSON object, expected one"),
        ({"streamnorm_recording": 1}, "a recording without the JSON body of its request"),
        ({"streamnorm_recording": 2}, "no companion of a recording: "),
        (recorded([]), "a recording without the JSON body of its request"),
        (
            recorded(LEGAL, url="https://api.openai.com/v1/responses/input_tokens"),
            "no request for a message, expected one",
        ),
        (
            recorded(LEGAL, method="GET", url="https://h/v1/models"),
            "no request for a message, expected one",
        ),
    ],
)
def test_file_without_a_request_is_reported_and_the_others_validated(
    value: object, reason: str, tmp_path: Path, capsys: Out
) -> None:
    broken = stored(tmp_path, "a.json", value)
    assert validated(broken, stored(tmp_path, "b.json", LEGAL)) == 4
    out, err = capsys.readouterr()
    assert out == "0 violations in 1 request\n"
    assert err.startswith(f"streamnorm: {broken}: {reason}")
    assert err.count("\n") == 1


def test_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path, capsys: Out) -> None:
    assert validated(tmp_path / "none.json") == 2
    assert capsys.readouterr() == (
        "",
        f"streamnorm: {tmp_path}/none.json: No such file or directory\n",
    )


# Directories


def test_requests_of_a_directory_are_validated_and_other_files_skipped(
    tmp_path: Path, capsys: Out
) -> None:
    refused = stored(tmp_path, "below/b.json", recorded(REFUSED))
    stored(tmp_path, "a.json", LEGAL)
    stored(tmp_path, "package.json", {"name": "x"})
    stored(tmp_path, "companion.json", {"streamnorm_recording": 1})
    stored(tmp_path, "answer.body.json", REFUSED)
    stored(tmp_path, "a.events.jsonl", REFUSED)
    stored(tmp_path, ".hidden/c.json", REFUSED)
    assert validated(tmp_path) == 4
    assert capsys.readouterr() == (
        f"{refused}: {LINE}1 violation in 2 requests\n",
        "streamnorm: 2 files without a request skipped\n",
    )


def test_recordings_of_this_repository_are_read(capsys: Out) -> None:
    validated(RECORDINGS / "openai_chat" / "openai", "--json")
    lines = capsys.readouterr().out.splitlines()
    assert {json.loads(line)["dialect"] for line in lines} == {"openai_chat"}


def test_directory_that_cannot_be_read_is_wrong_usage(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    assert validated(tmp_path) == 2
    assert capsys.readouterr().err == f"streamnorm: {tmp_path}: Permission denied\n"


def test_progress_is_shown_on_a_terminal(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, "a.json", REFUSED)
    stored(tmp_path, "b.json", LEGAL)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    validated(tmp_path)
    err = capsys.readouterr().err
    assert "\r\x1b[K1/2, 0 violations" in err
    assert "\r\x1b[K2/2, 1 violation" in err
    assert err.endswith("\r\x1b[K")


# Options of the one kind and the other


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a.sse", "b.sse"], "2 streams, expected one, or --request"),
        (["a.sse", "--model", "m"], "--model without --request"),
        (["a.sse", "--path", "/v1/responses"], "--path without --request"),
    ],
)
def test_option_of_requests_is_none_of_a_stream(
    arguments: list[str], reason: str, capsys: Out
) -> None:
    with pytest.raises(SystemExit) as info:
        main(["validate", *arguments])
    assert info.value.code == 2
    assert capsys.readouterr().err == f"streamnorm: {reason} (see streamnorm validate --help)\n"
