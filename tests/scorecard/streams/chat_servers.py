"""Chat Completions streams with what compatible servers send of themselves."""

from __future__ import annotations

from typing import Any

from support.openai_chat.chunks import DONE, call, calls, chunk, content, detail, frame, reasoning
from support.streams.mutations import chunked
from test_adversarial import COUNTS, PARIS, STOPPED, USAGE, A

from ..cases import Call, Expected

__all__ = ["complete", "server_rows"]

Row = tuple[str, list[bytes], Expected, str]

SAID = Expected(text="Hi", stop="end_turn", usage=(20, 7))
ONE = Expected(
    calls=(Call("call_a", "get_weather", {"city": "Paris"}),), stop="tool_use", usage=(20, 7)
)
END = [STOPPED, USAGE, DONE]
CALLED = [chunk({}, "tool_calls"), USAGE, DONE]
WHOLE = {**A, "function": {"name": "get_weather", "arguments": PARIS}}


def _thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def server_rows() -> list[Row]:
    """Return name, frames, message and reason of each stream."""
    thought = Expected(text="Hi", reasoning="Hm", stop="end_turn", usage=(20, 7))
    cached = {**COUNTS, "prompt_tokens_details": {"cached_tokens": 8}}
    return [
        (
            "comments before and between",
            [
                b": OPENROUTER PROCESSING\n\n",
                content("H"),
                b": OPENROUTER PROCESSING\n\n",
                content("i"),
                *END,
            ],
            SAID,
            "OpenRouter sends comments while its upstream is silent.",
        ),
        (
            "CRLF",
            [each.replace(b"\n", b"\r\n") for each in (content("Hi"), *END)],
            SAID,
            "Perplexity, AI21 and proxies write CRLF.",
        ),
        (
            "no space behind the colon",
            [each.replace(b"data: ", b"data:") for each in (content("Hi"), *END)],
            SAID,
            "Server-sent events allow it.",
        ),
        (
            "finish, usage and end in one read",
            [content("Hi"), b"".join(map(complete, END))],
            SAID,
            "Networks and proxies join what is sent at once.",
        ),
        (
            "whole answer in one read",
            [b"".join(map(complete, [calls(WHOLE), *CALLED]))],
            ONE,
            "Networks and proxies join what is sent at once.",
        ),
        (
            "reads that cut a character in two",
            chunked(
                b"".join(map(complete, [content("@").replace(b"@", "Grüße 😀".encode()), *END])), 7
            ),
            Expected(text="Grüße 😀", stop="end_turn", usage=(20, 7)),
            "Networks cut where they like.",
        ),
        (
            "usage with the finish reason",
            [content("Hi"), chunk({}, "stop", usage=COUNTS), DONE],
            SAID,
            "Mistral, DeepSeek and z.ai send usage with the finish reason.",
        ),
        (
            "usage three times",
            [content("Hi"), chunk({}, "stop", usage=COUNTS, x_groq={"usage": COUNTS}), USAGE, DONE],
            SAID,
            "Groq sends usage in three places.",
        ),
        (
            "cached tokens",
            [content("Hi"), chunk({}, "stop", usage=cached), DONE],
            SAID,
            "OpenAI's prompt_tokens hold those of the cache.",
        ),
        (
            "no [DONE]",
            [content("Hi"), STOPPED, USAGE],
            SAID,
            "Perplexity, GPUStack and Writer send no [DONE].",
        ),
        (
            "reasoning in `reasoning`",
            [chunk({"reasoning": "Hm"}), content("Hi"), *END],
            thought,
            "Groq, Together and Cerebras name the field so.",
        ),
        (
            "reasoning in two fields",
            [chunk({"reasoning": "Hm", "reasoning_details": [_DETAIL]}), content("Hi"), *END],
            thought,
            "OpenRouter sends the same text in two fields.",
        ),
        (
            "reasoning in details alone",
            [detail(**_DETAIL), content("Hi"), *END],
            thought,
            "Vercel's gateway and Snowflake send details.",
        ),
        (
            "reasoning in parts of the content",
            [chunk({"content": [_thinking("Hm")]}), content("Hi"), *END],
            thought,
            "Mistral sends content as a list of parts while it thinks.",
        ),
        (
            "reasoning and text in one chunk",
            [chunk({"reasoning_content": "Hm", "content": "Hi"}), *END],
            thought,
            "Cerebras sends both at once.",
        ),
        (
            "reasoning, then a call without text",
            [reasoning("Hm"), calls(A), calls(call(0, arguments=PARIS)), *CALLED],
            Expected(calls=ONE.calls, reasoning="Hm", stop="tool_use", usage=(20, 7)),
            "DeepSeek reasons and calls.",
        ),
        (
            "whole text beside the deltas",
            [_with_message("H", "H"), _with_message("i", "Hi"), *END],
            SAID,
            "Perplexity sends the whole text so far in each chunk.",
        ),
        (
            "negative index",
            [calls({**A, "index": -1}), calls(call(-1, arguments=PARIS)), *CALLED],
            ONE,
            "Hugging Face and z.ai number the only call -1.",
        ),
        (
            "null id and name on each fragment",
            [calls(A), calls({"index": 0, "id": None, "function": _NULL_NAME}), *CALLED],
            ONE,
            "Together, Xiaomi and Venice send null.",
        ),
        (
            "no type of the call",
            [calls({key: value for key, value in WHOLE.items() if key != "type"}), *CALLED],
            ONE,
            "Mistral leaves the type out.",
        ),
        (
            "role on each chunk",
            [
                chunk({"role": "assistant", "content": "H"}),
                chunk({"role": "assistant", "content": "i"}),
                *END,
            ],
            SAID,
            "OpenRouter, Together and z.ai repeat the role.",
        ),
        (
            "null choices and delta",
            [frame({"id": "c", "choices": None}), content("Hi"), _NO_DELTA, *END],
            SAID,
            "Azure leaves the delta out.",
        ),
        (
            "finish reason of its own",
            [content("Hi"), chunk({}, "eos"), USAGE, DONE],
            Expected(text="Hi", stop="other", usage=(20, 7)),
            "Together says eos.",
        ),
        (
            "error beside choices",
            [content("Hi"), chunk({}, "error", error={"code": 502, "message": "gone"}), DONE],
            Expected(text="Hi", outcome="failed"),
            "OpenRouter's upstream fails.",
        ),
        (
            "error as a named event",
            [content("Hi"), frame({"error": {"message": "bad call", "type": "x"}}, "error")],
            Expected(text="Hi", outcome="failed"),
            "Groq refuses the model's own call.",
        ),
        (
            "error as a field of the event",
            [content("Hi"), b'error: {"code":500,"message":"gone","type":"server_error"}\n\n'],
            Expected(text="Hi", outcome="failed"),
            "llama.cpp and GPUStack write a field named error.",
        ),
        (
            "error alone",
            [b": OPENROUTER PROCESSING\n\n", frame({"error": {"message": "no", "code": 429}})],
            Expected(outcome="failed"),
            "OpenRouter's upstream refuses behind status 200.",
        ),
        (
            "cut within a character",
            [content("Hi"), content("@").replace(b"@", "😀".encode())[:-25]],
            Expected(text="Hi", outcome="truncated"),
            "The connection to the provider is lost.",
        ),
    ]


_DETAIL = {"type": "reasoning.text", "text": "Hm", "index": 0, "format": "unknown"}
_NULL_NAME = {"name": None, "arguments": PARIS}
_NO_DELTA = frame({"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": None}]})


def _with_message(piece: str, so_far: str) -> bytes:
    choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
    message = {"role": "assistant", "content": so_far}
    return frame({"id": "chatcmpl-1", "choices": [{**choice, "message": message}]})


# What the builders of tests leave out, and every server sends.
_HEAD = {"object": '"chat.completion.chunk"', "created": "1764288000", "model": '"gpt"'}


def complete(frame: bytes) -> bytes:
    """Return a chunk with the fields that the API requires; its other bytes stay as they are."""
    if b'"choices": ' not in frame:
        return frame
    missing = "".join(f'"{k}": {v}, ' for k, v in _HEAD.items() if f'"{k}": '.encode() not in frame)
    return frame.replace(b"data: {", b"data: {" + missing.encode(), 1)
