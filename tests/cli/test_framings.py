"""The commands on event streams of AWS: the file's companion, or an option, says what is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked

from streamnorm.cli import main
from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.recording import RecordedResponse, Recording
from streamnorm.recording.format import Companion, RecordedRead
from streamnorm.sse import SSEDecoder

Out = pytest.CaptureFixture[str]

MESSAGES = [chunk(event) for event in EVENTS]
BODY = b"".join(MESSAGES)
NAMED = ["--framing", "invoke_chunks"]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An event stream without a companion."""
    path = tmp_path / "bare.eventstream"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """An event stream with a companion."""
    companion = Companion(
        1, "anthropic", "invoke_chunks", response=RecordedResponse(body=".eventstream")
    )
    reads = [RecordedRead(10, len(MESSAGES[0])), RecordedRead(20, len(BODY) - len(MESSAGES[0]))]
    Recording(BODY, companion, reads=reads).save(tmp_path / "recorded")
    return tmp_path / "recorded.eventstream"


def test_companion_says_the_framing(recorded: Path, capsys: Out) -> None:
    assert main(["decode", "--json", str(recorded)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["text"] for event in found if event["event"] == "text_delta"] == ["It snows."]
    assert main(["validate", str(recorded)]) == 0
    assert capsys.readouterr().out == "0 violations in 6 frames of anthropic\n"
    assert main(["decode", "--from", "anthropic", str(recorded)]) == 0


def test_option_says_the_framing(bare: Path, capsys: Out) -> None:
    assert main(["validate", *NAMED, str(bare)]) == 0
    assert capsys.readouterr().out == "0 violations in 6 frames of anthropic\n"
    named = bare.rename(bare.with_suffix(".bin"))
    assert main(["validate", *NAMED, "--from", "anthropic", str(named)]) == 0


@pytest.mark.parametrize("command", ["decode", "inspect", "validate"])
@pytest.mark.parametrize("options", [[], ["--from", "anthropic"]])
def test_event_stream_that_nothing_names_is_wrong_usage(
    command: str, options: list[str], bare: Path, capsys: Out
) -> None:
    assert main([command, *options, str(bare)]) == 2
    told = (
        f"{bare}: a file .eventstream to be read in the framing sse, expected another --framing"
        " (invoke_chunks, eventstream) or dialect"
    )
    assert capsys.readouterr() == ("", f"streamnorm: {told}\n")


def test_unknown_framing_is_wrong_usage(bare: Path, capsys: Out) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["decode", "--framing", "chunks", str(bare)])
    assert caught.value.code == 2
    told = "argument --framing: 'chunks', expected sse, invoke_chunks, eventstream, ws_message"
    assert told in capsys.readouterr().err


def test_dialect_says_the_framing(bare: Path, capsys: Out) -> None:
    assert main(["decode", "--from", "bedrock_converse", str(bare)]) != 2
    assert "expected --framing" not in capsys.readouterr().err


def test_stream_is_written_as_another_dialects(
    recorded: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["transcode", "--to", "openai_chat", str(recorded)]) == 0
    frames = SSEDecoder().feed(capfdbinary.readouterr().out)
    assert frames[-1].data == "[DONE]"
    assert main(["transcode", "--to", "anthropic", str(recorded)]) == 0
    frames = SSEDecoder().feed(capfdbinary.readouterr().out)
    assert [frame.event for frame in frames] == [event["type"] for event in EVENTS]


def test_frames_and_times_are_shown(recorded: Path, capsys: Out) -> None:
    assert main(["inspect", "--frames", "--json", str(recorded)]) == 0
    *frames, report = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(frame["event"], frame["ms"]) for frame in frames] == [
        (event["type"], 30 if n else 10) for n, event in enumerate(EVENTS)
    ]
    assert json.loads(frames[2]["data"]) == EVENTS[2]
    assert (report["dialect"], report["frames"], report["violations"]) == ("anthropic", 6, [])
    assert report["timing"]["end_ms"] == 30
    assert main(["inspect", str(recorded)]) == 0
    out = capsys.readouterr().out
    assert "It snows." in out
    assert "dialect   anthropic, framing invoke_chunks\n" in out
    assert report["framing"] == "invoke_chunks"


def test_exception_is_a_frame_and_the_outcome(bare: Path, capsys: Out) -> None:
    bare.write_bytes(MESSAGES[0] + exception("throttlingException", message="too fast"))
    assert main(["inspect", "--frames", *NAMED, str(bare)]) == 1
    out = capsys.readouterr().out
    assert "throttlingException" in out
    assert "the provider reported an error (throttlingException, 429, retryable): too fast" in out


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (2, "lengths that do not match their checksum, in the message at byte {}"),
        (40, "bytes that do not match their checksum, in the message at byte {}"),
    ],
)
def test_wrong_bytes_are_named_by_their_offset(at: int, told: str, bare: Path, capsys: Out) -> None:
    wrong = bytearray(BODY)
    wrong[len(MESSAGES[0]) + at] ^= 1
    bare.write_bytes(wrong)
    told = told.format(len(MESSAGES[0]))
    assert main(["decode", *NAMED, str(bare)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"streamnorm: malformed: {told}"
    assert main(["validate", *NAMED, str(bare)]) == 4
    assert capsys.readouterr().out.startswith(f"frame 1: {told}, expected a message\n")


def test_recordings_of_a_directory_are_exported(recorded: Path, capsys: Out) -> None:
    har = recorded.with_suffix(".har")
    assert main(["export", str(recorded.parent), "--out", str(har)]) == 0
    assert main(["import", str(har), "--out", str(recorded.parent / "again")]) == 0
    (path,) = (recorded.parent / "again").glob("*.eventstream")
    found = Recording.load(path)
    assert (found.framing, invoked(found.body).events) == (INVOKE_CHUNKS, [*EVENTS])


def test_event_stream_that_is_not_there_is_no_question_of_its_framing(capsys: Out) -> None:
    assert main(["decode", "nothing.eventstream"]) == 2
    told = "streamnorm: nothing.eventstream: No such file or directory\n"
    assert capsys.readouterr() == ("", told)


@pytest.mark.parametrize(
    ("to", "framing", "expected"),
    [
        ("openai_chat", "eventstream", "sse"),
        ("anthropic", "eventstream", "sse or invoke_chunks"),
        ("ui_message_stream", "invoke_chunks", "sse"),
        ("bedrock_converse", "sse", "eventstream"),
        ("openai_responses", "eventstream", "sse or ws_message"),
    ],
)
def test_framing_that_no_server_of_the_target_has_is_refused(
    to: str, framing: str, expected: str, bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["transcode", *NAMED, "--to", to, "--to-framing", framing, str(bare)]
    assert main(command) == 2
    out, told = capsys.readouterr()
    assert not out
    assert f"no framing of {to}, expected {expected}" in told


def test_transcode_writes_the_framing_that_is_named(
    bare: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["transcode", *NAMED, "--to", "anthropic", str(bare)]) == 0
    lines = capfdbinary.readouterr().out
    assert lines.startswith(b"event: message_start\ndata: ")
    path = tmp_path / "lines.sse"
    path.write_bytes(lines)
    chunked = ["transcode", "--to", "anthropic", "--to-framing", "invoke_chunks"]
    assert main([*chunked, str(path)]) == 0
    written = capfdbinary.readouterr().out
    assert [event["type"] for event in invoked(written).events] == [
        event["type"] for event in EVENTS
    ]
    assert main([*chunked, *NAMED, str(bare)]) == 0
    assert capfdbinary.readouterr().out == BODY
    with pytest.raises(SystemExit):
        main(["transcode", "--to", "anthropic", "--to-framing", "newer", str(bare)])
