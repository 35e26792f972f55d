"""The streams that are measured, made of payloads as OpenAI sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator

Payloads = list[str]


def frame(payload: str) -> bytes:
    """Return a payload as one event."""
    return f"data: {payload}\n\n".encode()


def frames(payloads: Payloads) -> list[bytes]:
    """Return payloads as one event a chunk, the terminal behind them."""
    return [*map(frame, payloads), b"data: [DONE]\n\n"]


def chunk(delta: dict[str, object], finish: str | None = None) -> str:
    """Return a chunk of some 330 bytes, with all that OpenAI puts around a delta."""
    return json.dumps(
        {
            "id": "chatcmpl-BxyzABCDEFGHIJKLMNOPQRSTUV",
            "object": "chat.completion.chunk",
            "created": 1760000000,
            "model": "gpt-4.1-2025-04-14",
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
            "usage": None,
            "obfuscation": "abcdefghijklmno",
        },
        separators=(",", ":"),
    )


def text(deltas: int) -> Payloads:
    """Return a stream of text alone."""
    first = chunk({"role": "assistant", "content": "", "refusal": None})
    return [first, *(chunk({"content": f" word {n:04}"}) for n in range(deltas)), chunk({}, "stop")]


def reasoning(deltas: int) -> Payloads:
    """Return reasoning, then text, as DeepSeek names them."""
    half = [chunk({"content": None, "reasoning_content": f" think {n:04}"}) for n in range(deltas)]
    return [chunk({"role": "assistant", "content": ""}), *half, *text(deltas)[1:]]


def calls(deltas: int, *, parallel: int, interleaved: bool = False) -> Payloads:
    """Return parallel tool calls, one after the other or in turn."""
    arguments = [_fragments(deltas // parallel, call) for call in range(parallel)]
    order: Iterator[tuple[int, str]]
    if interleaved:
        order = (
            (call, part) for turn in zip(*arguments, strict=True) for call, part in enumerate(turn)
        )
    else:
        order = ((call, part) for call, parts in enumerate(arguments) for part in parts)
    opened: set[int] = set()
    payloads = [chunk({"role": "assistant", "content": None})]
    for call, part in order:
        delta: dict[str, object] = {"index": call, "function": {"arguments": part}}
        if call not in opened:
            opened.add(call)
            function = {"name": "search", "arguments": part}
            delta = {
                "index": call,
                "id": f"call_{call:020}",
                "type": "function",
                "function": function,
            }
        payloads.append(chunk({"tool_calls": [delta]}))
    return [*payloads, chunk({}, "tool_calls")]


def _fragments(count: int, call: int) -> list[str]:
    inner = [f'"key {n:04}":"value {n:04}",' for n in range(count - 2)]
    return ["{", *inner, f'"call":{call}}}']
