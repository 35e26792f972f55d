"""`import_file`: detection of the format, redaction, and the files written."""

from __future__ import annotations

import base64
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnorm._core.limits import Limits
from streamnorm.recording import Recording, RecordingError, importing
from streamnorm.recording.importing import import_file

URL = "https://api.anthropic.com/v1/messages"
BODY = 'event: ping\ndata: {"type": "ping"}\n\n'
SECRETS = {
    "bearer": "canary-bearer-5e1f",
    "x-api-key": "canary-apikey-77b2",
    "cookie": "canary-cookie-90aa",
    "key": "canary/query+6c3d",
}


def har(url: str = URL, body: str = BODY, **more: Any) -> dict[str, Any]:
    request = {"method": "POST", "url": url, "headers": more.get("headers", [])}
    request["postData"] = {"mimeType": "application/json", "text": more.get("asked", "{}")}
    kind = more.get("kind", "text/event-stream")
    content = {"size": len(body), "mimeType": kind, "text": body}
    response = {"status": 200, "headers": more.get("answered", []), "content": content}
    return {"log": {"version": "1.2", "entries": [{"request": request, "response": response}]}}


def cassette(url: str = URL, body: str = BODY, **more: Any) -> dict[str, Any]:
    def lists(pairs: list[dict[str, str]]) -> dict[str, list[str]]:
        return {pair["name"]: [pair["value"]] for pair in pairs}

    answered = lists(more.get("answered", [])) | {
        "content-type": [more.get("kind", "text/event-stream")]
    }
    asked = {"content-type": ["application/json"]} | lists(more.get("headers", []))
    request = {"method": "POST", "uri": url, "headers": asked}
    request["body"] = more.get("asked", "{}")
    response = {"status": {"code": 200}, "headers": answered, "body": {"string": body}}
    return {"version": 1, "interactions": [{"request": request, "response": response}]}


def cassetter(url: str = URL, body: str = BODY, **more: Any) -> dict[str, Any]:
    made = cassette(url, body, **more)
    exchange = made["interactions"][0]
    content = json.loads(exchange["request"]["body"])
    exchange["request"]["body"] = {"type": "json", "content": content}
    exchange["response"].update(status=200, body={"type": "text", "content": body})
    return made


FORMATS = {
    "a.har": har,
    "b.json": cassette,
    "c.yaml": cassette,  # JSON is YAML
    "d.yml": cassetter,
}


@pytest.fixture(params=FORMATS.items(), ids=lambda pair: pair[0])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    name, make = request.param

    def write(**told: Any) -> Path:
        path = tmp_path / str(name)
        path.write_text(json.dumps(make(**told)))
        return path

    return write


def test_every_format_gives_the_same_recording(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    (recording,) = import_file(str(written(asked='{"n": [1]}')), str(tmp_path / "out"))
    assert recording.path == tmp_path / "out" / "01-messages.sse"
    assert recording.path.read_bytes() == BODY.encode()
    assert json.loads((tmp_path / "out" / "01-messages.json").read_bytes()) == {
        "streamnorm_recording": 1,
        "dialect": "anthropic",
        "server": "anthropic",
        "provenance": "recorded",
        "request": {
            "method": "POST",
            "url": URL,
            "headers": {"content-type": "application/json"},
            "body": {"n": [1]},
        },
        "response": {
            "status": 200,
            "headers": {"content-type": "text/event-stream"},
            "body": ".sse",
            "end": "eof",
        },
        "redacted": 0,
    }


def test_same_file_gives_the_same_bytes(written: Callable[..., Path], tmp_path: Path) -> None:
    path = written()
    for name in ("one", "two"):
        import_file(path, tmp_path / name)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_secrets_are_in_no_file(written: Callable[..., Path], tmp_path: Path) -> None:
    echoed = " ".join(SECRETS.values())
    key = quote(SECRETS["key"], "")
    path = written(
        url=f"https://user:{SECRETS['bearer']}@h.example/v1/messages?key={key}",
        headers=[
            {"name": "Authorization", "value": f"Bearer {SECRETS['bearer']}"},
            {"name": "X-Api-Key", "value": SECRETS["x-api-key"]},
            {"name": "Cookie", "value": f"session={SECRETS['cookie']}"},
        ],
        asked=json.dumps({"metadata": echoed}),
        answered=[
            {"name": "Set-Cookie", "value": f"session={SECRETS['cookie']}"},
            {"name": "X-Request-Id", "value": SECRETS["x-api-key"]},
        ],
        body=f'data: {{"error": "{echoed}"}}\n\n',
    )
    (recording,) = import_file(path, tmp_path / "out")
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())
    for secret in SECRETS.values():
        for form in (secret, quote(secret, ""), base64.b64encode(secret.encode()).decode()):
            assert form.encode() not in everything
    assert recording.redacted > 0
    assert len(recording.body) == len(f'data: {{"error": "{echoed}"}}\n\n')


@pytest.mark.parametrize(
    "asked", [{"body": {"echo": SECRETS["bearer"]}}, {"text": f"echo {SECRETS['bearer']}"}]
)
def test_secrets_added_to_an_export_are_in_no_file(asked: dict[str, Any], tmp_path: Path) -> None:
    made = har(body=f"data: {SECRETS['bearer']}\n\n")
    made["log"]["entries"][0]["_streamnorm"] = {
        "streamnorm_recording": 1,
        "request": {
            "method": "POST",
            "url": URL + "?key=" + SECRETS["bearer"],
            "headers": {"authorization": "Bearer " + SECRETS["bearer"]},
            **asked,
        },
        "response": {
            "status": 200,
            "headers": {"set-cookie": SECRETS["cookie"]},
            "body": ".sse",
            "end": "eof",
        },
        "redacted": 100,
    }
    (tmp_path / "a.har").write_text(json.dumps(made))
    (recording,) = import_file(tmp_path / "a.har", tmp_path / "out")
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())
    assert b"canary" not in everything
    assert recording.body == b"data: " + b"x" * len(SECRETS["bearer"]) + b"\n\n"
    assert recording.redacted > 100


def test_numbers_follow_those_of_existing_recordings(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    (directory / "07-messages.sse").write_bytes(b"mine")
    for number, body in (("08", BODY), ("09", BODY + BODY)):
        (recording,) = import_file(written(body=body), directory)
        assert recording.path == directory / f"{number}-messages.sse"
    assert (directory / "07-messages.sse").read_bytes() == b"mine"
    assert len(list(directory.iterdir())) == 5


def test_second_import_writes_no_copies(written: Callable[..., Path], tmp_path: Path) -> None:
    path, directory = written(asked='{"n": [1, 2.5, "é"]}'), tmp_path / "out"
    made = json.loads(path.read_text())
    exchanges = made["log"]["entries"] if "log" in made else made["interactions"]
    exchanges *= 2  # asked twice, and answered the same
    path.write_text(json.dumps(made))
    names = [recording.path for recording in import_file(path, directory)]
    assert names == [directory / "01-messages.sse", directory / "02-messages.sse"]
    files = {file: file.read_bytes() for file in directory.iterdir()}
    present: list[Recording] = []
    again = import_file(path, directory, on_present=present.append)
    assert [recording.path for recording in again] == names
    assert present == again
    assert {file: file.read_bytes() for file in directory.iterdir()} == files


def test_exchange_that_differs_from_a_recording_is_imported(tmp_path: Path) -> None:
    path, directory = tmp_path / "a.har", tmp_path / "out"
    for n, more in enumerate([{}, {"asked": '{"a":1}'}, {"url": URL + "?beta=true"}], 1):
        path.write_text(json.dumps(har(**more)))
        import_file(path, directory)
        assert len(list(directory.glob("*.sse"))) == n
    (directory / "01-messages.json").write_text("damaged")
    path.write_text(json.dumps(har()))
    (recording,) = import_file(path, directory)
    assert recording.path == directory / "04-messages.sse"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"words",
        b"[]",
        b"{}",
        b"- request: {}",  # a cassette before version 1
        b"entries: []",
        b'{"version": 1}',
        BODY.encode(),
    ],
)
def test_file_of_unknown_format_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(RecordingError, match=r"a\.txt: (?:neither a cassette|no YAML)"):
        import_file(tmp_path / "a.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'{"log": ', "no JSON in 8 characters"),
        (b'{"log": "\xff"}', "no UTF-8"),
        (b'{"log": ' + b"[" * 1000 + b"]" * 1000 + b"}", "nested deeper than 144"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper than 144|no JSON"),
        (b'{"log": {"entries": ' + b"9" * 5000 + b"}}", "no JSON"),
    ],
)
def test_json_that_is_damaged_is_refused(data: bytes, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "a.har").write_bytes(data)
    with pytest.raises(RecordingError, match=rf"a\.har: (?:{wrong})"):
        import_file(tmp_path / "a.har", tmp_path / "out")


def test_har_must_be_json_not_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(json.dumps(har()))
    with pytest.raises(RecordingError, match=r"a\.yaml: neither a cassette"):
        import_file(tmp_path / "a.yaml", tmp_path / "out")


def test_byte_order_mark_and_blank_lines_before_json_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_bytes(b"\xef\xbb\xbf\r\n " + json.dumps(har()).encode())
    assert len(import_file(tmp_path / "a.har", tmp_path / "out")) == 1


def test_missing_file_is_a_recording_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.har: No such file"):
        import_file(tmp_path / "gone.har", tmp_path)


def test_size_of_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(har())
    (tmp_path / "a.har").write_text(text)
    for max_bytes, passes in ((len(text), True), (len(text) - 1, False)):
        limits = Limits(max_companion_bytes=max_bytes)
        monkeypatch.setattr(importing, "_LIMITS", limits)
        if passes:
            assert import_file(tmp_path / "a.har", tmp_path / "out")
            continue
        with pytest.raises(RecordingError, match=f"expected at most {max_bytes}$"):
            import_file(tmp_path / "a.har", tmp_path / "out")


def test_size_of_all_bodies_together_is_bounded(
    written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(body="data: 12\n\n")
    made = json.loads(path.read_text())
    exchanges = made["log"]["entries"] if "log" in made else made["interactions"]
    exchanges *= 3
    path.write_text(json.dumps(made))
    monkeypatch.setattr(importing, "_LIMITS", Limits(max_recording_bytes=30))
    assert len(import_file(path, tmp_path / "one")) == 3
    monkeypatch.setattr(importing, "_LIMITS", Limits(max_recording_bytes=29))
    with pytest.raises(RecordingError, match=r"\[2\]: bodies (?:of more|that are too large)"):
        import_file(path, tmp_path / "two")
    assert not (tmp_path / "two").exists()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or object within a value, with each of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


@settings(max_examples=30)  # each writes files
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_any_value_anywhere_is_imported_or_refused(name: str, data: st.DataObject) -> None:
    made = FORMATS[name](headers=[{"name": "accept", "value": "*/*"}])
    holder, key = data.draw(st.sampled_from(list(places(made))))
    holder[key] = data.draw(VALUES)
    with TemporaryDirectory() as folder:
        path, out = Path(folder, name), Path(folder, "out")
        path.write_text(json.dumps(made))
        try:
            import_file(path, out)
        except RecordingError:
            assert not out.exists()


@settings(max_examples=30)  # each writes files
@given(st.sampled_from(["a.yaml", "a.json"]), st.binary())
def test_any_bytes_are_refused(name: str, data: bytes) -> None:
    with TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(data)
        with pytest.raises(RecordingError):
            import_file(Path(folder, name), Path(folder, "out"))


def test_failed_write_leaves_no_recording_behind(tmp_path: Path) -> None:
    made = har()
    made["log"]["entries"] += har(body="data: x\n\n" * 20_000)["log"]["entries"]
    (tmp_path / "a.har").write_text(json.dumps(made))
    out = tmp_path / "out"
    out.mkdir()
    (out / "01-messages.sse").write_bytes(b"mine")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # a disk that fills up
    try:
        with pytest.raises(RecordingError, match=r"03-messages\.sse: File too large"):
            import_file(tmp_path / "a.har", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(path.name, path.read_bytes()) for path in out.iterdir()] == [
        ("01-messages.sse", b"mine")
    ]
