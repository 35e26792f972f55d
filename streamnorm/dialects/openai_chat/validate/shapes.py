"""Shapes of Chat Completions chunks: fields and their types.

https://platform.openai.com/docs/api-reference/chat-streaming and the types of the
official SDKs (read 2026-11-21).  Other fields are allowed.
"""

from __future__ import annotations

from streamnorm._core.shapes import (
    COUNT,
    NAME,
    NULL_OR_TEXT,
    NUMBER,
    OBJECT,
    TEXT,
    Shape,
    array,
    nullable,
    object_of,
    word,
)


def _counts(*names: str) -> Shape:
    """Return the shape of an object of optional token counts."""
    return object_of({}, dict.fromkeys(names, nullable(COUNT)))


_TOKEN = object_of(
    {"token": TEXT, "logprob": NUMBER},
    {"bytes": nullable(array(COUNT)), "top_logprobs": array(OBJECT)},
)
_LOGPROBS = object_of({}, {"content": nullable(array(_TOKEN)), "refusal": nullable(array(_TOKEN))})

# Tool calls are checked in `order`: their shape depends on earlier fragments.
_DELTA = object_of(
    {},
    {
        "content": NULL_OR_TEXT,
        "refusal": NULL_OR_TEXT,
        "tool_calls": array(OBJECT),
        "function_call": object_of({}, {"name": NAME, "arguments": TEXT}),
        "audio": object_of({}, {"id": TEXT, "data": TEXT, "transcript": TEXT, "expires_at": COUNT}),
    },
)

_CHOICE = object_of(
    {"index": COUNT, "delta": _DELTA},
    {
        "finish_reason": nullable(
            word("stop", "length", "tool_calls", "content_filter", "function_call")
        ),
        "logprobs": nullable(_LOGPROBS),
    },
)

_USAGE = object_of(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
    {
        "prompt_tokens_details": nullable(
            _counts(
                *("cached_tokens", "cache_write_tokens"),
                *("audio_tokens", "image_tokens", "text_tokens"),
            )
        ),
        "completion_tokens_details": nullable(
            _counts(
                *("reasoning_tokens", "audio_tokens", "text_tokens"),
                *("accepted_prediction_tokens", "rejected_prediction_tokens"),
            )
        ),
    },
)

CHUNK = object_of(
    {
        "id": TEXT,
        "object": word("chat.completion.chunk"),
        "created": COUNT,
        "model": TEXT,
        "choices": array(_CHOICE),
    },
    {
        "usage": nullable(_USAGE),
        "service_tier": NULL_OR_TEXT,
        "system_fingerprint": NULL_OR_TEXT,
        "obfuscation": NULL_OR_TEXT,
        "moderation": nullable(OBJECT),
    },
)
"""A chunk."""

FUNCTION_START = object_of(
    {
        "id": NAME,
        "type": word("function"),
        "function": object_of({"name": NAME, "arguments": TEXT}),
    }
)
"""The first fragment of a function call."""

CUSTOM_START = object_of({"id": NAME, "custom": object_of({"name": NAME, "input": TEXT})})
"""The first fragment of a custom tool call, which the vendor does not document."""

CALL_FRAGMENT = object_of(
    {},
    {
        "function": object_of({}, {"arguments": TEXT}),
        "custom": object_of({}, {"input": TEXT}),
    },
)
"""A further fragment of a tool call."""

ERROR = object_of(
    {
        "error": object_of(
            {"message": TEXT, "type": TEXT}, {"param": NULL_OR_TEXT, "code": NULL_OR_TEXT}
        )
    }
)
"""An error, sent instead of a chunk."""
