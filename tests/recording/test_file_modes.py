"""The files of a recording are for their owner only, from their creation on."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamnorm.recording import Recording
from streamnorm.recording.format import WireRequest
from streamnorm.recording.importing import export_har
from streamnorm.recording.recorder import Recorder


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


def test_files_of_a_recorder(tmp_path: Path) -> None:
    writer = Recorder(tmp_path).start(WireRequest("POST", "https://a.example/v1/messages"))
    # A process that was killed may have left one.
    (tmp_path / "01-messages.sse.part").touch(0o666)
    writer.begin(200, [])
    assert modes(tmp_path) == {"01-messages.json": 0o600, "01-messages.sse.part": 0o600}
    writer.write(b"data: 1\n\n")
    writer.end("eof")
    assert modes(tmp_path) == {"01-messages.json": 0o600, "01-messages.sse": 0o600}


def test_files_that_replace_others(tmp_path: Path) -> None:
    (tmp_path / "a.sse").touch(0o666)
    Recording(b"data: 1\n\n").save(tmp_path / "a.sse")
    assert modes(tmp_path) == {"a.sse": 0o600, "a.json": 0o600}


def test_exported_file(tmp_path: Path) -> None:
    export_har([Recording(b"data: 1\n\n")], tmp_path / "a.har")
    assert modes(tmp_path) == {"a.har": 0o600}
