"""Event types and field sets of AG-UI's streams.

`@ag-ui/core` 1.0.0, `src/generated/schemas.ts` (read 2026-11-27).  Frames have no event line; the
payload names its event by `type`.  Only content events, of which most of a stream consists, have
a struct; all other payloads are decoded as plain JSON.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from streamnorm._core.json import clean_tree

DIALECT = "ag_ui"

RUN_STARTED = "RUN_STARTED"
RUN_FINISHED = "RUN_FINISHED"
RUN_ERROR = "RUN_ERROR"
TEXT_START = "TEXT_MESSAGE_START"
TEXT_CONTENT = "TEXT_MESSAGE_CONTENT"
TEXT_END = "TEXT_MESSAGE_END"
TEXT_CHUNK = "TEXT_MESSAGE_CHUNK"
CALL_START = "TOOL_CALL_START"
CALL_ARGS = "TOOL_CALL_ARGS"
CALL_END = "TOOL_CALL_END"
CALL_CHUNK = "TOOL_CALL_CHUNK"
CALL_RESULT = "TOOL_CALL_RESULT"
SPAN_START = "REASONING_START"
SPAN_END = "REASONING_END"
REASONING_START = "REASONING_MESSAGE_START"
REASONING_CONTENT = "REASONING_MESSAGE_CONTENT"
REASONING_END = "REASONING_MESSAGE_END"
REASONING_CHUNK = "REASONING_MESSAGE_CHUNK"
ENCRYPTED_VALUE = "REASONING_ENCRYPTED_VALUE"

# Deprecated, but still sent by servers of `ag-ui-protocol` before 0.1.13.
THINKING = {
    "THINKING_START": SPAN_START,
    "THINKING_END": SPAN_END,
    "THINKING_TEXT_MESSAGE_START": REASONING_START,
    "THINKING_TEXT_MESSAGE_CONTENT": REASONING_CONTENT,
    "THINKING_TEXT_MESSAGE_END": REASONING_END,
}
"""Names of the events that carried reasoning before, with the names of today."""

PASSIVE = frozenset(
    {"RAW", "CUSTOM", "STEP_STARTED", "STEP_FINISHED", "STATE_SNAPSHOT", "STATE_DELTA"}
    | {"MESSAGES_SNAPSHOT", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"}
    | {"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"}
)
"""Events that change no block of the answer."""

EVENT_TYPES = (
    frozenset({RUN_STARTED, RUN_FINISHED, RUN_ERROR, CALL_RESULT, ENCRYPTED_VALUE})
    | {TEXT_START, TEXT_CONTENT, TEXT_END, TEXT_CHUNK}
    | {CALL_START, CALL_ARGS, CALL_END, CALL_CHUNK, SPAN_START, SPAN_END}
    | {REASONING_START, REASONING_CONTENT, REASONING_END, REASONING_CHUNK}
    | THINKING.keys()
    | PASSIVE
)

DELTA_FIELDS = frozenset({"delta"})
"""The field whose text may end in half a surrogate pair."""

# Fields of `metadata` that the encoder writes; no field of AG-UI has a place for them.
MODEL = "model"
MESSAGE_ID = "messageId"
PROVIDER_EXECUTED = "providerExecuted"
CITATIONS = "citations"
STOP_REASON = "stopReason"
IS_ERROR = "isError"
IS_CONTINUED = "isContinued"  # by the next message, which is a further part of the reasoning
IS_JSON = "isJson"

CANCELLED = "cancelled"
"""Outcome of a run that was stopped (1.0), and code of the error that stands for it."""


class Content(Struct, gc=False):
    """A content event, which appends text, reasoning or arguments."""

    type: Literal["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS"]
    delta: str
    message_id: str = field(default="", name="messageId")
    call_id: str = field(default="", name="toolCallId")


_CONTENT: msgspec.json.Decoder[Content] = msgspec.json.Decoder(Content)
decode_content = _CONTENT.decode


def unknown_fields(value: dict[str, Any], *mapped: str) -> dict[str, Any]:
    """Return an object's non-null fields that have no unified field."""
    found = {key: item for key, item in value.items() if key not in mapped and item is not None}
    # A `delta` of another event than those of pieces may end in half a surrogate pair.
    return {key: clean_tree(item) for key, item in found.items()}
