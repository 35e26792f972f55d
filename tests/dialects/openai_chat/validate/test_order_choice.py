"""Strict validation of a choice: role, calls, finish reason, unknown fields."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.violations import (
    DONE,
    ROLE,
    Chunk,
    answer,
    call,
    chunk,
    custom,
    finish,
    more,
    part,
    said,
    sse,
)

from streamnorm.validation import Violation, validate

HI = said(content="hi")
LEGACY = {"name": "look", "arguments": ""}


def piece(**fields: Any) -> Chunk:
    return said(tool_calls=[fields])


LEGAL: dict[str, list[Chunk | str]] = {
    "null content": answer(said(content=None), HI),
    "refusal": answer(said(refusal="no"), said(refusal=None)),
    "role with everything": [said(finish="stop", role="assistant", content="hi"), DONE],
    "call": answer(call(arguments=""), more(0, '{"a'), more(0, '": 1}'), reason="tool_calls"),
    "call in the first delta": [
        said(
            role="assistant", content=None, tool_calls=call()["choices"][0]["delta"]["tool_calls"]
        ),
        *(finish("tool_calls"), DONE),
    ],
    "calls that interleave": answer(
        *(call(0, "{"), call(1, "{"), more(0, "}"), HI, more(1, "}")), reason="tool_calls"
    ),
    "two calls in one chunk": answer(
        said(
            tool_calls=[
                *call(0, "")["choices"][0]["delta"]["tool_calls"],
                *call(1, "{}")["choices"][0]["delta"]["tool_calls"],
            ]
        ),
        *(more(0, "{}"), more(0)),
        reason="tool_calls",
    ),
    "call of a forced tool": answer(call(), reason="stop"),
    "arguments that tokens cut short": answer(call(arguments='{"a'), reason="length"),
    "arguments that a filter cut short": answer(call(arguments=""), reason="content_filter"),
    # The model wrote them; the SDK warns that they are not always JSON.
    "arguments that are no JSON": answer(call(arguments='{"a'), reason="tool_calls"),
    "arguments that are no object": answer(call(arguments="null"), reason="stop"),
    "two objects as arguments": answer(call(), more(0, "{}"), reason="tool_calls"),
    "piece that says nothing": answer(call(), piece(index=0), reason="tool_calls"),
    "custom tool": answer(
        *(custom(), piece(index=0, custom={"input": "ly"}), call(1)), reason="tool_calls"
    ),
    "function of before there were tools": answer(
        said(function_call=LEGACY), said(function_call={"arguments": "{}"}), reason="function_call"
    ),
    "text beside the finish": [ROLE, said(finish="stop", content="hi"), DONE],
    "finish_reason that is not there yet": answer(chunk({"index": 0, "delta": {"content": "a"}})),
    "reasoning in strings": answer(
        said(reasoning_content="a", reasoning=None), said(reasoning_content="b", reasoning="b")
    ),
    "objects of strings": answer(said(extra={"a": {"b": "c"}}), said(extra={"a": {"b": "d"}})),
    "entries with an index": answer(
        *[said(reasoning_details=[{"index": 0, "type": "reasoning.text", "text": "a"}])] * 2,
        said(reasoning_details=[{"index": 1, "text": "b"}, {"index": 2, "size": 1}]),
    ),
    "list without indexes, once": answer(said(annotations=[{"type": "url_citation"}])),
    "index and type, which are not added up": answer(*[said(extra={"index": 1, "type": 2})] * 2),
    "empty lists": answer(*[said(annotations=[])] * 2),
    "number, once": answer(said(extra=1)),
    "number in each choice": [
        chunk(
            part({"role": "assistant", "extra": 1}),
            part({"role": "assistant", "extra": 1}, None, 1),
        ),
        chunk(part({}, "stop"), part({}, "stop", 1)),
        DONE,
    ],
    "audio": answer(
        said(audio={"id": "a", "transcript": "hi"}),
        said(audio={"data": "AA"}),
        said(audio={"expires_at": 9}),
    ),
}


@pytest.mark.parametrize("chunks", LEGAL.values(), ids=LEGAL)
def test_legal_choice_has_no_violation(chunks: list[Chunk | str]) -> None:
    assert validate(sse(*chunks), "openai_chat") == []


START = "choices[0].delta.tool_calls[0]"
NO_ARGUMENTS = "in 0 characters are no JSON object, expected one"
FIRST_ALONE = "expected it in the first piece alone"
AGAIN = "again, expected strings or entries with an index"

BROKEN: dict[str, tuple[list[Chunk | str], int, str]] = {
    # Role
    "no role": ([HI, *answer()[1:]], 0, "first delta of choice 0 without role, expected assistant"),
    "role late": (
        [HI, said(content="a"), *answer()[1:]],
        *(0, "first delta of choice 0 without role, expected assistant"),
    ),
    "role twice": (
        answer(said(role="assistant")),
        *(1, "second role of choice 0, expected it in the first delta alone"),
    ),
    "null role later": (
        answer(said(role=None)),
        *(1, "second role of choice 0, expected it in the first delta alone"),
    ),
    "another role": (
        [said(role="user"), *answer()[1:]],
        *(0, "role of choice 0 is a string of 4 characters, expected assistant"),
    ),
    "null role": (
        [said(role=None), *answer()[1:]],
        *(0, "role of choice 0 is null, expected assistant"),
    ),
    # Calls
    "first call at one": (
        answer(call(1), reason="tool_calls"),
        *(1, "tool call 1 begins, expected 0"),
    ),
    "calls out of order": (
        answer(call(1), call(0), reason="tool_calls"),
        *(1, "tool call 1 begins, expected 0"),
    ),
    "gap between calls": (
        answer(call(), call(2), reason="tool_calls"),
        *(2, "tool call 2 begins, expected 1"),
    ),
    "call without an index": (
        answer(
            piece(id="c", type="function", function={"name": "f", "arguments": "{}"}),
            reason="tool_calls",
        ),
        *(1, f"{START}.index is missing, expected an integer from 0"),
    ),
    "negative index": (
        answer(call(-1), reason="tool_calls"),
        *(1, f"{START}.index is a negative integer, expected an integer from 0"),
    ),
    "null index of a later piece": (
        answer(call(), more(None), reason="tool_calls"),
        *(2, f"{START}.index is null, expected an integer from 0"),
    ),
    "index missing of a piece of the latest call": (
        answer(call(), call(1, "{"), piece(function={"arguments": "}"}), reason="tool_calls"),
        *(3, f"{START}.index is missing, expected an integer from 0"),
    ),
    "index missing of a second call": (
        answer(
            call(),
            piece(id="c", type="function", function={"name": "f", "arguments": "{}"}),
            reason="tool_calls",
        ),
        *(2, f"{START}.index is missing, expected an integer from 0"),
    ),
    "id missing": (
        answer(
            piece(index=0, type="function", function={"name": "f", "arguments": "{}"}),
            reason="tool_calls",
        ),
        *(1, f"{START}.id is missing, expected a string that is not empty"),
    ),
    "empty id": (
        answer(call(id=""), reason="tool_calls"),
        *(1, f"{START}.id is an empty string, expected a string that is not empty"),
    ),
    "id of another call": (
        answer(call(), call(1, id="call_0"), reason="tool_calls"),
        *(2, "id of tool call 1 is that of another, expected its own"),
    ),
    "type missing": (
        answer(
            piece(index=0, id="c", function={"name": "f", "arguments": "{}"}), reason="tool_calls"
        ),
        *(1, f"{START}.type is missing, expected function"),
    ),
    "unknown type": (
        answer(call(type="tool"), reason="tool_calls"),
        *(1, f"{START}.type is a string of 4 characters, expected function"),
    ),
    "function missing": (
        answer(piece(index=0, id="c", type="function"), reason="length"),
        *(1, f"{START}.function is missing, expected an object"),
    ),
    "name missing": (
        answer(call(function={"arguments": "{}"}), reason="tool_calls"),
        *(1, f"{START}.function.name is missing, expected a string that is not empty"),
    ),
    "arguments missing at the start": (
        answer(call(function={"name": "f"}), more(0, "{}"), reason="tool_calls"),
        *(1, f"{START}.function.arguments is missing, expected a string"),
    ),
    "arguments as an object": (
        answer(call(arguments={}), more(0, "{}"), reason="tool_calls"),
        *(1, f"{START}.function.arguments is an object, expected a string"),
    ),
    "null arguments later": (
        answer(call(), more(0, None), reason="tool_calls"),
        *(2, f"{START}.function.arguments is null, expected a string"),
    ),
    "null function later": (
        answer(call(), piece(index=0, function=None), reason="tool_calls"),
        *(2, f"{START}.function is null, expected an object"),
    ),
    "id again": (
        answer(call(), more(id="call_0"), reason="tool_calls"),
        *(2, f"second id of tool call 0, {FIRST_ALONE}"),
    ),
    "null id later": (
        answer(call(), more(id=None), reason="tool_calls"),
        *(2, f"second id of tool call 0, {FIRST_ALONE}"),
    ),
    "type again": (
        answer(call(), more(type="function"), reason="tool_calls"),
        *(2, f"second type of tool call 0, {FIRST_ALONE}"),
    ),
    "name again": (
        answer(call(), piece(index=0, function={"name": "look"}), reason="tool_calls"),
        *(2, f"second name of tool call 0, {FIRST_ALONE}"),
    ),
    "name of a custom tool again": (
        answer(custom(), piece(index=0, custom={"name": "sing"}), reason="tool_calls"),
        *(2, f"second name of tool call 0, {FIRST_ALONE}"),
    ),
    "input of a custom tool as an object": (
        answer(custom(input={}), reason="tool_calls"),
        *(1, f"{START}.custom.input is an object, expected a string"),
    ),
    "null calls": (
        answer(said(tool_calls=None)),
        *(1, "choices[0].delta.tool_calls is null, expected an array"),
    ),
    "piece that is no object": (
        answer(said(tool_calls=["look"])),
        *(1, f"{START} is a string of 4 characters, expected an object"),
    ),
    "call beside the finish": (
        [ROLE, chunk(part(call()["choices"][0]["delta"], "tool_calls")), DONE],
        *(1, "choices[0].delta.tool_calls beside finish_reason, expected before it"),
    ),
    # A call of before there were tools
    "function without a name": (
        answer(said(function_call={"arguments": "{}"}), reason="function_call"),
        *(1, "function_call begins without name, expected a string"),
    ),
    "function without arguments": (
        answer(said(function_call={"name": "f"}), said(function_call={"arguments": "{}"})),
        *(1, "function_call begins without arguments, expected a string"),
    ),
    "name of a function again": (
        answer(said(function_call={**LEGACY, "arguments": "{}"}), said(function_call=LEGACY)),
        *(2, "second name of function_call, expected it in the first piece alone"),
    ),
    "null function": (
        answer(said(function_call=None)),
        *(1, "choices[0].delta.function_call is null, expected an object"),
    ),
    "arguments of a function cut short": (
        answer(said(function_call=LEGACY), reason="function_call"),
        *(2, f"arguments of function_call {NO_ARGUMENTS}"),
    ),
    # Finish
    "no arguments": (
        answer(call(), call(1, ""), reason="tool_calls"),
        *(3, f"arguments of tool call 1 {NO_ARGUMENTS}"),
    ),
    "tool_calls without a call": (
        answer(HI, reason="tool_calls"),
        *(2, "finish_reason is tool_calls without a tool call, expected another"),
    ),
    "function_call without one": (
        answer(call(), reason="function_call"),
        *(2, "finish_reason is function_call without one, expected another"),
    ),
    "finish twice": (
        [*answer()[:2], finish(), DONE],
        *(2, "second finish_reason of choice 0, expected none"),
    ),
    "finish twice, with arguments that were cut short": (
        [ROLE, call(arguments="{"), finish("length"), finish("tool_calls"), DONE],
        *(3, "second finish_reason of choice 0, expected none"),
    ),
    "text after the finish": (
        [*answer()[:2], HI, DONE],
        *(2, "delta after the finish_reason of choice 0, expected none"),
    ),
    # Unknown fields
    "number twice": (
        answer(said(extra=1), said(extra=2)),
        *(2, f"field of 5 characters in choices[0].delta is an integer {AGAIN}"),
    ),
    "flag twice": (
        answer(said(extra=True), said(extra=False)),
        *(2, f"field of 5 characters in choices[0].delta is a boolean {AGAIN}"),
    ),
    "number within an object twice": (
        answer(said(extra={"a": 1}), said(extra={"b": 1, "a": 1})),
        *(2, f"field of 5 characters in choices[0].delta is an integer {AGAIN}"),
    ),
    "number within an entry twice": (
        answer(*[said(reasoning_details=[{"index": 0, "n": 1}])] * 2),
        *(2, f"reasoning_details in choices[0].delta is an integer {AGAIN}"),
    ),
    "list without indexes twice": (
        answer(*[said(annotations=[{"type": "url_citation"}])] * 2),
        *(2, f"annotations in choices[0].delta is an array {AGAIN}"),
    ),
    "list of entries of which one lacks its index, twice": (
        answer(*[said(reasoning_details=[{"index": 0}, {"index": "1"}])] * 2),
        *(2, f"reasoning_details in choices[0].delta is an array {AGAIN}"),
    ),
}


@pytest.mark.parametrize(("chunks", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    chunks: list[Chunk | str], position: int, message: str
) -> None:
    assert validate(sse(*chunks), "openai_chat") == [Violation(position, message)]


def test_first_fragment_without_index_and_id_begins_a_call() -> None:
    nameless = piece(function={"name": "f", "arguments": "{}"}, type="function")
    body = sse(*answer(nameless, reason="tool_calls"))
    assert validate(body, "openai_chat") == [
        Violation(1, f"{START}.index is missing, expected an integer from 0"),
        Violation(1, f"{START}.id is missing, expected a string that is not empty"),
    ]


def test_field_of_wrong_type_is_not_reported_again_as_unmergeable() -> None:
    parts = said(content=["a"])
    nameless = piece(function={"arguments": ""})
    assert validate(sse(*answer(parts, parts)), "openai_chat") == [
        Violation(position, "choices[0].delta.content is an array, expected a string or null")
        for position in (1, 2)
    ]
    assert validate(sse(*answer(call(), nameless, nameless)), "openai_chat") == [
        Violation(position, f"{START}.index is missing, expected an integer from 0")
        for position in (2, 3)
    ]


def test_empty_finish_reason_is_no_finish() -> None:
    expected = "expected stop or length or tool_calls or content_filter or function_call or null"
    body = sse(ROLE, said(finish="", content="a"), *answer()[1:])
    assert validate(body, "openai_chat") == [
        Violation(1, f"choices[0].finish_reason is an empty string, {expected}")
    ]


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("eos", "a string of 3 characters"),
        (["stop"], "an array"),
        ({}, "an object"),
        (0, "an integer"),
    ],
)
def test_unknown_finish_reason_is_a_finish(reason: object, found: str) -> None:
    expected = "expected stop or length or tool_calls or content_filter or function_call or null"
    body = sse(*answer(call(arguments="{"), reason=reason))
    assert validate(body, "openai_chat") == [
        Violation(2, f"choices[0].finish_reason is {found}, {expected}")
    ]
