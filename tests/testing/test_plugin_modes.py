"""Recording modes, in a user's project."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.recording.plugin_project import Project

ASKS = """
def test_asks(streamnorm_recording):
    assert ask(streamnorm_recording, "a") == ["data: one\\n\\ndata: to a\\n\\n"]
"""
ASKS_TWICE = ASKS.replace(
    'ask(streamnorm_recording, "a")', 'ask(streamnorm_recording, "a", "b")[:1]'
)
SWALLOWS = """
def test_swallows(streamnorm_recording):
    with pytest.raises(Exception):
        ask(streamnorm_recording, "a", "b")
"""
FIRST, SECOND = "01-chat-completions", "02-chat-completions"


def bodies(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*.sse"))}


def test_mode_none_sends_nothing_and_names_the_recording_command(project: Project) -> None:
    project.write(ASKS)
    result = project.run()
    result.assert_outcomes(failed=1)  # and no second failure at teardown
    result.stdout.fnmatch_lines(
        [
            "E *UnrecordedRequest: no recording answers POST *(openai_chat, *): *",
            "E *to record it: pytest test_it.py::test_asks --streamnorm-record=new",
        ]
    )
    assert project.asked() == []
    assert not project.recordings.exists()


def test_swallowed_unrecorded_request_fails_the_test(project: Project) -> None:
    project.write(SWALLOWS)
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "the test passed, though it asked for what is not recorded",
            "to record it: pytest test_it.py::test_swallows --streamnorm-record=new",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_drifted_request_is_shown_with_its_diff(project: Project) -> None:
    project.write(ASKS)
    project.record()
    project.write(ASKS.replace('"a"', '"b"', 1))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *-*a*", "E *+*b*", "E *to record it: pytest test_it.py::*"])


def test_mode_once_records_for_later_replay(project: Project) -> None:
    project.write(ASKS)
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("streamnorm: 1 recorded, 0 replayed") == 1
    assert project.asked() == ["a"]
    folder = project.recordings / "test_asks"
    assert project.files() == [f"test_asks/{FIRST}.json", f"test_asks/{FIRST}.sse"]
    assert bodies(folder) == {f"{FIRST}.sse": "data: one\n\ndata: to a\n\n"}
    companion = json.loads((folder / f"{FIRST}.json").read_text())
    assert companion["request"]["body"]["messages"] == [{"role": "user", "content": "a"}]
    assert [chunk.split()[1] for chunk in companion["chunks"]] == ["11", "12"]
    for mode in ("none", "once", "new"):
        result = project.run(f"--streamnorm-record={mode}")
        result.assert_outcomes(passed=1)
        result.stdout.no_fnmatch_line("streamnorm:*")
        assert project.asked() == []


def test_mode_once_adds_nothing_to_existing_recordings(project: Project) -> None:
    project.write(ASKS)
    project.record(mode="once")
    project.write(ASKS_TWICE)
    project.asked()
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(failed=1)
    assert project.asked() == []
    assert len(project.files()) == 2


def test_mode_new_replays_and_records_the_rest(project: Project) -> None:
    project.write(ASKS)
    project.record()
    assert project.asked() == ["a"]
    project.write(ASKS_TWICE)
    result = project.run("--streamnorm-record=new")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["streamnorm: 1 recorded, 1 replayed"])
    assert project.asked() == ["b"]
    assert bodies(project.recordings / "test_asks") == {
        f"{FIRST}.sse": "data: one\n\ndata: to a\n\n",
        f"{SECOND}.sse": "data: one\n\ndata: to b\n\n",
    }
    project.run().assert_outcomes(passed=1)


def test_mode_new_fails_for_an_unplayed_recording(project: Project) -> None:
    project.write(ASKS_TWICE)
    project.record()
    project.write(ASKS)
    result = project.run("--streamnorm-record=new")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*did not ask for all that is recorded: *{SECOND}"])


def test_rewrite_replaces_the_recordings(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(ASKS_TWICE)
    project.record()
    folder = project.recordings / "test_asks"
    (folder / f"{FIRST}.events.jsonl").write_text("")
    (folder / f"{SECOND}.events.jsonl").write_text("")
    (folder / "notes.txt").write_text("the user's own")
    monkeypatch.setenv("SAYS", "two")
    project.write(ASKS.replace("one", "two"))
    project.asked()
    result = project.run("--streamnorm-record=rewrite")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["streamnorm: 1 recorded, 0 replayed"])
    assert project.asked() == ["a"]
    assert bodies(folder) == {f"{FIRST}.sse": "data: two\n\ndata: to a\n\n"}
    assert project.files() == [
        *(f"test_asks/{FIRST}.{suffix}" for suffix in ("events.jsonl", "json", "sse")),
        "test_asks/notes.txt",
    ]
    assert [path.name for path in project.recordings.iterdir()] == ["test_asks"]


def test_rewrite_keeps_the_timing_of_unchanged_bodies(project: Project) -> None:
    project.write(ASKS_TWICE)
    project.record()
    timed = ["+700 11", "+80 12"]
    for name in (FIRST, SECOND):
        path = project.recordings / "test_asks" / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chunks": timed}))
    project.write(ASKS_TWICE.replace('"b"', '"c"'))
    project.record(mode="rewrite")
    kept, anew = (
        json.loads((project.recordings / "test_asks" / f"{name}.json").read_text())
        for name in (FIRST, SECOND)
    )
    assert kept["chunks"] == timed
    assert anew["chunks"] != timed
    assert anew["request"]["body"]["messages"][0]["content"] == "c"


def test_rewrite_of_a_failing_test_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(ASKS)
    project.record()
    before = bodies(project.recordings / "test_asks")
    monkeypatch.setenv("SAYS", "two")
    result = project.run("--streamnorm-record=rewrite")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("streamnorm:*")
    assert bodies(project.recordings / "test_asks") == before
    assert [path.name for path in project.recordings.iterdir()] == ["test_asks"]


def test_rewrite_without_requests_changes_nothing_and_reports_the_recordings(
    project: Project,
) -> None:
    project.write(ASKS)
    project.record()
    for ending in ("pass", "client(streamnorm_recording).close()"):
        project.write(f"def test_asks(streamnorm_recording): {ending}")
        result = project.run("--streamnorm-record=rewrite")
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(
            [
                f"the test passed, though it recorded nothing to replace what is there: *{FIRST}",
                "to allow it: @pytest.mark.streamnorm(allow_unplayed=True)",
                "if it is right that it asked for nothing: delete *test_asks",
            ]
        )
        result.stdout.no_fnmatch_line("to record anew: *")
        assert len(project.files()) == 2


@pytest.mark.parametrize(
    ("marker", "ending", "outcome"),
    [
        ("allow_unplayed=True", "pass", "passed"),
        ("faults=[faults.http(529)]", "pass", "passed"),
        ("", "assert False", "failed"),
        ("", "pytest.skip('later')", "skipped"),
    ],
)
def test_rewrite_reports_no_recordings_that_may_be_left(
    project: Project, marker: str, ending: str, outcome: str
) -> None:
    project.write(ASKS)
    project.record()
    project.write(
        "from streamnorm.testing import faults\n"
        f"@pytest.mark.streamnorm({marker})\ndef test_asks(streamnorm_recording): {ending}"
    )
    project.run("--streamnorm-record=rewrite").assert_outcomes(**{outcome: 1})
    assert len(project.files()) == 2


def test_rewrite_of_a_new_test_without_requests_passes(project: Project) -> None:
    project.write("def test_asks(streamnorm_recording): pass")
    project.run("--streamnorm-record=rewrite").assert_outcomes(passed=1)


def test_rewrite_with_a_failed_recording_changes_nothing(project: Project) -> None:
    project.write(ASKS_TWICE)
    project.record()
    before = bodies(project.recordings / "test_asks")
    project.write(
        """
def test_asks(streamnorm_recording):
    ask(streamnorm_recording, "other")
    unknown = {"content-encoding": "x-unknown"}
    network = httpx.MockTransport(
        lambda _: httpx.Response(200, headers=unknown, content=iter([b"?"]))
    )
    with streamnorm_recording.client(httpx.Client, transport=network) as http:
        http.post(URL, json=body("c"))
"""
    )
    result = project.run("--streamnorm-record=rewrite")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*streamnorm: not recorded*", "*content-encoding*"])
    result.stdout.no_fnmatch_line("streamnorm: *recorded,*")
    assert bodies(project.recordings / "test_asks") == before
    assert [path.name for path in project.recordings.iterdir()] == ["test_asks"]


def test_rewrite_replaces_a_body_of_another_kind(project: Project) -> None:
    project.write(ASKS)
    folder = project.recordings / "test_asks"
    folder.mkdir(parents=True)
    (folder / f"{FIRST}.body.json").write_text("{}")
    response = {"status": 200, "headers": {}, "body": ".body.json", "end": "eof"}
    companion = {"streamnorm_recording": 1, "response": response}
    (folder / f"{FIRST}.json").write_text(json.dumps(companion))
    project.record(mode="rewrite")
    assert project.files() == [f"test_asks/{FIRST}.json", f"test_asks/{FIRST}.sse"]
    project.run().assert_outcomes(passed=1)


def test_unplayed_recording_fails_a_passing_test(project: Project) -> None:
    project.write(ASKS_TWICE)
    project.record()
    for source in (ASKS, "def test_asks(streamnorm_recording): pass"):
        project.write(source)
        result = project.run()
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(
            [
                f"*did not ask for all that is recorded: *{SECOND}",
                "to allow it: @pytest.mark.streamnorm(allow_unplayed=True)",
                "to record anew: pytest test_it.py::test_asks --streamnorm-record=rewrite",
            ]
        )
    # Of a test that asks for nothing more is said: it would record nothing anew.
    result.stdout.fnmatch_lines(["if it is right that it asked for nothing: delete *test_asks"])


@pytest.mark.parametrize(
    ("ending", "outcome"), [("assert False", "failed"), ("pytest.skip('later')", "skipped")]
)
def test_failing_test_reports_only_its_own_failure(
    project: Project, ending: str, outcome: str
) -> None:
    project.write(ASKS_TWICE)
    project.record()
    project.write(f"def test_asks(streamnorm_recording): {ending}")
    project.run().assert_outcomes(**{outcome: 1})


def test_disk_failure_is_reported_without_failing_the_test(project: Project) -> None:
    project.write(ASKS)
    (project.path / "recordings").write_text("a file where a folder should be")
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*streamnorm: not recorded*", f"test_it.py::test_asks: *{FIRST}*: *"]
    )
    result.stdout.no_fnmatch_line("streamnorm: *recorded,*")


LEAVES_OPEN = """
def test_leaves_open(streamnorm_recording):
    http = client(streamnorm_recording)
    request = http.build_request("POST", URL, json=body("a"))
    reads = http.send(request, stream=True).iter_raw()
    assert next(reads) == b"data: one\\n\\n"
    streamnorm_recording.left_open = reads
"""


@pytest.mark.parametrize("mode", ["once", "rewrite"])
def test_open_response_is_recorded_as_far_as_it_was_read(project: Project, mode: str) -> None:
    project.write(LEAVES_OPEN)
    project.record(mode=mode)
    folder = project.recordings / "test_leaves_open"
    assert bodies(folder) == {f"{FIRST}.sse": "data: one\n\n"}
    companion = json.loads((folder / f"{FIRST}.json").read_text())
    assert companion["response"]["end"] == "aborted"
    project.run().assert_outcomes(passed=1)


SHARED = """
import os

@pytest.mark.parametrize("flag", [os.O_RDONLY, os.O_WRONLY])
@pytest.mark.streamnorm("shared")
def test_shares(streamnorm_recording, flag):
    os.close(os.open("both-have-begun", flag))  # waits for the other worker
    assert ask(streamnorm_recording, "a") == ["data: one\\n\\ndata: to a\\n\\n"]
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no locks on this system")
@pytest.mark.parametrize("mode", ["once", "new"])
def test_workers_of_xdist_record_shared_recordings_once(project: Project, mode: str) -> None:
    project.write(SHARED)
    os.mkfifo(project.path / "both-have-begun")
    plugins = ("-p", "xdist", "-p", "streamnorm.testing.plugin", "-p", "no:cacheprovider")
    project.run_alone(*plugins, "-n", "2", f"--streamnorm-record={mode}").assert_outcomes(passed=2)
    assert project.asked() == ["a"]
    assert project.files(project.path / "recordings") == [
        f"shared/{FIRST}.json",
        f"shared/{FIRST}.sse",
    ]
