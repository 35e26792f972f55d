"""Bounds on blocks, ids and stored data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.openai_responses.frames import (
    START,
    added,
    call,
    completed,
    decode,
    delta,
    done,
    event,
    messages,
    text,
)

from streamnorm import Completed, StreamError
from streamnorm._core.limits import Limits


def error_of(frames: list[bytes], limits: Limits) -> str | None:
    decoded = decode(START, *frames, completed(), limits=limits)
    last = decoded.events[-1]
    if isinstance(last, StreamError):
        assert last.kind == "too_large"
        return last.code
    assert isinstance(decoded.outcome, Completed)
    return None


def texts(count: int) -> list[bytes]:
    return [added(0, "message", **messages()), *(text("a", content_index=n) for n in range(count))]


def calls(count: int) -> list[bytes]:
    return [
        done(n, "function_call", **call("{}", id=f"fc_{n}", call_id=f"c{n}")) for n in range(count)
    ]


def searches(count: int) -> list[bytes]:
    return [done(n, "web_search_call", id=f"ws_{n}") for n in range(count)]


@pytest.mark.parametrize(
    ("frames", "limit"),
    [
        (texts, "max_blocks"),
        (calls, "max_blocks"),
        (calls, "max_tool_calls"),
        (searches, "max_tool_calls"),
    ],
)
def test_blocks_and_calls_are_bounded(frames: Callable[[int], list[bytes]], limit: str) -> None:
    limits = Limits(**{limit: 3})
    found = [error_of(frames(count), limits) for count in (2, 3, 4)]
    assert found == [None, None, limit]


@pytest.mark.parametrize("field", ["name", "call_id"])
def test_ids_and_names_of_calls_are_bounded(field: str) -> None:
    limits = Limits(max_id_chars=8)
    frames = [[done(0, "function_call", **call("{}", **{field: "x" * n}))] for n in (7, 8, 9)]
    assert [error_of(each, limits) for each in frames] == [None, None, "max_id_chars"]


@pytest.mark.parametrize("field", ["id", "model"])
def test_id_and_model_of_the_response_are_bounded(field: str) -> None:
    for size, code in ((7, None), (8, None), (9, "max_id_chars")):
        start = event("response.created", response={field: "x" * size})
        last = decode(start, completed(), limits=Limits(max_id_chars=8)).events[-1]
        assert getattr(last, "code", None) == code


def test_items_without_blocks_are_bounded() -> None:
    def empty(count: int) -> list[bytes]:
        return [done(n, "message", id=f"m{n}") for n in range(count)]

    limits = Limits(max_blocks=1)
    assert [error_of(empty(count), limits) for count in (15, 16, 17)] == [None, None, "max_blocks"]


def test_parts_of_reasoning_are_bounded() -> None:
    def summaries(count: int) -> list[bytes]:
        return [delta("reasoning_summary_text", "a", summary_index=n) for n in range(count)]

    limits = Limits(max_blocks=1)
    found = [error_of(summaries(count), limits) for count in (14, 15, 16)]
    assert found == [None, None, "max_blocks"]


def test_stored_data_of_open_items_is_bounded() -> None:
    frame = added(0, "message", **messages(phase="x" * 1000))
    # Two containers of 64, 9 strings of 50 and their text, but for 1000; type and id of the item.
    size = 2 * 64 + 9 * 50 + len("typemessageidmsg_1roleassistantcontentphase") + 1000 - 1000
    size += len("message") + len("msg_1")
    for room, code in ((size + 1, None), (size, None), (size - 1, "max_accumulated_bytes")):
        assert error_of([frame], Limits(max_accumulated_bytes=room)) == code


def test_data_of_complete_items_is_stored_no_longer() -> None:
    items = [messages(id=f"m{n}", phase="x" * 1000) for n in range(9)]
    frames = [
        frame
        for n, item in enumerate(items)
        for frame in (added(n, "message", **item), done(n, "message", **item))
    ]
    assert error_of(frames, Limits(max_accumulated_bytes=1500)) is None


def test_nesting_is_bounded() -> None:
    def nested(depth: int) -> list[bytes]:
        value: object = 0
        for _ in range(depth - 2):
            value = [value]
        return [added(0, "message", **messages(x=value))]

    found = [error_of(nested(depth), Limits(max_json_depth=6)) for depth in (5, 6, 7)]
    assert found == [None, None, "max_json_depth"]
