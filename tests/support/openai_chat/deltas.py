"""Streams of consecutive deltas of Chat Completions."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["CHAT_DELTAS"]

_COUNTS = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


def _chat(
    delta: dict[str, Any], finish: str | None = None, choice: int = 0, **fields: Any
) -> bytes:
    part = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt"}
    return frame({**whole, "choices": [part], **fields})


def _chat_stream(deltas: list[bytes], finish: str, calls: int = 0, choices: int = 1) -> DeltaStream:
    functions = [
        {"index": n, "id": f"t{n}", "type": "function", "function": {"name": "f", "arguments": ""}}
        for n in range(calls)
    ]
    return DeltaStream(
        "openai_chat",
        [
            _chat({"role": "assistant", "content": None}),
            *(_chat({"tool_calls": [call]}) for call in functions),
        ],
        deltas,
        [
            *(_chat({}, finish, choice) for choice in range(choices)),
            frame({"id": "chatcmpl-1", "choices": [], "usage": _COUNTS}),
            b"data: [DONE]\n\n",
        ],
    )


def _chat_field(count: int, *names: str) -> DeltaStream:
    deltas = [_chat(dict.fromkeys(names, text)) for text in texts(count)]
    return _chat_stream(deltas, "stop")


def _chat_tagged(count: int) -> DeltaStream:
    """Return reasoning in `<think>` tags that are themselves cut, then text."""
    words = ["<thi", "nk>", *texts(count), "</", "think>\n", *texts(count)]
    deltas = [_chat({"content": text}) for text in words]
    return _chat_stream(deltas, "stop")._replace(options={"think_tags": True})


def _chat_details(count: int) -> DeltaStream:
    deltas = [
        _chat({"reasoning": text, "reasoning_details": [{"type": "reasoning.text", "text": text}]})
        for text in texts(count)
    ]
    return _chat_stream(deltas, "stop")


def _chat_thinking(count: int) -> DeltaStream:
    """Return reasoning as LiteLLM sends it: each text in three fields."""
    deltas: list[bytes] = []
    for text in texts(count):
        blocks = [{"type": "thinking", "thinking": text, "index": 0}]
        fields = {"provider_specific_fields": {"thinking_blocks": blocks}, "content": ""}
        deltas.append(_chat({"reasoning_content": text, "thinking_blocks": blocks, **fields}))
    return _chat_stream(deltas, "stop")


def _chat_counted(count: int) -> DeltaStream:
    deltas = [
        _chat({"content": text}, usage={**_COUNTS, "completion_tokens": at}, obfuscation="x" * at)
        for at, text in enumerate(texts(count))
    ]
    return _chat_stream(deltas, "stop")


def _chat_spaced(count: int) -> DeltaStream:
    """Return a text stream as Python's `json.dumps` writes it, with escapes."""
    stream = _chat_field(count, "content")
    payloads = [json.loads(delta[6:]) for delta in stream.deltas]
    return stream._replace(deltas=[f"data: {json.dumps(each)}\n\n".encode() for each in payloads])


def _chat_choices(count: int) -> DeltaStream:
    deltas = [_chat({"content": text}, None, n) for text in texts(count) for n in range(2)]
    return _chat_stream(deltas, "stop", choices=2)


def _piece(
    number: int, text: str, name: str | None = None, **fields: Any
) -> dict[str, list[dict[str, Any]]]:
    function = {"arguments": text} if name is None else {"name": name, "arguments": text}
    return {"tool_calls": [{"index": number, **fields, "function": function}]}


def _chat_calls(count: int, calls: int) -> DeltaStream:
    pieces = [(n, piece) for piece in arguments(count) for n in range(calls)]
    return _chat_stream([_chat(_piece(n, piece)) for n, piece in pieces], "tool_calls", calls)


def _chat_calls_one_by_one(count: int) -> DeltaStream:
    deltas: list[bytes] = []
    for n in range(3):
        deltas.append(_chat(_piece(n, "", id=f"t{n}", type="function", name="f")))
        deltas += [_chat(_piece(n, piece)) for piece in arguments(count)]
    return _chat_stream(deltas, "tool_calls")


def _chat_cumulative_call(count: int) -> DeltaStream:
    """Return a call with cumulative arguments."""
    whole = accumulate(arguments(count))
    deltas = [_chat(_piece(0, text)) for text in whole]
    return _chat_stream(deltas, "tool_calls", 1)._replace(options={"server": "qianfan"})


def _chat_named_calls(count: int) -> DeltaStream:
    """Return two calls whose id and type are repeated in each fragment."""
    pieces = [(n, piece) for piece in arguments(count) for n in range(2)]
    deltas = [_chat(_piece(n, piece, id=f"t{n}", type="function")) for n, piece in pieces]
    return _chat_stream(deltas, "tool_calls", 2)


def _chat_text_beside_call(count: int) -> DeltaStream:
    pairs = zip(arguments(count), texts(count + 5), strict=True)
    deltas = [each for piece, text in pairs for each in (_piece(0, piece), {"content": text})]
    return _chat_stream([_chat(delta) for delta in deltas], "tool_calls", 1)


CHAT_DELTAS: dict[str, Make] = {
    "chat text": lambda count: _chat_field(count, "content"),
    "chat text, spaced": _chat_spaced,
    "chat text, counted": _chat_counted,
    "chat text of two choices": _chat_choices,
    "chat text with tags": _chat_tagged,
    "chat reasoning": lambda count: _chat_field(count, "reasoning_content"),
    "chat reasoning, twice": lambda count: _chat_field(count, "reasoning", "reasoning_content"),
    "chat reasoning details": _chat_details,
    "chat thinking blocks": _chat_thinking,
    "chat refusal": lambda count: _chat_field(count, "refusal"),
    "chat call": lambda count: _chat_calls(count, 1),
    "chat calls, interleaved": lambda count: _chat_calls(count, 4),
    "chat calls, one by one": _chat_calls_one_by_one,
    "chat call, cumulative": _chat_cumulative_call,
    "chat calls, named": _chat_named_calls,
    "chat text beside a call": _chat_text_beside_call,
}
"""Streams by what they hold, of as many pieces as are asked for."""
