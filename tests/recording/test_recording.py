"""A recording: its files, chunks, playback and events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from msgspec import UNSET

from streamnorm import (
    Abandoned,
    Completed,
    Failed,
    Limits,
    MessageStart,
    TextDelta,
    Truncated,
    UnknownDialect,
)
from streamnorm.recording import RecordedRequest, RecordedResponse, Recording, RecordingError
from streamnorm.recording.files import replace_file
from streamnorm.recording.format import Companion, End, RecordedRead, Step, Suffix
from streamnorm.recording.recording import load_companion

START = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n'
)
STOP = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


def recording(
    body: bytes,
    *reads: tuple[int, int],
    suffix: Suffix = ".sse",
    end: End = "eof",
    dialect: str | None = "openai_chat",
    **response: Any,
) -> Recording:
    return Recording(
        body,
        Companion(1, dialect, response=RecordedResponse(body=suffix, end=end, **response)),
        reads=[RecordedRead(*read) for read in reads] or None,
    )


def delays(found: Recording, rechunk: int | str = "recorded") -> list[float]:
    return [step.delay_s for step in found.playback(rechunk).steps]


def test_body_is_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server" / "case.sse"
    path.parent.mkdir()
    path.write_bytes(b"data: \xff\r\n\r\n")
    recording = Recording.load(str(path))
    assert recording.body == b"data: \xff\r\n\r\n"
    assert (recording.dialect, recording.server, recording.provenance) == (None, None, "recorded")
    assert str(recording) == recording.name == "server/case"


def test_companion_has_dialect_and_server(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(b"\n\n")
    (tmp_path / "a.json").write_text(
        '{"streamnorm_recording": 1, "dialect": "openai_chat", "server": "vllm",'
        ' "provenance": "written", "chunks": ["+1 2"]}'
    )
    recording = Recording.load(tmp_path / "a.sse")
    assert (recording.dialect, recording.server) == ("openai_chat", "vllm")
    assert recording.provenance == "written"


def test_expected_events_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.sse").touch()
    (tmp_path / "a.events.jsonl").write_text(
        '{"event":"message_start","id":"m"}\n{"event":"text_delta","index":0,"text":"\u2028"}\n'
    )
    expected = Recording.load(tmp_path / "a.sse").expected
    assert expected == [MessageStart("m"), TextDelta(0, "\u2028")]


def test_missing_file_is_a_recording_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.sse: No such file or directory"):
        Recording.load(tmp_path / "gone.sse")


@pytest.mark.parametrize("text", ["[]", "{", '{"streamnorm_recording": 2}', "{}"])
def test_companion_of_another_format_is_a_recording_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.sse").touch()
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RecordingError, match=r"a\.json: no companion of a recording"):
        Recording.load(tmp_path / "a.sse")


def test_missing_events_are_a_recording_error(tmp_path: Path) -> None:
    (tmp_path / "a.sse").touch()
    with pytest.raises(RecordingError, match=r"a\.events\.jsonl: No such file"):
        _ = Recording.load(tmp_path / "a.sse").expected


def test_line_that_is_no_event_is_a_recording_error(tmp_path: Path) -> None:
    (tmp_path / "a.sse").touch()
    (tmp_path / "a.events.jsonl").write_text('{"event":"unheard_of"}\n')
    with pytest.raises(RecordingError, match=r"a\.events\.jsonl: Invalid value 'unheard_of'"):
        _ = Recording.load(tmp_path / "a.sse").expected


def test_event_too_deep_to_read_is_a_recording_error(tmp_path: Path) -> None:
    (tmp_path / "a.sse").touch()
    deep = '{"event":"message_start","id":"","extra":{"a":' + "[" * 10**5
    (tmp_path / "a.events.jsonl").write_text(deep)
    with pytest.raises(RecordingError, match=r"a\.events\.jsonl: "):
        _ = Recording.load(tmp_path / "a.sse").expected


# Loading


@pytest.mark.parametrize("file", ["a", "a.json", "a.body.json"])
def test_recording_is_loaded_by_any_of_its_files(tmp_path: Path, file: str) -> None:
    (tmp_path / "a.body.json").write_bytes(b"[]")
    (tmp_path / "a.json").write_text(
        '{"streamnorm_recording": 1, "response": {"status": 404, "body": ".body.json"}}'
    )
    found = Recording.load(tmp_path / file)
    assert (found.body, found.path) == (b"[]", tmp_path / "a.body.json")
    assert (found.response.status, found.is_stream) == (404, False)
    assert load_companion(tmp_path / file).response.status == 404


@pytest.mark.parametrize("suffix", [".sse", ".body.json", ".body.bin"])
def test_body_without_a_companion_is_read_by_its_suffix(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(b"{}")
    found = Recording.load(tmp_path / f"a{suffix}")
    assert (found.body, found.response.body) == (b"{}", suffix)
    assert load_companion(tmp_path / f"a{suffix}").response.body == suffix


def test_companion_of_another_body_is_a_recording_error(tmp_path: Path) -> None:
    (tmp_path / "a.body.bin").touch()
    (tmp_path / "a.json").write_text('{"streamnorm_recording": 1}')
    with pytest.raises(RecordingError, match=r"a\.json: its body is \.sse, not \.body\.bin"):
        Recording.load(tmp_path / "a.body.bin")


@pytest.mark.parametrize(
    ("size", "body", "why"),
    [
        (4, b"12345", '5; a body that was edited has no "chunks"'),
        (4, b"", '0; a body that was edited has no "chunks"'),
        (4, b"a\r\nb\r\n", "6, as its line ends became CR LF"),
        (6, b"a\nb\n", "4, as its line ends became LF"),
        (5, b"a\r\nb\r\n", '6; a body that was edited has no "chunks"'),
    ],
)
def test_reads_that_are_not_the_body_are_a_recording_error(
    tmp_path: Path, size: int, body: bytes, why: str
) -> None:
    (tmp_path / "a.sse").write_bytes(body)
    (tmp_path / "a.json").write_text(f'{{"streamnorm_recording": 1, "chunks": ["+1 {size}"]}}')
    with pytest.raises(RecordingError) as caught:
        Recording.load(tmp_path / "a.sse")
    expected = f"{tmp_path / 'a.json'}: chunks of {size} bytes, {tmp_path / 'a.sse'} has {why}"
    assert str(caught.value) == expected


def test_companion_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors on Windows write one, and JSON parsers may ignore it (RFC 8259, section 8.1)."""
    (tmp_path / "a.sse").write_bytes(b"data: 1\n\n")
    content = b'\xef\xbb\xbf{\r\n"streamnorm_recording": 1, "server": "mine"\r\n}\r\n'
    (tmp_path / "a.json").write_bytes(content)
    assert Recording.load(tmp_path / "a.sse").server == "mine"


def test_files_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(b"12345")
    companion = tmp_path / "a.json"
    companion.write_text('{"streamnorm_recording": 1}')
    size = companion.stat().st_size
    limits = Limits(max_recording_bytes=5, max_companion_bytes=size)
    assert Recording.load(tmp_path / "a.sse", limits=limits).body == b"12345"
    with pytest.raises(RecordingError, match=r"a\.sse: 5 bytes, expected at most 4"):
        Recording.load(tmp_path / "a.sse", limits=Limits(max_recording_bytes=4))
    with pytest.raises(
        RecordingError, match=rf"a\.json: {size} bytes, expected at most {size - 1}$"
    ):
        Recording.load(tmp_path / "a.sse", limits=Limits(max_companion_bytes=size - 1))


# Saving


def test_saved_recording_is_loaded_as_it_was(tmp_path: Path) -> None:
    request = RecordedRequest("POST", "https://api.example-models.com/v1", {"a": "b"}, {"n": [1]})
    response = RecordedResponse(201, {"content-type": "text/event-stream"}, ".sse", "reset")
    companion = Companion(1, "openai_chat", UNSET, "vllm", "written", request, response, 3)
    saved = Recording(
        START, companion, reads=[RecordedRead(5, 10), RecordedRead(6, len(START) - 10)]
    )
    saved.save(tmp_path / "new" / "folder" / "a")
    assert saved.path == tmp_path / "new" / "folder" / "a.sse"
    found = Recording.load(saved.path)
    assert (found.body, found.reads) == (START, saved.reads)
    assert (found.request, found.response, found.redacted) == (request, response, 3)
    assert (found.dialect, found.server, found.provenance) == ("openai_chat", "vllm", "written")
    assert sorted(path.name for path in saved.path.parent.iterdir()) == ["a.json", "a.sse"]


def test_same_recording_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        recording(START, (5, len(START))).save(tmp_path / f"{name}.sse")
    again = Recording.load(tmp_path / "b.sse")
    again.save()
    for suffix in (".sse", ".json"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_suffix_of_a_saved_file_is_that_of_its_body(tmp_path: Path) -> None:
    found = recording(b"{}", suffix=".body.json")
    found.save(tmp_path / "a.sse")
    assert found.path == tmp_path / "a.body.json"
    assert not (tmp_path / "a.sse").exists()


def test_timing_is_preserved_for_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    recording(b"12345", (7, 2), (8, 3)).save(path)
    recording(b"12345", (1, 5)).save(path)
    assert Recording.load(path).reads == [RecordedRead(7, 2), RecordedRead(8, 3)]
    recording(b"12346", (1, 5)).save(path)
    assert Recording.load(path).reads == [RecordedRead(1, 5)]


def test_timing_of_a_recording_that_was_loaded_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    recording(b"12345", (7, 5)).save(path)
    found = Recording.load(path)
    found.reads = [RecordedRead(1, 5)]
    found.save()
    assert Recording.load(path).reads == [RecordedRead(1, 5)]


def test_damaged_recording_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    path.write_bytes(b"12345")
    (tmp_path / "a.json").write_text("{")
    recording(b"12345", (1, 5)).save(path)
    assert Recording.load(path).reads == [RecordedRead(1, 5)]


def test_failed_save_is_a_recording_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match=r"file/a\.sse: "):
        recording(b"").save(tmp_path / "file" / "a.sse")
    with pytest.raises(RecordingError, match="without a path"):
        recording(b"").save()
    with pytest.raises(RecordingError, match="without a path"):
        _ = recording(b"").expected


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    path.write_bytes(b"before")

    def fail(out: BinaryIO) -> None:
        out.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(path, fail)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]
    replace_file(path, lambda out: out.write(b"after"))
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"after"]


@pytest.mark.parametrize("name", ["a.sse", "a.json"])
def test_saved_file_replaces_a_link_and_not_its_target(tmp_path: Path, name: str) -> None:
    """A link in a directory of recordings does not choose another file that is overwritten."""
    target = tmp_path / "target"
    target.write_bytes(b"before")
    (tmp_path / name).symlink_to(target)
    recording(b"data: 1\n\n").save(tmp_path / "a.sse")
    assert target.read_bytes() == b"before"
    assert not (tmp_path / name).is_symlink()
    assert Recording.load(tmp_path / "a.sse").body == b"data: 1\n\n"


@pytest.mark.parametrize("name", ["a.sse", "a.json"])
def test_saved_file_replaces_a_fifo(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    recording(b"data: 1\n\n").save(tmp_path / "a.sse")
    assert Recording.load(tmp_path / "a.sse").body == b"data: 1\n\n"


# Playing


@pytest.mark.parametrize(
    ("rechunk", "steps"),
    [
        ("recorded", [(0.1, b"data"), (0.05, b": a\n\nd"), (2.0, b":\n\n")]),
        # A piece is there when its last byte is.
        ("event", [(0.15, b"data: a\n\n"), (2.0, b"d:\n\n")]),
        (3, [(0.1, b"dat"), (0.05, b"a: "), (0, b"a\n\n"), (2.0, b"d:\n"), (0, b"\n")]),
        (4, [(0.1, b"data"), (0.05, b": a\n"), (2.0, b"\nd:\n"), (0, b"\n")]),
        (99, [(2.15, b"data: a\n\nd:\n\n")]),
    ],
)
def test_chunks_have_the_time_of_their_reads(
    rechunk: int | str, steps: list[tuple[float, bytes]]
) -> None:
    found = recording(b"data: a\n\nd:\n\n", (100, 4), (50, 6), (2000, 3))
    played = found.playback(rechunk)
    assert [step.data for step in played.steps] == [data for _, data in steps]
    assert delays(found, rechunk) == pytest.approx([delay for delay, _ in steps])
    assert found.chunks(rechunk) == [data for _, data in steps]


def test_empty_read_keeps_its_delay() -> None:
    found = recording(b"ab", (100, 1), (50, 0), (10, 1))
    assert sum(delays(found)) == pytest.approx(0.16)
    assert delays(found, "byte") == pytest.approx([0.1, 0.06])


def test_recording_without_reads_is_played_by_events_without_delay() -> None:
    found = recording(START + DONE)
    assert found.playback().steps == (Step(0, START), Step(0, DONE))


@pytest.mark.parametrize("rechunk", ["recorded", "event"])
def test_body_that_is_no_stream_is_one_chunk(rechunk: str) -> None:
    document = b'{\n\n"a": 1}'
    assert recording(document, suffix=".body.json").chunks(rechunk) == [document]
    assert recording(document, suffix=".body.json").chunks("byte")[:2] == [b"{", b"\n"]
    assert recording(b"", suffix=".body.bin").chunks(rechunk) == []
    assert recording(b"ab", (1, 1), (2, 1), suffix=".body.bin").chunks() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("suffix", "headers", "told"),
    [
        (".sse", {}, {"content-type": "text/event-stream"}),
        (".body.json", {}, {"content-type": "application/json"}),
        (".body.bin", {}, {}),
        (".sse", {"x-request-id": "r"}, {"x-request-id": "r"}),
    ],
)
def test_headers_default_to_those_of_the_body_kind(
    suffix: Suffix, headers: dict[str, str], told: dict[str, str]
) -> None:
    played = recording(b"{}", suffix=suffix, status=418, headers=headers).playback()
    assert (played.status, played.headers, played.dialect) == (418, told, "openai_chat")


@pytest.mark.parametrize("left", ["aborted", "incomplete"])
@pytest.mark.parametrize(
    ("body", "dialect", "suffix", "end"),
    [
        (START + STOP + DONE, "openai_chat", ".sse", "eof"),
        (START + STOP + DONE, None, ".sse", "eof"),
        (START + STOP, "openai_chat", ".sse", "reset"),  # more could have followed
        (START, "openai_chat", ".sse", "reset"),
        (b"", None, ".sse", "reset"),
        (START + STOP + DONE, "no_such_dialect", ".sse", "reset"),
        (b'{"error":{"message":"no"}}', "openai_chat", ".body.json", "reset"),
        (b'{"a":' + b" " * 2**16, "openai_chat", ".body.json", "reset"),  # long, but half
    ],
)
def test_incomplete_recording_breaks_unless_its_message_is_complete(
    left: End, body: bytes, dialect: str | None, suffix: Suffix, end: str
) -> None:
    assert recording(body, dialect=dialect, suffix=suffix, end=left).playback().end == end


@pytest.mark.parametrize("end", ["eof", "reset", "timeout"])
def test_connection_ends_as_recorded(end: End) -> None:
    assert recording(START + STOP + DONE, end=end).playback().end == end


# Decoding


@pytest.mark.parametrize(
    ("body", "end", "outcome", "kind"),
    [
        (START + STOP + DONE, "eof", Completed, None),
        (START + STOP + DONE, "reset", Completed, None),
        (START + STOP + DONE, "aborted", Completed, None),
        (START + STOP, "eof", Completed, None),
        (START + STOP, "reset", Truncated, "transport"),
        (START, "eof", Truncated, "truncated"),
        (START, "timeout", Truncated, "stalled"),
        (START, "aborted", Abandoned, None),
        (START, "incomplete", Abandoned, None),
        (b'data: {"error":{"message":"no"}}\n\n', "aborted", Failed, "upstream"),
    ],
)
def test_outcome_knows_how_the_connection_ended(
    body: bytes, end: End, outcome: type, kind: str | None
) -> None:
    found = recording(body, end=end)
    assert type(found.outcome) is outcome
    if isinstance(found.outcome, Truncated | Failed):
        assert found.outcome.error.kind == kind
        assert found.events()[-1] == found.outcome.error


def test_events_are_a_new_list_each_time() -> None:
    found = recording(START + STOP + DONE)
    assert found.message().text == "Hi"
    found.events().clear()
    assert found.message().text == "Hi"


def test_unknown_dialect_raises_when_events_are_read() -> None:
    found = recording(START, dialect="no_such_dialect")
    assert found.playback().body == START
    for read in (found.events, found.message, lambda: found.outcome):
        with pytest.raises(UnknownDialect):
            read()


def test_recording_without_a_path_has_a_name(tmp_path: Path) -> None:
    found = recording(b"")
    assert str(found) == "recording"
    found.save(tmp_path / "server" / "a.b")
    assert str(found) == "server/a.b"
