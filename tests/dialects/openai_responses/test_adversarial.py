"""Forty streams that put a piece in the wrong place, or contradict themselves.

Each row of `CLEAN` states its message by hand; no row of `BROKEN` is a success.  Strict
clients that share no code with the package read what each target gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.anthropic import reader as anthropic_reader
from support.gemini import reader as gemini_reader
from support.mutations import chunked
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader

from streamnorm import Completed, Transcoder

Event = dict[str, Any]
PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
USAGE = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27}


# The events


def event(type: str, at: int | None = None, id: str | None = None, **fields: Any) -> Event:
    places = {"output_index": at, "item_id": id}
    present = {key: value for key, value in places.items() if value is not None}
    return {"type": f"response.{type}", **present, **fields}


def snapshot(name: str, *output: Event, id: str = "resp_1", **fields: Any) -> Event:
    status = {"created": "in_progress"}.get(name, name)
    response = {"id": id, "model": "gpt", "status": status, "output": [*output], **fields}
    return event(name, response=response)


def end(*output: Event, name: str = "completed", **fields: Any) -> Event:
    return snapshot(name, *output, **{"usage": USAGE, **fields})


def call(n: int, arguments: str = "", **fields: Any) -> Event:
    name = ("get_weather", "get_time")[n % 2]
    item = {"id": f"fc_{n}", "call_id": f"call_{n}", "name": name, "arguments": arguments}
    return {"type": "function_call", "status": "completed", **item, **fields}


def message(text: str = "", **fields: Any) -> Event:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": "msg", "role": "assistant", "content": content, **fields}


def added(at: int | None, item: Event) -> Event:
    return event("output_item.added", at, item=item)


def done(at: int | None, item: Event) -> Event:
    return event("output_item.done", at, item=item)


def args(at: int | None, id: str | None, *pieces: str) -> list[Event]:
    return [event("function_call_arguments.delta", at, id, delta=piece) for piece in pieces]


def args_done(at: int | None, id: str | None, arguments: str, **fields: Any) -> Event:
    return event("function_call_arguments.done", at, id, arguments=arguments, **fields)


def text(at: int | None, id: str | None, *pieces: str, part: int | None = 0) -> list[Event]:
    index = {} if part is None else {"content_index": part}
    return [event("output_text.delta", at, id, delta=piece, **index) for piece in pieces]


def text_done(at: int | None, id: str | None, whole: str) -> Event:
    return event("output_text.done", at, id, content_index=0, text=whole)


def numbered(*events: Event | list[Event], first: int = 0) -> list[Event]:
    """Return events with their sequence numbers."""
    flat = [each for group in events for each in (group if isinstance(group, list) else [group])]
    return [{**each, "sequence_number": at} for at, each in enumerate(flat, first)]


def plain(*events: Event | list[Event]) -> list[Event]:
    """Return events without sequence numbers."""
    return [
        {key: value for key, value in each.items() if key != "sequence_number"}
        for each in numbered(*events)
    ]


def renumbered(events: list[Event], **numbers: int) -> list[Event]:
    """Return events of which some (`n3=1`) have other numbers."""
    changed = {int(key[1:]): number for key, number in numbers.items()}
    return [
        {**each, "sequence_number": changed.get(at, each["sequence_number"])}
        for at, each in enumerate(events)
    ]


START = [snapshot("created"), snapshot("in_progress")]
A, B = added(0, call(0)), added(1, call(1))
DONE_A, DONE_B = done(0, call(0, PARIS)), done(1, call(1, TOKYO))
BOTH = end(call(0, PARIS), call(1, TOKYO))
SAY = added(0, message())


def tool(n: int, arguments: str) -> tuple[str, ...]:
    return ("call", f"call_{n}", ("get_weather", "get_time")[n % 2], arguments)


ONE, TWO = [tool(0, PARIS)], [tool(0, PARIS), tool(1, TOKYO)]
HI = [("text", "Hi there")]
SAID = [SAY, *text(0, "msg", "Hi ", "there")]

Row = tuple[list[Event], list[tuple[str, ...]], str]
CLEAN: dict[str, Row] = {
    "01 pieces of two calls in turn": (
        numbered(
            *(START, A, B, args(1, "fc_1", TOKYO[:3]), args(0, "fc_0", PARIS[:5])),
            *(args(1, "fc_1", TOKYO[3:]), args(0, "fc_0", PARIS[5:]), DONE_B, DONE_A, BOTH),
        ),
        TWO,
        "tool_use",
    ),
    "02 lost last delta": (
        numbered(START, A, args(0, "fc_0", PARIS[:5]), DONE_A, end(call(0, PARIS))),
        ONE,
        "tool_use",
    ),
    "03 lost deltas, whole in the terminal alone": (
        numbered(START, A, args(0, "fc_0", PARIS[:5]), end(call(0, PARIS))),
        ONE,
        "tool_use",
    ),
    "04 terminal with ids of its own": (
        numbered(
            *(START, A, args(0, "fc_0", PARIS), DONE_A, B, args(1, "fc_1", TOKYO), DONE_B),
            end(call(0, PARIS, id="x", call_id="y"), call(1, TOKYO, id="z", call_id="w")),
        ),
        TWO,
        "tool_use",
    ),
    "05 whole with other white space": (
        numbered(START, A, args(0, "fc_0", PARIS), done(0, call(0, '{ "city": "Paris" }')), end()),
        ONE,
        "tool_use",
    ),
    "06 calls without deltas": (numbered(START, DONE_A, DONE_B, BOTH), TWO, "tool_use"),
    "07 calls in the terminal alone": (numbered(START, BOTH), TWO, "tool_use"),
    "08 ids that change with each event": (
        numbered(
            *(START[0], snapshot("in_progress", id="resp_2")),
            *(added(0, call(0, id="q")), added(1, call(1, id="r"))),
            *(args(1, "s", TOKYO[:4]), args(0, "t", PARIS), args(1, "q", TOKYO[4:])),
            *(done(0, call(0, PARIS, id="u")), done(1, call(1, TOKYO, id="v"))),
            end(call(0, PARIS, id="w"), call(1, TOKYO, id="x"), id="resp_3"),
        ),
        TWO,
        "tool_use",
    ),
    "09 no indexes and no numbers": (
        plain(
            *(START, added(None, call(0)), added(None, call(1))),
            *(
                args(None, "fc_1", TOKYO[:4]),
                args(None, "fc_0", PARIS),
                args(None, "fc_1", TOKYO[4:]),
            ),
            *(done(None, call(1, TOKYO)), done(None, call(0, PARIS)), BOTH),
        ),
        TWO,
        "tool_use",
    ),
    "10 one index for all items": (
        numbered(
            *(START, A, added(0, call(1)), args(0, "fc_1", TOKYO), args(0, "fc_0", PARIS)),
            *(done(0, call(1, TOKYO)), done(0, call(0, PARIS)), BOTH),
        ),
        TWO,
        "tool_use",
    ),
    "11 last event resent": (
        numbered(START, SAID)
        + numbered(text(0, "msg", "there"), text_done(0, "msg", "Hi there"), end(), first=4),
        HI,
        "end_turn",
    ),
    "12 number of all events the same": (
        [
            {**each, "sequence_number": 7}
            for each in numbered(START, SAY, text(0, "msg", "ha", "ha"))
        ]
        + [{**end(message("haha")), "sequence_number": 7}],
        [("text", "haha")],
        "end_turn",
    ),
    "13 name of the call in its last event alone": (
        numbered(
            *(START, added(0, call(0, name="")), args(0, "fc_0", PARIS[:5], PARIS[5:])),
            *(DONE_A, end(call(0, PARIS))),
        ),
        ONE,
        "tool_use",
    ),
    "14 text and a call at one index of two items": (
        numbered(
            *(START, SAID, added(0, call(0)), args(0, "fc_0", PARIS)),
            *(text(0, "msg", "!"), done(0, call(0, PARIS)), done(0, message("Hi there!"))),
            end(message("Hi there!"), call(0, PARIS)),
        ),
        [("text", "Hi there!"), ("call", "call_0", "get_weather", PARIS)],
        "tool_use",
    ),
    "15 lost delta of a text": (
        numbered(START, SAY, text(0, "msg", "Hi "), text_done(0, "msg", "Hi there"), end()),
        HI,
        "end_turn",
    ),
    "16 call that goes nowhere but into itself": (
        plain(START, A, B, DONE_A, args(None, None, TOKYO), DONE_B, BOTH),
        TWO,
        "tool_use",
    ),
}

BROKEN: dict[str, list[Event]] = {
    "17 delta lost in the middle": numbered(
        START, A, args(0, "fc_0", PARIS[:5], PARIS[7:]), DONE_A, end(call(0, PARIS))
    ),
    "18 delta of a text lost": numbered(
        START, SAY, text(0, "msg", "Hi ", "re"), text_done(0, "msg", "Hi there"), end()
    ),
    "19 two deltas swapped": plain(
        START, A, args(0, "fc_0", PARIS[5:], PARIS[:5]), DONE_A, end(call(0, PARIS))
    ),
    "20 two numbers swapped": renumbered(
        numbered(START, A, args(0, "fc_0", '{"', "a", "b", '":1}'), end()), n4=5, n5=4
    ),
    "21 unknown item at the index of a call": numbered(
        START, A, args(0, "fc_0", PARIS[:5]), args(0, "fc_9", "evil"), end()
    ),
    "22 id of one call at the index of another": numbered(
        START, A, B, args(0, "fc_1", PARIS), args(1, "fc_1", TOKYO), end()
    ),
    "23 nameless piece beside two calls": numbered(
        START,
        A,
        args(0, "fc_0", '{"a":'),
        B,
        args(1, "fc_1", '{"b":'),
        args(None, None, "1}"),
        end(),
    ),
    "24 delta after the complete arguments": numbered(
        START, A, args(0, "fc_0", "{}"), args_done(0, "fc_0", "{}"), args(0, "fc_0", "x"), end()
    ),
    "25 delta after the complete item": numbered(
        START, A, args(0, "fc_0", PARIS), DONE_A, args(0, "fc_0", "x"), end()
    ),
    "26 complete item of another call": numbered(
        START, A, args(0, "fc_0", PARIS), done(0, call(1, TOKYO)), end()
    ),
    "27 second complete item at one index": numbered(START, DONE_A, done(0, call(1, TOKYO)), end()),
    "28 terminal with another call at the position": numbered(
        START, A, args(0, "fc_0", PARIS), end(call(1, TOKYO))
    ),
    "29 terminal without a call that came": numbered(
        START, SAID, added(1, call(1)), args(1, "fc_1", TOKYO), DONE_B, end(message("Hi there"))
    ),
    "30 terminal with other arguments": numbered(
        START, A, args(0, "fc_0", PARIS), DONE_A, end(call(0, '{"city":"Rome"}'))
    ),
    "31 failed response that says completed": numbered(
        START, SAID, end(name="failed", status="completed")
    ),
    "32 completed response with an error": numbered(
        START, SAID, end(error={"code": "server_error", "message": "no"})
    ),
    "33 incomplete response that says completed": numbered(
        START, SAID, end(name="incomplete", status="completed")
    ),
    "34 second answer behind the first": numbered(
        START, SAID, snapshot("created", id="resp_2"), text(0, "msg", "evil"), end(id="resp_2")
    ),
    "35 answer begun again": plain(START, SAID, START, SAID, end()),
    "36 end of another response": numbered(START, SAID, end(id="resp_2")),
    "37 call without a name": numbered(
        START, args(0, "fc_0", PARIS), args_done(0, "fc_0", PARIS), end()
    ),
    "38 name of another tool": numbered(
        START, A, args(0, "fc_0", PARIS), args_done(0, "fc_0", PARIS, name="rm"), end()
    ),
    "39 two calls with one id": numbered(
        START, DONE_A, done(1, call(1, TOKYO, call_id="call_0")), end()
    ),
    "40 text at the index of a call": numbered(
        START, A, args(0, "fc_0", PARIS), text(0, None, "Hi"), DONE_A, end()
    ),
    "41 delta after its complete text": numbered(
        START, SAID, text_done(0, "msg", "Hi there"), text(0, "msg", "!"), end()
    ),
    "42 call of which nothing came": numbered(START, A, end()),
    "43 text without a part beside two": numbered(
        START, SAID, text(0, "msg", "b", part=1), text(0, "msg", "c", part=None), end()
    ),
}


# The clients

Got = tuple[list[tuple[str, ...]], str]


def from_anthropic(out: bytes) -> Got:
    got = anthropic_reader.read(out)
    blocks = [
        ("text", block["text"])
        if block["type"] == "text"
        else ("call", block["id"], block["name"], block["input"])
        for block in got.content
    ]
    return blocks, str(got.stop_reason)


def from_chat(out: bytes) -> Got:
    answer = chat_reader.read(out).answers[0]
    blocks: list[tuple[str, ...]] = [("text", said) for said in answer.texts.values() if said]
    blocks += [("call", each["id"], each["name"], each["arguments"]) for each in answer.calls]
    return blocks, {"stop": "end_turn", "tool_calls": "tool_use"}[str(answer.finish)]


def from_gemini(out: bytes) -> Got:
    got = gemini_reader.read(out)
    blocks: list[tuple[str, ...]] = []
    for part in got.parts:
        if "functionCall" in part:
            each = part["functionCall"]
            arguments = json.dumps(each["args"], separators=(",", ":"))
            blocks.append(("call", each["id"], each["name"], arguments))
        else:
            blocks.append(("text", part["text"]))
    is_tool_use = any(block[0] == "call" for block in blocks)
    assert got.finish == "STOP"
    return blocks, "tool_use" if is_tool_use else "end_turn"


def from_responses(out: bytes) -> Got:
    got = responses_reader.read(out)
    assert got.response is not None
    assert got.response["status"] == "completed"
    blocks: list[tuple[str, ...]] = []
    for item in got.output:
        if item["type"] == "message":
            blocks.append(("text", "".join(part["text"] for part in item["content"])))
        else:
            blocks.append(("call", item["call_id"], item["name"], item["arguments"]))
    is_tool_use = any(block[0] == "call" for block in blocks)
    return blocks, "tool_use" if is_tool_use else "end_turn"


CLIENTS: dict[str, Callable[[bytes], Got]] = {
    "anthropic": from_anthropic,
    "openai_chat": from_chat,
    "gemini": from_gemini,
    "openai_responses": from_responses,
}


READERS: dict[str, Callable[[bytes], Any]] = {
    "anthropic": anthropic_reader.read,
    "openai_chat": chat_reader.read,
    "gemini": gemini_reader.read,
    "openai_responses": responses_reader.read,
}


def run(
    events: list[Event], target: str, newline: bytes, size: int | None
) -> tuple[bytes, Transcoder]:
    frames = [
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode().replace(b"\n", newline)
        for each in events
    ]
    pieces = frames if size is None else chunked(b"".join(frames), size)
    transcoder = Transcoder("openai_responses", target, verbatim=False)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return b"".join(out + transcoder.close()), transcoder


each_target = pytest.mark.parametrize("target", CLIENTS)
each_size = pytest.mark.parametrize("size", [None, 1, 64], ids=["frames", "bytes", "64s"])
each_newline = pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])


@each_target
@each_size
@each_newline
@pytest.mark.parametrize("name", CLEAN)
def test_each_target_has_the_whole_message(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    events, blocks, stop = CLEAN[name]
    out, transcoder = run(events, target, newline, size)
    assert isinstance(transcoder.outcome, Completed)
    assert CLIENTS[target](out) == (blocks, stop)


@each_target
@each_size
@each_newline
@pytest.mark.parametrize("name", BROKEN)
def test_no_target_has_a_success(name: str, newline: bytes, size: int | None, target: str) -> None:
    out, transcoder = run(BROKEN[name], target, newline, size)
    assert not isinstance(transcoder.outcome, Completed)
    assert b"evil" not in out
    assert b"event: response.completed" not in out
    assert READERS[target](out).error is not None


@each_size
@each_newline
@pytest.mark.parametrize("name", ["completed", "incomplete"])
@pytest.mark.parametrize("half", ['{"path":', "{"])
def test_half_a_call_at_the_end_is_noted(
    half: str, name: str, newline: bytes, size: int | None
) -> None:
    events = numbered(START, A, args(0, "fc_0", half), end(name=name))
    _, transcoder = run(events, "openai_chat", newline, size)
    assert isinstance(transcoder.outcome, Completed)
    assert "unfinished_arguments" in [note.kind for note in transcoder.notes]
