"""The command `inspect` on recorded times, and its frames and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli.inspect_command import ATTACK, END, page, run, write_timed
from support.openai_chat.chunks import content, frame

pytestmark = pytest.mark.slow


READS = ((500, content("a")[:7]), (100, content("a")[7:]), (400, content("b")), (0, END))


def test_recorded_times_have_an_axis_and_their_moments(tmp_path: Path) -> None:
    lines = page(write_timed(tmp_path, *READS), "--to", "anthropic", "--width", "80")
    # Of 80 columns the table takes 31 and the edges two: 47 for 1,001 ms.
    start = next(n for n, line in enumerate(lines) if line.startswith("blocks"))
    assert lines[start : start + 3] == [
        "blocks    1 in 6 events over 1.000 s: █ of the block, ─ no event while it is",
        "          open",
        "  #  kind  name  chars  bytes   0 s      0.2 s    0.4 s     0.6 s    0.8 s",
    ]
    bar = lines[start + 3].split("│")[1]
    assert bar == " " * 28 + "█" + "─" * 17 + "█"
    size = sum(len(data) for _, data in READS)  # in half a second
    times = lines.index(
        "times     first bytes after 0.500 s, first event after 0.600 s, first text after"
    )
    assert lines[times + 1 : times + 4] == [
        "          0.600 s, end after 1.000 s",
        f"          12.0 events, {size * 2:,} bytes and 4.0 characters of content a second",
        "          longest gaps 0.400 s before frame 1, 0.100 s before frame 0",
    ]


def test_reads_that_took_no_time_are_not_timed(tmp_path: Path) -> None:
    path = write_timed(tmp_path, *((0, data) for _, data in READS))
    assert "times     not recorded" in page(path)


@pytest.mark.parametrize("size", [-1, 1])
def test_reads_of_another_size_than_the_file_are_wrong_usage(tmp_path: Path, size: int) -> None:
    path = write_timed(tmp_path, *READS, size=size)
    done = run(path)
    assert (done.returncode, done.stdout) == (2, b"")
    have = path.stat().st_size
    assert done.stderr.decode() == (
        f"streamnorm: {tmp_path}/a.json: chunks of {have + size * len(READS)} bytes, "
        f"{path} has {have}\n"
    )


def test_missing_body_of_a_recording_is_wrong_usage(tmp_path: Path) -> None:
    path = write_timed(tmp_path, *READS)
    path.unlink()
    done = run(path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"streamnorm: {path}: No such file or directory\n"


def test_damaged_reads_are_wrong_usage(tmp_path: Path) -> None:
    path = write_timed(tmp_path, *READS)
    companion = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps({**companion, "chunks": ["soon"]}))
    done = run(path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f'streamnorm: {tmp_path}/a.json: chunk 0 is not as "+<ms> <bytes>"\n'
    )


def test_frames_are_numbered_as_violations_are(tmp_path: Path) -> None:
    lines = page(write_timed(tmp_path, *READS), "--frames")
    blank = lines.index("")
    assert [line[:18] for line in lines[:blank]] == [
        "     0     0.600 s",
        "     1     1.000 s",
        "     2     1.000 s",
        "     3     1.000 s",
    ]
    assert lines[blank - 1] == "     3     1.000 s  [DONE]"
    assert lines[blank + 1].startswith("stream    ")
    assert page("-", "--frames", stdin=content("a") + END)[0].startswith('     0  {"')


def test_json_is_one_object_behind_the_frames(tmp_path: Path) -> None:
    path = write_timed(tmp_path, *READS)
    [report] = [json.loads(line) for line in page(path, "--json", "--to", "anthropic")]
    assert report["stream"] == str(path)
    assert report["outcome"]["type"] == "completed"
    assert report["blocks"][0]["head"] == "ab"
    assert report["blocks"][0]["start_ms"] == 600
    assert report["losses"].keys() == {"anthropic"}
    assert report["timing"]["gaps"][0] == {"ms": 400, "frame": 1}
    *frames, last = [
        json.loads(line) for line in page(path, "--json", "--frames", "--to", "anthropic")
    ]
    assert last == report
    assert [(each["frame"], each["ms"]) for each in frames] == [
        (0, 600),
        (1, 1000),
        (2, 1000),
        (3, 1000),
    ]
    assert frames[3]["data"] == "[DONE]"


def test_json_of_a_hostile_server_is_printable() -> None:
    hostile = frame({"id": ATTACK + "\x7f\U000e0001é", "choices": [{"index": 0, "delta": {}}]})
    done = run("-", "--json", "--frames", stdin=hostile + content("hi") + END)
    text = done.stdout.decode()
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text.splitlines()[-1])["id"] == ATTACK + "\x7f\U000e0001é"
    assert "é" in text
    plain = run("-", "--json", "--frames", "--ascii", stdin=hostile + content("hi") + END)
    assert plain.stdout.isascii()
    assert [json.loads(line) for line in plain.stdout.splitlines()] == [
        json.loads(line) for line in text.splitlines()
    ]
