"""`streamnorm inspect --html`: the file of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.inspect_command import END, ROOT
from support.openai_chat.chunks import content

from streamnorm.cli import main, output_files

RECORDING = ROOT / "recordings/openai_chat/openai/parallel-tools-interleaved-two.sse"


def test_page_is_written_beside_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["inspect", str(RECORDING)]) == 0
    report = capfd.readouterr().out
    assert main(["inspect", str(RECORDING), "--html", str(out)]) == 0
    assert capfd.readouterr() == (report, "")
    assert out.read_bytes().startswith(b"<!doctype html>")
    assert out.read_bytes().endswith(b"</html>\n")
    # It holds the conversation.
    assert out.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [out]


def test_page_replaces_an_earlier_one_and_not_the_stream(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "a.sse"
    stream.write_bytes(content("hi") + END)
    out = tmp_path / "page.html"
    out.write_text("of yesterday")
    assert main(["inspect", str(stream), "--html", str(out)]) == 0
    assert "of yesterday" not in out.read_text()
    assert main(["inspect", str(stream), "--html", str(stream)]) == 2
    assert stream.read_bytes() == content("hi") + END
    assert "is the stream, expected another file" in capfd.readouterr().err


def test_page_that_cannot_be_written_is_wrong_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "missing" / "page.html"
    assert main(["inspect", str(RECORDING), "--html", str(out)]) == 2
    assert capfd.readouterr().err == f"streamnorm: {out}: No such file or directory\n"


def test_full_disk_leaves_the_earlier_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    out.write_text("of yesterday")
    monkeypatch.setattr(output_files, "create_part", lambda _: open("/dev/full", "wb", 0))  # noqa: SIM115
    assert main(["inspect", str(RECORDING), "--html", str(out)]) == 2
    assert "No space left on device" in capfd.readouterr().err
    assert out.read_text() == "of yesterday"


def test_stream_that_cannot_be_read_leaves_no_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "none.sse"), "--html", str(out)]) == 2
    assert list(tmp_path.iterdir()) == []
