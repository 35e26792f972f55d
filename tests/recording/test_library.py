"""The recording of a library that answers a request."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs
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

from streamnorm.recording import Recording, RecordingError, UnrecordedRequest
from streamnorm.recording.format import (
    Companion,
    Playback,
    RecordedRequest,
    RecordedResponse,
    Step,
    WireRequest,
)
from streamnorm.recording.library import Library, open_responder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path)


# The recording that answers


def test_each_recording_answers_the_request_it_was_recorded_for(script: Path) -> None:
    library = Library(script)
    assert [recording.name for recording in library.unplayed] == [
        f"{script.name}/{name}" for name in ("01-chat", "02-messages", "03-chat")
    ]
    assert played(library.respond(ask({"turn": 1}))) == "01-chat"
    assert played(library.respond(ask({"turn": 2}))) == "03-chat"
    assert played(library.respond(ask({"turn": 1}, MESSAGES))) == "02-messages"
    assert library.unplayed == ()
    assert (len(library.recordings), library.replayed) == (3, 3)


def test_concurrent_requests_may_come_in_any_order(script: Path) -> None:
    library = Library(script)
    assert played(library.respond(ask({"turn": 2}))) == "03-chat"
    assert played(library.respond(ask({"turn": 1}))) == "01-chat"


@pytest.mark.parametrize("match", ["normalised", "exact"])
def test_recording_of_the_same_path_and_host_comes_before_a_similar_one(
    tmp_path: Path, match: Any
) -> None:
    places = [
        "https://a.example/v1/chat/completions",
        "https://b.example/api/v1/chat/completions",
        "https://c.example/v1/chat/completions",
    ]
    for number, url in enumerate(places):
        record(tmp_path, f"{number}-x", {"turn": 1}, url)
    for asked in (places, places[::-1]):
        library = Library(tmp_path, match=match)
        names = [f"{places.index(url)}-x" for url in asked]
        assert [played(library.respond(ask({"turn": 1}, url))) for url in asked] == names


def test_recording_of_the_same_words_comes_before_one_that_is_equal_without_a_date(
    tmp_path: Path,
) -> None:
    texts = [f"Add to the current date exactly {count} days" for count in (1000, 2000)]
    for text in texts:
        record(tmp_path, text[-9:-5], {"input": text})
    library = Library(tmp_path)
    names = [played(library.respond(ask({"input": text}))) for text in texts[::-1]]
    assert names == ["2000", "1000"]
    # What an agent says of its environment still does not count.
    library = Library(tmp_path)
    other = ask({"input": "Add to the current date exactly 3000 days"})
    assert played(library.respond(other)) == "1000"


def test_pages_of_a_list_are_told_apart(tmp_path: Path) -> None:
    base = "https://a.example/v1/models?limit=2"
    for name, url in (("1", base), ("2", f"{base}&after_id=b"), ("3", f"{base}&after_id=c")):
        write(tmp_path / f"{name}.sse", RecordedRequest("GET", url, {}))
    library = Library(tmp_path, match="exact")
    for name, url in (("3", f"{base}&after_id=c"), ("1", base), ("2", f"{base}&after_id=b")):
        assert played(library.respond(WireRequest("GET", url, (), b""))) == name


def test_recording_without_the_parameters_that_were_not_kept_answers(tmp_path: Path) -> None:
    base = "https://a.example/v1/files"
    write(tmp_path / "1.sse", RecordedRequest("GET", base, {}))
    asked = WireRequest("GET", f"{base}?purpose=a&order=asc", (), b"")
    assert played(Library(tmp_path).respond(asked)) == "1"
    write(tmp_path / "1.sse", RecordedRequest("GET", f"{base}?limit=2", {}))
    assert_refused(Library(tmp_path), asked)


def test_upload_is_answered_whatever_its_client_calls_the_boundary(tmp_path: Path) -> None:
    def upload(boundary: str, model: str) -> tuple[dict[str, str], str]:
        part = f'--{boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\n{model}\r\n'
        kind = f"multipart/form-data; boundary={boundary}"
        return {"content-type": kind}, f"{part}--{boundary}--\r\n"

    url = "https://a.example/v1/audio/transcriptions"
    for model in ("one", "two"):
        headers, text = upload("a" * 32, model)
        write(tmp_path / f"{model}.sse", RecordedRequest("POST", url, headers, text=text))
    library = Library(tmp_path)
    for model in ("two", "one"):
        headers, text = upload("b" * 32, model)
        asked = WireRequest("POST", url, tuple(headers.items()), text.encode())
        assert played(library.respond(asked)) == model


def test_same_request_twice_plays_its_recordings_in_order(tmp_path: Path) -> None:
    for name in ("2-b", "10-c", "1-a"):
        record(tmp_path, name, {})
    library = Library(tmp_path)
    assert [played(library.respond(ask({}))) for _ in range(3)] == ["1-a", "2-b", "10-c"]


def test_playback_is_that_of_the_recording(tmp_path: Path) -> None:
    record(tmp_path, "a", {}, status=429, headers={"retry-after": "1"}, end="reset")
    playback = Library(tmp_path, rechunk=5).respond(ask({}))
    assert (playback.status, playback.headers, playback.end) == (429, {"retry-after": "1"}, "reset")
    assert playback.steps == (Step(0.0, b"data:"), Step(0.0, b" a\n\n"))


def test_dialect_is_that_of_the_path_if_the_recording_has_none(tmp_path: Path) -> None:
    record(tmp_path, "a", {}, MESSAGES)
    assert Library(tmp_path).respond(ask({}, MESSAGES)).dialect == "anthropic"


@pytest.mark.parametrize("end", ["eof", "aborted", "incomplete"])
@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("cohere", "/v2/chat"),
        (None, "/v1/else"),
    ],
)
def test_dialects_that_nobody_decodes_replay(
    tmp_path: Path, dialect: str | None, path: str, end: str
) -> None:
    url = "https://api.example.com" + path
    record(tmp_path, "a", {}, url, dialect=dialect, end=end)
    playback = Library(tmp_path).respond(ask({}, url))
    assert (played(playback), playback.dialect) == ("a", dialect)
    assert playback.end == ("eof" if end == "eof" else "reset")


def test_fresh_ids_and_secrets_are_no_drift(tmp_path: Path) -> None:
    secret = "sk-" + "q7" * 16
    record(tmp_path, "a", {"text": "key " + "x" * 20, "prompt_cache_key": "one"})
    library = Library(tmp_path)
    asked = ask(
        {"text": f"key {secret}", "prompt_cache_key": "two"}, authorization=f"Bearer {secret}"
    )
    assert played(library.respond(asked)) == "a"


def test_redacted_text_is_no_drift_even_if_recorded(tmp_path: Path) -> None:
    record(tmp_path, "a", {"user": "customer-12345678"})
    library = Library(tmp_path, redact=[re.compile(r"customer-\d+")])
    assert played(library.respond(ask({"user": "customer-9876543210"}))) == "a"
    assert "customer" not in str(assert_refused(library, ask({"user": "customer-9876543210"})))


# Match


def test_exact_match_treats_fresh_ids_as_drift(tmp_path: Path) -> None:
    record(tmp_path, "a", {"prompt_cache_key": "one"})
    library = Library(tmp_path, match="exact")
    error = assert_refused(library, ask({"prompt_cache_key": "two"}))
    assert '-  "prompt_cache_key": "one",\n+  "prompt_cache_key": "two",' in error.diff
    assert played(library.respond(ask({"prompt_cache_key": "one"}))) == "a"


def test_sequence_compares_no_body(script: Path) -> None:
    library = Library(script, match="sequence")
    assert [played(library.respond(ask({"turn": n}))) for n in (9, 8)] == ["01-chat", "03-chat"]
    assert "all played" in str(assert_refused(library, ask({"turn": 7})))
    assert "none of this endpoint" in str(assert_refused(library, ask({}, CHAT, "GET")))


def test_match_function_decides(script: Path) -> None:
    def match(asked: RecordedRequest, recorded: RecordedRequest) -> bool:
        seen.append((asked, recorded))
        return isinstance(recorded.body, dict) and recorded.body["turn"] == len(asked.body)

    seen: list[tuple[RecordedRequest, RecordedRequest]] = []
    library = Library(script, match=match)
    assert played(library.respond(ask("ab", "http://else.example/path"))) == "03-chat"
    assert [recorded.url for _, recorded in seen] == [CHAT, MESSAGES, CHAT]
    assert (seen[0][0].url, seen[0][0].body) == ("http://else.example/path", "ab")
    error = assert_refused(library, ask("ab"))
    assert "1 recording of this endpoint remains" in str(error)


def test_match_function_without_a_match_leaves_it_to_drift(script: Path) -> None:
    library = Library(script, match=lambda asked, recorded: False, drift="ignore")
    assert played(library.respond(ask({"turn": 2}))) == "01-chat"


def test_match_function_may_read_the_library(script: Path) -> None:
    library = Library(script, match=lambda asked, recorded: len(library.unplayed) == 3)
    assert played(library.respond(ask({}))) == "01-chat"


def test_ignored_matches_are_no_drift(tmp_path: Path) -> None:
    record(tmp_path, "a", {"text": "run 12"})
    assert played(Library(tmp_path, ignore=[r"\d+"]).respond(ask({"text": "run 345"}))) == "a"


# Recordings that tell no request


def test_recording_without_a_request_answers_any_of_its_dialect(tmp_path: Path) -> None:
    write(tmp_path / "a.sse", None, dialect="anthropic")
    library = Library(tmp_path)
    assert "none of this endpoint" in str(assert_refused(library, ask({})))
    assert played(library.respond(ask({"any": 1}, MESSAGES))) == "a"


def test_bare_body_answers_any_request(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(b"data: a\n\n")
    assert played(Library(tmp_path).respond(ask({"any": 1}))) == "a"


def test_recording_without_a_request_is_played_in_order(tmp_path: Path) -> None:
    """Else it would hide that the first request has drifted."""
    record(tmp_path, "1", {"turn": 1})
    write(tmp_path / "2.sse", None)
    record(tmp_path, "3", {"turn": 3})
    library = Library(tmp_path)
    assert assert_refused(library, ask({"turn": 2})).nearest == f"{tmp_path.name}/1"
    assert played(library.respond(ask({"turn": 3}))) == "3"
    assert played(library.respond(ask({"turn": 1}))) == "1"
    assert played(library.respond(ask({"turn": 2}))) == "2"


# A single file


@pytest.mark.parametrize("file", ["a.sse", "a.json", "a"])
def test_single_file_answers_any_number_of_requests(tmp_path: Path, file: str) -> None:
    record(tmp_path, "a", {"turn": 1})
    record(tmp_path, "b", {"turn": 2})
    library = Library(str(tmp_path / file))
    assert len(library.unplayed) == 1
    assert [played(library.respond(ask({"turn": 1}))) for _ in range(3)] == ["a"] * 3
    assert library.unplayed == ()
    error = assert_refused(library, ask({"turn": 2}))
    assert str(error).endswith(
        f"--out {tmp_path} (and replay that directory: a file is one answer)"
    )
    assert error.nearest == f"{tmp_path.name}/a"


# Loading


def test_library_of_a_missing_path_answers_nothing_where_that_is_allowed(tmp_path: Path) -> None:
    library = Library(tmp_path / "gone", missing_ok=True)
    with pytest.raises(UnrecordedRequest, match=r"nothing is recorded in .*gone"):
        library.respond(ask({}))
    assert (library.recordings, library.replayed) == ((), 0)


def test_missing_path_is_a_recording_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone: no such directory or recording"):
        Library(tmp_path / "gone")


def test_file_that_is_no_recording_is_a_recording_error(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("#")
    with pytest.raises(RecordingError, match=r"README\.md: no recording, expected a directory of "):
        Library(tmp_path / "README.md")


def test_damaged_recording_is_a_recording_error_at_once(script: Path) -> None:
    (script / "02-messages.json").write_text("{")
    with pytest.raises(RecordingError, match=r"02-messages\.json: no companion"):
        Library(script)


def test_companion_without_a_body_is_a_recording_error(script: Path) -> None:
    (script / "02-messages.sse").unlink()
    with pytest.raises(RecordingError, match=r"02-messages\.sse: No such file"):
        Library(script)


def test_other_files_and_directories_are_ignored(script: Path) -> None:
    inner = script / "04-inner.sse"
    inner.mkdir()
    record(inner, "a", {})
    for name in ("01-chat.events.jsonl", "05.sse.part", ".hidden.json", "notes.txt"):
        (script / name).write_text("no recording")
    assert len(Library(script).recordings) == 3


def test_body_of_another_suffix_is_found_by_its_companion(tmp_path: Path) -> None:
    request = RecordedRequest("POST", CHAT, {}, {})
    for suffix in (".body.json", ".body.bin"):
        companion = Companion(1, request=request, response=RecordedResponse(body=suffix))
        Recording(b"data: whole", companion).save(tmp_path / f"a{suffix[5:]}{suffix}")
    library = Library(tmp_path)
    assert [played(library.respond(ask({}))) for _ in range(2)] == ["whole", "whole"]


def test_body_replaced_by_another_suffix_is_ignored(tmp_path: Path) -> None:
    record(tmp_path, "a", {})
    (tmp_path / "a.body.json").write_text("{}")
    assert [played(Library(tmp_path).respond(ask({})))] == ["a"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"match": "fuzzy"}, "match 'fuzzy', expected"),
        ({"drift": "maybe"}, "drift 'maybe', expected"),
        ({"rechunk": "often"}, "rechunk 'often', expected"),
        ({"ignore": "x+"}, "ignore is a string"),
        ({"redact": "x+"}, "redact is a string"),
    ],
)
def test_unknown_options_are_refused_at_once(
    tmp_path: Path, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        Library(tmp_path, **options)


# Faults


class Mark(Struct, frozen=True):
    """A fault that adds a mark to the body."""

    mark: str
    times: int | None = None
    replaces: bool = False

    def __call__(self, playback: Playback, /) -> Playback:
        steps = () if self.replaces else playback.steps
        return structs.replace(playback, steps=(*steps, Step(0.0, self.mark.encode())))


def answers(library: Library, count: int) -> Iterator[str]:
    for _ in range(count):
        yield library.respond(ask({})).body.decode().replace("data: ", "").replace("\n", "")


@pytest.fixture
def five(tmp_path: Path) -> Path:
    for n in range(1, 6):
        record(tmp_path, str(n), {})
    return tmp_path


def test_faults_are_applied_in_order(five: Path) -> None:
    library = Library(five, faults=[Mark("a"), Mark("b")])
    assert list(answers(library, 2)) == ["1ab", "2ab"]


def test_fault_with_times_changes_the_first_requests(five: Path) -> None:
    library = Library(five, faults=[Mark("a", 2), Mark("b"), Mark("c", 1), Mark("d", 0)])
    assert list(answers(library, 3)) == ["1abc", "2ab", "3b"]


def test_replacing_fault_uses_up_no_recording(five: Path) -> None:
    faults = [Mark("a", 1), Mark("b", 2, True), Mark("c", 1, True)]
    library = Library(five, faults=faults)
    assert list(answers(library, 3)) == ["b", "b", "c"]
    assert len(library.unplayed) == 5
    assert list(answers(library, 2)) == ["1a", "2"]
    assert len(library.unplayed) == 3


def test_fault_times_are_counted_for_each_library(five: Path) -> None:
    fault = Mark("a", 1)
    for _ in range(2):
        assert list(answers(Library(five, faults=[fault]), 2)) == ["1a", "2"]


def test_unrecorded_request_does_not_count_for_faults(five: Path) -> None:
    library = Library(five, faults=[Mark("a", 1)])
    assert_refused(library, ask({"other": 1}))
    assert list(answers(library, 1)) == ["1a"]


# Threads


def test_no_recording_is_played_twice_by_threads(tmp_path: Path) -> None:
    for n in range(40):
        record(tmp_path, str(n), {})
    library = Library(tmp_path, faults=[Mark("!", 7)])
    found: list[str] = []
    together = threading.Barrier(4)

    def run() -> None:
        together.wait(10)
        found.extend(answers(library, 10))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(int(name.rstrip("!")) for name in found) == list(range(40))
    assert sum(name.endswith("!") for name in found) == 7


# responder


def test_responder_of_a_path_is_a_library(script: Path) -> None:
    made = open_responder(str(script), drift="ignore")
    assert isinstance(made, Library)
    assert made.respond(ask({"turn": 9})).status == 200


def test_responder_is_returned_unchanged(script: Path) -> None:
    library = Library(script)
    assert open_responder(library) is library


def test_options_with_a_responder_are_a_type_error(script: Path) -> None:
    with pytest.raises(TypeError, match="drift given with a responder, expected a path with them"):
        open_responder(Library(script), drift="ignore")


def test_object_that_is_no_responder_raises_type_error() -> None:
    with pytest.raises(TypeError, match="a dict, expected a path or a responder"):
        open_responder({})  # type: ignore[arg-type]
