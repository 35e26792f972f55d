"""Tool calls and their results, which ids join whatever they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.matching import normalise, same_request

CHAT = "https://api.example.com/v1/chat/completions"


def post(body: Any) -> RecordedRequest:
    return normalise(RecordedRequest("POST", CHAT, {}, body))


def same(one: Any, other: Any) -> bool:
    return same_request(post(one), post(other))


def anthropic_results(*ids: str) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in ("a", "b", "c")]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": f"of {name}"} for name in ids
    ]
    return {
        "messages": [
            {"role": "assistant", "content": calls},
            {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
        ]
    }


def chat_results(*ids: str) -> dict[str, Any]:
    calls = [{"id": name, "function": {"name": "f", "arguments": "{}"}} for name in ("a", "b", "c")]
    results = [{"role": "tool", "tool_call_id": name, "content": f"of {name}"} for name in ids]
    return {"messages": [{"role": "assistant", "tool_calls": calls}, *results]}


def responses_results(*ids: str) -> dict[str, Any]:
    calls = [{"type": "function_call", "call_id": name, "name": "f"} for name in ("a", "b", "c")]
    results = [
        {"type": "function_call_output", "call_id": name, "output": f"of {name}"} for name in ids
    ]
    return {"input": [*calls, *results]}


@pytest.mark.parametrize("make", [anthropic_results, chat_results, responses_results])
def test_results_of_calls_may_stand_in_any_order(make: Callable[..., Any]) -> None:
    assert same(make("a", "b", "c"), make("c", "a", "b"))
    assert not same(make("a", "b", "c"), make("a", "b"))
    swapped = json.loads(json.dumps(make("b", "a", "c")).replace("of a", "of B"))
    assert not same(make("a", "b", "c"), swapped)


def test_order_of_texts_between_results_counts() -> None:
    text = {"type": "text", "text": "x"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "y"}
    assert not same(
        {"messages": [{"role": "user", "content": [text, result]}]},
        {"messages": [{"role": "user", "content": [result, text]}]},
    )


def test_ten_results_stand_in_the_order_of_their_calls() -> None:
    ids = [f"id{n}" for n in range(12)]
    calls = [{"type": "function_call", "call_id": name} for name in ids]

    def body(order: list[str]) -> dict[str, Any]:
        outputs = [{"type": "function_call_output", "call_id": name} for name in order]
        return {"input": [*calls, *outputs]}

    assert same(body(ids), body(ids[::-1]))
    told = post(body(ids[::-1])).body["input"][12:]
    assert [item["call_id"] for item in told] == [f"call-{n}" for n in range(1, 13)]


def both(ids: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return the ids of two results, and what the results are."""
    return zip(ids[2:], "rs", strict=True)


def chat(*ids: str) -> Any:
    calls = [{"id": i, "type": "function", "function": {"name": "f"}} for i in ids[:2]]
    results = [{"role": "tool", "tool_call_id": i, "content": r} for i, r in both(ids)]
    return {"messages": [{"role": "assistant", "tool_calls": calls}, *results]}


def messages(*ids: str) -> Any:
    calls = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids[:2]]
    results = [{"type": "tool_result", "tool_use_id": i, "content": r} for i, r in both(ids)]
    return {"messages": [{"content": calls}, {"content": results}]}


def responses(*ids: str) -> Any:
    calls = [{"type": "function_call", "call_id": i, "name": "f"} for i in ids[:2]]
    results = [{"type": "function_call_output", "call_id": i, "output": r} for i, r in both(ids)]
    return {"input": [*calls, *results]}


def gemini(*ids: str) -> Any:
    calls = [{"functionCall": {"id": i, "name": "f"}} for i in ids[:2]]
    results = [{"functionResponse": {"id": i, "name": "f"}} for i in ids[2:]]
    return {"contents": [{"parts": calls}, {"parts": results}]}


@pytest.mark.parametrize("dialect", [chat, messages, responses, gemini])
def test_ids_of_tool_calls_are_mapped_consistently(dialect: Callable[..., Any]) -> None:
    body = dialect("a", "b", "b", "a")
    assert same(body, dialect("p", "q", "q", "p"))
    assert not same(body, dialect("p", "q", "p", "q"))
    body = dialect("b", "a", "b", "a")
    assert post(body).body == dialect("call-1", "call-2", "call-1", "call-2")
