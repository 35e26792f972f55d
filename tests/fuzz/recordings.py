"""Recordings: files that anybody wrote are refused by a `RecordingError`, or replayed and saved.

What can be loaded has chunks that are its body, in any cut, and is saved as a recording that loads
as the same.  What is imported (cassettes of JSON and YAML, HAR files, WebSocket transcripts) is
saved as recordings that load, and names no recording outside its folder.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

from support.streams.corpus import recordings

from streamnorm import UnknownDialect
from streamnorm.recording import Recording, RecordingError
from streamnorm.recording.importing import export_har, import_file

MAX_BYTES = 8192

_ROOT = Path(__file__).parents[1]
_SUFFIXES = (".sse", ".eventstream", ".ws.jsonl", ".body.json", ".body.bin")
_IMPORTED = ("cassette.json", "cassette.yaml", "archive.har", "transcript.jsonl")
# Divides a companion from its body.
_BODY = b"\n\f\n"
_REQUEST = {"method": "POST", "uri": "https://h/v1/messages", "headers": {}, "body": "{}"}
_RESPONSE = {
    "status": {"code": 200, "message": "OK"},
    "headers": {"content-type": ["text/event-stream"], "content-encoding": ["gzip"]},
    "body": {"string": "data: {}\n\n"},
}
_TRANSCRIPT = b"""\
{"at": "handshake", "method": "GET", "path": "/v1/responses", "headers": {"a": "b"}, "status": 101}
{"at": "client", "data": {"type": "response.create", "model": "m", "input": "Hi."}}
{"at": "server", "data": {"type": "response.created", "response": {"id": "r"}}}
{"at": "close", "by": "server", "code": 1011, "reason": ""}
"""


def samples() -> list[bytes]:
    """Return companions with their bodies, cassettes and archives."""
    found = []
    kept = recordings("openai_chat", "anthropic", "openai_responses")[::9]
    for each in kept:
        if each.path is not None and each.path.name.endswith(".sse"):
            companion = each.path.with_suffix(".json")
            if companion.exists():
                found.append(b"\0" + companion.read_bytes() + _BODY + each.body)
    first = len(_SUFFIXES)
    found.append(bytes([first + 1]) + (_ROOT / "data/vcrpy_weather.yaml").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(kept):
            file = Path(folder, f"{number}.har")
            export_har([each], file)
            found.append(bytes([first + 2]) + file.read_bytes())
    interactions = [{"request": _REQUEST, "response": _RESPONSE}]
    cassette = json.dumps({"version": 1, "interactions": interactions})
    found.append(bytes([first]) + cassette.encode())
    found.append(bytes([first + 3]) + _TRANSCRIPT)
    return [data for data in found if len(data) < MAX_BYTES]


def check(data: bytes) -> None:
    """Load or import a file; the first byte is the kind of file."""
    if not data:
        return
    kind, content = data[0] % (len(_SUFFIXES) + len(_IMPORTED)), data[1:]
    with tempfile.TemporaryDirectory() as folder, suppress(RecordingError):
        if kind < len(_SUFFIXES):
            companion, _, body = content.partition(_BODY)
            _check_recording(Path(folder), _SUFFIXES[kind], companion, body)
        else:
            _check_import(Path(folder), _IMPORTED[kind - len(_SUFFIXES)], content)


def _check_recording(folder: Path, suffix: str, companion: bytes, body: bytes) -> None:
    file = folder / f"a{suffix}"
    file.write_bytes(body)
    (folder / "a.json").write_bytes(companion)
    loaded = Recording.load(file)
    for how in ("recorded", "event", "hostile", "random:1"):
        assert b"".join(loaded.chunks(how)) == body, f"other bytes in chunks of {how}"
    (folder / "saved").mkdir()
    loaded.save(folder / "saved" / file.name)
    again = Recording.load(folder / "saved" / file.name)
    assert _parts(again) == _parts(loaded), "another recording is loaded than was saved"
    if loaded.dialect is not None and suffix in _SUFFIXES[:3]:
        with suppress(UnknownDialect):
            loaded.events()


def _check_import(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    target = folder / "imported"
    target.mkdir()
    try:
        found = import_file(folder / name, target)
    except RecordingError:
        assert not [*target.iterdir()], "an import that failed has written"
        raise
    files = {path for path in folder.rglob("*") if path.is_file()} - {folder / name}
    assert all(path.parent == target for path in files), "a file outside the folder"
    for each in found:
        assert each.path is not None
        try:
            again = Recording.load(each.path)
        except RecordingError as exc:
            raise AssertionError(f"an import does not load: {exc}") from exc
        assert _parts(again) == _parts(each), "another recording is loaded than was imported"


def _parts(recording: Recording) -> tuple[object, ...]:
    return (
        *(recording.body, recording.dialect, recording.server, recording.request),
        *(recording.response, recording.framing, recording.reads, recording.redacted),
    )
