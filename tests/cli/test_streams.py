"""The commands on streams: their output, messages and exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm.cli import main

RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_chat"
TEXT = RECORDINGS / "openai" / "text.sse"
REFUSAL = RECORDINGS / "openai" / "refusal.sse"
CUT = RECORDINGS / "openai" / "cut-in-arguments.sse"
ERROR = RECORDINGS / "groq" / "error-event.sse"
NO_STREAM = "no stream of a known dialect"
COMMAND = [sys.executable, "-m", "streamnorm"]


def run(
    *arguments: str | Path, stdin: bytes = b"", timeout_s: float = 30
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout_s
    )


def test_transcode_writes_anthropic_sse_on_stdout(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["transcode", str(TEXT), "--to", "anthropic"]) == 0
    out, err = capfdbinary.readouterr()
    names = [
        line.removeprefix(b"event: ") for line in out.split(b"\n") if line.startswith(b"event")
    ]
    assert names[0] == b"message_start"
    assert names[-2:] == [b"message_delta", b"message_stop"]
    assert err == b""


def test_decode_writes_one_event_a_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["decode", str(TEXT)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0].startswith("message_start    id=")
    assert lines[1] == 'block_start      index=0 block={"type":"text"}'
    assert lines[-1] == 'message_stop     reason="end_turn" raw_reason="stop"'


def test_decode_json_writes_the_events_written_beside_the_recording(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["decode", str(TEXT), "--json"]) == 0
    written = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    beside = TEXT.with_suffix(".events.jsonl").read_text().splitlines()
    assert written == [json.loads(line) for line in beside]


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "message"),
    [
        pytest.param(["decode", ERROR], b"", 1, "reported an error (tool_use_failed, 400)", id="1"),
        pytest.param(
            ["decode", "-"], b'{"error":{"message":"no key"}}', 1, "error: no key", id="1b"
        ),
        pytest.param(
            ["decode", CUT], b"", 3, "truncated: connection lost: the stream ended before", id="3"
        ),
        pytest.param(["decode", "-"], b"data: {", 3, "ended before its first event", id="3b"),
        pytest.param(["decode", "-"], b"<html>", 4, "known dialect: an HTML page", id="4"),
        pytest.param(["decode", "/bin/ls"], b"", 4, f"{NO_STREAM}: binary data", id="4c"),
        pytest.param(["decode", "-"], b"Dear reader,\n", 4, f"{NO_STREAM}: plain text", id="4d"),
        pytest.param(
            ["decode", "--from", "chat", "-"], b"Dear", 4, f"{NO_STREAM}: plain text", id="4e"
        ),
        pytest.param(["decode", "-"], b"", 4, f"{NO_STREAM}: the input is empty", id="4f"),
        pytest.param(["decode", "-"], b"\n \n", 4, f"{NO_STREAM}: the input is empty", id="4g"),
        pytest.param(["decode", os.devnull], b"", 4, f"{NO_STREAM}: the input is", id="4h"),
        pytest.param(["transcode", "-", "--to", "chat"], b"", 4, NO_STREAM, id="4i"),
        pytest.param(["inspect", "-"], b"", 4, NO_STREAM, id="4j"),
        pytest.param(
            ["decode", "-"], b"data: {\n\n" * 20, 4, "malformed: no stream of a known", id="4b"
        ),
        pytest.param(["transcode", CUT, "--to", "anthropic"], b"", 3, "truncated", id="t3"),
        pytest.param(
            ["decode", "-"],
            b'{"error":{"message":"\\u001b[2J\\u202e"}}',
            *(1, r"error: \x1b[2J\u202e"),
            id="escaped",
        ),
        pytest.param(
            ["transcode", REFUSAL, "--to", "anthropic", "--strict"], b"", 5, "would be lost", id="5"
        ),
    ],
)
def test_exit_status_and_last_line_report_the_outcome(
    arguments: list[str | Path], stdin: bytes, status: int, message: str
) -> None:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == status
    assert message in done.stderr.decode().splitlines()[-1]
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["transcod", TEXT], "; did you mean transcode? (see streamnorm --help)"),
        (["transcode", TEXT], "required: --to"),
        (["transcode", TEXT, "--to", "klingon"], "no dialect 'klingon', expected one of"),
        (
            ["transcode", TEXT, "--to", "chat", "--reasoning", "thoughts"],
            "invalid choice: 'thoughts'",
        ),
        (["decode", TEXT, "--from", "morse"], "no dialect 'morse', expected one of"),
        (["decode", TEXT, "--from", "klingon"], "no dialect 'klingon'"),
        (["decode", TEXT, "--from", "antropic"], "; did you mean anthropic?"),
        (["decode", TEXT, "--colour"], "unrecognized arguments: --colour (see streamnorm decode"),
        (["decode", TEXT, "--form", "chat"], "--form chat; did you mean --from? (see streamnorm"),
        (["decode", TEXT, "--form=chat"], "--form=chat; did you mean --from? (see streamnorm"),
        (["decode", TEXT, "--server", "qianfn"], "no other changes the reading; did you mean qia"),
        (["transcode", TEXT, "--to", "anthropic", "--ordering", "x"], "invalid choice: 'x'"),
        (["transcode", TEXT, "--to", "chat", "--ordering", "sequental"], "; did you mean seq"),
        (["decode", "no-such-file.sse"], "no-such-file.sse: No such file or directory"),
        (["decode", RECORDINGS], "Is a directory"),
        (["inspect", TEXT, "--to", "klingon"], "no dialect 'klingon', expected one of"),
        (["inspect", TEXT, "--from", "klingon"], "no dialect 'klingon', expected one of"),
        (["inspect", TEXT, "--width", "79"], "argument --width: '79', expected 80 to 1000"),
        (["inspect", TEXT, "--width", "1001"], "argument --width: '1001', expected 80 to 1000"),
        (["inspect", TEXT, "--width", "wide"], "argument --width: 'wide', expected 80 to 1000"),
        (["inspect", "no-such-file.sse"], "no-such-file.sse: No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line_on_stderr_and_status_2(
    arguments: list[str | Path], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as exit:  # as the parser ends
        status = int(exit.code or 0)
    out, err = capfd.readouterr()
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("streamnorm: ")
    assert message in lines[0]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_text_is_written_in_the_encoding_of_the_terminal(encoding: str) -> None:
    done = subprocess.run(
        [*COMMAND, "decode", TEXT],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = {"ascii": rb"Gr\xfc\xdf", "latin-1": b"Gr\xfc\xdf", "utf-8": "Grüß".encode()}[encoding]
    assert b'text_delta       index=0 text="' + text + b'"\n' in done.stdout


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_control_characters_of_the_server_are_escaped(option: list[str]) -> None:
    attack = "\x1b[2J\x7f\x9b31m\u202e\u2028\U000e0001"
    body = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": attack}}]})
    done = run("decode", "-", *option, stdin=b"data: " + body.encode() + b"\n\n")
    lines = done.stdout.decode().split("\n")
    assert all(line.isprintable() for line in lines)
    if option:
        assert attack in [json.loads(line).get("text") for line in lines[:-1]]


def test_unreadable_companion_is_one_line_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(TEXT.read_bytes())
    (tmp_path / "a.json").write_text("{")
    done = run("decode", tmp_path / "a.sse")
    assert done.returncode == 2
    assert b"a.json: no companion of a recording" in done.stderr


def test_json_body_is_not_read_as_its_own_companion(tmp_path: Path) -> None:
    body = Path(__file__).parents[2] / "recordings/gemini/google/array.body.json"
    (tmp_path / "answer.json").write_bytes(body.read_bytes())
    done, other = run("decode", tmp_path / "answer.json"), run("decode", body)
    assert (done.returncode, done.stdout) == (0, other.stdout)


def test_bare_body_without_companion_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "bare").write_bytes(TEXT.read_bytes())
    assert run("decode", tmp_path / "bare").returncode == 0


def test_losses_go_to_stderr(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["transcode", str(REFUSAL), "--to", "claude", "--model", "mine"]) == 0
    out, err = capfdbinary.readouterr()
    assert err.decode() == "streamnorm: loss: refusal in block, 1 × written as text\n"
    assert b'"model":"mine"' in out


def test_dialect_and_server_default_to_those_of_the_companion(tmp_path: Path) -> None:
    companion = {"streamnorm_recording": 1, "dialect": "openai_chat", "server": "qianfan"}
    cumulative = b"".join(
        b'data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,%b"function":'
        b'{%b"arguments":%b}}]}}]}\n\n' % part
        for part in [
            (b'"id":"a",', b'"name":"f",', rb'"{\"x\""'),
            (b"", b"", rb'"{\"x\":1}"'),
        ]
    )
    (tmp_path / "a.sse").write_bytes(cumulative + b"data: [DONE]\n\n")
    (tmp_path / "a.json").write_text(json.dumps(companion))
    fragments = [
        event["partial_json"]
        for line in run("decode", tmp_path / "a.sse", "--json").stdout.splitlines()
        if (event := json.loads(line))["event"] == "json_delta"
    ]
    assert fragments == ['{"x"', ":1}"]


def test_events_are_printed_as_soon_as_they_are_known() -> None:
    first, rest = TEXT.read_bytes().split(b"\n\n", 1)
    with subprocess.Popen(
        [*COMMAND, "decode", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(first + b"\n\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"message_start")
        process.stdin.write(rest)
        process.stdin.close()
        assert process.stdout.read().splitlines()[-1].startswith(b"message_stop")
        assert process.wait(30) == 0


def test_command_does_not_wait_for_bytes_after_the_terminal() -> None:
    with subprocess.Popen(
        [*COMMAND, "transcode", "-", "--to", "anthropic"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(TEXT.read_bytes())
        process.stdin.flush()
        assert process.wait(30) == 0  # its stdin is still open


def test_closed_pipe_ends_quietly() -> None:
    with subprocess.Popen(
        [*COMMAND, "decode", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(TEXT.read_bytes())
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_interrupt_ends_quietly() -> None:
    first = TEXT.read_bytes().split(b"\n\n", 1)[0]
    with subprocess.Popen(
        [*COMMAND, "decode", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that starts the tests in its background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(first + b"\n\n")
        process.stdin.flush()
        process.stdout.readline()  # so it is running
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_full_disk_is_one_line_on_stderr() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "decode", TEXT], stdout=full, stderr=subprocess.PIPE, timeout=300
        )
    assert done.returncode == 2
    assert done.stderr == b"streamnorm: cannot write: No space left on device\n"


@pytest.mark.parametrize(("closed", "status"), [("<&-", 2), (">&-", 2)])
def test_closed_standard_stream_is_no_traceback(closed: str, status: int) -> None:
    name = "-" if closed == "<&-" else str(TEXT)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "decode", name],
        stderr=subprocess.PIPE,
        timeout=300,
    )
    assert done.returncode == status
    assert b"Traceback" not in done.stderr


NAMED_TWICE = str(RECORDINGS / "fireworks" / "id-and-name-repeated.sse")


def test_same_dialect_passes_unchanged_unless_verbatim_is_off() -> None:
    untouched = run("transcode", NAMED_TWICE, "--to", "openai_chat")
    assert untouched.stdout == Path(NAMED_TWICE).read_bytes()
    cleaned = run("transcode", NAMED_TWICE, "--to", "openai_chat", "--normalize")
    assert cleaned.returncode == 0
    assert untouched.stdout.count(b'"name"') > cleaned.stdout.count(b'"name"') == 1


def test_reasoning_and_usage_options_reach_the_encoder() -> None:
    thinking = str(RECORDINGS.parent / "anthropic" / "anthropic" / "thinking-then-text.sse")
    for field in ("reasoning_content", "reasoning", "reasoning_details"):
        out = run("transcode", thinking, "--to", "chat", "--reasoning", field).stdout
        assert f'"{field}":'.encode() in out
        assert b'"usage":' in out
    out = run("transcode", thinking, "--to", "chat", "--reasoning", "none", "--no-usage").stdout
    assert b'"reasoning' not in out
    assert b'"usage":' not in out
