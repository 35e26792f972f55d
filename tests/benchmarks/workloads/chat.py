"""Streams of Chat Completions from OpenAI, DeepSeek and vLLM."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from itertools import zip_longest

from workloads.text import argument_pieces, dumps, text_pieces

__all__ = ["calls", "compatible_text", "frames", "reasoning", "text"]

_USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 1000,
    "total_tokens": 1120,
    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
_BLOCK = 16

_Choice = dict[str, object]


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames, followed by the terminal."""
    return [*(b"data: %b\n\n" % payload for payload in payloads), b"data: [DONE]\n\n"]


def text(deltas: int) -> list[bytes]:
    """Return OpenAI's stream of text: chunks of about 300 bytes."""
    return _openai(
        [
            _choice({"role": "assistant", "content": "", "refusal": None}),
            *(_choice({"content": piece}) for piece in text_pieces(deltas)),
            _choice({}, "stop"),
        ]
    )


def calls(deltas: int, *, interleaved: bool = False) -> list[bytes]:
    """Return OpenAI's stream of four parallel calls, sequential or interleaved."""
    arguments = [argument_pieces(deltas // 4, number) for number in range(4)]
    order: Iterator[tuple[int, str]]
    if interleaved:
        turns = zip_longest(*arguments)
        order = (
            (call, piece) for turn in turns for call, piece in enumerate(turn) if piece is not None
        )
    else:
        order = ((call, piece) for call, pieces in enumerate(arguments) for piece in pieces)
    opened: set[int] = set()
    choices: list[_Choice] = []
    for call, piece in order:
        if call not in opened:
            opened.add(call)
            choices.append(_choice(_opening(call)))
        delta = {"index": call, "function": {"arguments": piece}}
        choices.append(_choice({"tool_calls": [delta]}))
    return _openai([*choices, _choice({}, "tool_calls")])


def reasoning(deltas: int) -> list[bytes]:
    """Return DeepSeek's stream of reasoning, then text, half each."""
    half = deltas // 2
    thought = text_pieces(half, seed="thought")
    return [
        _deepseek({"role": "assistant", "content": None, "reasoning_content": ""}),
        *(_deepseek({"content": None, "reasoning_content": piece}) for piece in thought),
        *(_deepseek({"content": piece, "reasoning_content": None}) for piece in text_pieces(half)),
        _deepseek({"content": "", "reasoning_content": None}, "stop", _USAGE),
    ]


def compatible_text(deltas: int) -> list[bytes]:
    """Return vLLM's stream of text: short chunks without padding."""
    return [
        _vllm({"role": "assistant", "content": ""}),
        *(_vllm({"content": piece}) for piece in text_pieces(deltas)),
        _vllm({"content": ""}, "stop"),
    ]


def _opening(call: int) -> dict[str, object]:
    function = {"name": "plan_route", "arguments": ""}
    opened = {"index": call, "id": f"call_{call:024}", "type": "function", "function": function}
    # The message begins with its first call.
    first = {"role": "assistant", "content": None} if call == 0 else {}
    return {**first, "tool_calls": [opened]}


def _choice(delta: dict[str, object], finish: str | None = None) -> _Choice:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _openai(choices: list[_Choice]) -> list[bytes]:
    """Return chunks with these choices, then one with the usage.

    Each is padded to a multiple of 16 bytes, so that its length does not reveal its text.
    """
    rng = random.Random("obfuscation")  # noqa: S311 - a seed is the point
    payloads: list[bytes] = []
    for chosen, usage in [*(([choice], None) for choice in choices), ([], _USAGE)]:
        chunk = {
            "id": "chatcmpl-Kq81xWmZpTn4Rb7VcY2sHdLfJ9gEa",
            "object": "chat.completion.chunk",
            "created": 1770000000,
            "model": "gpt-4.1-2025-04-14",
            "service_tier": "default",
            "system_fingerprint": "fp_7c41d90be2",
            "choices": chosen,
            "usage": usage,
        }
        missing = -len(dumps({**chunk, "obfuscation": ""})) % _BLOCK
        padding = "".join(rng.choices(string.ascii_letters + string.digits, k=missing))
        payloads.append(dumps({**chunk, "obfuscation": padding}))
    return payloads


def _deepseek(
    delta: dict[str, object], finish: str | None = None, usage: dict[str, object] | None = None
) -> bytes:
    return dumps(
        {
            "id": "5f0c9a7e-3b1d-4c86-9e52-7a4d1f60b8c3",
            "object": "chat.completion.chunk",
            "created": 1770000000,
            "model": "deepseek-reasoner",
            "system_fingerprint": "fp_31ba7c0de5_prod0820_fp8_kvcache",
            "choices": [_choice(delta, finish)],
            "usage": usage,
        }
    )


def _vllm(delta: dict[str, object], finish: str | None = None) -> bytes:
    return dumps(
        {
            "id": "chatcmpl-0d4e6b1f9a7c43528e3b5f6a7c8d9e01",
            "object": "chat.completion.chunk",
            "created": 1770000000,
            "model": "Qwen/Qwen3-32B",
            "choices": [_choice(delta, finish)],
        }
    )
