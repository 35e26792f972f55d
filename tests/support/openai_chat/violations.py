"""Valid Chat Completions chunks, for tests that break one at a time."""

from __future__ import annotations

import json
from typing import Any

from support.bodies.json_paths import without

__all__ = [
    "DONE",
    "ERROR",
    "FINISH",
    "ROLE",
    "Chunk",
    "answer",
    "call",
    "chunk",
    "custom",
    "finish",
    "more",
    "part",
    "said",
    "sse",
    "usage",
    "without",
]

Chunk = dict[str, Any]

_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}


def sse(*chunks: Chunk | str) -> bytes:
    """Return chunks as bytes; strings are frames already."""
    return b"".join(
        (chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n").encode()
        for chunk in chunks
    )


def part(delta: Any, finish: Any = None, choice: Any = 0, **fields: Any) -> Chunk:
    """Return an entry of `choices`."""
    return {"index": choice, "delta": delta, "finish_reason": finish, **fields}


def chunk(*parts: Any, **fields: Any) -> Chunk:
    """Return a chunk with top-level fields replaced."""
    return {**_HEAD, "choices": list(parts), **fields}


def said(choice: int = 0, finish: Any = None, **delta: Any) -> Chunk:
    """Return a chunk of one choice."""
    return chunk(part(delta, finish, choice))


def finish(reason: Any = "stop", choice: int = 0) -> Chunk:
    """Return a choice's last chunk."""
    return chunk(part({}, reason, choice))


def usage(prompt: Any = 3, completion: Any = 2, total: Any = 5, **details: Any) -> Chunk:
    """Return the usage chunk."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return chunk(usage={**counts, **details})


def answer(*chunks: Chunk | str, reason: Any = "stop") -> list[Chunk | str]:
    """Return a choice's chunks, from the role to `[DONE]`."""
    return [ROLE, *chunks, finish(reason), DONE]


def call(index: Any = 0, arguments: Any = "{}", **fields: Any) -> Chunk:
    """Return a function call's first chunk."""
    function = {"name": "look", "arguments": arguments}
    piece = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
    return said(tool_calls=[{**piece, **fields}])


def custom(index: int = 0, input: Any = "free") -> Chunk:
    """Return a custom tool call's first chunk."""
    body = {"name": "sing", "input": input}
    return said(
        tool_calls=[{"index": index, "id": f"call_{index}", "type": "custom", "custom": body}]
    )


def more(index: Any = 0, arguments: Any = "", **fields: Any) -> Chunk:
    """Return a chunk with further arguments."""
    return said(tool_calls=[{"index": index, "function": {"arguments": arguments}, **fields}])


DONE = "data: [DONE]\n\n"
ROLE = said(role="assistant", content="")
FINISH = finish()
ERROR = {"error": {"message": "busy", "type": "server_error", "param": None, "code": None}}
