"""Strict validator of texts: start, deltas, complete text, end, and their agreement."""

from __future__ import annotations

import pytest
from support.openai_responses.violations import (
    CALL,
    CREATED,
    IN_PROGRESS,
    MESSAGE,
    REASONING,
    SOURCE,
    TEXT,
    Event,
    added,
    answer,
    call,
    coded,
    edited,
    message_of,
    of,
    part,
    refusal,
    settled,
    shell,
    sse,
    thought,
    whole,
    with_more,
    without,
)

from streamnorm.validation import Violation, validate

CODE = coded(
    *("code_interpreter_call_code", "code_interpreter_call", "code"),
    {"id": "ci_0", "status": "in_progress", "container_id": "c"},
    {"status": "completed", "code": "1"},
)
MCP = coded(
    *("mcp_call_arguments", "mcp_call", "arguments"),
    {"id": "mcp_0", "server_label": "s", "name": "look", "arguments": ""},
    {"arguments": "{}"},
)

LEGAL: dict[str, list[Event | str]] = {
    "two parts": answer(*message_of(part("msg_0", "a"), part("msg_0", "b", number=1))),
    "text, then a refusal": answer(*message_of(part("msg_0", "a"), refusal(1))),
    "sources": answer(*message_of(part("msg_0", "a", annotations=(SOURCE, SOURCE)))),
    "text without a delta": answer(*message_of(part("msg_0"))),
    "message without a part": answer(*message_of()),
    "reasoning itself": answer(*thought()),
    "reasoning without a summary": answer(
        *whole(0, {"type": "reasoning", "id": "rs_0", "summary": []}, {})
    ),
    "commands": answer(*shell("ls", "pwd")),
    "command without events": answer(*edited([*shell()], 1, "item", "action", to={"commands": []})),
    "code": answer(*CODE),
    "code that came whole": answer(CODE[0], CODE[3]),
    "arguments of a tool of the server": answer(*MCP),
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "openai_responses") == []


ITEM = "response.output_item.done"
INNER, ARGUMENTS = ("item", "content", 0), ("item", "arguments")
SOURCED = answer(*message_of(part("msg_0", "a", annotations=(SOURCE,))))
TWO = answer(*message_of(part("msg_0", "a"), part("msg_0", "b", number=1)))

BROKEN: dict[str, tuple[list[Event | str], int, str]] = {
    # Parts
    "part missing": (
        edited(TEXT, 3),
        *(3, "response.output_text.delta of part 0 of item 0, expected an open part"),
    ),
    "part with a gap before it": (
        answer(*message_of(part("msg_0", "a", number=1))),
        *(3, "part 1 of item 0 begins, expected part 0"),
    ),
    "part twice": (
        with_more(TEXT, 8, *TEXT[3:8]),
        *(8, "part 0 of item 0 begins, expected part 1"),
    ),
    "part while another is open": (
        edited(TWO, 6),
        6,
        "part 1 of item 0 begins while part 0 is open, expected response.content_part.done",
    ),
    "delta after the whole text": (
        with_more(TEXT, 7, TEXT[4]),
        *(
            7,
            "response.output_text.delta of part 0 of item 0 behind its whole text, "
            "expected it before",
        ),
    ),
    "delta after the end of the part": (
        with_more(TEXT, 8, TEXT[4]),
        *(8, "response.output_text.delta of part 0 of item 0, expected an open part"),
    ),
    "event of a part of another type": (
        with_more(TEXT, 4, of("refusal.delta", "msg_0", content_index=0, delta="No")),
        *(4, "response.refusal.delta in part 0 of item 0, expected an event of output_text"),
    ),
    "whole text missing": (
        edited(TEXT, 6),
        6,
        "response.content_part.done of part 0 of item 0 before its whole text, "
        "expected response.output_text.done",
    ),
    "whole text twice": (
        with_more(TEXT, 7, TEXT[6]),
        *(
            7,
            "response.output_text.done of part 0 of item 0 behind its whole text, "
            "expected it before",
        ),
    ),
    "end of a part missing": (
        edited(TEXT, 7),
        *(7, f"{ITEM} while part 0 of item 0 is open, expected response.content_part.done"),
    ),
    "end of a part of another type": (
        edited(TEXT, 7, "part", to={"type": "refusal", "refusal": "Hello"}),
        *(
            7,
            "response.content_part.done of part 0 of item 0 is of another type, "
            "expected output_text",
        ),
    ),
    # The same each time
    "whole text that is not its deltas": (
        answer(*message_of([*part("msg_0", "a")[:1], *part("msg_0", "b")[2:]])),
        *(
            4,
            "response.output_text.done has part 0 of item 0 in 1 characters, "
            "expected its 0 of before",
        ),
    ),
    "end of a part that is not its text": (
        settled(edited(edited(TEXT, 7, "part", "text", to="Hell"), 8, *INNER, "text", to="Hell")),
        *(
            7,
            "response.content_part.done has part 0 of item 0 in 4 characters, "
            "expected its 5 of before",
        ),
    ),
    "end of an item that is not its parts": (
        settled(edited(TEXT, 8, *INNER, "text", to="Hell")),
        *(8, f"{ITEM} has part 0 of item 0 in 4 characters, expected its 5 of before"),
    ),
    "end of an item with a part more": (
        settled(edited(TEXT, 8, "item", "content", to=[part("msg_0", "Hello")[-1]["part"]] * 2)),
        *(8, f"{ITEM} has 2 in content of item 0, expected 1"),
    ),
    # Sources
    "source with another number": (
        edited(SOURCED, 5, "annotation_index", to=1),
        *(5, "annotation_index in part 0 of item 0 is 1, expected 0"),
    ),
    "source after the whole text": (
        [*SOURCED[:5], SOURCED[6], SOURCED[5], *SOURCED[7:]],
        6,
        "response.output_text.annotation.added of part 0 of item 0 behind its whole text, "
        "expected it before",
    ),
    "annotation of a part that was not added": (
        edited(SOURCED, 5),
        6,
        "response.content_part.done has 1 annotations of part 0 of item 0, "
        "expected the 0 that were added",
    ),
    "source that the item has lost": (
        settled(edited(SOURCED, 8, *INNER, "annotations", to=[])),
        *(8, f"{ITEM} has 0 annotations of part 0 of item 0, expected the 1 that were added"),
    ),
    # Reasoning
    "summary missing": (
        edited(REASONING, 3),
        *(
            3,
            "response.reasoning_summary_text.delta of summary 0 of item 0, "
            "expected an open summary",
        ),
    ),
    "summary that is not its deltas": (
        edited(REASONING, 4),
        4,
        "response.reasoning_summary_text.done has summary 0 of item 0 in 2 characters, "
        "expected its 0 of before",
    ),
    "end of a summary missing": (
        edited(REASONING, 6),
        6,
        f"{ITEM} while summary 0 of item 0 is open, expected response.reasoning_summary_part.done",
    ),
    "whole summary missing": (
        edited(REASONING, 5),
        5,
        "response.reasoning_summary_part.done of summary 0 of item 0 before its whole text, "
        "expected response.reasoning_summary_text.done",
    ),
    "summary without events": (
        [*REASONING[:3], *REASONING[7:]],
        *(3, f"{ITEM} has 1 in summary of item 0, expected 0"),
    ),
    # Calls
    "arguments that are not their deltas": (
        edited(CALL, 4),
        4,
        "response.function_call_arguments.done has arguments of item 0 in 7 characters, "
        "expected its 4 of before",
    ),
    "whole arguments missing": (
        edited(CALL, 5),
        5,
        f"{ITEM} while arguments of item 0 is open, expected response.function_call_arguments.done",
    ),
    "whole arguments twice": (
        with_more(CALL, 6, CALL[5]),
        6,
        "response.function_call_arguments.done of arguments of item 0 behind its whole text, "
        "expected it before",
    ),
    "arguments after their end": (
        with_more(CALL, 6, CALL[4]),
        6,
        "response.function_call_arguments.delta of arguments of item 0 behind its whole text, "
        "expected it before",
    ),
    "end of a call with other arguments": (
        settled(edited(CALL, 6, "item", "arguments", to="{}")),
        *(6, f"{ITEM} has arguments of item 0 in 2 characters, expected its 7 of before"),
    ),
    "end of a call of the server with other arguments": (
        settled(edited(answer(*MCP), 5, *ARGUMENTS, to="[]")),
        *(5, f"{ITEM} has arguments of item 0 in 2 characters, expected its 2 of before"),
    ),
    "arguments of a tool of the server that are not their deltas": (
        settled(edited(edited(answer(*MCP), 4, "arguments", to="[]"), 5, *ARGUMENTS, to="[]")),
        4,
        "response.mcp_call_arguments.done has arguments of item 0 in 2 characters, "
        "expected its 2 of before",
    ),
    "end of code with other code": (
        settled(edited(answer(*CODE), 5, "item", "code", to="11")),
        *(5, f"{ITEM} has code of item 0 in 2 characters, expected its 1 of before"),
    ),
    "command while another is open": (
        edited(answer(*shell("ls", "pwd")), 5),
        5,
        "command 1 of item 0 begins while command 0 is open, "
        "expected response.shell_call_command.done",
    ),
    "command after its end": (
        with_more(answer(*shell("ls")), 6, shell("ls")[2]),
        *(6, "response.shell_call_command.delta of command 0 of item 0, expected an open command"),
    ),
    "end of a call with another command": (
        settled(edited(answer(*shell("ls")), 6, "item", "action", "commands", 0, to="cd")),
        *(6, f"{ITEM} has command 0 of item 0 in 2 characters, expected its 2 of before"),
    ),
}


@pytest.mark.parametrize(("events", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_where_it_occurs(
    events: list[Event | str], position: int, message: str
) -> None:
    assert validate(sse(*events), "openai_responses") == [Violation(position, message)]


def test_call_without_events_lacks_its_end_and_its_arguments() -> None:
    events = answer(call()[0], call()[-1])
    assert validate(sse(*events), "openai_responses") == [
        Violation(
            3,
            f"{ITEM} while arguments of item 0 is open, "
            "expected response.function_call_arguments.done",
        ),
        Violation(3, f"{ITEM} has arguments of item 0 in 7 characters, expected its 0 of before"),
    ]


def test_open_parts_are_reported_once() -> None:
    """One that should have ended before the next is not reported again at the end of the item."""
    found = validate(sse(*edited(TWO, 6)), "openai_responses")
    assert [violation.position for violation in found] == [6]


def test_part_without_a_type_ends_as_any_type() -> None:
    nameless = edited(edited(TEXT, 3, "part", to={}), 6)
    assert [v.message for v in validate(sse(*nameless), "openai_responses")] == [
        "part.type is missing, expected a string"
    ]


def test_part_without_a_type_allows_any_event() -> None:
    nameless = [without(TEXT[3], "part", "type"), *TEXT[4:9]]
    body = sse(CREATED, IN_PROGRESS, added(0, **MESSAGE, content=[]), *nameless, TEXT[9])
    assert [violation.message for violation in validate(body, "openai_responses")] == [
        "part.type is missing, expected a string"
    ]
