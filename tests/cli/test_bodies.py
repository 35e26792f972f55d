"""`streamnorm request` and `streamnorm message`, with a dialect that is added from outside."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.example_dialect.bodies import CAPABILITIES, codec
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import InputMessage, Limits, Request, Text
from streamnorm._core.codec import BodyCodec, ReadContext, WriteContext, Written
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
        "body": {"model": "fast-1", "say": ASKED["say"]},
    },
}
Out = pytest.CaptureFixture[bytes]


def _morse() -> BodyCodec:
    """Return a codec that writes what its reader and writer were given into a body."""

    def read_request(body: dict[str, Any], context: ReadContext) -> Request:
        said = (InputMessage("user", (Text("Hello"),)),)
        return Request(messages=said, metadata={"path": context.path, **context.headers})

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
    with registered(TELEGRAPH, morse):
        yield


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


COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Grüße\u2028", "refusal": None},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
ASKED_OF_CHAT = {
    "model": "m",
    "max_completion_tokens": 9,
    "seed": 1,
    "messages": [{"role": "user", "content": "Grüße\u2028"}],
}


def piped(*arguments: str, body: object) -> tuple[int, bytes, str]:
    done = subprocess.run(
        [sys.executable, "-m", "streamnorm", *arguments],
        input=json.dumps(body).encode(),
        capture_output=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_request_is_read_from_standard_input() -> None:
    status, out, err = piped("request", "-", "--to", "anthropic", body=ASKED_OF_CHAT)
    assert json.loads(out) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Grüße\u2028"}],
    }
    assert b"Gr\xc3\xbc\xc3\x9fe\\u2028" in out
    assert (status, err.splitlines()) == (
        0,
        [
            "streamnorm: loss: seed in request, 1 × dropped",
            "streamnorm: header: anthropic-version: 2026-10-21",
        ],
    )


def test_message_is_read_from_standard_input() -> None:
    status, out, err = piped("message", "-", "--to", "claude", body=COMPLETION)
    body = json.loads(out)
    assert (body["type"], body["id"], body["stop_reason"]) == ("message", "c1", "end_turn")
    assert body["content"] == [{"type": "text", "text": "Grüße\u2028"}]
    assert (status, err) == (0, "")


def test_path_that_names_the_model_is_written_to_stderr() -> None:
    asked = {**ASKED_OF_CHAT, "seed": None}
    status, out, err = piped("request", "-", "--to", "gemini", body=asked)
    assert "model" not in json.loads(out)
    assert (status, err) == (0, "streamnorm: path: /v1beta/models/m:generateContent\n")


def test_server_and_version_narrow_the_target() -> None:
    options = ["--to", "anthropic", "--server", "vertex", "--api-version", "2026-10-21"]
    status, out, err = piped("request", "-", *options, body={**ASKED_OF_CHAT, "temperature": 1})
    body = json.loads(out)
    assert status == 0
    assert (body["anthropic_version"], "temperature" in body) == ("2026-10-21", False)
    assert "streamnorm: loss: temperature in request, 1 × dropped\n" in err
    assert "streamnorm: path: /publishers/anthropic/models/m:rawPredict\n" in err


@pytest.mark.parametrize("name", ["vertx", "", "\x1b[2J"])
def test_unknown_server_is_refused_with_the_known_ones(name: str) -> None:
    status, out, err = piped("request", "-", "--to", "chat", "--server", name, body=ASKED_OF_CHAT)
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert "expected " in err
    assert "vertex, " in err
    assert "or none: no other changes the body" in err


def test_profiles_of_ones_own_name_servers(tmp_path: Path) -> None:
    profiles = tmp_path / "own.toml"
    text = '[[profile]]\ndialect = "openai_chat"\nserver = "ours"\nremove.fields = ["seed"]'
    profiles.write_text(text, encoding="utf-8")
    options = ["--to", "chat", "--profiles", str(profiles), "--server", "ours"]
    status, out, err = piped("request", "-", *options, body=ASKED_OF_CHAT)
    assert (status, err) == (0, "streamnorm: loss: seed in request, 1 × dropped\n")
    assert "seed" not in json.loads(out)


def test_profiles_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    profiles = tmp_path / "own.toml"
    profiles.write_text('[[profile]]\ndialect = "chat"\nset.x = 1', encoding="utf-8")
    options = ["--to", "chat", "--profiles", str(profiles)]
    status, out, err = piped("request", "-", *options, body=ASKED_OF_CHAT)
    assert (status, out) == (2, b"")
    assert err.startswith(f"streamnorm: {profiles}: profile[0].set.x: no such capability")


def test_unknown_version_is_refused_with_the_known_ones() -> None:
    options = ["--to", "anthropic", "--api-version", "2020-01-01"]
    status, _, err = piped("request", "-", *options, body=ASKED_OF_CHAT)
    assert status == 4
    assert err == "streamnorm: version: not known, expected one of 2023-06-01, 2026-10-21\n"


def test_tools_that_the_target_lacks_are_dropped_on_demand() -> None:
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    turns = [{"role": "user", "content": "Snow in Oslo?"}]
    asked = {"model": "m", "max_tokens": 9, "messages": turns, "tools": search}
    options = ["request", "-", "--to", "openai_chat", "--from", "anthropic"]
    status, out, err = piped(*options, body=asked)
    assert (status, out) == (4, b"")
    assert err == (
        "streamnorm: tools: no tool but web_search, expected a tool that openai_chat has\n"
    )
    status, out, err = piped(*options, "--missing-tools", "drop", body=asked)
    assert (status, "loss: server_tool_dropped" in err) == (0, True)
    assert "tools" not in json.loads(out)


def test_tool_results_are_repaired_on_demand() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
    turns = [{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "Well?"}]
    asked = {**ASKED_OF_CHAT, "seed": None, "messages": turns}
    options = ["request", "-", "--to", "anthropic"]
    status, out, err = piped(*options, body=asked)
    assert (status, out) == (4, b"")
    assert "call without a result" in err
    status, out, err = piped(*options, "--repair", "fill", body=asked)
    assert (status, out) == (4, b"")
    assert "arguments of 3 characters are no JSON object, expected one" in err
    status, out, err = piped(*options, "--repair", "fill", "--arguments", "raw", body=asked)
    assert (status, "loss: result_filled" in err, "loss: arguments_raw" in err) == (0, True, True)
    assert json.loads(out)["messages"][0]["content"][-1]["input"] == {"_raw": "[1]"}


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
    written(file, {"say": ASKED["say"]})
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
    assert run("message", body, *options, capfdbinary=capfdbinary) == (0, bare, [])


@pytest.mark.parametrize(
    ("command", "body", "status", "message"),
    [
        ("request", "", 4, "$: an empty input, expected a JSON object"),
        ("message", " \n", 4, "$: an empty input, expected a JSON object"),
        ("request", "\ufeff", 4, "$: an empty input, expected a JSON object"),
        ("request", "{", 4, "$: no JSON in 1 characters, expected a JSON object"),
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
        (
            "message",
            {"error": {"message": "no key"}},
            1,
            "the provider reported an error: no key",
        ),
    ],
    ids=[
        "empty",
        "blank",
        "mark alone",
        "cut",
        "array",
        "request",
        "response",
        "malformed",
        "fault",
        "error",
    ],
)
def test_failure_is_one_line_and_a_status(
    command: str, body: object, status: int, message: str, file: Path, capfdbinary: Out
) -> None:
    file.write_text(body if isinstance(body, str) else json.dumps(body))
    ended, out, lines = run(command, file, "--to", "wire", capfdbinary=capfdbinary)
    assert (ended, out, len(lines)) == (status, None, 1)
    assert lines[0].startswith(f"streamnorm: {message}"), lines


@pytest.mark.parametrize("body", [ASKED, RECORDED, ANSWERED], ids=["request", "recorded", "answer"])
def test_byte_order_mark_is_ignored(body: object, file: Path, capfdbinary: Out) -> None:
    """RFC 8259, section 8.1, lets a parser ignore one; editors of Windows write it."""
    command = "message" if body is ANSWERED else "request"
    options = [command, file, "--to", "telegraph"]
    written(file, body)
    expected = run(*options, capfdbinary=capfdbinary)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert expected[0] == 0
    assert run(*options, capfdbinary=capfdbinary) == expected


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
@pytest.mark.parametrize("to", ["openai_chat", "gemini", "openai_responses", "anthropic"])
def test_number_that_is_not_finite_is_refused_with_its_path(
    to: str, number: str, file: Path, capfdbinary: Out
) -> None:
    file.write_text(
        f'{{"model":"m","messages":[{{"role":"user","content":"Hi"}}],"temperature":{number}}}'
    )
    status, out, [line] = run("request", file, "--to", to, capfdbinary=capfdbinary)
    assert (status, out) == (4, None)
    assert line.startswith("streamnorm: $.temperature: NaN, Infinity or a number beyond a double")


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


def test_large_file_is_read_no_further_than_its_bound(
    file: Path, capfdbinary: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    class Endless(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal read
            assert size is not None
            read += size
            return b" " * size

    monkeypatch.setattr("streamnorm.cli.streams.Source._open", lambda source: Endless(os.devnull))
    monkeypatch.setattr("streamnorm.cli.bodies._LIMITS", Limits(max_event_bytes=1_000_000))
    status, _, [line] = run("request", file, "--to", "wire", capfdbinary=capfdbinary)
    assert (status, line.endswith("bytes, expected at most 1000000")) == (4, True)
    assert read < 1_200_000
