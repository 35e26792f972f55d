"""Whole interactions, in both directions.

google-genai 3.6.1, `_gaos/types/interactions/interaction.py` (read 2026-11-27).  An interaction
is read as the last event of a stream without steps before it, and written from the steps of a
stream, so that an interaction and the stream of a message agree.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.fields import get_array, read_objects, require_str, unexpected
from streamnorm._core.bodies.models import google_models
from streamnorm._core.bodies.tool_calls import arguments_object
from streamnorm._core.codec import ReadContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import Event, Failed, StreamError
from streamnorm._core.failures import FailedAnswer
from streamnorm._core.json import compact, object_in
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._core.messages import Message, accumulate, came_from, message_events
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.gemini_interactions.decode import InteractionsDecoder
from streamnorm.dialects.gemini_interactions.encode import InteractionsEncoder
from streamnorm.dialects.gemini_interactions.outcome import TERMINAL
from streamnorm.dialects.gemini_interactions.traits import CAPABILITIES
from streamnorm.dialects.gemini_interactions.wire import DIALECT
from streamnorm.sse import Frame, SSEDecoder

# The API is one of several at its host, which lists the models of all.
MODELS = google_models(DIALECT)

_COMPLETED = "interaction.completed"
_PREVIOUS = "previous_interaction_id"
# A stream carries the arguments of a call as text, broken or not; here they are a JSON object.
_CAPABILITIES = structs.replace(CAPABILITIES, broken_arguments=False)


# Reading


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events that a stream of the same interaction would give.

    Raises:
        DecodeError: The body is no interaction, or one that has not ended.
    """
    status = require_str(body, "status")
    if status not in TERMINAL:
        raise unexpected(status, "the status of an end", "$.status")
    read_objects(get_array(body, "steps"), lambda step: require_str(step, "type"), "$.steps")
    decoder = InteractionsDecoder(server=context.server, limits=context.limits)
    data = compact({"event_type": _COMPLETED, "interaction": body})
    events = [*decoder.feed_frame(Frame(_COMPLETED, data)), *decoder.close()]
    outcome = decoder.outcome
    if isinstance(outcome, Failed) and outcome.error.kind != "upstream":
        raise DecodeError(f"{outcome.error.message}, expected an interaction", path="$.steps")
    return events


# Writing


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    """Return a message as an interaction.

    Args:
        message: The message.
        created: Creation time in seconds since 1970; None = the message's own.
        losses: Losses of the projection.

    Raises:
        EncodeError: The message has not ended, or the arguments of a call are no JSON object.
    """
    if message.stop_reason is None:
        raise EncodeError("message without a stop reason, expected one", path="stop_reason")
    extras = came_from(message, DIALECT)
    written = _project_message(message, losses, extras=extras)
    encoder = InteractionsEncoder(extras=extras)
    stream = b"".join([encoder.encode(event) for event in message_events(written)])
    interaction, steps = _fold(stream, losses)
    if created is not None:
        interaction["created"] = _time_to_wire(created)
    return {**interaction, "steps": steps}


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return an interaction with its model and creation time replaced; None replaces nothing."""
    body = body if model is None else {**body, "model": model}
    return body if created is None else {**body, "created": _time_to_wire(created)}


def echoed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that its interaction must repeat."""
    previous = body.get(_PREVIOUS)
    return {} if previous is None else {_PREVIOUS: previous}


def created_fields(created: float) -> dict[str, Any]:
    """Return the fields of an interaction that was created at a Unix time."""
    return {"created": _time_to_wire(created)}


def _time_to_wire(created: float) -> str:
    time = datetime.fromtimestamp(created, UTC).replace(microsecond=0)
    return time.isoformat().replace("+00:00", "Z")


def _project_message(message: Message, losses: Losses, *, extras: bool) -> Message:
    """Return a message projected to the capabilities of the Interactions API.

    Raises:
        EncodeError: The arguments of a call are no JSON object.
        FailedAnswer: The message failed in another way.
    """
    projector = Projector(_CAPABILITIES, losses)
    projector.vendor_fields.are_carried = extras
    events = [out for event in message_events(message) for out in projector.push(event)]
    if isinstance(last := events[-1], StreamError):
        if projector.withdrawn_calls:
            raise EncodeError("call with broken arguments, expected a JSON object", path="blocks")
        raise FailedAnswer(last)
    dropped = projector.withdrawn_calls
    return accumulate(event for event in events if getattr(event, "index", None) not in dropped)


def _fold(stream: bytes, losses: Losses) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the interaction and its steps, assembled from an encoded stream.

    Raises:
        EncodeError: The arguments of a call have a number beyond a double.
    """
    steps: list[dict[str, Any]] = []
    texts: list[TextBuffer] = []
    interaction: dict[str, Any] = {}
    for frame in SSEDecoder().feed(stream):
        event: Any = object_in(frame.data)
        match event.get("event_type"):
            case "step.start":
                steps.append(event["step"])
                texts.append(TextBuffer())
            case "step.delta":
                _extend(steps[-1], texts[-1], event["delta"])
            case "step.stop":
                index: int = event["index"]
                _finish(steps[index], texts[index].text(), losses)
            case "interaction.completed":
                interaction = event["interaction"]
            case _:
                pass
    return interaction, steps


def _extend(step: dict[str, Any], text: TextBuffer, delta: dict[str, Any]) -> None:
    """Add a delta to a step, and the delta's text to `text` until the step stops."""
    match delta["type"]:
        case "text":
            text.append(delta["text"])
        case "thought_summary":
            content = delta["content"]
            if content.keys() == {"type", "text"}:
                text.append(content["text"])
            else:
                step.setdefault("summary", []).append(content)
        case "arguments_delta":
            text.append(delta["arguments"])
        case "thought_signature":
            step["signature"] = delta["signature"]
        case "text_annotation_delta":
            step.setdefault("annotations", []).extend(delta["annotations"])
        case kind if kind == step["type"]:
            step |= delta
        case _:
            step.setdefault("content", []).append(delta)


def _finish(step: dict[str, Any], text: str, losses: Losses) -> None:
    """Add the collected text to a stopped step."""
    match step["type"]:
        case "model_output":
            annotations = step.pop("annotations", None)
            content: dict[str, Any] = {"type": "text", "text": text}
            if annotations:
                content["annotations"] = annotations
            if text or annotations:
                step["content"] = [content, *step.get("content", ())]
        case "thought" if text:
            step["summary"] = [{"type": "text", "text": text}, *step.get("summary", ())]
        case "function_call" if text:
            # A stream passes on, as text, what no decoded body can hold.
            call = ToolCall("", "", text)
            step["arguments"] = arguments_object(call, "error", losses, "blocks")
        case _:
            pass
