"""The files of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamnorm import MessageStart, Recording, RecordingError, TextDelta


def test_body_is_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server" / "case.sse"
    path.parent.mkdir()
    path.write_bytes(b"data: \xff\r\n\r\n")
    recording = Recording.load(str(path))
    assert recording.body == b"data: \xff\r\n\r\n"
    assert (recording.dialect, recording.server, recording.provenance) == (None, None, "recorded")
    assert str(recording) == recording.name == "server/case"


def test_companion_tells_dialect_and_server(tmp_path: Path) -> None:
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
