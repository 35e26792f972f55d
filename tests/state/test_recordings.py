"""The second turn of an agent, after every recorded answer of every provider.

The independent judge is the client that resends its whole conversation: what a request says by
reference must reach the provider as that client's request does.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.history_rules import broken_rules
from support.bodies.sdk_types import problems
from support.streams.corpus import recordings

from streamnorm import (
    Encoded,
    EncodeError,
    MessageStop,
    Reply,
    Transcoder,
    decode_request,
    encode_message,
    encode_request,
)
from streamnorm.recording import Recording
from streamnorm.state import MemoryStore, Turn

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
    for name in ("get_weather", "get_time")
]
QUESTION = {"role": "user", "content": [{"type": "input_text", "text": "Snow?"}]}
MADE_UP = "thoughtSignature: Data should be valid base64"  # of some written recordings
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}

# An answer that failed is not continued.
ANSWERS = [r for r in recordings(*DIALECTS) if isinstance(r.expected[-1], MessageStop)]

each_answer = pytest.mark.parametrize("recording", ANSWERS, ids=str)


def first_turn(recording: Recording, store: MemoryStore) -> tuple[str, list[dict[str, Any]]]:
    """Return the id and the output of a recorded answer, which is stored."""
    turn = Turn({"model": "m", "input": [QUESTION], "tools": TOOLS})
    turn.expand(store.find("a", turn.lookup))
    reply = turn.reply(Reply())
    transcoder = Transcoder(
        recording.dialect, "openai_responses", server=recording.server, reply=reply
    )
    transcoder.feed(recording.body)
    transcoder.close()
    answer = encode_message(transcoder.message, "openai_responses", reply=reply).body
    stored = turn.stored(answer)
    assert stored is not None
    store.put("a", stored)
    return turn.id, answer["output"]


def results(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a result for each call of the client, as its SDK sends it."""
    return [
        {"type": CALLS[item["type"]], "call_id": item["call_id"], "output": "snow"}
        for item in output
        if item["type"] in CALLS
    ] or [{"role": "user", "content": "Go on."}]


def encoded(body: dict[str, Any], target: str) -> Encoded | str:
    try:
        return encode_request(decode_request(body, "openai_responses"), target)
    except EncodeError as exc:
        return str(exc)


def assert_sent_as_if_resent(
    store: MemoryStore, body: dict[str, Any], output: list[dict[str, Any]]
) -> None:
    turn = Turn({"model": "m", "tools": TOOLS, **body})
    sent = turn.expand(store.find("a", turn.lookup))
    resent = {"model": "m", "tools": TOOLS, "input": [QUESTION, *output, *results(output)]}
    assert sent == resent
    for target in DIALECTS:
        written = encoded(sent, target)
        assert written == encoded(resent, target)
        if isinstance(written, Encoded):
            assert broken_rules(target, written.body) == []
            if target != "openai_responses":  # which gets what it sent
                assert [p for p in problems(target, written.body) if MADE_UP not in p] == []


@each_answer
def test_previous_response_is_sent_as_if_resent(recording: Recording) -> None:
    store = MemoryStore()
    id, output = first_turn(recording, store)
    assert_sent_as_if_resent(store, {"previous_response_id": id, "input": results(output)}, output)


@each_answer
def test_referred_items_are_sent_as_if_resent(recording: Recording) -> None:
    store = MemoryStore()
    _, output = first_turn(recording, store)
    references = [{"type": "item_reference", "id": item["id"]} for item in output]
    items = [QUESTION, *references, *results(output)]
    assert_sent_as_if_resent(store, {"input": items}, output)


def test_recorded_agents_continue_everywhere() -> None:
    """Of the recordings with calls, those whose second turn every dialect can carry."""
    continued = set()
    for recording in ANSWERS:
        _, output = first_turn(recording, MemoryStore())
        body = {"model": "m", "tools": TOOLS, "input": [QUESTION, *output, *results(output)]}
        has_call = any(item["type"] in CALLS for item in output)
        if has_call and all(isinstance(encoded(body, target), Encoded) for target in DIALECTS):
            continued.add(recording.dialect)
    assert continued == set(DIALECTS)
