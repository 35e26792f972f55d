"""What servers are known to send: one test for each failure that was observed with a client."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.payloads import encode_stream
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, frame, message

from streamnorm import (
    Completed,
    Event,
    MessageStop,
    Note,
    Text,
    ToolCall,
    Truncated,
    accumulate,
    decode_message,
    translate_message,
)

END = chunk({}, "tool_calls") + DONE
A, B = '{"a":1}', '{"b":2}'


def written(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    """Return the stream for an Anthropic client."""
    return encode_stream(*events)


def tool_uses(events: list[Event]) -> list[tuple[str, str]]:
    """Return id and name of each tool_use block that Claude Code would read."""
    blocks = [frame["content_block"] for _, frame in written(events) if "content_block" in frame]
    return [(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"]


def answer(said: dict[str, Any], **choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, "message": {"role": "assistant", **said}, **choice}]
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices}


def test_calls_of_ollama_are_told_apart_by_their_ids() -> None:
    """Every call of a parallel batch has index 0 (ollama/ollama#15457)."""
    expected = (ToolCall("c1", "f", A), ToolCall("c2", "f", A), ToolCall("c3", "g", "{}"))
    pieces = [call(0, "c1", "f", A), call(0, "c2", "f", A), call(0, "c3", "g", "{}")]
    for frames in ([calls(*pieces)], [calls(piece) for piece in pieces]):
        decoded = decode(*frames, END)
        assert decoded.notes == ()
        assert accumulate(decoded.events).tool_calls == expected
        assert tool_uses(decoded.events) == [("c1", "f"), ("c2", "f"), ("c3", "g")]


def test_empty_names_of_fireworks_do_not_replace_the_name() -> None:
    """The name comes once, then as an empty text (router-for-me/CLIProxyAPI#1579)."""
    frames = [calls(call(0, "c1", "f", "")), *(calls(call(0, name="", arguments=c)) for c in A)]
    decoded = decode(*frames, END)
    assert accumulate(decoded.events).tool_calls == (ToolCall("c1", "f", A),)
    assert tool_uses(decoded.events) == [("c1", "f")]


def test_empty_ids_and_names_of_dashscope_begin_no_call() -> None:
    """Both are empty texts in each fragment of the arguments (OpenMinis/OpenMinis#61)."""
    frames = [calls(call(0, "c1", "f", "")), *(calls(call(0, "", "", c)) for c in A)]
    frames += [calls(call(1, "c2", "f", "")), *(calls(call(1, "", "", c)) for c in B)]
    decoded = decode(*frames, calls(call(1, "", "", "")), END)
    assert decoded.notes == ()
    assert accumulate(decoded.events).tool_calls == (ToolCall("c1", "f", A), ToolCall("c2", "f", B))
    assert tool_uses(decoded.events) == [("c1", "f"), ("c2", "f")]


@pytest.mark.parametrize("said", ["", "I call both."])
def test_indexes_of_bedrock_that_begin_with_1_leave_no_empty_call(said: str) -> None:
    """Its gateways count content blocks, of which text is the first (BerriAI/litellm#5025)."""
    frames = [calls(call(1, "c1", "f", "")), calls(call(1, arguments=A))]
    frames += [calls(call(2, "c2", "g", "")), calls(call(2, arguments=B))]
    decoded = decode(content(said), *frames, END)
    assert decoded.notes == ()
    assert accumulate(decoded.events).tool_calls == (ToolCall("c1", "f", A), ToolCall("c2", "g", B))
    assert tool_uses(decoded.events) == [("c1", "f"), ("c2", "g")]


def test_calls_of_cerebras_end_without_a_finish_reason() -> None:
    """An agent would wait for ever without a stop (9j/claude-code-mux#11)."""
    decoded = decode(calls(call(0, "c1", "f", A)), DONE)
    assert decoded.events[-1] == MessageStop("tool_use")
    assert isinstance(decoded.outcome, Completed)
    assert decoded.outcome.lenient == ("no_finish",)
    *_, (_, last), (end, _) = written(decoded.events)
    assert (last["delta"]["stop_reason"], end) == ("tool_use", "message_stop")


def test_cut_call_of_cerebras_is_not_run() -> None:
    """Without [DONE] nothing says that the stream is whole; with it, the arguments are not."""
    assert isinstance(decode(calls(call(0, "c1", "f", A))).outcome, Truncated)
    decoded = decode(calls(call(0, "c1", "f", A[:4])), DONE)
    assert decoded.events[-1] == MessageStop("other")
    assert decoded.notes == (Note("unfinished_arguments", "tool call"),)
    assert written(decoded.events)[-2][1]["delta"]["stop_reason"] == "end_turn"


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])  # vLLM, SGLang
def test_stop_text_that_vllm_and_sglang_met_is_the_stop_sequence(field: str) -> None:
    """Else Anthropic clients read end_turn (agentgateway/agentgateway#3283)."""
    stopped = {"index": 0, "delta": {}, "finish_reason": "stop", field: "END"}
    decoded = decode(
        content("Hi"), frame({"id": "chatcmpl-1", "model": "m", "choices": [stopped]}), DONE
    )
    assert decoded.events[-1] == MessageStop("stop_sequence", "stop", "END")
    expected = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert written(decoded.events)[-2][1]["delta"] == expected

    whole = answer({"content": "Hi"}, finish_reason="stop", **{field: "END"})
    body = translate_message(whole, dialect="openai_chat", to="anthropic").body
    assert {key: body[key] for key in expected} == expected


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_stop_token_that_vllm_and_sglang_met_ends_the_turn(field: str) -> None:
    whole = answer({"content": "Hi"}, finish_reason="stop", **{field: 128009})
    body = translate_message(whole, dialect="openai_chat", to="anthropic").body
    assert (body["stop_reason"], body["stop_sequence"]) == ("end_turn", None)


def test_empty_tool_calls_of_lm_studio_are_no_call() -> None:
    """Every message has them (lmstudio-ai/lmstudio-bug-tracker#1318)."""
    said = {"role": "assistant", "content": "Hi", "tool_calls": []}
    streamed = message(chunk(said), chunk({"tool_calls": []}, "stop"), DONE)
    assert (streamed.blocks, streamed.stop_reason) == ((Text("Hi"),), "end_turn")

    whole = answer(said, finish_reason="stop")
    read = decode_message(whole, "openai_chat")
    assert (read.blocks, read.stop_reason) == ((Text("Hi"),), "end_turn")
    body = translate_message(whole, dialect="openai_chat", to="anthropic").body
    assert (body["content"], body["stop_reason"]) == ([{"type": "text", "text": "Hi"}], "end_turn")
