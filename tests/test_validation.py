"""Framing is judged once for all dialects; the room's checker judges the frames."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
import strict_chat
import strict_messages
from dice import Dice, dice
from hypothesis import given
from mutations import damaged, noise

from streamnorm import (
    Limits,
    MessageStart,
    MessageStop,
    UnknownDialect,
    Violation,
    validate,
)
from streamnorm.codec import Dialect
from streamnorm.dialects import anthropic

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
STREAMS = {"openai_chat": CHAT, "anthropic": MESSAGES}
PING = MESSAGES[1]


def joined(frames: list[str], end: str = "\n") -> bytes:
    return "".join(frame + "\n\n" for frame in frames).replace("\n", end).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("dialect", STREAMS)
def test_line_ends_are_all_legal(dialect: str, end: str) -> None:
    assert validate(joined(STREAMS[dialect], end), dialect) == []


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize(
    "between",
    ["\n", "\n\n\n", ": ping\n\n", ":\n\n", ": a comment in an event\n", ": é\n: b\n\n"],
)
def test_comments_and_blank_lines_are_legal(dialect: str, between: str) -> None:
    body = between + "".join(frame + "\n\n" + between for frame in STREAMS[dialect])
    assert validate(body.encode(), dialect) == []


@pytest.mark.parametrize("dialect", STREAMS)
def test_unfinished_comment_at_the_end_is_legal(dialect: str) -> None:
    assert validate(joined(STREAMS[dialect]) + b": ping", dialect) == []


@pytest.mark.parametrize("dialect", STREAMS)
def test_space_behind_the_colon_may_be_left_out(dialect: str) -> None:
    body = joined(STREAMS[dialect]).replace(b"data: ", b"data:").replace(b"event: ", b"event:")
    assert validate(body, dialect) == []


@pytest.mark.parametrize("dialect", STREAMS)
def test_payload_of_several_lines_is_legal(dialect: str) -> None:
    body = joined(STREAMS[dialect]).replace(b',"', b',\ndata: "')
    assert validate(body, dialect) == []


def test_id_and_retry_are_legal_where_clients_bear_them() -> None:
    body = b"retry: 10\n\n" + joined(MESSAGES).replace(b"event:", b"id: 1\nevent:")
    assert validate(body, "anthropic") == []


def test_alias_names_the_dialect() -> None:
    assert validate(joined(CHAT), "chat") == validate(joined(MESSAGES), "claude") == []


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
def test_departure_in_framing_is_told_at_its_frame(
    dialect: str, body: bytes, position: int, message: str
) -> None:
    assert validate(body, dialect) == [Violation(position, message)]


def test_event_of_the_largest_size_is_legal_and_a_larger_one_is_not() -> None:
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


def test_event_that_is_too_large_and_unfinished_is_told_as_both() -> None:
    bound = Limits(max_event_bytes=20)
    assert validate(b"data: 12345\ndata: 123456789\ndata: 1", "openai_chat", limits=bound) == [
        Violation(0, "event of 36 bytes ends without a blank line, expected one"),
        Violation(0, "event of 36 bytes, expected at most 20"),
        Violation(1, "the stream ends before any choice, expected one"),
        Violation(1, "no [DONE], expected it last"),
    ]


@pytest.mark.parametrize("body", [b'{"error":{"message":"no"}}', b"<html>\n</html>", b"upstream"])
def test_body_that_is_no_stream_has_lines_that_are_no_fields(body: bytes) -> None:
    strays = [v for v in validate(body, "openai_chat") if "no field" in v.message]
    assert len(strays) == len(body.split(b"\n"))


@pytest.mark.parametrize("dialect", STREAMS)
def test_empty_body_lacks_everything(dialect: str) -> None:
    assert {violation.position for violation in validate(b"", dialect)} == {0}


def test_more_than_a_thousand_violations_are_cut_off() -> None:
    exactly = validate(b"x\n" * 998, "openai_chat")
    assert len(exactly) == 1000
    assert exactly[-1].message == "no [DONE], expected it last"
    beyond = validate(b"x\n" * 999, "openai_chat")
    assert len(beyond) == 1001
    assert beyond[-1] == Violation(0, "more than 1000 violations, expected none")
    assert validate(b"x\n" * 100_000, "openai_chat")[1000:] == beyond[1000:]


def test_one_frame_tells_no_more_than_a_thousand_problems() -> None:
    chunk = {"object": "chat.completion.chunk", "id": "", "created": 0, "model": ""}
    data = json.dumps({**chunk, "choices": [0] * 5000})
    found = validate(f"data: {data}\n\n".encode(), "openai_chat")
    assert len(found) == 1001
    assert found[999] == Violation(0, "choices[999] is an integer, expected an object")
    assert found[1000] == Violation(1, "more than 1000 violations, expected none")


def test_events_are_judged_by_the_grammar() -> None:
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
    with pytest.raises(UnknownDialect, match="no checker of dialect 'mute', expected one of anthr"):
        validate(b"", "mute")


def test_bytes_need_the_name_of_a_dialect() -> None:
    with pytest.raises(TypeError, match="bytes without a dialect, expected the name of one"):
        validate(b"")  # type: ignore[arg-type]  # which is what it is about


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        ("anthropic", lambda n: strict_messages.sse(*strict_messages.text(0, *"a" * n))),
        ("anthropic", lambda n: strict_messages.sse(*strict_messages.tool(0, *"1" * n))),
        (
            "anthropic",
            lambda n: strict_messages.sse(
                *(strict_messages.begin(index, strict_messages.TEXT) for index in range(n))
            ),
        ),
        ("openai_chat", lambda n: strict_chat.sse(*(strict_chat.call(i) for i in range(n)))),
        ("openai_chat", lambda n: strict_chat.sse(*[strict_chat.more(0, "1")] * n)),
        ("openai_chat", lambda n: b"data: 1\n" * n),
        ("openai_chat", lambda n: b"data: " + b'{"a":' * n + b"\n\n"),
    ],
    ids=["texts", "inputs", "open blocks", "calls", "arguments", "lines", "nesting"],
)
def test_work_grows_no_faster_than_the_bytes(dialect: str, stream: Callable[[int], bytes]) -> None:
    once, thrice = (calls_of(partial(validate, body, dialect)) for body in map(stream, (100, 300)))
    assert thrice < 3.3 * once


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions are called, which does not depend on the machine."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@given(dice())
def test_any_bytes_are_judged(d: Dice) -> None:
    body = noise(d)
    for dialect in STREAMS:
        found = validate(body, dialect)
        assert found
        assert found == sorted(found, key=lambda violation: violation.position)


@given(dice())
def test_any_damaged_stream_is_judged_without_words_of_the_payload(d: Dice) -> None:
    for dialect, frames in STREAMS.items():
        body = damaged(d, joined(frames).replace(b'"m"', b'"zyxw"'))
        for violation in validate(body, dialect):
            assert "zyxw" not in violation.message
            assert ", expected " in violation.message
            assert 0 <= violation.position <= len(body.splitlines())


VALUES = (None, True, -1, 0, 1.5, 10**400, "", "a", [], [[]], {}, {"type": []}, {"index": 0}, ["a"])

RICH: dict[str, list[Any]] = {
    "anthropic": strict_messages.message(
        strict_messages.PING,
        *strict_messages.text(),
        *strict_messages.tool(1, "", '{"a": 1}'),
        *strict_messages.server(2, "srvtoolu_1"),
        *strict_messages.whole(3, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
        reason="tool_use",
    ),
    "openai_chat": strict_chat.answer(
        strict_chat.said(content="a", reasoning_details=[{"index": 0, "text": "b"}], extra=1),
        strict_chat.said(function_call={"name": "f", "arguments": "{}"}),
        strict_chat.call(),
        strict_chat.more(0, " "),
        reason="tool_calls",
    ),
}


def spoilt(d: Dice, value: Any) -> Any:
    """Return a JSON value with another in one of its places, or with a field less."""
    if isinstance(value, dict) and value and d.flag():
        name = d.pick(list(value))
        if d.flag(4):
            return {other: field for other, field in value.items() if other != name}
        return {**value, name: spoilt(d, value[name])}
    if isinstance(value, list) and value and d.flag():
        return [spoilt(d, value[0]), *value[d.below(2) :]]
    return d.pick(VALUES)


def named(frame: Any) -> str:
    """Return the name that an event of Anthropic has; the others have none."""
    kind = frame.get("type") if isinstance(frame, dict) else None
    return kind if isinstance(kind, str) else ""


@given(dice())
def test_payloads_of_any_shape_are_judged(d: Dice) -> None:
    for dialect, frames in RICH.items():
        frames = [
            spoilt(d, frame) if isinstance(frame, dict) and d.flag(3) else frame for frame in frames
        ]
        body = "".join(
            frame
            if isinstance(frame, str)
            else f"event: {named(frame)}\ndata: {json.dumps(frame)}\n\n"
            for frame in frames
        )
        for violation in validate(body.encode(), dialect):
            assert ", expected " in violation.message
