"""Options, environment, the summary and other plugins, in a user's project."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.recording.plugin_project import Project

ASKS = """
@pytest.mark.parametrize("text", ["a", "b"])
def test_asks(streamnorm_recording, text):
    ask(streamnorm_recording, text)
"""


def test_options_marker_and_fixture_have_help_texts(project: Project) -> None:
    project.run("--help").stdout.fnmatch_lines(
        [
            "*--streamnorm-record={none,once,new,rewrite}",
            "*--streamnorm-allow-ci",
            "*streamnorm_dir*",
        ]
    )
    project.run("--markers").stdout.fnmatch_lines(["@pytest.mark.streamnorm(name, *): *"])
    project.write("def test_nothing(): pass")
    project.run("--fixtures").stdout.fnmatch_lines(["streamnorm_recording -- *plugin.py*"])


def test_option_overrides_the_environment_variable(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(ASKS)
    monkeypatch.setenv("STREAMNORM_RECORD", "once")
    project.run("--streamnorm-record=none").assert_outcomes(failed=2)
    assert project.asked() == []
    project.run().assert_outcomes(passed=2)
    assert project.asked() == ["a", "b"]
    monkeypatch.setenv("STREAMNORM_RECORD", "")
    project.run().assert_outcomes(passed=2)


def test_unknown_mode_stops_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(ASKS)
    result = project.run("--streamnorm-record=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--streamnorm-record: invalid choice: 'all'*"])
    monkeypatch.setenv("STREAMNORM_RECORD", "all")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: STREAMNORM_RECORD is 'all', expected none, once, new, rewrite"]
    )
    assert project.asked() == []


@pytest.mark.parametrize("mode", ["once", "new", "rewrite"])
def test_ci_records_nothing(project: Project, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    project.write(ASKS)
    monkeypatch.setenv("CI", "true")
    result = project.run(f"--streamnorm-record={mode}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: recording ({mode}) where CI is set, expected none, *"])
    monkeypatch.setenv("STREAMNORM_RECORD", mode)
    assert project.run().ret == pytest.ExitCode.USAGE_ERROR
    assert project.asked() == []


def test_ci_replays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(ASKS)
    project.record()
    monkeypatch.setenv("CI", "true")
    project.run().assert_outcomes(passed=2)
    project.run("--streamnorm-record=none").assert_outcomes(passed=2)


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_ci_set_to_false_does_not_count(
    project: Project, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    project.write(ASKS)
    monkeypatch.setenv("CI", value)
    project.record()


def test_allow_ci_option_permits_recording(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(ASKS)
    monkeypatch.setenv("CI", "1")
    project.record("--streamnorm-allow-ci")
    assert project.asked() == ["a", "b"]


@pytest.mark.parametrize("option", ["-q", "-qq"])
def test_quiet_run_prints_no_totals(project: Project, option: str) -> None:
    project.write(ASKS)
    result = project.run(option, "--streamnorm-record=once")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*streamnorm:*")
    assert project.asked() == ["a", "b"]


def test_folder_is_beside_the_module_and_configurable(project: Project) -> None:
    project.configure("streamnorm_dir = data/streams")
    folder = project.path / "unit"
    folder.mkdir()
    project.write(ASKS)
    (project.path / "test_it.py").rename(folder / "test_deep.py")
    project.record()
    assert project.files(folder / "data" / "streams" / "test_deep") == [
        f"test_asks-{text}/01-chat-completions.{suffix}"
        for text in ("a", "b")
        for suffix in ("json", "sse")
    ]
    assert not project.recordings.exists()


def test_command_names_the_test_relative_to_the_working_directory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(ASKS)
    folder = project.path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    project.run(f"--rootdir={project.path}", "..", "-k", "a").stdout.fnmatch_lines(
        ["E *to record it: pytest '../test_it.py::test_asks[[]a[]]' --streamnorm-record=new"]
    )


def test_absolute_folder_is_refused(project: Project) -> None:
    project.configure("streamnorm_dir = /srv/streams")
    project.write(ASKS)
    result = project.run("--streamnorm-record=once")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["E *UsageError: streamnorm_dir is '/srv/streams', expected a path relative to *"]
    )


def test_totals_of_xdist_workers_are_summed(project: Project) -> None:
    project.write(ASKS)
    blocked = project.path / "blocked"
    blocked.mkdir()
    (blocked / "test_blocked.py").write_text((project.path / "test_it.py").read_text())
    (blocked / "recordings").write_text("a file where a folder should be")
    plugins = ("-p", "xdist", "-p", "streamnorm.testing.plugin", "-p", "no:cacheprovider")
    result = project.run_alone(*plugins, "-n", "2", "--streamnorm-record=once")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*streamnorm: not recorded*",
            *["blocked/test_blocked.py::test_asks*: *01-chat-completions: *"] * 2,
            "streamnorm: 2 recorded, 0 replayed",
        ]
    )
    assert sorted(project.asked()) == ["a", "a", "b", "b"]


LOADED = """
import sys
import pytest

def test_others(tmp_path):
    heavy = "httpx", "anyio", "hypothesis", "streamnorm.recording", "streamnorm.transports"
    assert "streamnorm.testing.plugin" in sys.modules
    assert not [name for name in sys.modules if name.startswith(heavy)]
"""


def test_plugin_is_an_entry_point_and_loads_nothing_for_other_tests(project: Project) -> None:
    """In a process of its own, where nobody else has loaded anything."""
    project.write("")
    (project.path / "test_it.py").write_text(LOADED)
    others = ("anyio", "hypothesispytest", "xdist", "langsmith_plugin")
    off = [argument for name in others for argument in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *off]
    environment = {"PATH": ""}
    run = subprocess.run(
        command, cwd=project.path, capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stdout
