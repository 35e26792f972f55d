"""Files in a directory of recordings that are no recording, or a broken one."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli.servers import provider
from support.http.raw_http import raw_exchange

from streamnorm.asgi import ReplayApp
from streamnorm.recording import Recording, RecordingError
from streamnorm.recording.importing import export_har, import_file
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder
from streamnorm.recording.recording import load_companion

BODY = b"data: 1\n\n"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)


SPECIAL = pytest.mark.parametrize("make", [fifo, device, unix_socket])


@pytest.fixture(autouse=True)
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short


@SPECIAL
@pytest.mark.parametrize("name", ["a.sse", "a.body.json", "a.body.bin", "a.json"])
def test_file_that_is_not_regular_is_refused(
    make: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    make(path)
    if name == "a.json":
        (tmp_path / "a.sse").write_bytes(BODY)
    message = f"{path}: not a regular file"
    for load in (Recording.load, Library, lambda _: Library(tmp_path)):
        with pytest.raises(RecordingError) as caught:
            load(path)
        assert str(caught.value) == message


@SPECIAL
def test_companion_that_is_not_regular_is_refused(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "a.json")
    (tmp_path / "a.sse").write_bytes(BODY)
    with pytest.raises(RecordingError, match="not a regular file"):
        load_companion(tmp_path / "a.sse")
    with pytest.raises(RecordingError, match="not a regular file"):
        Recording.load(tmp_path / "a.sse")


@SPECIAL
def test_expected_events_that_are_not_regular_are_refused(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "a.events.jsonl")
    (tmp_path / "a.sse").write_bytes(BODY)
    with pytest.raises(RecordingError, match="not a regular file"):
        _ = Recording.load(tmp_path / "a.sse").expected


def test_links_are_followed_and_lead_somewhere(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)
    (tmp_path / "a.sse").symlink_to("body")
    assert Recording.load(tmp_path / "a.sse").body == BODY
    (tmp_path / "a.json").symlink_to("gone")
    with pytest.raises(RecordingError, match=r"a\.json: No such file or directory$"):
        Recording.load(tmp_path / "a.sse")


def test_size_is_checked_before_the_file_is_read(tmp_path: Path) -> None:
    """The files are sparse: neither could be read into memory."""
    for name in ("a.sse", "b.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**42)
    (tmp_path / "b.sse").write_bytes(BODY)
    for name in ("a", "b"):
        with pytest.raises(RecordingError, match=r": 4398046511104 bytes, expected at most "):
            Recording.load(tmp_path / f"{name}.sse")


@pytest.mark.parametrize("path", ["a\0.sse", "a\0/b.sse", "a\0", "\ud800.sse"])
def test_path_that_no_file_can_have_is_refused(path: str, tmp_path: Path) -> None:
    """A path has no NUL, and no surrogate that stands for no byte."""
    har = tmp_path / "a.har"
    export_har([], har)
    uses: list[Callable[[], object]] = [
        *(lambda: Recording.load(path), lambda: Library(path), lambda: Recorder(path)),
        *(lambda: Recording(BODY).save(path), lambda: export_har([], path)),
        *(lambda: import_file(path, tmp_path), lambda: import_file(har, path)),
    ]
    for use in uses:
        with pytest.raises(RecordingError) as caught:
            use()
        assert str(caught.value) == f"{path!r}: a path that no file can have"


@pytest.mark.parametrize("status", [204, 304])
def test_body_of_a_status_without_one_is_refused(status: int, tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)
    companion = {"streamnorm_recording": 1, "response": {"status": status}}
    (tmp_path / "a.json").write_text(json.dumps(companion))
    with pytest.raises(RecordingError, match=f"a.sse: 9 bytes of a status {status}, expected none"):
        Recording.load(tmp_path / "a.sse")
    (tmp_path / "a.sse").write_bytes(b"")
    with provider(ReplayApp(tmp_path)) as url:
        request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        assert raw_exchange(url, request).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("status", [200, 599])
def test_accepted_status_and_headers_can_be_sent(status: int, tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)
    headers = {"Content-Type": "text/plain; x=\u20ac", "retry-after": "", "content-length": "3"}
    response = {"status": status, "headers": headers}
    companion = {"streamnorm_recording": 1, "response": response}
    (tmp_path / "a.json").write_text(json.dumps(companion))
    with provider(ReplayApp(tmp_path)) as url:
        received = raw_exchange(url, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: text/plain; x=\xe2\x82\xac" in head.split(b"\r\n")
    assert body == b"9\r\n" + BODY + b"\r\n0\r\n\r\n"
