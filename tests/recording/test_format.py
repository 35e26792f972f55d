"""The file format of a recording, and files that are refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from streamnorm import Limits
from streamnorm.recording import RecordingError
from streamnorm.recording.format import (
    Companion,
    RecordedRead,
    RecordedRequest,
    RecordedResponse,
    decode_companion,
    read_bounded,
    split_name,
    write_companion,
)

PATH = Path("folder/a.json")

FULL = Companion(
    1,
    "openai_chat",
    UNSET,
    "openai",
    "recorded",
    RecordedRequest(
        "POST",
        "https://api.example-models.com/v1/chat/completions",
        {"content-type": "application/json"},
        {"model": "small", "messages": [], "seed": None},
    ),
    RecordedResponse(200, {"content-type": "text/event-stream"}, ".sse", "eof"),
    2,
)

FULL_TEXT = """\
{
  "streamnorm_recording": 1,
  "dialect": "openai_chat",
  "server": "openai",
  "provenance": "recorded",
  "request": {
    "method": "POST",
    "url": "https://api.example-models.com/v1/chat/completions",
    "headers": {
      "content-type": "application/json"
    },
    "body": {
      "model": "small",
      "messages": [],
      "seed": null
    }
  },
  "response": {
    "status": 200,
    "headers": {
      "content-type": "text/event-stream"
    },
    "body": ".sse",
    "end": "eof"
  },
  "redacted": 2,
  "chunks": [
    "+412 321",
    "+35 36"
  ]
}
"""


def written(companion: Companion, lines: list[str] | None = None) -> str:
    file = io.BytesIO()
    write_companion(file, companion, lines)
    return file.getvalue().decode()


def read(text: str, **limits: Any) -> tuple[Companion, list[RecordedRead] | None]:
    return decode_companion(text.encode(), PATH, Limits(**limits))


def companion(**fields: Any) -> str:
    return json.dumps({"streamnorm_recording": 1, **fields})


def test_companion_is_written_byte_for_byte() -> None:
    assert written(FULL, ["+412 321", "+35 36"]) == FULL_TEXT


def test_companion_is_read_as_it_was_written() -> None:
    found, reads = read(FULL_TEXT)
    assert found.request == FULL.request
    assert found.response == FULL.response
    assert (found.dialect, found.server, found.redacted) == ("openai_chat", "openai", 2)
    assert reads == [RecordedRead(412, 321), RecordedRead(35, 36)]
    assert [str(chunk) for chunk in reads] == ["+412 321", "+35 36"]


def test_unknown_reads_differ_from_no_reads() -> None:
    assert read(written(FULL, None))[1] is None
    assert "chunks" not in written(FULL, None)
    assert read(written(FULL, []))[1] == []
    assert written(FULL, []).endswith('"redacted": 2,\n  "chunks": []\n}\n')


def test_missing_companion_fields_have_defaults() -> None:
    assert read(companion()) == (
        Companion(1, response=RecordedResponse(200, {}, ".sse", "eof")),
        None,
    )


@pytest.mark.parametrize("body", [None, {}, [], "text", 0, False, {"a": "\u2028é💡"}])
def test_body_of_any_json_comes_back(body: object) -> None:
    request = RecordedRequest("POST", "u", {}, body)
    text = written(Companion(1, request=request))
    assert json.loads(text)["request"]["body"] == body
    assert read(text)[0].request == request


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (RecordedRequest("GET", "u", {}), {}),
        (RecordedRequest("POST", "u", {}, text="a=b"), {"text": "a=b"}),
        (RecordedRequest("POST", "u", {}, bytes=9), {"bytes": 9}),
    ],
)
def test_request_without_a_json_body_has_its_text_or_size(
    request_: RecordedRequest, kept: dict[str, object]
) -> None:
    text = written(Companion(1, request=request_))
    head = {"method": request_.method, "url": "u", "headers": {}}
    assert json.loads(text)["request"] == head | kept
    again = read(text)[0].request
    assert again == request_
    assert again is not None
    assert again.body is UNSET


def test_lone_surrogate_in_a_request_is_replaced() -> None:
    request = RecordedRequest("POST", "u", {}, {"text": "a\ud83d"})
    assert json.loads(written(Companion(1, request=request)))["request"]["body"] == {
        "text": "a\ufffd"
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "no companion"),
        ("[]", "no companion"),
        ("{}", "streamnorm_recording"),
        ('{"streamnorm_recording": 2}', "no companion"),
        ('{"streamnorm_recording": "1"}', "no companion"),
        (companion(extra=1), "extra"),
        (companion(dialect=1), "dialect"),
        (companion(framing=None), "framing"),
        (companion(provenance="guessed"), "provenance"),
        (companion(redacted="many"), "redacted"),
        (companion(request={"method": "GET", "url": "u"}), "headers"),
        (companion(request={"method": "G", "url": "u", "headers": {}, "key": "v"}), "key"),
        (companion(request={"method": "G", "url": "u", "headers": {"a": 1}}), "headers"),
        (companion(response={"end": "happy"}), "response.end"),
        (companion(response={"body": "../../secret.sse"}), "response.body"),
        (companion(response={"body": None}), "response.body"),
        (companion(response={"status": "200"}), "response.status"),
        (companion(response={"status": True}), "response.status"),
        (companion(response={"status": 199}), "`int` >= 200 - at `$.response.status`"),
        (companion(response={"status": -1}), "response.status"),
        (companion(response={"status": 600}), "`int` <= 599 - at `$.response.status`"),
        (companion(response={"status": 10**30}), "response.status"),
        (companion(response={"headers": [["a", "b"]]}), "response.headers"),
        (companion(response={"headers": {"retry-after": 1}}), "response.headers"),
        (companion(response={"headers": {"a": None}}), "response.headers"),
        (companion(response={"cookies": {}}), "cookies"),
        (companion(chunks="+1 2"), "chunks"),
        (companion(chunks=[[1, 2]]), "chunks"),
        ('{"streamnorm_recording": 1, "server": "\\ud83d"}', "no companion"),
    ],
)
def test_malformed_companion_is_refused_with_its_name(text: str, told: str) -> None:
    with pytest.raises(RecordingError) as caught:
        read(text)
    assert str(caught.value).startswith(f"{PATH}: no companion of a recording: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("status", [200, 204, 307, 429, 599])
def test_final_status_is_accepted(status: int) -> None:
    assert read(companion(response={"status": status}))[0].response.status == status


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("", "v"), ("a b", "v"), ("a:", "v"), ("a\r\nb", "v"), ("\u00e4", "v"), ("a\0", "v")),
        *(("a", "v\r\nb: w"), ("a", "v\n"), ("a", "\0"), ("a", "v\x7f"), ("a", " v"), ("a", "v\t")),
    ],
)
def test_header_that_no_server_can_send_is_refused(name: str, value: str) -> None:
    with pytest.raises(RecordingError) as caught:
        read(companion(response={"headers": {"content-type": "text/plain", name: value}}))
    assert str(caught.value) == f"{PATH}: header 1 of the response is no HTTP header"


@pytest.mark.parametrize("value", ["", "v", "a  b\tc: d", "caf\u00e9 \u20ac"])
def test_header_of_visible_characters_is_accepted(value: str) -> None:
    headers = {"Content-Type": value}
    assert read(companion(response={"headers": headers}))[0].response.headers == headers


@pytest.mark.parametrize(
    "line",
    [
        *("", "1 2", "+1", "+1 2 ", " +1 2", "+1  2", "+-1 2", "+1 -2", "+1.5 2", "+1 2\n"),
        *("+\u0661 2", "+1234567890123 2", "+1 1234567890123"),
    ],
)
def test_malformed_read_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(RecordingError, match="chunk 1 is not as") as caught:
        read(companion(chunks=["+1 2", line]))
    assert str(caught.value).startswith(str(PATH))
    assert read(companion(chunks=["+999999999999 0"]))[1] == [RecordedRead(999999999999, 0)]


def test_nesting_of_a_request_is_bounded() -> None:
    def nested(depth: int) -> str:
        body: object = 1
        for _ in range(depth):
            body = [body]
        return companion(request={"method": "P", "url": "u", "headers": {}, "body": body})

    assert read(nested(5), max_json_depth=5)[0].request is not None
    with pytest.raises(RecordingError, match=r"a\.json: nested deeper than 5$"):
        read(nested(6), max_json_depth=5)
    deep = '{"streamnorm_recording": 1, "request": ' + "[" * 10**5
    with pytest.raises(RecordingError, match="no companion"):
        read(deep)


@pytest.mark.parametrize(
    ("path", "name", "suffix"),
    [
        ("d/a.sse", "d/a", ".sse"),
        ("d/a.body.json", "d/a", ".body.json"),
        ("d/a.body.bin", "d/a", ".body.bin"),
        ("d/a.eventstream", "d/a", ".eventstream"),
        ("d/a.json", "d/a", None),
        ("d/a", "d/a", None),
        ("d/gemini-2.5-flash.sse", "d/gemini-2.5-flash", ".sse"),
        ("d.sse/a", "d.sse/a", None),
        ("a.bin", "a.bin", None),
    ],
)
def test_files_of_one_recording_share_a_name(path: str, name: str, suffix: str | None) -> None:
    assert split_name(Path(path)) == (name, suffix)


def test_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.sse"
    path.write_bytes(b"12345")
    assert read_bounded(path, 6) == read_bounded(path, 5) == b"12345"
    with pytest.raises(RecordingError, match=r"a\.sse: 5 bytes, expected at most 4$"):
        read_bounded(path, 4)
    with pytest.raises(RecordingError, match=r": not a regular file$"):
        read_bounded(tmp_path, 4)


def test_growing_file_is_not_read_in_part(tmp_path: Path) -> None:
    """The kernel's files have a size of 0."""
    with pytest.raises(RecordingError, match=r": more than 0 bytes, it is being written$"):
        read_bounded(Path("/proc/self/status"), 1_000_000)
