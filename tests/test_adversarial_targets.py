"""The streams of test_adversarial where their client speaks something else.

Clean is what it is there; the readers are none of our code.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini import reader as gemini_reader
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader
from test_adversarial import CLEAN

from streamnorm import Completed, Transcoder

REFUSAL = "22 refusal delta"
CUT = "29 length in the middle of arguments"

RESPONSES_ENDS = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
GEMINI_ENDS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
INTERACTIONS_ENDS = {"max_tokens": "incomplete", "tool_use": "requires_action"}
CHAT_ENDS = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}

each_row = pytest.mark.parametrize("name", CLEAN)


def run(name: str, target: str) -> bytes:
    transcoder = Transcoder("openai_chat", target, verbatim=False)
    out = [data for piece in CLEAN[name][0] for data in transcoder.feed(piece)]
    out += transcoder.close()
    assert isinstance(transcoder.outcome, Completed)
    allowed = {"refusal", "broken_arguments"}
    if target == "gemini_interactions":  # no status says that an answer was refused
        allowed |= {"stop_reason"}
    assert {loss.feature for loss in transcoder.losses} <= allowed
    return b"".join(out)


@each_row
def test_responses_output_has_the_whole_message(name: str) -> None:
    _, blocks, stop = CLEAN[name]
    got = responses_reader.read(run(name, "openai_responses"))
    assert [item_of(item) for item in got.output] == blocks
    assert got.response is not None
    usage = got.response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 7)
    reason = None if name == REFUSAL else RESPONSES_ENDS.get(stop)  # a refusal says so itself
    assert (got.response["incomplete_details"] or {}).get("reason") == reason
    assert got.response["status"] == ("completed" if reason is None else "incomplete")


def item_of(item: dict[str, Any]) -> dict[str, str]:
    """Return an item in the words of the rows."""
    match item["type"]:
        case "message":
            (part,) = item["content"]
            assert part["type"] in ("output_text", "refusal")
            return {"type": "text", "text": part.get("text", part.get("refusal"))}
        case "reasoning":
            (part,) = item["summary"]
            return {"type": "thinking", "thinking": part["text"], "signature": ""}
        case _:
            assert item["type"] == "function_call"
            call = {"id": item["call_id"], "name": item["name"], "input": item["arguments"]}
            return {"type": "tool_use", **call}


@each_row
def test_gemini_output_has_the_whole_message(name: str) -> None:
    """But for a call that broke off, which has no place."""
    _, blocks, stop = CLEAN[name]
    got = gemini_reader.read(run(name, "gemini"))
    wanted = [] if name == CUT else blocks
    assert len(got.parts) == len(wanted)
    for part, block in zip(got.parts, wanted, strict=True):
        if block["type"] == "tool_use":
            call = part["functionCall"]
            assert (call["id"], call["name"]) == (block["id"], block["name"])
            assert call["args"] == json.loads(block["input"])
        else:
            assert part["thought"] is (block["type"] == "thinking")
            assert part["text"] == block.get("text", block.get("thinking"))
    assert got.finish == GEMINI_ENDS.get(stop, "STOP")
    assert got.usage is not None
    assert (got.usage["promptTokenCount"], got.usage["candidatesTokenCount"]) == (20, 7)


@each_row
def test_interactions_output_has_the_whole_message(name: str) -> None:
    """With a call that broke off, whose arguments are a text."""
    _, blocks, stop = CLEAN[name]
    got = interactions_reader.read(run(name, "gemini_interactions"))
    assert [step_of(step) for step in got.steps] == blocks
    assert got.status == INTERACTIONS_ENDS.get(stop, "completed")
    assert got.usage is not None
    assert (got.usage["total_input_tokens"], got.usage["total_output_tokens"]) == (20, 7)


def step_of(step: dict[str, Any]) -> dict[str, str]:
    """Return a step in the words of the rows."""
    match step["type"]:
        case "model_output":
            return {"type": "text", "text": step["text"]}
        case "thought":
            return {"type": "thinking", "thinking": step["text"], "signature": ""}
        case _:
            assert step["type"] == "function_call"
            call = {"id": step["id"], "name": step["name"], "input": step["text"] or "{}"}
            return {"type": "tool_use", **call}


@each_row
def test_chat_output_has_the_whole_message(name: str) -> None:
    _, blocks, stop = CLEAN[name]
    got = chat_reader.read(run(name, "openai_chat"), extras=True)
    answer = got.answers[0]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert [(call["id"], call["name"], call["arguments"]) for call in answer.calls] == [
        (block["id"], block["name"], block["input"]) for block in calls
    ]
    texts = "".join(block.get("text", "") for block in blocks)
    thoughts = "".join(block.get("thinking", "") for block in blocks)
    assert answer.texts.get("content", answer.texts.get("refusal", "")) == texts
    assert answer.texts.get("reasoning_content", "") == thoughts
    assert answer.finish == ("stop" if name == REFUSAL else CHAT_ENDS.get(stop, "stop"))
    assert got.usage is not None
    assert (got.usage["prompt_tokens"], got.usage["completion_tokens"]) == (20, 7)
