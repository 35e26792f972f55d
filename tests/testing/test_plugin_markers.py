"""Names of recordings and keywords of the marker, in a user's project."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
from support.bedrock.chunks import EVENTS, chunk
from support.recording.plugin_project import Project

from streamnorm.recording import RecordedResponse, Recording
from streamnorm.recording.format import Companion

BODY = "data: one\n\ndata: to a\n\n"


def asks(marker: str, then: str = "") -> str:
    return f"""
@pytest.mark.streamnorm({marker})
def test_asks(streamnorm_recording):
    [text] = ask(streamnorm_recording, "a")
    assert text == {BODY!r}
    {then}
"""


def test_classes_and_parameters_have_folders_of_their_own(project: Project) -> None:
    project.write(
        """
class TestAgent:
    class TestInner:
        @pytest.mark.parametrize("text", ["a", "gpt-4o"])
        @pytest.mark.parametrize("n", [1])
        def test_asks(self, streamnorm_recording, n, text):
            ask(streamnorm_recording, text)

def test_asks(streamnorm_recording):
    ask(streamnorm_recording, "b")
"""
    )
    project.record()
    assert sorted(path.name for path in project.recordings.iterdir()) == [
        "TestAgent.TestInner.test_asks-1-a",
        "TestAgent.TestInner.test_asks-1-gpt-4o",
        "test_asks",
    ]
    project.asked()
    project.run().assert_outcomes(passed=3)
    assert project.asked() == []


HOSTILE_IDS = [
    *("../../x", "..", "a/b", "a:b", "a_b", "a b", "a\\b", "", ".", "CON", "nul\0", "x" * 300),
    *("größe", "grösse", "*", "?", "a[b]", "~", "$HOME", "'", "x::y"),
]


def test_hostile_parameters_stay_in_separate_folders(project: Project) -> None:
    project.write(
        f"""
@pytest.mark.parametrize("text", range({len(HOSTILE_IDS)}), ids={HOSTILE_IDS!r})
def test_asks(streamnorm_recording, text):
    ask(streamnorm_recording, f"{{text}}")
"""
    )
    project.record()
    names = [path.name for path in project.recordings.iterdir()]
    assert len(names) == len(set(map(str.lower, names))) == len(HOSTILE_IDS)
    assert all(name.startswith("test_asks-") and len(name) < 120 for name in names)
    assert all(set(name) <= set(LETTERS) and not name.endswith(".") for name in names)
    assert "test_asks-a_b" in names  # what is harmless stays readable
    assert [path.name for path in (project.path / "recordings").iterdir()] == ["test_it"]
    project.asked()
    project.run().assert_outcomes(passed=len(HOSTILE_IDS))
    assert project.asked() == []


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


def test_recordings_are_shared_by_tests_of_one_name(project: Project) -> None:
    project.write(asks('"agents/one"') + asks('"agents/one"').replace("_asks", "_asks_too"))
    project.record("-k", "not too")
    assert project.files(project.path / "recordings") == [
        "agents/one/01-chat-completions.json",
        "agents/one/01-chat-completions.sse",
    ]
    project.run().assert_outcomes(passed=2)
    assert project.asked() == ["a"]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../x",
        "a/../../x",
        "/etc/x",
        "a//b",
        "a/",
        "",
        ".",
        "./x",
        "a\\b",
        "c:x",
        "a\0",
        7,
        None,
    ],
)
def test_name_outside_the_folder_is_refused(project: Project, name: object) -> None:
    project.write(asks(repr(name)))
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E *UsageError: marker streamnorm of test_it.py::test_asks has *"])
    assert not (project.path / "recordings").exists()
    assert project.asked() == []


def test_unknown_keywords_are_named(project: Project) -> None:
    project.write(asks("speeed=1, matches=2, speed=0"))
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["E *UsageError: marker streamnorm of test_it.py::test_asks has matches, speeed, *"]
    )
    project.write(asks('"a", "b"'))
    project.run().stdout.fnmatch_lines(["E *UsageError: * has 2 names, expected one"])


def test_nearer_marker_wins_keyword_by_keyword(project: Project) -> None:
    project.write(
        """
@pytest.mark.streamnorm("outer", allow_unplayed=True, drift="error")
class TestAgent:
    @pytest.mark.streamnorm(drift="ignore")
    def test_asks(self, streamnorm_recording):
        assert streamnorm_recording.path.name == "outer"
        ask(streamnorm_recording, streamnorm_recording.drifts)
""".replace("streamnorm_recording.drifts", '"b"')
    )
    project.record()
    project.write((project.path / "test_it.py").read_text().replace('"b"', '"c"'))
    project.run().assert_outcomes(passed=1)
    assert project.asked() == ["b"]


def test_unplayed_may_be_allowed(project: Project) -> None:
    project.write(asks('"x"'))
    project.record()
    source = '@pytest.mark.streamnorm("x", allow_unplayed={})\ndef test(streamnorm_recording): pass'
    project.write(source.format(True))
    project.run().assert_outcomes(passed=1)
    project.write(source.format(False))
    project.run().assert_outcomes(passed=1, errors=1)


def test_match_drift_and_ignore_options_are_applied(project: Project) -> None:
    project.write(asks('"x"'))
    project.record()
    for keywords, outcome in {
        '"x"': "failed",
        '"x", match="sequence"': "passed",
        '"x", match=lambda asked, recorded: True': "passed",
        '"x", match="exact"': "failed",
        '"x", drift="ignore"': "passed",
        '"x", drift="warn"': "failed",  # as warnings are errors there
        '"x", ignore=["[ab]"]': "passed",
    }.items():
        project.write(asks(keywords).replace('recording, "a"', 'recording, "b"'))
        project.run().assert_outcomes(**{outcome: 1})


def test_rechunk_speed_and_gap_options_are_applied(project: Project) -> None:
    project.write(asks('"x"'))
    project.record()
    path = project.path / "recordings" / "x" / "01-chat-completions.json"
    slow = json.loads(path.read_text()) | {"chunks": ["+60000 11", "+60000 12"]}
    path.write_text(json.dumps(slow))
    reads = """
class Clock:
    now = 0.0
    def monotonic(self):
        return self.now
    def sleep(self, delay_s):
        self.now += delay_s

@pytest.mark.streamnorm("x", {})
def test_reads(streamnorm_recording, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("streamnorm.recording.player.time", clock)
    with client(streamnorm_recording) as http:
        with http.stream("POST", URL, json=body("a")) as response:
            seen = [(len(read), round(clock.now, 3)) for read in response.iter_raw()]
    assert seen == {}
"""
    for keywords, seen in {
        "speed=0": [(11, 0.0), (12, 0.0)],
        "speed=100": [(11, 0.6), (12, 1.2)],
        "speed=100, max_gap_s=50": [(11, 0.5), (12, 1.0)],
        "rechunk=10": [(10, 0.0), (10, 0.0), (3, 0.0)],
    }.items():
        project.write(reads.format(keywords, seen))
        project.run().assert_outcomes(passed=1)


def test_redacted_text_is_written_to_no_file_and_still_matches(project: Project) -> None:
    project.write(
        """
@pytest.mark.streamnorm("x", redact=["hush-hush", "one"])
def test_asks(streamnorm_recording):
    ask(streamnorm_recording, "hush-hush")
"""
    )
    project.record()
    folder = project.path / "recordings" / "x"
    body = (folder / "01-chat-completions.sse").read_text()
    assert body == "data: xxx\n\ndata: to xxxxxxxxx\n\n"
    assert "hush" not in (folder / "01-chat-completions.json").read_text()
    project.run().assert_outcomes(passed=1)


FAULTY = """
from streamnorm.testing import faults

@pytest.mark.streamnorm("x")
def test_asks(streamnorm_recording):
    ask(streamnorm_recording, "a", "b")

@pytest.mark.parametrize("fault", [faults.cut(byte=5), faults.truncate(byte=5)], ids=str)
@pytest.mark.streamnorm("x")
def test_survives(streamnorm_recording, fault):
    try:
        [text] = ask(streamnorm_recording, "a", faults=[fault])
    except httpx2.ReadError:
        text = "cut"
    assert text == {"cut(byte=5)": "cut", "truncate(byte=5)": "data:"}[str(fault)]

@pytest.mark.streamnorm("x", faults=[faults.truncate(byte=5)])
def test_marked(streamnorm_recording):
    assert ask(streamnorm_recording, "a") == ["data:"]
"""


def test_fault_of_each_parameter_changes_the_recordings_of_one_name(project: Project) -> None:
    project.write(FAULTY)
    project.record("-k", "asks")
    project.run().assert_outcomes(passed=4)


@pytest.mark.parametrize("mode", ["once", "new", "rewrite"])
def test_test_with_faults_replays_in_every_mode(project: Project, mode: str) -> None:
    project.write(FAULTY)
    project.record("-k", "asks")
    project.asked()
    project.record("-k", "not asks", mode=mode)
    assert project.asked() == []
    assert len(project.files(project.path / "recordings" / "x")) == 4


ALONE = """
from streamnorm.testing import faults

@pytest.mark.parametrize("name", ["it's $HOME"])
def test_survives(streamnorm_recording, name):
    assert ask(streamnorm_recording, "a", faults=[faults.truncate(byte=5)]) == ["data:"]
"""


def suggested(result: pytest.RunResult) -> list[str]:
    """Return the arguments of the command that records, as a shell reads it."""
    [line] = {
        line
        for line in result.stdout.str().splitlines()
        if line.startswith("E ") and "to record it: " in line
    }
    pytest_word, *arguments = shlex.split(line[line.index("pytest ") :])
    assert pytest_word == "pytest"
    return arguments


@pytest.mark.parametrize("mode", ["once", "new", "rewrite"])
def test_suggested_command_records_a_test_with_faults(project: Project, mode: str) -> None:
    project.write(ALONE)
    result = project.run()
    result.assert_outcomes(failed=1)
    command = suggested(result)
    assert command.pop() == "--streamnorm-record=new"
    result = project.run(*command, f"--streamnorm-record={mode}")
    assert project.asked() == ["a"]
    result.stdout.fnmatch_lines(
        ["streamnorm: recorded without its faults, run again: test_it.py::test_survives*"]
    )
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*without its faults*")
    assert project.asked() == []


def test_suggested_command_records_what_a_test_with_faults_asks_anew(project: Project) -> None:
    project.write(ALONE)
    project.run("--streamnorm-record=new")
    project.write(ALONE.replace('"a"', '"b"'))
    result = project.run()
    result.stdout.fnmatch_lines(
        ["E *to record it: delete */test_survives*, as a test with faults*"]
    )
    project.asked()
    shutil.rmtree(project.recordings)
    project.run(*suggested(result))
    assert project.asked() == ["b"]
    project.run().assert_outcomes(passed=1)


def test_suggested_command_records_what_a_single_file_does_not_answer(project: Project) -> None:
    file = project.path / "recordings" / "one.sse"
    test = """
@pytest.mark.streamnorm("one")
def test_asks(streamnorm_recording):
    ask(streamnorm_recording, "b")
"""
    project.write(test)
    project.record()
    [recorded] = (project.path / "recordings" / "one").glob("*.sse")
    for path in (recorded, recorded.with_suffix(".json")):
        path.rename(file.with_suffix(path.suffix))
    project.write(test.replace('"b"', '"c"'))
    result = project.run()
    result.stdout.fnmatch_lines([f"E *to record it: delete {file}, which answers all requests*"])
    project.asked()
    file.unlink()
    project.run(*suggested(result)).assert_outcomes(passed=1)
    assert project.asked() == ["c"]
    project.run().assert_outcomes(passed=1)


def test_single_file_that_nothing_asked_for_has_to_be_deleted_first(project: Project) -> None:
    file = project.path / "recordings" / "one.sse"
    file.parent.mkdir()
    file.write_text("data: hello\n\n")
    project.write(
        """
@pytest.mark.streamnorm("one")
def test_asks(streamnorm_recording):
    pass
"""
    )
    project.run().stdout.fnmatch_lines(
        [
            f"to record anew: delete {file}, which answers all requests, then run: pytest"
            " test_it.py::test_asks --streamnorm-record=new"
        ]
    )


@pytest.mark.parametrize("mode", ["none", "once", "new", "rewrite"])
def test_single_file_is_played_to_any_number_of_requests_in_every_mode(
    project: Project, mode: str
) -> None:
    folder = project.path / "recordings" / "by_hand"
    folder.mkdir(parents=True)
    (folder / "hello.sse").write_text("data: hello\n\n")
    project.write(
        """
@pytest.mark.streamnorm("by_hand/hello")
def test_asks(streamnorm_recording):
    assert streamnorm_recording.path.name == "hello.sse"
    assert streamnorm_recording.directory.name == "by_hand"
    assert len(streamnorm_recording.recordings) == 1
    assert ask(streamnorm_recording, "a", "b") == ["data: hello\\n\\n"] * 2
"""
    )
    project.record(mode=mode)
    assert project.asked() == []
    assert project.files(folder) == ["hello.sse"]


def test_event_stream_beside_the_tests_is_played_and_read(project: Project) -> None:
    companion = Companion(
        1, "anthropic", "invoke_chunks", response=RecordedResponse(body=".eventstream")
    )
    body = b"".join(map(chunk, EVENTS))
    Recording(body, companion).save(project.path / "recordings" / "snow")
    project.write(
        """
import streamnorm
from streamnorm.codec import INVOKE_CHUNKS

@pytest.mark.streamnorm("snow", rechunk="hostile")
def test_reads(streamnorm_recording):
    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/invoke-with-response-stream"
    with streamnorm_recording.client(httpx2.Client) as http:
        with http.stream("POST", url, json={}) as response:
            assert response.headers["content-type"] == "application/vnd.amazon.eventstream"
            stream = streamnorm.iter_events(
                response, dialect="anthropic", framing=INVOKE_CHUNKS
            )
            list(stream)
            assert stream.message.text == "It snows."
"""
    )
    project.run().assert_outcomes(passed=1)
