"""`inspect --html OUT` and `export --out OUT`: what may stand at OUT, and what it may not be."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.openai_chat.chunks import content

from streamnorm.cli import main

SOURCE = Path(__file__).parents[2] / "recordings" / "openai_chat" / "openai" / "text.sse"
Out = pytest.CaptureFixture[str]
STARTS = {"inspect": b"<!doctype html>", "export": b'{\n  "log": {'}
each_command = pytest.mark.parametrize("command", STARTS)


def arguments(command: str, stream: Path, out: Path | str) -> list[str]:
    return [command, str(stream), "--html" if command == "inspect" else "--out", str(out)]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A recording with its companion and its events."""
    for suffix in (".sse", ".json", ".events.jsonl"):
        shutil.copy(SOURCE.with_suffix(suffix), tmp_path / f"a{suffix}")
    return tmp_path / "a.sse"


@each_command
def test_fifo_is_written_to(command: str, stream: Path, tmp_path: Path) -> None:
    out = tmp_path / "fifo"
    os.mkfifo(out)
    with subprocess.Popen(
        [sys.executable, "-m", "streamnorm", *arguments(command, stream, out)],
        stdout=subprocess.PIPE,
    ) as process:
        with out.open("rb") as reading:
            assert reading.read().startswith(STARTS[command])
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert stat.S_ISFIFO(out.lstat().st_mode)
    assert not out.with_name("fifo.part").exists()


@each_command
def test_device_is_written_to(command: str, stream: Path, tmp_path: Path) -> None:
    out = tmp_path / "null"
    try:
        os.mknod(out, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        out.open("wb").close()
    except PermissionError:
        pytest.skip("only root makes devices, and only where they work")
    assert main(arguments(command, stream, out)) == 0
    assert stat.S_ISCHR(out.lstat().st_mode)


@each_command
@pytest.mark.parametrize("exists", [True, False])
def test_target_of_a_link_is_replaced(
    command: str, stream: Path, tmp_path: Path, *, exists: bool
) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "target"
    if exists:
        target.write_text("of yesterday")
    link = tmp_path / "link"
    link.symlink_to(target)
    assert main(arguments(command, stream, link)) == 0
    assert link.is_symlink()
    assert target.read_bytes().startswith(STARTS[command])
    assert list((tmp_path / "there").iterdir()) == [target]


@each_command
def test_directory_is_refused(command: str, stream: Path, tmp_path: Path, capsys: Out) -> None:
    assert main(arguments(command, stream, tmp_path)) == 2
    assert capsys.readouterr().err == f"streamnorm: {tmp_path}: Is a directory\n"


@each_command
def test_dash_is_refused(command: str, stream: Path, capsys: Out) -> None:
    assert main(arguments(command, stream, "-")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(": -, expected a file (./- if that is its name)\n")
    assert not Path("-").exists()


def test_standard_output_has_the_har_alone(stream: Path) -> None:
    command = [sys.executable, "-m", "streamnorm", *arguments("export", stream, "/dev/stdout")]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith(STARTS["export"])
    assert done.stdout.endswith(b"}\n")


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_har_on_a_redirected_standard_output_replaces_nothing(
    stream: Path, tmp_path: Path, mode: str, *, by_name: bool
) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"before\n")
    log.chmod(0o644)
    out = log if by_name else "/dev/stdout"
    with log.open(mode) as file:
        command = [sys.executable, "-m", "streamnorm", *arguments("export", stream, out)]
        assert subprocess.run(command, stdout=file, timeout=60).returncode == 0
        subprocess.run([sys.executable, "-c", "print('after')"], stdout=file, check=True)
    before, har, after = log.read_bytes().partition(STARTS["export"])
    assert before == (b"before\n" if mode == "ab" else b"")
    assert har
    assert after.endswith(b"}\nafter\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o644
    assert not log.with_name("log.txt.part").exists()


def test_page_on_standard_output_is_refused(stream: Path) -> None:
    command = [sys.executable, "-m", "streamnorm", *arguments("inspect", stream, "/dev/stdout")]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"/dev/stdout is standard output, which has the report" in done.stderr


@pytest.mark.parametrize("suffix", [".sse", ".json", ".events.jsonl"])
@pytest.mark.parametrize("whole_directory", [True, False])
def test_export_replaces_no_file_of_its_recordings(
    suffix: str, stream: Path, tmp_path: Path, capsys: Out, *, whole_directory: bool
) -> None:
    out = stream.with_suffix(suffix)
    before = out.read_bytes()
    link = tmp_path / "link.har"
    link.symlink_to(out)
    for path in (out, link):
        assert main(arguments("export", tmp_path if whole_directory else stream, path)) == 2
        printed, err = capsys.readouterr()
        assert printed == ""
        assert f"--out: {path} is of the recording" in err
    assert out.read_bytes() == before


def test_export_writes_another_file_beside_its_recordings(stream: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert main(arguments("export", tmp_path, tmp_path / "a.har")) == 0


def test_page_does_not_replace_the_companion(stream: Path, capsys: Out) -> None:
    companion = stream.with_suffix(".json")
    before = companion.read_bytes()
    assert main(arguments("inspect", stream, companion)) == 2
    assert "is the stream's companion, expected another file" in capsys.readouterr().err
    assert companion.read_bytes() == before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_leaves_no_part_of_a_page(number: int, status: int, tmp_path: Path) -> None:
    command = [*("inspect", "-", "--frames", "--html"), str(tmp_path / "page.html")]
    with subprocess.Popen(
        [sys.executable, "-m", "streamnorm", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(content("Hello"))
        process.stdin.flush()
        assert b"Hello" in process.stdout.readline()
        assert [path.name for path in tmp_path.iterdir()] == ["page.html.part"]
        process.send_signal(number)
        assert process.wait(60) == status
    assert list(tmp_path.iterdir()) == []
