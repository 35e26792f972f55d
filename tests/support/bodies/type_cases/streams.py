"""Streams generated from the SDKs' types: minimal legal sequences of frames."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta import BetaRawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice

from support.bodies.type_cases.answers import ANTHROPIC_ANSWER, answer_cases
from support.bodies.type_cases.case import JSON, Case, cases_of
from support.bodies.type_cases.response_streams import responses_stream_cases
from support.bodies.type_cases.walk import (
    ABSENT,
    fields_of,
    label_of,
    members,
    variants,
    with_member,
)

__all__ = ["frames_of", "stream_bytes", "stream_cases"]


def stream_cases(dialect: str, *, beta: bool = False) -> Iterator[Case]:
    """Yield a stream for each member, literal and field of the SDK's events.

    The body of a case has the payloads of the stream under `frames`.

    Args:
        dialect: Its dialect.
        beta: Whether the types are those of Anthropic's betas.
    """
    yield from {
        "openai_chat": _chat,
        "openai_responses": responses_stream_cases,
        "anthropic": partial(_anthropic, beta=beta),
        "gemini": _gemini,
    }[dialect]()


def stream_bytes(body: JSON, dialect: str) -> bytes:
    """Return the bytes of a stream."""
    frames: list[str] = []
    for payload in body["frames"]:
        event = "" if dialect in ("openai_chat", "gemini") else f"event: {payload['type']}\n"
        end = "\r\n\r\n" if dialect == "gemini" else "\n\n"
        frames.append(f"{event}data: {json.dumps(payload)}{end}")
    if dialect == "openai_chat":
        frames.append("data: [DONE]\n\n")
    return "".join(frames).encode()


def frames_of(data: bytes) -> list[JSON]:
    """Return the payloads of a stream."""
    lines = data.decode().replace("\r\n", "\n").split("\n")
    texts = (line.removeprefix("data: ") for line in lines if line.startswith("data: "))
    return [json.loads(text) for text in texts if text != "[DONE]"]


# Chat Completions

_CHUNK: JSON = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "m",
}
_USAGE: JSON = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def _chunk(delta: JSON, finish: str | None = None, **fields: Any) -> JSON:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **fields}
    return {**_CHUNK, "choices": [choice]}


def _chat_frames(*middle: JSON, finish: str = "stop", usage: JSON = _USAGE) -> JSON:
    start = _chunk({"role": "assistant", "refusal": None})
    end = {**_CHUNK, "choices": [], "usage": usage}
    text = _chunk({"content": "Done."})
    return {"frames": [start, text, *middle, _chunk({}, finish), end]}


def _chat() -> Iterator[Case]:
    dialect = "openai_chat"
    fields = fields_of(ChatCompletionChunk) or {}
    for name in fields.keys() - {"id", "object", "choices", "model", "created"}:
        found = variants(fields[name].expected, name)
        yield from cases_of(dialect, name, found, partial(_chat_field, name))
    choice = fields_of(Choice) or {}
    for name in ("finish_reason", "logprobs"):
        found = variants(choice[name].expected, name)
        yield from cases_of(dialect, f"choices[].{name}", found, partial(_chat_choice, name))
    delta = fields_of(choice["delta"].expected) or {}
    for name, field in delta.items():
        found = variants(field.expected, name)
        build = partial(_chat_delta, name)
        yield from cases_of(dialect, f"choices[].delta.{name}", found, build)


def _chat_field(name: str, value: Any) -> JSON:
    if name == "usage":
        return _chat_frames(usage=_USAGE if value is ABSENT else value)
    frames = _chat_frames()["frames"]
    # Fields of the whole answer stand in each chunk.
    return {"frames": [with_member(frame, name, value) for frame in frames]}


def _chat_choice(name: str, value: Any) -> JSON:
    if name == "finish_reason":
        finish = "stop" if value in (ABSENT, None) else value
        calls: dict[str, JSON] = {
            "tool_calls": {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "name_A", "arguments": "{}"},
                    }
                ]
            },
            "function_call": {"function_call": {"name": "name_A", "arguments": "{}"}},
        }
        return _chat_frames(*(_chunk(calls[finish]) for _ in "1" if finish in calls), finish=finish)
    fields = {} if value is ABSENT else {name: value}
    return _chat_frames(_chunk({"content": " So."}, **fields))


def _chat_delta(name: str, value: Any) -> JSON:
    if value is ABSENT:
        return _chat_frames()
    finish = name if name in ("tool_calls", "function_call") and value else "stop"
    if name == "tool_calls":
        # The first fragment of a call has its id and name.
        least = {"index": 0, "id": "call_1", "type": "function"}
        call = {**least, "function": {}}
        value = [_call({**call, **item}) for item in value or ()]
    if name == "function_call" and value:
        value = {"name": "name_A", "arguments": "{}", **value}
    return _chat_frames(_chunk({name: value}), finish=finish)


def _call(call: JSON) -> JSON:
    function = {"name": "name_C", "arguments": "{}", **(call["function"] or {})}
    return {**call, "function": function}


# Anthropic


def _anthropic(*, beta: bool) -> Iterator[Case]:
    for case in answer_cases("anthropic", beta=beta):
        if case.path.startswith("content["):
            yield _as_stream(case)
    events = members(BetaRawMessageStreamEvent if beta else RawMessageStreamEvent)
    by_type = {label_of(event): fields_of(event) or {} for event in events}
    message = fields_of(by_type["message_start"]["message"].expected) or {}
    for name in message.keys() - {"id", "type", "role", "model", "content"}:
        found = variants(message[name].expected, name)
        build = partial(_message_start, name)
        yield from cases_of("anthropic", f"message_start.message.{name}", found, build)
    delta = fields_of(by_type["message_delta"]["delta"].expected) or {}
    for name, field in delta.items():
        build = partial(_message_delta, name)
        found = variants(field.expected, name)
        yield from cases_of("anthropic", f"message_delta.delta.{name}", found, build)
    for name in by_type["message_delta"].keys() - {"type", "delta"}:
        build = partial(_message_delta_event, name)
        found = variants(by_type["message_delta"][name].expected, name)
        yield from cases_of("anthropic", f"message_delta.{name}", found, build)
    for part in members(by_type["content_block_delta"]["delta"].expected):
        kind = label_of(part)
        build = partial(_content_delta, kind)
        path = f"content_block_delta.delta[{kind}]"
        yield from cases_of("anthropic", path, variants(part), build)


def _as_stream(case: Case) -> Case:
    others = tuple(map(anthropic_frames, case.others))
    without = tuple(map(anthropic_frames, case.without))
    return case._replace(body=anthropic_frames(case.body), others=others, without=without)


_FIRST_USAGE: JSON = {**ANTHROPIC_ANSWER["usage"], "output_tokens": 1}


def anthropic_frames(answer: JSON) -> JSON:
    """Return the stream of an Anthropic answer."""
    end = {name: answer[name] for name in ("stop_reason", "stop_sequence")}
    start = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    blocks = [_block_frames(number, block) for number, block in enumerate(answer["content"])]
    return _anthropic_stream({**start, "usage": _FIRST_USAGE}, blocks, end)


def _anthropic_stream(
    start: JSON, blocks: list[list[JSON]], end: JSON, fields: JSON | None = None
) -> JSON:
    usage = ANTHROPIC_ANSWER["usage"]
    frames: list[JSON] = [{"type": "message_start", "message": start}]
    for block in blocks:
        frames += block
    frames.append({"type": "message_delta", "delta": end, "usage": usage, **(fields or {})})
    frames.append({"type": "message_stop"})
    return {"frames": frames}


def _block_frames(index: int, block: JSON) -> list[JSON]:
    """Return the frames of a block."""
    start, deltas = block, list[JSON]()
    match block["type"]:
        case "text":
            start = {**block, "text": ""}
            if "citations" in block:
                start["citations"] = [] if block["citations"] else None
            citations = block.get("citations") or ()
            deltas = [{"type": "text_delta", "text": block["text"]}]
            deltas += [{"type": "citations_delta", "citation": item} for item in citations]
        case "thinking":
            start = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            start = {**block, "input": {}}
            partial_json = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": partial_json}]
        case "compaction":
            summary = {"content": None, "encrypted_content": None}
            start = {**block, **summary}
            fields = {name: block[name] for name in summary if name in block}
            deltas = [{"type": "compaction_delta", **fields}]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


_START: JSON = {
    **ANTHROPIC_ANSWER,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": _FIRST_USAGE,
}
_END: JSON = {"stop_reason": "end_turn", "stop_sequence": None}


def _text_frames() -> list[list[JSON]]:
    return [_block_frames(0, ANTHROPIC_ANSWER["content"][0])]


def _message_start(name: str, value: Any) -> JSON:
    return _anthropic_stream(with_member(_START, name, value), _text_frames(), _END)


def _message_delta(name: str, value: Any) -> JSON:
    delta = with_member(_END, name, value)
    blocks = _text_frames()
    if name == "stop_reason" and value == "tool_use":
        call: JSON = {"type": "tool_use", "id": "call_1", "name": "name_A", "input": {}}
        blocks.append(_block_frames(1, call))
    if name == "stop_reason" and value == "stop_sequence":
        delta["stop_sequence"] = "END"
    if name == "stop_sequence" and isinstance(value, str):
        delta["stop_reason"] = "stop_sequence"
    if name == "stop_details" and isinstance(value, dict):
        delta["stop_reason"] = "refusal"
    return _anthropic_stream(_START, blocks, delta)


def _message_delta_event(name: str, value: Any) -> JSON:
    return _anthropic_stream(_START, _text_frames(), _END, with_member({}, name, value))


_BLOCK_OF_DELTA: dict[str, JSON] = {
    "text_delta": {"type": "text", "text": "Done.", "citations": None},
    "citations_delta": {"type": "text", "text": "Done.", "citations": None},
    "input_json_delta": {"type": "tool_use", "id": "call_1", "name": "name_A", "input": {}},
    "thinking_delta": {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
    "signature_delta": {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
    "compaction_delta": {"type": "compaction", "content": "So.", "encrypted_content": "a"},
}


def _content_delta(kind: str, delta: Any) -> JSON:
    """Return a stream with a delta in a matching block."""
    if delta is ABSENT:
        return anthropic_frames(ANTHROPIC_ANSWER)
    block = _BLOCK_OF_DELTA[kind]
    start, *deltas, stop = _block_frames(0, block)
    found = {"type": "content_block_delta", "index": 0, "delta": delta}
    held = [found if frame["delta"]["type"] == kind else frame for frame in deltas]
    held = held if found in held else [*held, found]
    text = _block_frames(1, ANTHROPIC_ANSWER["content"][0])
    end = {**_END, "stop_reason": "tool_use"} if block["type"] == "tool_use" else _END
    return _anthropic_stream(_START, [[start, *held, stop], text], end)


# Gemini


def _gemini() -> Iterator[Case]:
    for case in answer_cases("gemini"):
        others = tuple({"frames": [body]} for body in case.others)
        without = tuple({"frames": [body]} for body in case.without)
        yield case._replace(body={"frames": [case.body]}, others=others, without=without)
