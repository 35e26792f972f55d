"""Strict validator of output items: their indexes, their ids, and their agreement."""

from __future__ import annotations

import pytest
from support.openai_responses.violations import (
    CALL,
    CREATED,
    IN_PROGRESS,
    REASONING,
    TEXT,
    Event,
    added,
    answer,
    call,
    cut,
    done,
    edited,
    event,
    of,
    response,
    settled,
    sse,
    text,
    whole,
    with_more,
)

from streamnorm.validation import Violation, validate

SEARCH = {"type": "web_search_call", "id": "ws_0", "status": "in_progress"}
FOUND = {"status": "completed", "action": {"type": "search", "query": "q"}}
IMAGE = {"type": "image_generation_call", "id": "ig_0", "status": "in_progress"}
OUTPUT = {"type": "shell_call_output", "id": "sho_0", "call_id": "call_0"}
FREE = {"type": "custom_tool_call", "id": "ctc_0", "call_id": "call_0", "name": "sing"}


def interleaved() -> list[Event]:
    """Return the interleaved events of two calls."""
    one, two = call(0, "{", "}"), call(1, "{", "}")
    return [pair for both in zip(one, two, strict=True) for pair in both]


def sealed_anew() -> list[Event | str]:
    """Return reasoning whose terminal has another `encrypted_content`."""
    return edited(REASONING, 8, "response", "output", 0, "encrypted_content", to="gBBB")


def sung(
    behind: list[Event] = [],  # noqa: B006 - never changed
    *,
    status: str = "incomplete",
    song: str = "la",
    ends: str = "incomplete",
) -> list[Event | str]:
    """Return a response that was cut in the text of a custom call, which has no end.

    Args:
        behind: Events of the item behind it.
        status: Status of the call in the terminal.
        song: Its text there.
        ends: Status of the response.
    """
    begun = {"status": "in_progress", **FREE}
    events = answer(
        added(0, begun.pop("type"), **begun, input=""),
        of("custom_tool_call_input.delta", "ctc_0", delta="la"),
        *behind,
        status=ends,
        incomplete_details={"reason": "max_output_tokens"} if ends == "incomplete" else None,
    )
    item = {**FREE, "status": status, "input": song}
    output = [item, *(event["item"] for event in behind[-1:])]
    return edited(events, len(events) - 1, "response", "output", to=output)


LEGAL: dict[str, list[Event | str]] = {
    "free text that tokens cut short": sung(),
    "free text left unfinished, and an item behind it": sung(text(1)),
    "items that interleave": answer(*interleaved()),
    "progress of a search": answer(
        *whole(
            0,
            SEARCH,
            FOUND,
            of("web_search_call.in_progress", "ws_0"),
            of("web_search_call.searching", "ws_0"),
            of("web_search_call.completed", "ws_0"),
        )
    ),
    "image in pieces": answer(
        *whole(
            0,
            IMAGE,
            {"status": "completed", "result": "AA=="},
            of(
                "image_generation_call.partial_image",
                "ig_0",
                partial_image_index=0,
                partial_image_b64="AA==",
            ),
        )
    ),
    "what a call gave": answer(
        *call(0),
        *whole(
            1,
            {**OUTPUT, "output": []},
            {},
            of(
                "shell_call_output_content.delta",
                "sho_0",
                1,
                command_index=0,
                delta={"stdout": "a"},
            ),
        ),
    ),
    "custom call": answer(
        *whole(
            0,
            {**FREE, "input": ""},
            {"input": "la"},
            of("custom_tool_call_input.delta", "ctc_0", delta="la"),
            of("custom_tool_call_input.done", "ctc_0", input="la"),
        )
    ),
    "sealed anew at the end": sealed_anew(),
    "arguments left unfinished, and an item behind them": answer(
        *call(0, '{"a')[:-1],
        done(0, **{**call(0, '{"a')[-1]["item"], "status": "incomplete"}),
        *text(1),
    ),
    "arguments that tokens cut short": cut(*call(0, '{"a')),
    # The model wrote them, and OpenAI says that the call is complete.
    "arguments that are no object": answer(*call(0, "[]")),
    "arguments that are no JSON, and an item behind them": answer(*call(0, '{"a'), *text(1)),
    "arguments that are no JSON, before the item that was cut": cut(*call(0, '{"a'), *text(1)),
    "message that tokens cut short": cut(
        *text()[:-1], done(0, **{**text()[-1]["item"], "status": "incomplete"})
    ),
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "openai_responses") == []


ITEM = "response.output_item.done"
SECOND = (7, "item", "call_id")
TWO_CALLS = answer(*call(0), *call(1))  # whose starts are 2 and 7, ends 6 and 11, the last 12

BROKEN: dict[str, tuple[list[Event | str], int, str]] = {
    # Places
    "gap between items": (
        answer(*text(), *call(2)),
        *(9, "item 2 starts, expected item 1"),
    ),
    "place of another": (
        edited(
            [CREATED, IN_PROGRESS, *text(), *call(0), TEXT[9]],
            *(14, "response", "output"),
            to=[call(0)[-1]["item"]],
        ),
        *(9, "item 0 starts, expected item 1"),
    ),
    "event before its item": (
        with_more(TEXT, 2, TEXT[4]),
        *(2, "response.output_text.delta of item 0, expected an open item"),
    ),
    "event after the end of its item": (
        with_more(TEXT, 9, TEXT[4]),
        *(9, "response.output_text.delta of item 0, expected an open item"),
    ),
    "end of an item twice": (
        with_more(TEXT, 9, TEXT[8]),
        *(9, f"{ITEM} of item 0, expected an open item"),
    ),
    "event of an item of another type": (
        with_more(TEXT, 4, CALL[3]),
        *(4, "response.function_call_arguments.delta in item 0, expected an event of message"),
    ),
    "progress of an item of another type": (
        with_more(TEXT, 4, of("web_search_call.searching", "msg_0")),
        *(4, "response.web_search_call.searching in item 0, expected an event of message"),
    ),
    # Identity
    "event with the id of another item": (
        edited(TEXT, 4, "item_id", to="msg_1"),
        *(4, "item_id of response.output_text.delta is not the id of item 0, expected that"),
    ),
    "end with another id": (
        settled(edited(TEXT, 8, "item", "id", to="msg_1")),
        *(8, f"{ITEM} has another id for item 0, expected that of its start"),
    ),
    "end with another call_id": (
        settled(edited(CALL, 6, "item", "call_id", to="call_1")),
        *(6, f"{ITEM} has another call_id for item 0, expected that of its start"),
    ),
    "id of another item, of what a call gave": (
        answer(*whole(0, {**OUTPUT, "output": []}, {}), *whole(1, {**OUTPUT, "output": []}, {})),
        *(4, "id of item 1 is that of another, expected its own"),
    ),
    "id of another item": (
        answer(*whole(0, SEARCH, FOUND), *whole(1, SEARCH, FOUND)),
        *(4, "id of item 1 is that of another, expected its own"),
    ),
    "call_id of another call": (
        settled(edited(edited(TWO_CALLS, *SECOND, to="call_0"), 11, *SECOND[1:], to="call_0")),
        *(7, "call_id of item 1 is that of another, expected its own"),
    ),
    # Ends
    "end of an item missing": (
        edited(answer(*text(), status="completed", output=[]), 8),
        *(8, f"response.completed while item 0 is open, expected {ITEM}"),
    ),
    "item of the end missing": (
        edited(TEXT, 9, "response", "output", to=[]),
        *(9, "response.output has 0 items, expected 1"),
    ),
    "other items at the end": (
        edited(TEXT, 9, "response", "output", 0, "phase", to="commentary"),
        *(9, "response.output[0] is not item 0 as it was done, expected that"),
    ),
    "items of the end in another order": (
        edited(TWO_CALLS, 12, "response", "output", 0, "name", to="find"),
        *(12, "response.output[0] is not item 0 as it was done, expected that"),
    ),
    "item of the end that is no object": (
        edited(TEXT, 9, "response", "output", to=["a"]),
        *(9, "response.output[0] is not item 0 as it was done, expected that"),
    ),
    "no arguments": (
        answer(*call(0, "")),
        *(6, "arguments of item 0 in 0 characters are no JSON object, expected one"),
    ),
    "free text that tokens cut short, stated otherwise": (
        sung(song="l"),
        4,
        "response.incomplete has input of item 0 in 1 characters, expected its 2 of before",
    ),
    "incomplete item of a complete response": (
        answer(*text()[:-1], done(0, **{**text()[-1]["item"], "status": "incomplete"})),
        9,
        "response.completed with item 0 incomplete, expected at most the last of a cut response",
    ),
}


@pytest.mark.parametrize(("events", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_where_it_occurs(
    events: list[Event | str], position: int, message: str
) -> None:
    assert validate(sse(*events), "openai_responses") == [Violation(position, message)]


@pytest.mark.parametrize("options", [{"status": "completed"}, {"ends": "completed"}])
def test_only_free_text_that_was_cut_needs_no_end(options: dict[str, str]) -> None:
    violations = validate(sse(*sung(**options)), "openai_responses")
    end = f"response.{options.get('ends', 'incomplete')}"
    assert violations[0].message == f"{end} while item 0 is open, expected {ITEM}"


def test_item_that_is_no_object_still_has_its_index() -> None:
    """No other violation is reported of its events, or of an item without a readable index."""
    nothing = event("output_item.added", output_index=0, item=None)
    nowhere = added(0, **SEARCH) | {"output_index": "1"}
    late = of("web_search_call.searching", "ws_1", 1)
    ends = [done(0, **SEARCH) | {"item": None}, done(1, **{**SEARCH, **FOUND})]
    unplaced = {**late, "output_index": None}
    untyped = of("web_search_call.searching", "ws_9")
    frames = [nothing, untyped, nowhere, late, unplaced, *ends]
    body = sse(CREATED, *frames, response("completed", output=None))
    assert [violation.message for violation in validate(body, "openai_responses")] == [
        "item is null, expected an object",
        "output_index is a string of 1 characters, expected an integer from 0",
        "item_id of response.web_search_call.searching is not the id of item 1, expected that",
        "output_index is null, expected an integer from 0",
        "item is null, expected an object",
        "response.output is null, expected an array",
        "response.usage is null, expected an object",
    ]


def test_missing_id_is_not_another_id() -> None:
    """Of an item or of an event: its absence was reported."""
    nameless = edited(edited(TEXT, 2, "item", "id", to=""), 4, "item_id", to=None)
    assert [violation.message for violation in validate(sse(*nameless), "openai_responses")] == [
        "item.id is an empty string, expected a string that is not empty",
        "item_id is null, expected a string that is not empty",
    ]
    two = answer(*text(0), *text(1))
    twice = edited(edited(two, 2, "item", "id", to=""), 9, "item", "id", to="")
    assert [violation.position for violation in validate(sse(*twice), "openai_responses")] == [2, 9]
