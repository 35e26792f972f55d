"""The summary of a run: the requests that no recording answered."""

from __future__ import annotations

import pytest
from support.recording.plugin_project import Project

SECTION = "*= streamnorm: requests without a recording =*"
ASKS = """
def test_asks(streamnorm_recording):
    assert ask(streamnorm_recording, "a") == ["data: one\\n\\ndata: to a\\n\\n"]
"""
SWALLOWS = """
def test_swallows(streamnorm_recording):
    for _ in range(3):
        with pytest.raises(Exception):
            ask(streamnorm_recording, "b")
"""
RETRIES = """
def answer(recording):
    for _ in range(3):
        try:
            return ask(recording, "b")
        except Exception:
            pass
    return None

def test_retries(streamnorm_recording):
    assert answer(streamnorm_recording) is not None, "the provider cannot be reached"
"""


def change_of(name: str) -> list[str]:
    """Return the lines of a drifted request's message, as patterns."""
    return [
        SECTION,
        f"test_it.py::{name}",
        "no recording answers POST /v1/chat/completions *",
        '*-*"a"*',
        '*+*"b"*',
        "to record it: pytest test_it.py::*",
    ]


@pytest.fixture
def drifted(project: Project) -> Project:
    """A project that has recorded "a" for each test."""
    for source in (SWALLOWS, RETRIES):
        recorded = source.replace('"b"', '"a"').replace("with pytest.raises(Exception):", "if 1:")
        project.write(recorded.replace("range(3)", "range(1)"))
        project.record()
    project.asked()
    return project


@pytest.mark.parametrize("options", [(), ("--tb=no",), ("--tb=line", "-q")])
@pytest.mark.parametrize("source", [SWALLOWS, RETRIES])
def test_diff_is_shown_where_the_error_was_swallowed_or_retried(
    drifted: Project, source: str, options: tuple[str, ...]
) -> None:
    drifted.write(source)
    result = drifted.run(*options)
    assert result.ret == 1
    name = "test_swallows" if source == SWALLOWS else "test_retries"
    result.stdout.fnmatch_lines(change_of(name))
    section = result.stdout.str().partition("requests without a recording")[2]
    assert section.count("no recording answers") == 1  # although it was sent three times
    assert drifted.asked() == []


def test_unrecorded_request_is_shown_without_tracebacks(project: Project) -> None:
    project.write(ASKS)
    result = project.run("--tb=no")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            SECTION,
            "test_it.py::test_asks",
            "no recording answers POST */completions (openai_chat, *): nothing is recorded in *",
            "to record it: pytest test_it.py::test_asks --streamnorm-record=new",
        ]
    )


def test_requests_of_several_tests_are_shown_in_their_order(project: Project) -> None:
    project.write(ASKS + ASKS.replace("test_asks", "test_asks_again"))
    result = project.run("--tb=no")
    result.stdout.fnmatch_lines([SECTION, "test_it.py::test_asks", "test_it.py::test_asks_again"])


def test_recorded_requests_are_not_shown(project: Project) -> None:
    project.write(ASKS)
    for mode in ("new", "once", "none"):
        result = project.run(f"--streamnorm-record={mode}")
        assert result.ret == 0
        result.stdout.no_fnmatch_line(SECTION)


def test_request_that_mode_new_records_is_not_shown(project: Project) -> None:
    project.write(ASKS)
    project.record()
    project.write(ASKS.replace('"a")', '"a", "b")[:1]'))
    result = project.run("--streamnorm-record=new")
    assert (result.ret, project.asked()) == (0, ["a", "b"])
    result.stdout.no_fnmatch_line(SECTION)


def test_requests_of_workers_are_shown(project: Project) -> None:
    project.write(ASKS + ASKS.replace("test_asks", "test_asks_again"))
    plugins = ("-p", "xdist", "-p", "streamnorm.testing.plugin", "-p", "no:cacheprovider")
    result = project.run_alone(*plugins, "-n", "2", "--tb=no")
    assert result.ret == 1
    text = result.stdout.str().partition("requests without a recording")[2]
    assert text.count("no recording answers") == 2
