"""Streams of Responses of any length."""

from __future__ import annotations

from collections.abc import Iterator

from support.openai_responses.frames import (
    START,
    added,
    args,
    call,
    completed,
    delta,
    done,
    event,
    part,
    part_added,
    text,
)

__all__ = ["END", "START", "STREAMS"]

END = completed()


def texts(count: int) -> Iterator[bytes]:
    yield added(0, "message", id="msg_1") + part_added(part(""))
    for _ in range(count):
        yield text(" more")


def summaries(count: int) -> Iterator[bytes]:
    """Yield deltas of four summaries in turn."""
    yield added(0, "reasoning", id="rs_1")
    for number in range(count):
        place = {"summary_index": number % 4}
        yield delta("reasoning_summary_text", " more", item_id="rs_1", **place)


def calls_in_turn(count: int) -> Iterator[bytes]:
    for number in range(2):
        yield added(number, "function_call", **call(id=f"fc_{number}", call_id=f"c{number}"))
        yield args("[", number)
    for number in range(count):
        yield args('{"a":"}"},', number % 2)


def items(count: int) -> Iterator[bytes]:
    """Yield complete items, each with its own index and id."""
    for number in range(count):
        message = {"id": f"msg_{number}", "role": "assistant"}
        yield added(number, "message", **message)
        yield text("a", number)
        yield done(number, "message", **message, content=[part("a")])


def open_items(count: int) -> Iterator[bytes]:
    """Yield items that are never completed."""
    for number in range(count):
        yield added(number, "message", id=f"msg_{number}") + text("a", number)


def items_without_a_start(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield text("a", number)


def searches(count: int) -> Iterator[bytes]:
    """Yield progress events of one web search."""
    yield added(0, "web_search_call", id="ws_1", status="in_progress")
    for _ in range(count):
        yield event("response.web_search_call.searching", output_index=0, item_id="ws_1")
    yield done(0, "web_search_call", id="ws_1", status="completed")


def half_characters(count: int) -> Iterator[bytes]:
    yield added(0, "message", id="msg_1") + part_added(part(""))
    for _ in range(count):
        yield text("a\ud83d")
        yield text("\ude00")


def nothing(count: int) -> Iterator[bytes]:
    yield added(0, "message", id="msg_1") + part_added(part(""))
    for number in range(count):
        yield (event("keepalive"), b": hi\n\n", text(""), b"\n")[number % 4]


def named_without_end(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield event(f"vendor{number}", n=number)


STREAMS = (
    *(texts, summaries, calls_in_turn, items, open_items, items_without_a_start, searches),
    *(half_characters, nothing, named_without_end),
)
