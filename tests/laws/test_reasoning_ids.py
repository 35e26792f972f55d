"""OpenAI's reasoning comes back under its own id, whichever dialect its client speaks.

OpenAI binds `encrypted_content` to the id of its item and refuses it under another one
(maximhq/bifrost#5186, openclaw/openclaw#72602).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.content import decode, transcode

from streamnorm import Reasoning, accumulate, decode_request, encode_message, encode_request
from streamnorm.validation import validate_request

CLIENTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {}}}
REASONING = [
    {
        "id": "rs_0123abcd",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "I look."}],
        "encrypted_content": "gAAAAABm.first_-==",
    },
    {
        "id": "rs_4567cdef",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAAAABm.second%2e",
    },
]
CALLS = [
    {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{number}",
        "name": "look",
        "arguments": "{}",
    }
    for number in (1, 2)
]


def upstream(*items: dict[str, Any]) -> bytes:
    """Return the stream of an answer as OpenAI sends it."""
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.5"}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}}
    ]
    for index, item in enumerate(items):
        begun = {**item, "encrypted_content": ""} if "encrypted_content" in item else item
        begun = {**begun, **({"arguments": ""} if "arguments" in item else {})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    whole = {**response, "status": "completed", "output": [*items], "usage": None}
    events.append({"type": "response.completed", "response": whole})
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in ({**event, "sequence_number": n} for n, event in enumerate(events))
    )


def streamed(answer: bytes, client: str) -> dict[str, Any]:
    """Return the body that a client assembles from the stream that it is given."""
    options = {"reasoning": "reasoning_details"} if client == "openai_chat" else {}
    out, _ = transcode([answer], "openai_responses", client, **options)
    if client == "anthropic":
        return anthropic_message(out)
    if client == "gemini":
        return gemini_content(out)
    if client == "gemini_interactions":
        return interaction_steps(out)
    if client == "openai_chat":
        return chat_message(out)
    return responses_output(out)


def whole(answer: bytes, client: str) -> dict[str, Any]:
    """Return the body of a whole answer."""
    message = accumulate(decode([answer], "openai_responses").events)
    return encode_message(message, client).body


def payloads(stream: bytes) -> list[dict[str, Any]]:
    found = [line[5:] for line in stream.splitlines() if line.startswith(b"data:")]
    return [json.loads(data) for data in found if data.strip() != b"[DONE]"]


def anthropic_message(stream: bytes) -> dict[str, Any]:
    """Return the message as Claude Code assembles it and sends it back."""
    blocks: list[dict[str, Any]] = []
    for event in payloads(stream):
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"]})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            match delta["type"]:
                case "signature_delta":
                    blocks[-1]["signature"] = delta["signature"]
                case "thinking_delta":
                    blocks[-1]["thinking"] += delta["thinking"]
                case _:
                    pass
    return {"content": blocks}


def chat_message(stream: bytes) -> dict[str, Any]:
    """Return the message of a client that joins `reasoning_details` by their indexes."""
    details: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in payloads(stream):
        for choice in chunk["choices"]:
            for detail in choice["delta"].get("reasoning_details", ()):
                known = details.setdefault(detail["index"], {"text": ""})
                text = known["text"] + detail.get("text", "")
                known |= {**detail, "text": text}
            for call in choice["delta"].get("tool_calls", ()):
                known = calls.setdefault(call["index"], {"function": {"arguments": ""}})
                function = known["function"] | call["function"]
                arguments = known["function"]["arguments"] + call["function"]["arguments"]
                known |= {**call, "function": {**function, "arguments": arguments}}
    said = {"role": "assistant", "content": None, "reasoning_details": [*details.values()]}
    for call in calls.values():
        del call["index"]
    return {"choices": [{"message": {**said, "tool_calls": [*calls.values()]}}]}


def responses_output(stream: bytes) -> dict[str, Any]:
    done = "response.output_item.done"
    return {"output": [event["item"] for event in payloads(stream) if event["type"] == done]}


def gemini_content(stream: bytes) -> dict[str, Any]:
    parts = [
        part
        for chunk in payloads(stream)
        for part in chunk["candidates"][0].get("content", {}).get("parts", ())
    ]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def interaction_steps(stream: bytes) -> dict[str, Any]:
    """Return the steps as google-genai's deltas add up."""
    steps: list[dict[str, Any]] = []
    for event in payloads(stream):
        delta = event.get("delta", {})
        match delta.get("type", event["event_type"]):
            case "step.start":
                steps.append(event["step"])
            case "thought_summary":
                steps[-1].setdefault("summary", []).append(delta["content"])
            case "thought_signature":
                steps[-1]["signature"] = delta["signature"]
            case "arguments_delta":
                steps[-1]["arguments"] = json.loads(delta["arguments"])
            case _:
                pass
    return {"steps": steps}


def next_request(answer: dict[str, Any], client: str) -> tuple[dict[str, Any], str]:
    """Return the request of a client with the results of its calls, and its path."""
    match client:
        case "anthropic":
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "seen"}
                for block in answer["content"]
                if block["type"] == "tool_use"
            ]
            messages = [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": results or "go on"},
            ]
            tool = {"name": "look", "input_schema": TOOL["parameters"]}
            body = {"model": "m", "max_tokens": 100, "messages": messages, "tools": [tool]}
            return body, "/v1/messages"
        case "openai_chat":
            message = answer["choices"][0]["message"]
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "seen"}
                for call in message["tool_calls"]
            ] or [{"role": "user", "content": "go on"}]
            messages = [{"role": "user", "content": "Go"}, message, *results]
            tools = [{"type": "function", "function": TOOL}]
            return {"model": "m", "messages": messages, "tools": tools}, "/v1/chat/completions"
        case "openai_responses":
            results = [
                {"type": "function_call_output", "call_id": item["call_id"], "output": "seen"}
                for item in answer["output"]
                if item["type"] == "function_call"
            ] or [{"role": "user", "content": "go on"}]
            items = [{"role": "user", "content": "Go"}, *answer["output"], *results]
            tools = [{"type": "function", **TOOL}]
            return {"model": "m", "input": items, "tools": tools}, "/v1/responses"
        case "gemini_interactions":
            results = [
                {"type": "function_result", "call_id": step["id"], "result": "seen"}
                for step in answer["steps"]
                if step["type"] == "function_call"
            ]
            steps = [user_input("Go"), *answer["steps"], *(results or [user_input("go on")])]
            tools = [{"type": "function", **TOOL}]
            return {"model": "m", "input": steps, "tools": tools}, "/v1beta/interactions"
        case _:
            content = answer["candidates"][0]["content"]
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [
                {
                    "functionResponse": {
                        "id": call["id"],
                        "name": call["name"],
                        "response": {"output": "seen"},
                    }
                }
                for call in calls
            ]
            user = {"role": "user", "parts": [{"text": "Go"}]}
            last = {"role": "user", "parts": results or [{"text": "go on"}]}
            contents = [user, content, last]
            body = {"contents": contents, "tools": [{"functionDeclarations": [TOOL]}]}
            return body, "/v1beta/models/m:generateContent"


def user_input(text: str) -> dict[str, Any]:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def sent_back(answer: dict[str, Any], client: str) -> list[dict[str, Any]]:
    """Return the input of the next request to OpenAI, which must accept it."""
    body, path = next_request(answer, client)
    request = decode_request(json.dumps(body), client, path=path)
    # A client of the upstream's own dialect may have been answered by others before.
    foreign = [
        message if message.role != "assistant" else type(message)(message.role, message.blocks)
        for message in request.messages
    ]
    changed = type(request)(model="gpt-5.5", messages=tuple(foreign), tools=request.tools)
    made = encode_request(changed, "openai_responses")
    assert validate_request(made.body, "openai_responses") == []
    items: list[dict[str, Any]] = made.body["input"]
    return items


def reasoning_of(items: list[dict[str, Any]]) -> list[tuple[str | None, str | None]]:
    return [
        (item.get("id"), item.get("encrypted_content"))
        for item in items
        if item["type" if "type" in item else "role"] == "reasoning"
    ]


ISSUED = [(item["id"], item["encrypted_content"]) for item in REASONING]


@pytest.mark.parametrize("client", CLIENTS)
def test_streamed_reasoning_comes_back_under_its_own_id(client: str) -> None:
    answer = upstream(REASONING[0], CALLS[0], REASONING[1], CALLS[1])
    items = sent_back(streamed(answer, client), client)
    assert reasoning_of(items) == ISSUED


@pytest.mark.parametrize(
    "client", ["anthropic", "openai_responses", "gemini", "gemini_interactions"]
)
def test_reasoning_of_a_whole_answer_comes_back_under_its_own_id(client: str) -> None:
    """Whole answers of Chat Completions have no field for reasoning that is signed."""
    answer = upstream(REASONING[0], CALLS[0], REASONING[1], CALLS[1])
    items = sent_back(whole(answer, client), client)
    assert reasoning_of(items) == ISSUED


def test_claude_code_survives_its_second_turn_on_openai() -> None:
    """Each item of reasoning is followed by the call that it was produced with."""
    answer = streamed(upstream(REASONING[0], CALLS[0], REASONING[1], CALLS[1]), "anthropic")
    signatures = [b["signature"] for b in answer["content"] if b["type"] == "thinking"]
    assert signatures == [
        "sn1-id.openai.rs_0123abcd.gAAAAABm.first_-==",
        "sn1-id.openai.rs_4567cdef.gAAAAABm.second%2e",
    ]
    _, *items = sent_back(answer, "anthropic")
    assert [item.get("type") for item in items] == [
        *("reasoning", "function_call", "reasoning", "function_call"),
        *("function_call_output", "function_call_output"),
    ]
    assert items[0] == {**REASONING[0]}
    assert items[2] == {**REASONING[1]}
    assert [items[1]["call_id"], items[3]["call_id"]] == ["call_1", "call_2"]


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_reasoning_reaches_no_other_vendor(client: str) -> None:
    answer = streamed(upstream(REASONING[0], CALLS[0]), client)
    body, path = next_request(answer, client)
    request = decode_request(json.dumps(body), client, path=path)
    for other in CLIENTS:
        if other not in (client, "openai_responses"):
            sent = json.dumps(encode_request(request, other).body)
            assert "gAAAAABm" not in sent
            assert "rs_0123abcd" not in sent


@pytest.mark.parametrize(
    "client", ["anthropic", "openai_responses", "gemini", "gemini_interactions"]
)
def test_reasoning_without_what_it_was_produced_with_is_dropped(client: str) -> None:
    """An answer that was cut while the model reasoned, or whose call was edited out.

    A message of Chat Completions has all its reasoning before all its calls.
    """
    answer = streamed(upstream(REASONING[0], CALLS[0], REASONING[1]), client)
    assert reasoning_of(sent_back(answer, client)) == ISSUED[:1]


@pytest.mark.parametrize("client", CLIENTS)
def test_reasoning_alone_is_dropped(client: str) -> None:
    answer = streamed(upstream(REASONING[0]), client)
    assert sent_back(answer, client) == [
        {"role": "user", "content": "Go"},
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.parametrize("tag", ["sn1.openai.gAAA", "sn1-id.openai..gAAA"])
def test_tag_of_an_earlier_version_has_no_id(tag: str) -> None:
    """Its item was minted; where the id is unknown, none is written."""
    thinking = {"type": "thinking", "thinking": "I look.", "signature": tag}
    call = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
    (_, reasoning, *_) = sent_back({"content": [thinking, call]}, "anthropic")
    assert reasoning == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "I look."}],
        "encrypted_content": "gAAA",
    }


def test_id_is_part_of_the_message() -> None:
    """The unified message says under which id reasoning goes back."""
    message = accumulate(decode([upstream(REASONING[0], CALLS[0])], "openai_responses").events)
    assert message.blocks[0] == Reasoning(
        ("I look.",), "gAAAAABm.first_-==", "openai", "rs_0123abcd"
    )
