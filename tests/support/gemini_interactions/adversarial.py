"""Adversarial Interactions streams, and what every client must read.

The truth is written by hand, from https://ai.google.dev/api/interactions-api and from the types of
google-genai (read 2026-11-28).
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from support.gemini_interactions.frames import CREATED, completed, delta, event, start, step, stop

__all__ = ["BROKEN", "CLEAN", "UNFINISHED", "Truth"]


class Truth(Struct):
    """What every client must read.

    Attributes:
        stop: The stop reason.
        text: All text of the answer.
        thoughts: All reasoning.
        calls: Name and arguments of each finished call.
        unfinished: Number of calls whose arguments never ended.
        usage: Input and output tokens; None for none.
    """

    stop: str
    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, dict[str, Any]]] = []
    unfinished: int = 0
    usage: tuple[int, int] | None = None


PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
ONE = [("get_weather", {"city": "Paris"})]
TWO = [*ONE, ("get_time", {"tz": "Asia/Tokyo"})]
COUNTS = {"total_input_tokens": 20, "total_output_tokens": 7, "total_tokens": 27}
RUNNING = event("interaction.status_update", interaction_id="v1", status="in_progress")
DONE = b"event: done\ndata: [DONE]\n\n"
ACTION = completed("requires_action")
ENDED = event("interaction.status_update", interaction_id="v1", status="completed")
WHOLE = {"type": "function_call", "id": "c1", "name": "get_weather"}


def weather(index: int = 0, **fields: Any) -> bytes:
    return start(index, "function_call", **{"id": "c1", "name": "get_weather", **fields})


def time(index: int = 1, **fields: Any) -> bytes:
    return start(index, "function_call", **{"id": "c2", "name": "get_time", **fields})


def args(index: int, *pieces: str) -> bytes:
    return b"".join(delta(index, "arguments_delta", arguments=piece) for piece in pieces)


def say(index: int, *pieces: str) -> bytes:
    return b"".join(delta(index, "text", text=piece) for piece in pieces)


def think(index: int, *pieces: str) -> bytes:
    contents = [{"type": "text", "text": piece} for piece in pieces]
    return b"".join(delta(index, "thought_summary", content=content) for content in contents)


def named(name: str, value: Any) -> bytes:
    """Return an event whose payload does not repeat its type."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


def nameless(data: bytes) -> bytes:
    """Return events without the names of their frames."""
    return b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"event: "))


def indexless(data: bytes) -> bytes:
    """Return an event of a step without its index."""
    name, payload = data.decode().split("\n")[:2]
    value = json.loads(payload.removeprefix("data: "))
    return named(name.removeprefix("event: "), {k: v for k, v in value.items() if k != "index"})


TEXT = start(0, "model_output") + say(0, "a", "b") + stop(0)
HALF = weather() + args(0, '{"city":')
CALL = HALF + args(0, '"Paris"}') + stop(0)
SEARCH = step("google_search_call", number=0, id="s1", arguments={"queries": ["snow"]})
FOUND = step("google_search_result", number=1, call_id="s1", result=[{"title": "Snow"}])

CLEAN: dict[str, tuple[list[bytes], Truth]] = {
    "arguments in fragments": (
        [CREATED, RUNNING, weather(arguments={}), args(0, *PARIS), stop(0), ACTION, DONE],
        Truth("tool_use", calls=ONE),
    ),
    "fragments of two calls in turn": (
        [
            *(CREATED, weather(), time(), args(1, TOKYO[:4]), args(0, PARIS[:5])),
            *(args(1, TOKYO[4:]), args(0, PARIS[5:]), stop(1), stop(0), ACTION, DONE),
        ],
        Truth("tool_use", calls=TWO),
    ),
    "call that waits in a completed interaction": (
        [CREATED, CALL, completed(), DONE],
        Truth("tool_use", calls=ONE),
    ),
    "arguments in the start alone": (
        [CREATED, weather(arguments={"city": "Paris"}), stop(0), ACTION, DONE],
        Truth("tool_use", calls=ONE),
    ),
    "arguments in the start and in fragments with other white space": (
        [
            *(CREATED, weather(arguments={"city": "Paris"}), args(0, '{ "city" :', '"Paris" }')),
            *(stop(0), ACTION, DONE),
        ],
        Truth("tool_use", calls=ONE),
    ),
    "arguments as a text in the start": (
        [CREATED, weather(arguments=PARIS), stop(0), ACTION, DONE],
        Truth("tool_use", calls=ONE),
    ),
    "call in one delta": (
        [
            *(CREATED, start(0, "function_call")),
            delta(0, "function_call", id="c1", name="get_weather", arguments={"city": "Paris"}),
            *(stop(0), ACTION, DONE),
        ],
        Truth("tool_use", calls=ONE),
    ),
    "call in one delta, sent twice": (
        [
            *(CREATED, weather()),
            *[delta(0, "function_call", arguments={"city": "Paris"})] * 2,
            *(stop(0), ACTION, DONE),
        ],
        Truth("tool_use", calls=ONE),
    ),
    "starts and stops repeated": (
        [CREATED, CREATED, weather(), weather(), args(0, PARIS), stop(0), stop(0), ACTION, DONE],
        Truth("tool_use", calls=ONE),
    ),
    "steps without stops": (
        [CREATED, start(0, "model_output"), say(0, "a"), weather(1), args(1, PARIS), ACTION, DONE],
        Truth("tool_use", "a", calls=ONE),
    ),
    "steps without indexes": (
        [
            *(CREATED, indexless(start(0, "model_output")), indexless(say(0, "a"))),
            *(indexless(stop(0)), indexless(weather()), indexless(args(0, PARIS))),
            *(indexless(stop(0)), ACTION, DONE),
        ],
        Truth("tool_use", "a", calls=ONE),
    ),
    "indexes with gaps": (
        [
            CREATED,
            start(3, "model_output"),
            say(3, "a"),
            stop(3),
            weather(9),
            args(9, PARIS),
            stop(9),
            ACTION,
            DONE,
        ],
        Truth("tool_use", "a", calls=ONE),
    ),
    "types in the names of the frames alone": (
        [
            named("interaction.created", {"interaction": {"id": "v1", "model": "m"}}),
            named("step.start", {"index": 0, "step": {"type": "model_output"}}),
            named("step.delta", {"index": 0, "delta": {"type": "text", "text": "ab"}}),
            named("step.stop", {"index": 0}),
            named("interaction.completed", {"interaction": {"id": "v1", "status": "completed"}}),
        ],
        Truth("end_turn", "ab"),
    ),
    "types in the payloads alone": (
        [nameless(CREATED + TEXT + completed())],
        Truth("end_turn", "ab"),
    ),
    "deltas without types": (
        [
            *(CREATED, start(0, "thought")),
            event("step.delta", index=0, delta={"content": {"text": "hm"}}),
            *(stop(0), start(1, "model_output")),
            event("step.delta", index=1, delta={"text": "ab"}),
            *(stop(1), weather(2)),
            event("step.delta", index=2, delta={"arguments": PARIS}),
            *(stop(2), ACTION, DONE),
        ],
        Truth("tool_use", "ab", "hm", ONE),
    ),
    "empty deltas": (
        [
            *(CREATED, start(0, "model_output"), say(0, "", "a", "", "b", ""), stop(0)),
            *(weather(1), args(1, "", PARIS, ""), stop(1), ACTION, DONE),
        ],
        Truth("tool_use", "ab", calls=ONE),
    ),
    "empty delta after its step": (
        [CREATED, TEXT, say(0, ""), completed(), DONE],
        Truth("end_turn", "ab"),
    ),
    "fields that are null": (
        [
            *(CREATED, event("step.start", index=0, step={"type": "model_output"}, usage=None)),
            event("step.delta", index=0, delta={"type": "text", "text": None}, metadata=None),
            *(say(0, "ab"), event("step.stop", index=0, step_usage=None)),
            *(completed(usage=None, steps=None), DONE),
        ],
        Truth("end_turn", "ab"),
    ),
    "character cut in two": (
        [CREATED, start(0, "model_output"), say(0, "a\ud83d", "\ude00b"), stop(0), completed()],
        Truth("end_turn", "a😀b"),
    ),
    "character in arguments cut in two": (
        [CREATED, weather(), args(0, '{"city":"\ud83d', '\ude00"}'), stop(0), ACTION, DONE],
        Truth("tool_use", calls=[("get_weather", {"city": "😀"})]),
    ),
    "thought with a signature alone": (
        [
            CREATED,
            step("thought", ("thought_signature", {"signature": "QQ=="})),
            ENDED,
            start(1, "model_output"),
            say(1, "ab"),
            stop(1),
            completed(),
            DONE,
        ],
        Truth("end_turn", "ab"),
    ),
    "signature sent twice": (
        [
            *(CREATED, start(0, "thought"), think(0, "h", "m")),
            *[delta(0, "thought_signature", signature="QQ==")] * 2,
            *(stop(0), start(1, "model_output"), say(1, "a"), stop(1), completed(), DONE),
        ],
        Truth("end_turn", "a", "hm"),
    ),
    "thoughts and texts around a call": (
        [
            *(CREATED, start(0, "thought"), think(0, "h"), stop(0), start(1, "model_output")),
            *(say(1, "a"), stop(1), weather(2), args(2, PARIS), stop(2), start(3, "thought")),
            *(think(3, "m"), stop(3), start(4, "model_output"), say(4, "b"), stop(4), ACTION),
        ],
        Truth("tool_use", "ab", "hm", ONE),
    ),
    "contents of the former revision": (
        [
            event("interaction.start", interaction={"id": "v1", "model": "m"}),
            event("content.start", index=0, content={"type": "text"}),
            event("content.delta", index=0, delta={"type": "text", "text": "ab"}),
            event("content.stop", index=0),
            event("content.start", index=1, content={"type": "function_call"}),
            event(
                "content.delta",
                index=1,
                delta={**WHOLE, "arguments": {"city": "Paris"}},
            ),
            event("content.stop", index=1),
            event("interaction.complete", interaction={"id": "v1", "status": "requires_action"}),
        ],
        Truth("tool_use", "ab", calls=ONE),
    ),
    "tool of the provider is no call of the client": (
        [CREATED, SEARCH, FOUND, start(2, "model_output"), say(2, "ab"), stop(2), completed()],
        Truth("end_turn", "ab"),
    ),
    "status that content revokes": (
        [CREATED, ENDED, TEXT, ENDED, completed("incomplete"), DONE],
        Truth("max_tokens", "ab"),
    ),
    "status in place of the last event": ([CREATED, TEXT, ENDED, DONE], Truth("end_turn", "ab")),
    "last event repeats the steps": (
        [
            *(CREATED, TEXT, weather(1), args(1, PARIS), stop(1)),
            completed(
                "requires_action",
                steps=[
                    {"type": "model_output", "content": [{"type": "text", "text": "ab"}]},
                    {**WHOLE, "arguments": {"city": "Paris"}},
                ],
            ),
            DONE,
        ],
        Truth("tool_use", "ab", calls=ONE),
    ),
    "call in the last event alone": (
        [
            *(CREATED, TEXT),
            completed("requires_action", steps=[{**WHOLE, "arguments": {"city": "Paris"}}]),
            DONE,
        ],
        Truth("tool_use", "ab", calls=ONE),
    ),
    "counts of several events": (
        [
            *(CREATED, start(0, "model_output")),
            event(
                "step.delta",
                index=0,
                delta={"type": "text", "text": "ab"},
                metadata={"total_usage": {**COUNTS, "total_output_tokens": 3}},
            ),
            *(stop(0, usage={"total_output_tokens": 5}), completed(usage=COUNTS), DONE),
        ],
        Truth("end_turn", "ab", usage=(20, 7)),
    ),
    "events of unknown types between": (
        [
            *(CREATED, event("interaction.progress", percent=50), start(0, "model_output")),
            *(say(0, "a"), event("brand.new", a=1), named("ping", {}), say(0, "b"), stop(0)),
            *(named("data", 1), completed(), DONE),
        ],
        Truth("end_turn", "ab"),
    ),
    "events after the last": (
        [CREATED, TEXT, completed(), start(1, "model_output"), say(1, "x"), DONE, CREATED],
        Truth("end_turn", "ab"),
    ),
    "stream that was resumed amid a text": (
        [say(4, "a", "b"), stop(4), completed(), DONE],
        Truth("end_turn", "ab"),
    ),
}

UNFINISHED: dict[str, tuple[list[bytes], Truth]] = {
    "half an object at the stop of its call": (
        [CREATED, HALF, stop(0), ACTION, DONE],
        Truth("tool_use", unfinished=1),
    ),
    "half an object at the end": ([CREATED, HALF, ACTION, DONE], Truth("tool_use", unfinished=1)),
    "call of which nothing came": (
        [CREATED, weather(), ACTION, DONE],
        Truth("tool_use", unfinished=1),
    ),
    "half an object beside a whole one": (
        [CREATED, HALF, time(), args(1, TOKYO), stop(1), stop(0), ACTION, DONE],
        Truth("tool_use", calls=TWO[1:], unfinished=1),
    ),
    "length amid the arguments": (
        [
            CREATED,
            TEXT,
            time(1),
            args(1, TOKYO),
            stop(1),
            weather(2),
            args(2, PARIS[:5]),
            completed("incomplete"),
            DONE,
        ],
        Truth("max_tokens", "ab", calls=TWO[1:], unfinished=1),
    ),
    "two texts for one call": (
        [CREATED, weather(), args(0, PARIS, PARIS), stop(0), ACTION, DONE],
        Truth("tool_use", unfinished=1),
    ),
}

BROKEN: dict[str, list[bytes]] = {
    "nothing but a start": [CREATED],
    "cut after a text": [CREATED, TEXT],
    "cut after a call": [CREATED, CALL],
    "cut amid the arguments": [CREATED, HALF],
    "cut after content that revokes a status": [CREATED, TEXT, ENDED, weather(1), args(1, PARIS)],
    "end without a status": [CREATED, TEXT, DONE],
    "delta of a step that never started": [CREATED, say(0, "a"), completed(), DONE],
    "arguments of a call that has stopped": [CREATED, HALF, stop(0), args(0, '"Paris"}'), ACTION],
    "arguments of a step that never started": [CREATED, CALL, args(1, TOKYO), stop(1), ACTION],
    "arguments at the index of a text": [
        *(CREATED, start(0, "model_output"), say(0, "a"), weather(1), args(0, PARIS)),
        *(stop(0), stop(1), ACTION, DONE),
    ],
    "arguments at the index of a thought": [
        *(CREATED, start(0, "thought"), think(0, "a"), weather(1), args(0, PARIS)),
        *(stop(0), stop(1), ACTION, DONE),
    ],
    "text at the index of a call": [
        CREATED,
        HALF,
        say(0, "a"),
        args(0, '"Paris"}'),
        stop(0),
        ACTION,
        DONE,
    ],
    "thought at the index of a call": [
        CREATED,
        HALF,
        think(0, "a"),
        args(0, '"Paris"}'),
        stop(0),
        ACTION,
        DONE,
    ],
    "thought at the index of a text": [
        CREATED,
        start(0, "model_output"),
        say(0, "a"),
        think(0, "b"),
        stop(0),
        completed(),
        DONE,
    ],
    "second call at one index": [CREATED, HALF, time(0), args(0, TOKYO), stop(0), ACTION, DONE],
    "one id for two calls": [CREATED, CALL, time(1, id="c1"), args(1, TOKYO), stop(1), ACTION],
    "call without a name": [CREATED, weather(name=""), args(0, PARIS), stop(0), ACTION, DONE],
    "other arguments than in the start": [
        *(CREATED, weather(arguments={"city": "Oslo"}), args(0, PARIS), stop(0), ACTION, DONE),
    ],
    "fragment behind the whole arguments": [
        *(CREATED, weather(), delta(0, "function_call", arguments={"city": "Paris"})),
        *(args(0, "x"), stop(0), ACTION, DONE),
    ],
    "two whole arguments": [
        *(CREATED, weather(), delta(0, "function_call", arguments={"city": "Paris"})),
        *(delta(0, "function_call", arguments={"city": "Oslo"}), stop(0), ACTION, DONE),
    ],
    "index that is a text": [
        CREATED,
        event("step.start", index="0", step={"type": "thought"}),
        completed(),
        DONE,
    ],
    "fragment without an index beside two calls": [
        *(CREATED, weather(), time(), indexless(args(0, PARIS)), stop(0), stop(1), ACTION, DONE),
    ],
    "end of another interaction": [
        *(CREATED, TEXT),
        event("interaction.completed", interaction={"id": "v2", "status": "completed"}),
    ],
    "second interaction spliced in": [
        *(CREATED, start(0, "model_output"), say(0, "a")),
        event("interaction.created", interaction={"id": "v2", "model": "m"}),
        *(say(0, "b"), stop(0), completed(), DONE),
    ],
    "last event of a running interaction": [CREATED, TEXT, completed("in_progress"), DONE],
    "interaction that failed": [CREATED, TEXT, completed("failed"), DONE],
    "interaction that was cancelled": [CREATED, TEXT, completed("cancelled"), DONE],
    "status of failure at the end": [
        CREATED,
        TEXT,
        event("interaction.status_update", interaction_id="v1", status="failed"),
        DONE,
    ],
    "error event": [CREATED, TEXT, event("error", error={"code": "internal", "message": "no"})],
    "error before the start": [event("error", error={"code": "internal", "message": "no"})],
    "error without a name": [
        *(CREATED, TEXT),
        b'data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}\n\n',
        *(completed(), DONE),
    ],
    "last event with another text": [
        *(CREATED, TEXT),
        completed(steps=[{"type": "model_output", "content": [{"type": "text", "text": "evil"}]}]),
    ],
    "last event with other arguments": [
        *(CREATED, CALL),
        completed("requires_action", steps=[{**WHOLE, "arguments": {"city": "Oslo"}}]),
    ],
    "last event with another name": [
        *(CREATED, CALL),
        completed(
            "requires_action", steps=[{**WHOLE, "name": "rm", "arguments": {"city": "Paris"}}]
        ),
    ],
    "half an event": [
        CREATED,
        start(0, "model_output"),
        b'event: step.delta\ndata: {"index":0,\n\n',
        stop(0),
        completed(),
        DONE,
    ],
    "result of one of two tools": [
        *(CREATED, start(0, "google_search_call", id="s1"), stop(0)),
        *(start(1, "google_search_call", id="s2"), stop(1)),
        *(start(2, "google_search_result", result=[]), stop(2), completed(), DONE),
    ],
}
