"""Requests that no recording answers: the error, its diff, and `drift`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from support.recording.libraries import (
    CHAT,
    MESSAGES,
    ask,
    assert_refused,
    played,
    record,
    write,
    write_script,
)

from streamnorm.recording.format import WireRequest
from streamnorm.recording.library import DriftWarning, Library


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path)


def test_drifted_request_is_an_error_with_the_diff_and_how_to_record(script: Path) -> None:
    library = Library(script)
    error = assert_refused(library, ask({"turn": 2, "new": "yes"}))
    assert error.nearest == f"{script.name}/03-chat"
    assert error.diff.split("\n") == [
        f"--- recorded: {script.name}/03-chat",
        "+++ asked",
        "@@ -1,4 +1,5 @@",
        " POST /v1/chat/completions",
        " {",
        '   "turn": 2,',
        '+  "new": "yes",',
        " },",
    ]
    assert str(error) == (
        "no recording answers POST /v1/chat/completions (openai_chat, 25 bytes): "
        f"2 recordings of this endpoint remain in {script}, query or body differs\n"
        f"{error.diff}\n"
        "to record it: wrap your client's transport in "
        f"RecordingTransport(inner, {str(script)!r}), "
        f"or run: streamnorm record --upstream URL --out {script}"
    )
    assert library.unrecorded == (error,)
    assert len(library.unplayed) == 3


def test_error_has_the_callers_recording_command(script: Path) -> None:
    library = Library(script)
    library.how_to_record = "pytest --streamnorm-record=new"
    assert str(assert_refused(library, ask({}))).endswith(
        "\nto record it: pytest --streamnorm-record=new"
    )


def test_request_after_the_last_recording_is_an_error(script: Path) -> None:
    library = Library(script, drift="ignore")
    library.respond(ask({"turn": 1}))
    library.respond(ask({"turn": 2}))
    error = assert_refused(library, ask({"turn": 2}))
    assert f"2 recordings of this endpoint in {script}, all played\n" in str(error)
    assert f"\nthe request equals that of {script.name}/03-chat\n" in str(error)
    assert (error.nearest, error.diff) == (f"{script.name}/03-chat", "")


def test_request_of_another_path_is_an_error_without_a_diff(script: Path) -> None:
    error = assert_refused(
        Library(script, drift="ignore"), ask({"turn": 1}, MESSAGES + "/count_tokens")
    )
    assert (
        f"3 recordings in {script}, none of this endpoint, "
        "expected POST /v1/chat/completions, POST /v1/messages\nto record it: "
    ) in str(error)
    assert (error.nearest, error.diff) == (None, "")


def test_recorded_endpoints_are_named_up_to_five(tmp_path: Path) -> None:
    for n in range(7):
        record(tmp_path, str(n), {}, f"https://api.example.com/v1/{n}?beta=true")
    expected = ", ".join(f"POST /v1/{n}" for n in range(5))
    assert f"none of this endpoint, expected {expected}, …\n" in str(
        assert_refused(Library(tmp_path), ask({}))
    )


def test_recording_of_another_dialect_without_a_request_names_no_endpoint(tmp_path: Path) -> None:
    write(tmp_path / "a.sse", None, dialect="anthropic")
    error = assert_refused(Library(tmp_path), ask({}))
    assert f"1 recording in {tmp_path}, none of this endpoint\nto record it: " in str(error)


def test_prefix_of_the_path_is_no_line_of_the_diff(tmp_path: Path) -> None:
    record(tmp_path, "a", {"n": 1}, "https://host.example/api/v1/chat/completions?beta=1")
    error = assert_refused(Library(tmp_path), ask({"n": 1}, CHAT + "?beta=2"))
    assert f"1 recording of this endpoint remains in {tmp_path}, query or body" in str(error)
    assert error.diff.split("\n")[3:5] == [
        "-POST /v1/chat/completions?beta=1",
        "+POST /v1/chat/completions?beta=2",
    ]


def test_suggested_command_is_quoted_for_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME; rm"
    folder.mkdir()
    record(folder, "a", {})
    for path, more in ((folder, ""), (folder / "a.sse", " (and replay that directory: a file")):
        error = assert_refused(Library(path), ask({}, MESSAGES))
        command = str(error).partition("or run: ")[2]
        assert more in command
        words = shlex.split(command.partition(" (and")[0])
        assert words == ["streamnorm", "record", "--upstream", "URL", "--out", str(folder)]


def test_nearest_recording_has_the_same_path_and_is_unplayed(tmp_path: Path) -> None:
    record(tmp_path, "1", {"turn": 1, "text": "the same"})
    record(tmp_path, "2", {"turn": 2, "text": "the same", "more": 1}, MESSAGES)
    record(tmp_path, "3", {"turn": 3})
    library = Library(tmp_path)
    library.respond(ask({"turn": 1, "text": "the same"}))
    error = assert_refused(library, ask({"turn": 2, "text": "the same", "more": 1}))
    assert error.nearest == f"{tmp_path.name}/3"
    library.respond(ask({"turn": 3}))
    error = assert_refused(library, ask({"turn": 2, "text": "the same", "more": 1}))
    assert error.nearest == f"{tmp_path.name}/1"


def test_empty_library_is_an_error_without_a_nearest_recording(tmp_path: Path) -> None:
    library = Library(tmp_path)
    error = assert_refused(library, WireRequest("POST", CHAT, body=None))
    assert str(error).startswith(
        "no recording answers POST /v1/chat/completions (openai_chat, body not kept): "
        f"nothing is recorded in {tmp_path}\nto record it: "
    )
    assert (error.nearest, error.diff) == (None, "")
    assert library.recordings == library.unplayed == ()


def test_errors_contain_no_secrets(script: Path) -> None:
    secret = "sk-" + "q7" * 16
    url = CHAT.replace("https://", "https://name:word-of-pass@") + f"?key={secret}"
    error = assert_refused(
        Library(script), ask({"text": secret}, url, authorization=f"Bearer {secret}")
    )
    assert '+  "text": "xxxxxxxx",' in error.diff
    assert "q7q7" not in str(error)
    assert "word-of-pass" not in str(error)


def test_stored_errors_are_bounded(script: Path) -> None:
    library = Library(script)
    errors = [assert_refused(library, ask({"n": n})) for n in range(101)]
    assert library.unrecorded == tuple(errors[:100])


def test_ignored_drift_plays_the_next_recording(script: Path) -> None:
    library = Library(script, drift="ignore")
    assert [played(library.respond(ask({"turn": 7}))) for _ in range(2)] == ["01-chat", "03-chat"]
    assert library.unrecorded == ()


def test_warned_drift_plays_the_next_recording(script: Path) -> None:
    library = Library(script, drift="warn")
    with pytest.warns(DriftWarning) as caught:
        assert played(library.respond(ask({"turn": 7}))) == "01-chat"
    text = str(caught[0].message)
    assert text.startswith(
        "POST /v1/chat/completions (openai_chat, 11 bytes) is answered by "
        f"{script.name}/01-chat, which differs:\n--- recorded"
    )
    assert '-  "turn": 1,\n+  "turn": 7,' in text


@pytest.mark.parametrize("drift", ["warn", "error"])
def test_equal_request_does_not_warn(script: Path, drift: Any) -> None:
    assert played(Library(script, drift=drift).respond(ask({"turn": 2}))) == "03-chat"
