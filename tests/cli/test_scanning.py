"""`streamnorm scan`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.recording.secret_shapes import SHAPED

from streamnorm.cli import main
from streamnorm.recording import scanning

KEY = SHAPED["xai"]
CLEAN = 'data: {"say": "nothing"}\n\n'
LEAKY = f'data: {{"say": "{KEY}"}}\n\n'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Hold one recording with a secret, and one without."""
    out = tmp_path / "recorded"
    (out / "b").mkdir(parents=True)
    (out / "a.sse").write_text(CLEAN)
    (out / "b" / "c.sse").write_text(LEAKY)
    return out


def test_directory_without_secrets_has_status_0(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.sse").write_text(CLEAN)
    assert main(["scan", str(tmp_path)]) == 0
    assert capfdbinary.readouterr() == (b"", b"no secrets in 1 file\n")


def test_found_secrets_are_named_by_file_place_and_kind(
    directory: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["scan", str(directory)]) == 7
    out, complaints = capfdbinary.readouterr()
    assert out.decode() == f"{directory / 'b' / 'c.sse'}: line 1, column 16: xai- key\n"
    assert complaints == b"1 secret in 1 of 2 files\n"
    assert KEY.encode() not in out


def test_json_holds_the_same(directory: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["scan", "--json", str(directory)]) == 7
    out, complaints = capfdbinary.readouterr()
    assert json.loads(out) == {
        "files": 2,
        "findings": [
            {
                "file": str(directory / "b" / "c.sse"),
                "place": "line 1, column 16",
                "kind": "xai- key",
            }
        ],
    }
    assert complaints == b"1 secret in 1 of 2 files\n"
    assert main(["scan", "--json", str(directory / "a.sse")]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"files": 1, "findings": []}


def test_several_paths_are_scanned(
    directory: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (directory / "b" / "c.sse").write_text(LEAKY + LEAKY)
    assert main(["scan", str(directory / "b"), str(directory / "a.sse")]) == 7
    out, complaints = capfdbinary.readouterr()
    file = directory / "b" / "c.sse"
    assert out.decode().splitlines() == [
        f"{file}: line 1, column 16: xai- key",
        f"{file}: line 3, column 16: xai- key",
    ]
    assert complaints == b"2 secrets in 1 of 2 files\n"


def test_missing_path_is_wrong_usage(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "none"
    assert main(["scan", str(path)]) == 2
    assert capfdbinary.readouterr().err.decode() == (
        f"streamnorm: {path}: No such file or directory\n"
    )


@pytest.mark.parametrize(("name", "status"), [("a.sse", 7), ("b/c.sse", 2)])
def test_unreadable_file_is_never_taken_as_clean(
    directory: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    status: int,
) -> None:
    # Root reads every file, so that no mode makes one unreadable.
    opened = Path.open

    def refuse(path: Path, *args: str) -> object:
        if path == directory / name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *args)

    monkeypatch.setattr(Path, "open", refuse)
    assert main(["scan", str(directory)]) == status
    complaints = capfdbinary.readouterr().err.decode()
    assert f"streamnorm: {directory / name}: Permission denied\n" in complaints


def test_event_stream_too_large_to_decode_is_named_with_what_was_found(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_MAX_DECODED_BYTES", 10)
    path = tmp_path / "a.eventstream"
    path.write_bytes(b"none in plain")
    assert main(["scan", str(path)]) == 2
    told = f"streamnorm: {path}: 13 bytes, expected at most 10\n"
    assert capfdbinary.readouterr().err.decode().startswith(told)
    path.write_text(LEAKY)
    assert main(["scan", str(path)]) == 7
    out, complaints = capfdbinary.readouterr()
    assert out.decode().startswith(f"{path}: line ")
    assert b"expected at most 10\n" in complaints


def test_control_characters_of_a_name_are_escaped(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = b"a\x1b[31m\xff\n.sse"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text(LEAKY)
    assert main(["scan", str(tmp_path)]) == 7
    assert rb"/a\x1b[31m" in capfdbinary.readouterr().out
    assert main(["scan", "--json", str(tmp_path)]) == 7
    finding = json.loads(capfdbinary.readouterr().out)["findings"][0]
    assert os.fsencode(finding["file"]).endswith(name)


def test_help_has_the_statuses_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["scan", "--help"])
    out = capsys.readouterr().out
    assert "7  a secret was found" in out
    assert "truncated" not in out
