"""Framing is judged once for all dialects; the room's checker judges the frames."""

from __future__ import annotations

import json

import pytest

from streamnorm import Limits, MessageStart, MessageStop, UnknownDialect
from streamnorm._core.codec import Dialect
from streamnorm.dialects import anthropic
from streamnorm.validation import Violation, validate

CHAT = [
    'data: {"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","choices":'
    '[{"index":0,"delta":{"role":"assistant","content":"hé"},"finish_reason":null}]}',
    'data: {"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","choices":'
    '[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    "data: [DONE]",
]
MESSAGES = [
    'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    '"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,'
    '"usage":{"input_tokens":3,"output_tokens":1}}}',
    'event: ping\ndata: {"type":"ping"}',
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"refusal",'
    '"stop_sequence":null},"usage":{"output_tokens":1}}',
    'event: message_stop\ndata: {"type":"message_stop"}',
]
GEMINI = [
    'data: {"candidates":[{"content":{"parts":[{"text":"hé"}],"role":"model"},"index":0}],'
    '"modelVersion":"m"}',
    'data: {"candidates":[{"finishReason":"STOP","index":0}],"modelVersion":"m"}',
]
RESPONSE = (
    '{"id":"resp_1","object":"response","created_at":5,"model":"m","output":[],'
    '"parallel_tool_calls":true,"tool_choice":"auto","tools":[],'
)
RESPONSES = [
    'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":'
    + RESPONSE
    + '"status":"in_progress"}}',
    'event: response.incomplete\ndata: {"type":"response.incomplete","sequence_number":1,'
    '"response":'
    + RESPONSE
    + '"status":"incomplete","incomplete_details":{"reason":"content_filter"},"usage":'
    '{"input_tokens":1,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    '"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1}}}',
]
STREAMS = {
    "openai_chat": CHAT,
    "anthropic": MESSAGES,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
}
# google-genai takes a comment for a line of JSON, and so it does `data:` without a space.
LOOSE = [dialect for dialect in STREAMS if dialect != "gemini"]
PING = MESSAGES[1]


def joined(frames: list[str], end: str = "\n") -> bytes:
    return "".join(frame + "\n\n" for frame in frames).replace("\n", end).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("dialect", STREAMS)
def test_line_ends_are_all_legal(dialect: str, end: str) -> None:
    assert validate(joined(STREAMS[dialect], end), dialect) == []


@pytest.mark.parametrize("dialect", LOOSE)
@pytest.mark.parametrize(
    "between",
    ["\n", "\n\n\n", ": ping\n\n", ":\n\n", ": a comment in an event\n", ": é\n: b\n\n"],
)
def test_comments_and_blank_lines_are_legal(dialect: str, between: str) -> None:
    body = between + "".join(frame + "\n\n" + between for frame in STREAMS[dialect])
    assert validate(body.encode(), dialect) == []


@pytest.mark.parametrize("dialect", LOOSE)
def test_unfinished_comment_at_the_end_is_legal(dialect: str) -> None:
    assert validate(joined(STREAMS[dialect]) + b": ping", dialect) == []


@pytest.mark.parametrize("dialect", LOOSE)
def test_space_after_the_colon_is_optional(dialect: str) -> None:
    body = joined(STREAMS[dialect]).replace(b"data: ", b"data:").replace(b"event: ", b"event:")
    assert validate(body, dialect) == []


@pytest.mark.parametrize("dialect", STREAMS)
def test_payload_of_several_lines_is_legal(dialect: str) -> None:
    body = joined(STREAMS[dialect]).replace(b',"', b',\ndata: "')
    assert validate(body, dialect) == []


def test_blank_lines_are_legal_even_if_comments_are_not() -> None:
    assert validate(b"\n\n\n" + b"\n\n".join([joined(GEMINI), b"\n"]), "gemini") == []


def test_id_and_retry_are_legal_if_clients_accept_them() -> None:
    body = b"retry: 10\n\n" + joined(MESSAGES).replace(b"event:", b"id: 1\nevent:")
    assert validate(body, "anthropic") == []


def test_alias_names_the_dialect() -> None:
    assert validate(joined(CHAT), "chat") == validate(joined(MESSAGES), "claude") == []
    assert validate(joined(RESPONSES), "responses") == validate(joined(GEMINI), "google") == []


def headed(frames: list[str], number: int, line: str) -> bytes:
    """Return a stream with a line put at the head of one frame."""
    frames = [*frames]
    frames[number] = f"{line}\n{frames[number]}"
    return joined(frames)


BOM = b"\xef\xbb\xbf"
NO_FIELD = "that is no field, expected a data line"
BROKEN = CHAT[0].encode().replace("é".encode(), b"\xff")

FRAMING: dict[str, tuple[str, bytes, int, str]] = {
    "byte order mark": (
        *("openai_chat", BOM + joined(CHAT)),
        *(0, "byte order mark, expected none"),
    ),
    "second byte order mark": (
        *("anthropic", joined(MESSAGES) + BOM + b":"),
        *(4, f"line of 4 bytes {NO_FIELD}"),
    ),
    "line without a colon": (
        *("openai_chat", headed(CHAT, 1, "[DONE]")),
        *(1, f"line of 6 bytes {NO_FIELD}"),
    ),
    "unknown field": (
        *("anthropic", headed(MESSAGES, 2, 'error: {"a":1}')),
        *(2, f"line of 14 bytes {NO_FIELD}"),
    ),
    "field in capitals": (
        *("anthropic", headed(MESSAGES, 0, "Data: {}")),
        *(0, f"line of 8 bytes {NO_FIELD}"),
    ),
    "id line": (
        *("openai_chat", headed(CHAT, 1, "id: 7")),
        *(1, "id line, expected data lines alone"),
    ),
    "retry line alone": (
        *("openai_chat", b"retry: 10\n\n" + joined(CHAT)),
        *(0, "retry line, expected data lines alone"),
    ),
    "event without data": (
        *("openai_chat", b"event: ping\n\n" + joined(CHAT)),
        *(0, "event line without data, expected a data line"),
    ),
    "ping without data": (
        *("anthropic", b"event: ping\n\n" + joined(MESSAGES)),
        *(0, "event line without data, expected a data line"),
    ),
    "empty data": (
        *("openai_chat", joined([CHAT[0], "data:", *CHAT[1:]])),
        *(1, "data is empty, expected a payload"),
    ),
    "empty data of a named event": (
        *("anthropic", joined(["event: ping\ndata: ", *MESSAGES])),
        *(0, "data is empty, expected a payload"),
    ),
    "comment where clients bear none": (
        *("gemini", joined(GEMINI) + b":\n"),
        *(2, "comment of 1 bytes, expected data lines alone"),
    ),
    "data without a space where clients need it": (
        *("gemini", joined(GEMINI).replace(b"data: ", b"data:", 1)),
        *(0, "data line without a space, expected one behind the colon"),
    ),
    "invalid byte": (
        *("openai_chat", BROKEN + b"\n\n" + joined(CHAT[1:])),
        0,
        f"byte {BROKEN.index(255)} of a line of {len(BROKEN)} is invalid, expected UTF-8",
    ),
    "invalid byte in a comment": (
        *("anthropic", b": \xc3\n\n" + joined(MESSAGES)),
        *(0, "byte 2 of a line of 3 is invalid, expected UTF-8"),
    ),
    "no blank line at the end": (
        *("openai_chat", joined(CHAT)[:-1]),
        *(2, "event of 13 bytes ends without a blank line, expected one"),
    ),
    "no line end at the end": (
        *("anthropic", joined(MESSAGES)[:-2]),
        *(3, "event of 50 bytes ends without a blank line, expected one"),
    ),
    "name of an event at the end": (
        *("anthropic", joined(MESSAGES) + b"event: ping\n"),
        *(4, "event of 12 bytes ends without a blank line, expected one"),
    ),
}


@pytest.mark.parametrize(
    ("dialect", "body", "position", "message"),
    FRAMING.values(),
    ids=FRAMING,
)
def test_framing_violation_is_reported_at_its_frame(
    dialect: str, body: bytes, position: int, message: str
) -> None:
    assert validate(body, dialect) == [Violation(position, message)]


def test_event_size_is_bounded() -> None:
    ping = PING + "\n\n"
    size = len(PING) + 1  # with the end of its last line
    at_bound = Limits(max_event_bytes=max(len(frame) + 1 for frame in MESSAGES))
    assert validate(joined(MESSAGES), "anthropic", limits=at_bound) == []
    below = Limits(max_event_bytes=at_bound.max_event_bytes - 1)
    found = validate(joined(MESSAGES), "anthropic", limits=below)
    assert found[0] == Violation(
        0, f"event of {below.max_event_bytes + 1} bytes, expected at most {below.max_event_bytes}"
    )
    comments = b": a comment is no part of an event\n" + ping.encode()
    tight = Limits(max_event_bytes=size)
    assert [v.position for v in validate(comments, "anthropic", limits=tight)] == [1]


def test_oversized_unfinished_event_is_two_violations() -> None:
    bound = Limits(max_event_bytes=20)
    assert validate(b"data: 12345\ndata: 123456789\ndata: 1", "openai_chat", limits=bound) == [
        Violation(0, "event of 36 bytes ends without a blank line, expected one"),
        Violation(0, "event of 36 bytes, expected at most 20"),
        Violation(1, "the stream ends before any choice, expected one"),
        Violation(1, "no [DONE], expected it last"),
    ]


@pytest.mark.parametrize("body", [b'{"error":{"message":"no"}}', b"<html>\n</html>", b"upstream"])
def test_body_that_is_no_stream_has_invalid_lines(body: bytes) -> None:
    strays = [v for v in validate(body, "openai_chat") if "no field" in v.message]
    assert len(strays) == len(body.split(b"\n"))


@pytest.mark.parametrize("dialect", STREAMS)
def test_empty_body_lacks_its_first_event(dialect: str) -> None:
    assert {violation.position for violation in validate(b"", dialect)} == {0}


def test_violations_are_limited_to_a_thousand() -> None:
    exactly = validate(b"x\n" * 998, "openai_chat")
    assert len(exactly) == 1000
    assert exactly[-1].message == "no [DONE], expected it last"
    beyond = validate(b"x\n" * 999, "openai_chat")
    assert len(beyond) == 1001
    assert beyond[-1] == Violation(0, "more than 1000 violations, expected none")
    assert validate(b"x\n" * 100_000, "openai_chat")[1000:] == beyond[1000:]


def test_problems_of_one_frame_are_limited_to_a_thousand() -> None:
    chunk = {"object": "chat.completion.chunk", "id": "", "created": 0, "model": ""}
    data = json.dumps({**chunk, "choices": [0] * 5000})
    found = validate(f"data: {data}\n\n".encode(), "openai_chat")
    assert len(found) == 1001
    assert found[999] == Violation(0, "choices[999] is an integer, expected an object")
    assert found[1000] == Violation(1, "more than 1000 violations, expected none")


def test_events_are_validated_by_the_grammar() -> None:
    assert validate([MessageStart(), MessageStop("end_turn")]) == []
    assert validate(iter([MessageStop("end_turn")])) == [
        Violation(0, "message_stop comes first, expected message_start")
    ]


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(UnknownDialect, match="no dialect 'klingon', expected one of"):
        validate(b"", "klingon")


def test_dialect_without_a_checker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = Dialect(name="mute", aliases=(), recognises=anthropic.DIALECT.recognises)
    monkeypatch.setattr("streamnorm._registry._BY_NAME", {"mute": mute})
    with pytest.raises(UnknownDialect, match="no checker of dialect 'mute', expected one of opena"):
        validate(b"", "mute")


def test_bytes_need_the_name_of_a_dialect() -> None:
    with pytest.raises(TypeError, match="bytes without a dialect, expected the name of one"):
        validate(b"")  # type: ignore[arg-type]  # which is what it is about
