"""`streamnorm import` and `streamnorm export`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.http.asgi_client import CHUNKS

from streamnorm.cli import main
from streamnorm.recording import RecordedRequest, Recording
from streamnorm.recording.format import Companion

BODY = b"".join(CHUNKS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Hold two recordings."""
    out = tmp_path / "recorded"
    out.mkdir()
    for name in ("01-a", "02-b"):
        request = RecordedRequest("POST", f"https://api.example/{name}", {}, {"model": "m"})
        Recording(BODY, Companion(1, request=request)).save(out / f"{name}.sse")
    return out


def urls(har: Path) -> list[str]:
    return [entry["request"]["url"] for entry in json.loads(har.read_bytes())["log"]["entries"]]


def test_export_writes_all_recordings_in_order(
    directory: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    har = tmp_path / "all.har"
    assert main(["export", str(directory / "02-b.sse"), str(directory), "--out", str(har)]) == 0
    assert urls(har) == [f"https://api.example/{name}" for name in ("02-b", "01-a", "02-b")]
    assert capfdbinary.readouterr() == (f"{har}\n".encode(), b"")


def test_import_writes_recordings_and_prints_their_names(
    directory: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    har, out = tmp_path / "all.har", tmp_path / "imported"
    assert main(["export", str(directory), "--out", str(har)]) == 0
    capfdbinary.readouterr()
    assert main(["import", str(har), "--out", str(out)]) == 0
    told, complaints = capfdbinary.readouterr()
    paths = [Path(line) for line in told.decode().splitlines()]
    assert [path.parent for path in paths] == [out, out]
    assert [Recording.load(path).body for path in paths] == [BODY, BODY]
    assert complaints == b""


def test_second_import_writes_nothing_and_says_so(
    directory: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    har, out = tmp_path / "all.har", tmp_path / "imported"
    assert main(["export", str(directory), "--out", str(har)]) == 0
    capfdbinary.readouterr()
    for complaints in (b"", f"already in {out}: 2 of 2\n".encode()):
        assert main(["import", str(har), "--out", str(out)]) == 0
        told = capfdbinary.readouterr()
        assert told == (f"{out}/01-01-a.sse\n{out}/02-02-b.sse\n".encode(), complaints)
    assert len(list(out.glob("*.sse"))) == 2


def test_skipped_entries_of_a_har_are_counted_by_reason_on_stderr(
    directory: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    har, out = tmp_path / "all.har", tmp_path / "imported"
    assert main(["export", str(directory / "01-a.sse"), "--out", str(har)]) == 0
    capfdbinary.readouterr()
    value = json.loads(har.read_bytes())
    blocked = {
        "request": {"method": "GET", "url": "https://api.example/a", "headers": []},
        "response": {"status": 0, "headers": [], "content": {"size": 0, "mimeType": "x-unknown"}},
    }
    image = {"request": {**blocked["request"], "url": "data:,a"}, "response": blocked["response"]}
    value["log"]["entries"] += [blocked, image, blocked]
    har.write_text(json.dumps(value))
    assert main(["import", str(har), "--out", str(out)]) == 0
    assert capfdbinary.readouterr() == (
        f"{out}/01-01-a.sse\n".encode(),
        b"entries skipped: 2 (no response)\nentries skipped: 1 (no http or https URL)\n",
    )


def test_import_without_pyyaml_is_one_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.yaml").write_text("version: 1")
    assert main(["import", str(tmp_path / "a.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr() == (
        "",
        "streamnorm: YAML needs PyYAML, of the extra `import`: pip install pyyaml\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "nothing.har", "--out", "x"], "nothing.har"),
        (["import", "damaged.har", "--out", "x"], "damaged.har"),
        (["import", "damaged.har"], "required: --out"),
        (["export", "nowhere", "--out", "x.har"], "nowhere: no such directory or recording"),
        (["export", "empty", "--out", "x.har"], "empty: no recordings\n"),
        (["export", "damaged.har"], "required: --out"),
    ],
)
def test_failure_is_one_line_on_stderr_and_status_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("damaged.har").write_text("{")
    Path("empty").mkdir()
    try:
        status: object = main(arguments)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("streamnorm: ")
    assert message in err
    assert not Path("x.har").exists()
