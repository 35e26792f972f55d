"""Adversarial Responses streams: misplaced pieces and contradictions.

Each row of `CLEAN` states its message by hand; no row of `BROKEN` is a success.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BROKEN", "CLEAN", "START", "A", "Event", "Got", "args", "end", "numbered"]

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
    """Return events with sequence numbers."""
    flat = [each for group in events for each in (group if isinstance(group, list) else [group])]
    return [{**each, "sequence_number": at} for at, each in enumerate(flat, first)]


def plain(*events: Event | list[Event]) -> list[Event]:
    """Return events without sequence numbers."""
    return [
        {key: value for key, value in each.items() if key != "sequence_number"}
        for each in numbered(*events)
    ]


def renumbered(events: list[Event], **numbers: int) -> list[Event]:
    """Return events with some sequence numbers changed (`n3=1`)."""
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
