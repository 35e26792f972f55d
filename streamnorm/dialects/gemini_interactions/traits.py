"""Traits of the Interactions API: endpoints, detection of frames and bodies, capabilities.

https://ai.google.dev/api/interactions-api (read 2026-11-22).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Document, Image, OpaqueBlock, Reasoning, Text
from streamnorm._core.codec import DONE, Endpoints, Route, StoredAnswers, on_first_use
from streamnorm._core.json import FAST_ERRORS, is_array, object_in, objects_of, string_of
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.gemini_interactions.outcome import FINAL_EVENTS, TERMINAL
from streamnorm.dialects.gemini_interactions.wire import (
    CALL_SUFFIX,
    DIALECT,
    KIND_SUFFIX,
    RESULT_SUFFIX,
)
from streamnorm.sse import Frame

REVISION = "2026-05-20"
"""Revision of the API, which the header `api-revision` of each request names."""

_STORED = r"/interactions/(?P<response_id>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/interactions\Z"), "message"),
        Route("GET", re.compile(rf"{_STORED}\Z"), "response"),
        Route("DELETE", re.compile(rf"{_STORED}\Z"), "delete"),
        Route("POST", re.compile(rf"{_STORED}/cancel\Z"), "cancel"),
    ),
    models_path="/v1beta/models",
    key_headers=("x-goog-api-key", "authorization"),
    vendor_headers=("api-revision", "x-goog-api-client", "x-goog-user-project"),
    account_headers=frozenset({"x-goog-user-project"}),
    body_headers=frozenset({"api-revision"}),
    forwarded_query=("include_input", "last_event_id", "stream"),
)

# google-genai 3.6.1, `_gaos/interactions.py` and `_gaos/types/interactions` (read 2026-11-27).
STORED = StoredAnswers(
    noun="interaction",
    id_prefix="interaction_",
    output="steps",
    # `interaction.completed` may have the steps; in no recording it does.
    ends_with_output=False,
    ended=frozenset(TERMINAL) - {"failed", "cancelled"},
    unsupported=("background",),
    input_items=on_first_use(f"{__package__}.body.messages", "input_items"),
    # With `store: false` the vendor writes an empty id (@ai-sdk/google,
    # `google-interactions-multi-turn-stateless`).
    unstored_fields={"id": ""},
    deleted=lambda id: {},
    include_input="include_input",
    created_fields=on_first_use(f"{__package__}.body.response", "created_fields"),
    queued_status="in_progress",
    cancelled_fields={"status": "cancelled", "errors": []},
    # The last event is the same for every status.
    cancelled_event={"event_type": "interaction.completed"},
    errors="errors",
    after="last_event_id",
    event_id="event_id",
)

_TERMINALS = tuple(f"interaction.{name}" for name in FINAL_EVENTS)
_STEPS = frozenset({"step.start", "step.delta", "step.stop"})
_CONTENTS = frozenset({"content.start", "content.delta", "content.stop"})


class _IndexedHead(Struct):
    event_type: str
    index: Any = None


_HEAD: msgspec.json.Decoder[_IndexedHead] = msgspec.json.Decoder(_IndexedHead)


def is_interaction(frame: Frame) -> bool:
    """Return whether a frame's name or `event_type` belongs to the Interactions API."""
    # The API sends the type twice, as the name of the frame and in the payload; either suffices.
    if frame.event.startswith("interaction.") or frame.event in _STEPS:
        return True
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = head.event_type
    if kind.startswith("interaction.") or kind in _STEPS:
        return True
    # Other vendors' content events have no index.
    return kind in _CONTENTS and type(head.index) is int


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame ends the stream: the final event or `[DONE]`."""
    return frame.data.startswith(DONE) or object_in(frame.data).get("event_type") in _TERMINALS


def event_type(value: dict[str, Any], frame: Frame) -> str:
    """Return the `event_type` of an event; if the field is missing, the frame's event name."""
    return string_of(value, "event_type") or frame.event


# Fields that requests with `input` of other vendors do not have.
_OPTIONS = frozenset(
    {
        *("cached_content", "continuation_token", "environment", "generation_config"),
        *("previous_interaction_id", "response_format", "response_modalities"),
        *("safety_settings", "system_instruction", "webhook_config"),
    }
)
_TYPES = frozenset({"user_input", "model_output", "thought", "function_result"})
_CONTENT = frozenset({"text", "image", "audio", "video", "document"})
_SAMPLE = 16
"""Number of steps inspected; nearly every history is recognised within them."""


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be an Interactions API request."""
    steps = body.get("input")
    if "messages" in body or "contents" in body or steps is None:
        return False
    if not _OPTIONS.isdisjoint(body):
        return True
    found = objects_of(steps if is_array(steps) else [steps])[:_SAMPLE]
    return any(string_of(each, "type") in _TYPES | _CONTENT for each in found)


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a JSON object is an interaction."""
    return body.get("object") == "interaction" and isinstance(body.get("status"), str)


_ACTIONS = ("created", "start", "in_progress", "queued", "status_update", *FINAL_EVENTS)

CAPABILITIES = Capabilities(
    dialect=DIALECT,
    identity=True,
    # One interaction per request.
    choices=False,
    # Texts of one answer share a step; each thought has one of its own.
    boundaries=False,
    joined=(Text,),
    # Steps come one after the other.
    overlapping=(),
    blank_text=True,
    # A step of the answer has text, and an error of the provider.
    refusal=False,
    reasoning=True,
    # Deltas of a summary have no number.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of="google",
    # The signature of a call stands in a thought before it.
    signed=(Reasoning,),
    # Arguments are an object.
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=False,
    # Arguments are a text in a stream, whatever it says.
    broken_arguments=True,
    server_tools=(CALL_SUFFIX + KIND_SUFFIX, RESULT_SUFFIX + KIND_SUFFIX),
    media=(Image, Document, OpaqueBlock),
    file_urls=True,
    citations=frozenset({"maps", "retrievedContext", "web"}),
    url_citation="web",
    citation_fields=False,
    # An annotation has the position of the text, not the text of its source.
    cited_texts=frozenset(),
    # Unknown fields of events that are written anew.
    not_round_tripped=frozenset(
        {"content", "metadata", "model_output", *_STEPS, *_CONTENTS}
        | {f"interaction.{action}" for action in _ACTIONS}
    ),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "pause"}),
    native_stop_reasons=frozenset(),
    # `completed` does not name a stop sequence.
    unnamed_stop_sequence=False,
    service_tiers={
        "auto": "standard",
        "default": "standard",
        "deferred": "deferred",
        "flex": "flex",
        "priority": "priority",
        "standard": "standard",
    },
    usage="known",
    # Caches are written by requests of their own.
    cache_write=False,
    # Thoughts and text are counted apart, and their sum is the output.
    reasoning_tokens=True,
    excess_reasoning=False,
)
