"""`streamnorm request` and `streamnorm message`, with a dialect that is added from outside."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.telegraph import TELEGRAPH
from support.telegraph_bodies import CAPABILITIES, codec

from streamnorm import Limits, Request
from streamnorm._core.codec import BodyCodec, ReadContext, WriteContext, Written
from streamnorm._registry import register
from streamnorm.cli import main

ASKED: dict[str, Any] = {
    "telegraph": "ask",
    "model": "fast-1",
    "say": [{"who": "user", "text": "Hellö"}],
}
ANSWERED: dict[str, Any] = {
    "telegraph": "answer",
    "id": "t1",
    "model": "fast-1",
    "blocks": [{"kind": "text", "text": "Hi"}],
    "reason": "end_turn",
    "tokens": {"in": 3, "out": 2},
}
RECORDED: dict[str, Any] = {
    "streamnorm_recording": 1,
    "request": {
        "method": "POST",
        "url": "https://wires.example/telegraph/fast-1/send?x=1",
        "headers": {"x-telegraph-beta": "b"},
        "body": {"model": "fast-1", "say": []},
    },
}
Out = pytest.CaptureFixture[bytes]


def _morse() -> BodyCodec:
    """Return a codec that writes what its reader and writer were given into a body."""

    def read_request(body: dict[str, Any], context: ReadContext) -> Request:
        return Request(metadata={"path": context.path, **context.headers})

    def write_request(request: Request, context: WriteContext) -> Written:
        if request.metadata is not None:
            return Written(request.metadata, "")
        for _ in range(2):
            context.losses.add("text", "messages", "dropped")
        return Written({"say": "…"}, "/morse/fast-1", {"x-key-count": "2"})

    return structs.replace(
        codec(),
        capabilities=structs.replace(CAPABILITIES, fields=frozenset({"metadata"})),
        read_request=read_request,
        write_request=write_request,
    )


@pytest.fixture(autouse=True)
def dialects() -> Iterator[None]:
    morse = structs.replace(
        TELEGRAPH,
        name="morse",
        aliases=(),
        body=_morse,
        is_request=lambda body: "morse" in body,
        is_response=lambda body: "morse" in body,
    )
    removals = [register(TELEGRAPH), register(morse)]
    yield
    for remove in removals:
        remove()


def run(*arguments: str | Path, capfdbinary: Out) -> tuple[object, Any, list[str]]:
    """Return the exit status, the JSON on stdout, or None, and the lines on stderr."""
    try:
        status: object = main([*map(str, arguments)])
    except SystemExit as stop:
        status = stop.code
    out, err = capfdbinary.readouterr()
    assert out.count(b"\n") == (1 if out else 0)
    return status, json.loads(out) if out else None, err.decode().splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "body.json"


def written(file: Path, value: object) -> Path:
    file.write_text(json.dumps(value))
    return file


@pytest.mark.parametrize("options", [[], ["--from", "wire"]], ids=["detected", "named"])
@pytest.mark.parametrize(
    ("command", "body"), [("request", ASKED), ("message", ANSWERED)], ids=["request", "message"]
)
def test_body_is_written_as_one_line_of_json(
    command: str, body: dict[str, Any], options: list[str], file: Path, capfdbinary: Out
) -> None:
    done = run(command, written(file, body), "--to", "wire", *options, capfdbinary=capfdbinary)
    assert done == (0, body, [])


def test_body_is_read_from_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamnorm", "request", "-", "--to", "anthropic"],
        input=b"[]",
        capture_output=True,
        timeout=30,
    )
    expected = b"streamnorm: $: no JSON object, expected one\n"
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", expected)


def test_losses_path_and_headers_go_to_stderr(file: Path, capfdbinary: Out) -> None:
    done = run("request", written(file, ASKED), "--to", "morse", capfdbinary=capfdbinary)
    assert done == (
        0,
        {"say": "…"},
        [
            "streamnorm: loss: text in messages, 2 × dropped",
            "streamnorm: path: /morse/fast-1",
            "streamnorm: header: x-key-count: 2",
        ],
    )


def test_path_that_the_body_makes_known_is_not_written(file: Path, capfdbinary: Out) -> None:
    _, _, lines = run("request", written(file, ASKED), "--to", "wire", capfdbinary=capfdbinary)
    assert lines == []


def test_losses_are_refused_on_demand(file: Path, capfdbinary: Out) -> None:
    written(file, ASKED)
    done = run("request", file, "--to", "morse", "--strict", capfdbinary=capfdbinary)
    assert done == (
        5,
        None,
        [
            "streamnorm: loss: text in messages, 1 × dropped",
            "streamnorm: text in messages would be lost",
        ],
    )


@pytest.mark.parametrize(
    "path",
    ["/telegraph/fast-1/send", "https://wires.example/x/telegraph/fast%2D1//send?y=1"],
    ids=["path", "URL"],
)
def test_path_names_the_dialect(path: str, file: Path, capfdbinary: Out) -> None:
    written(file, {"say": []})
    options = ["--to", "morse", "--path", path]
    status, _, _ = run("request", file, *options, capfdbinary=capfdbinary)
    assert status == 0
    options += ["--from", "morse"]
    found = "/x/telegraph/fast-1/send" if "x" in path.split("/") else path
    assert run("request", file, *options, capfdbinary=capfdbinary) == (0, {"path": found}, [])


def test_recorded_request_is_read_with_its_url_and_headers(file: Path, capfdbinary: Out) -> None:
    written(file, RECORDED)
    assert run("request", file, "--to", "morse", capfdbinary=capfdbinary)[0] == 0
    known = {"path": "/telegraph/fast-1/send", "x-telegraph-beta": "b"}
    options = ["--to", "morse", "--from", "morse"]
    assert run("request", file, *options, capfdbinary=capfdbinary) == (0, known, [])
    options += ["--path", "/other"]
    other = {**known, "path": "/other"}
    assert run("request", file, *options, capfdbinary=capfdbinary) == (0, other, [])


@pytest.mark.parametrize(
    "request_",
    [None, {"method": "POST", "url": "/", "headers": {}, "text": "a"}],
    ids=["no request", "no JSON"],
)
def test_recording_without_a_request_body_is_wrong_usage(
    request_: Any, file: Path, capfdbinary: Out
) -> None:
    written(file, {"streamnorm_recording": 1, "request": request_})
    status, _, lines = run("request", file, "--to", "wire", capfdbinary=capfdbinary)
    assert status == 2
    expected = f"streamnorm: {file}: a recording without the JSON body of its request"
    assert lines == [expected]


def test_damaged_recording_is_wrong_usage(file: Path, capfdbinary: Out) -> None:
    written(file, {"streamnorm_recording": 2})
    status, _, [line] = run("request", file, "--to", "wire", capfdbinary=capfdbinary)
    assert status == 2
    assert "no companion of a recording" in line


def test_recorded_response_is_read_as_its_companion_says(tmp_path: Path, capfdbinary: Out) -> None:
    bare = {name: value for name, value in ANSWERED.items() if name != "telegraph"}
    body = written(tmp_path / "a.body.json", bare)
    options = ["--to", "telegraph"]
    assert run("message", body, *options, capfdbinary=capfdbinary)[0] == 4
    companion = {"streamnorm_recording": 1, "dialect": "telegraph"}
    written(tmp_path / "a.json", companion)
    assert run("message", body, *options, capfdbinary=capfdbinary) == (0, ANSWERED, [])


@pytest.mark.parametrize(
    ("command", "body", "status", "message"),
    [
        ("request", "", 4, "$: no JSON in 0 characters, expected a JSON object"),
        ("request", "[]", 4, "$: no JSON object, expected one"),
        ("request", "{}", 4, "$: request of no known dialect, or of several, expected --from"),
        ("message", "{}", 4, "$: response of no known dialect, or of several, expected --from"),
        ("request", {**ASKED, "say": [1]}, 4, "$.say[0]: an integer, expected an object"),
        (
            "message",
            {"telegraph": "fault", "message": "try\x1b later"},
            1,
            r"the provider reported an error: try\x1b later",
        ),
    ],
    ids=["empty", "array", "request", "response", "malformed", "fault"],
)
def test_failure_is_one_line_and_a_status(
    command: str, body: object, status: int, message: str, file: Path, capfdbinary: Out
) -> None:
    file.write_text(body if isinstance(body, str) else json.dumps(body))
    ended, out, lines = run(command, file, "--to", "wire", capfdbinary=capfdbinary)
    assert (ended, out, len(lines)) == (status, None, 1)
    assert lines[0].startswith(f"streamnorm: {message}"), lines


@pytest.mark.parametrize("command", ["request", "message"])
def test_wrong_usage_is_one_line_and_status_2(command: str, file: Path, capfdbinary: Out) -> None:
    written(file, ASKED)
    for arguments, message in (
        ([file, "--to", "klingon"], "no dialect 'klingon', expected one of"),
        ([file, "--to", "wire", "--from", "klingon"], "no dialect 'klingon', expected one of"),
        ([file], "required: --to"),
        ([file.parent / "nothing.json", "--to", "wire"], "nothing.json: No such file"),
    ):
        status, out, [line] = run(command, *arguments, capfdbinary=capfdbinary)
        assert (status, out) == (2, None)
        assert message in line


def test_policies_reach_the_translation(
    file: Path, capfdbinary: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def translate_request(body: dict[str, Any], **options: Any) -> Any:
        given.append(options)
        return structs.replace(translated, body=body)

    from streamnorm import translate_request as original

    translated = original(ASKED, to="telegraph")
    monkeypatch.setattr("streamnorm._bodies.translate_request", translate_request)
    written(file, ASKED)
    assert run("request", file, "--to", "wire", capfdbinary=capfdbinary)[0] == 0
    options = ["--server", "vertex", "--api-version", "2026-10-21", "--repair", "fill"]
    options += ["--arguments", "raw", "--strict"]
    assert run("request", file, "--to", "wire", *options, capfdbinary=capfdbinary)[0] == 0
    names = ("server", "version", "repair", "arguments", "strict")
    assert [tuple(each[name] for name in names) for each in given] == [
        (None, None, "error", "error", False),
        ("vertex", "2026-10-21", "fill", "raw", True),
    ]


def test_large_file_is_read_no_further_than_its_bound(
    file: Path, capfdbinary: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            nonlocal read
            read += size
            return b" " * size

    monkeypatch.setattr("streamnorm.cli.source.Source._open", lambda source: Endless())
    monkeypatch.setattr("streamnorm.cli.bodies._LIMITS", Limits(max_event_bytes=1_000_000))
    status, _, [line] = run("request", file, "--to", "wire", capfdbinary=capfdbinary)
    assert (status, line.endswith("bytes, expected at most 1000000")) == (4, True)
    assert read < 1_200_000
