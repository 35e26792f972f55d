"""Whole responses (`chat.completion`) and model lists, in both directions.

https://platform.openai.com/docs/api-reference/chat/object (read 2026-11-23).  A response is
read as a stream of one chunk, whose choices have a `message` in place of a `delta`.

https://platform.openai.com/docs/api-reference/models (read 2026-11-23), and the lists of compatible
servers.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from typing import Any

from msgspec import convert

from streamnorm._core.blocks import Reasoning, Refusal, Text
from streamnorm._core.bodies.fields import as_object, conversion_error, get_array, get_objects
from streamnorm._core.bodies.models import (
    shared_models,
)
from streamnorm._core.codec import ReadContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import Event, StopReason, StreamError, Usage
from streamnorm._core.failures import FailedAnswer, Fatal
from streamnorm._core.json import (
    InvalidJSON,
    count_of,
    is_array,
    is_object,
    json_value,
    object_in,
    string_of,
)
from streamnorm._core.limits import StoredBytes
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._core.messages import (
    Message,
    MessageSource,
    accumulate,
    came_from,
    message_events,
)
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.body.content import DIALECT
from streamnorm.dialects.openai_chat.content import Annotations, are_generated, opaque_to_wire
from streamnorm.dialects.openai_chat.decode import ChatDecoder
from streamnorm.dialects.openai_chat.outcome import stop_reason_to_wire, usage_to_wire
from streamnorm.dialects.openai_chat.tool_calls import call_to_wire
from streamnorm.dialects.openai_chat.traits import CAPABILITIES


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events of a whole response, or the error that stands in it.

    Raises:
        DecodeError: The body is no response, or exceeds a bound.
    """
    if not get_array(body, "choices"):
        raise DecodeError("no choices, expected at least one", path="$.choices")
    for path, choice in get_objects(body, "choices"):
        as_object(choice.get("message"), f"{path}.message")
    try:
        return ChatDecoder(server=context.server, limits=context.limits).read_body(body)
    except InvalidJSON as exc:
        raise conversion_error(exc) from exc
    except Fatal as exc:
        # OpenRouter relays the error of an upstream in a choice, and DeepSeek names it as the
        # finish reason, both with status 200.
        if exc.error.kind == "upstream":
            return [exc.error]
        raise DecodeError(exc.error.message) from exc


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    """Return a message as a whole response with a choice for each choice of its source.

    Raises:
        EncodeError: The message is not finished.
    """
    # `finish_reason` is required: an unfinished message has no legal form.
    if message.stop_reason is None:
        raise EncodeError("message without a stop reason, expected a finished one", path="")
    projected = _project(message, losses, is_own=came_from(message, DIALECT))
    read: dict[str, Any] = (message.source.body if came_from(message, DIALECT) else None) or {}
    choice = _choice_to_wire(0, projected, message.stop_reason, read)
    body: dict[str, Any] = {
        **_unknown_fields(read, wire.CHUNK_FIELDS),
        "id": message.id,
        "object": "chat.completion",
        "created": int(created) if created is not None else _read_created(message),
        "model": message.model,
        "choices": [choice],
    }
    if projected.usage != Usage():
        body["usage"] = usage_to_wire(projected.usage, extras=came_from(message, DIALECT))
    tier = _service_tier(message)
    if tier is not None:
        body["service_tier"] = tier
    _add_opaque(projected, body, choice, losses)
    others = message.source.choices if isinstance(message.source, MessageSource) else ()
    for number, other in others:
        projected = _project(other, losses, is_own=came_from(message, DIALECT))
        choice = _choice_to_wire(number, projected, other.stop_reason or "other", read)
        body["choices"].append(choice)
        _add_opaque(projected, body, choice, losses)
    return body


def _project(message: Message, losses: Losses, *, is_own: bool) -> Message:
    """Return a message reduced to what the dialect can carry.

    Args:
        message: The message.
        losses: Counter of what it loses.
        is_own: Whether it came from this dialect.
    """
    projector = Projector(CAPABILITIES, losses)
    projector.vendor_fields.are_carried = is_own
    events = [out for event in message_events(message) for out in projector.push(event)]
    if isinstance(last := events[-1], StreamError):
        raise FailedAnswer(last)
    return accumulate(events)


def _choice_to_wire(
    number: int, projected: Message, stop_reason: StopReason, read: dict[str, Any]
) -> dict[str, Any]:
    """Return a choice.

    Args:
        number: Number of the choice.
        projected: Its message, projected.
        stop_reason: Stop reason, if the projected message has none.
        read: The response of this dialect that the choice was decoded from, or {}.
    """
    content, is_refused = _message_to_wire(projected)
    source = _find_choice(read, number)
    reason = projected.stop_reason or stop_reason
    choice: dict[str, Any] = {
        **_unknown_fields(source, wire.CHOICE_FIELDS),
        "index": number,
        "message": {**_unknown_fields(source.get("message", {}), wire.DELTA_FIELDS), **content},
        "logprobs": None,  # the vendor's schema requires it
        "finish_reason": stop_reason_to_wire(reason, is_refused=is_refused),
    }
    if reason == "stop_sequence":
        choice["stop_reason"] = projected.stop_sequence  # vLLM's field
    return choice


def _find_choice(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a choice of a response that was read; {} if there is none.

    The index of a choice that states none is its position.  Some servers state it as text.
    """
    choices: list[dict[str, Any]] = body.get("choices", [])
    for position, choice in enumerate(choices):
        stated = convert(choice.get("index"), int | None, strict=False)  # as it was read
        if (position if stated is None else stated) == number:
            return choice
    return {}


def _unknown_fields(owner: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in owner.items() if name not in known}


def message_fields(message: Message) -> dict[str, Any]:
    """Return the fields that an answer has in a later request beside its text and calls.

    A spoken answer has no text; it goes back by its id (openai 3.54.0,
    `ChatCompletionAssistantMessageParam.audio`).  Images that OpenRouter's models have generated
    go back as they came, so that the next answer can change them.
    """
    fields: dict[str, Any] = {}
    images: list[Any] = []
    for event in message.opaque:
        # In a stream the id stands in one of many pieces.
        if event.name == "audio" and (id := string_of(object_in(event.data), "id")):
            fields.setdefault("audio", {"id": id})
        elif event.name == "images":
            found = json_value(event.data, "data")
            images += found if is_array(found) and are_generated(event, found) else ()
    return {**fields, "images": images} if images else fields


def _add_opaque(
    message: Message, body: dict[str, Any], choice: dict[str, Any], losses: Losses
) -> None:
    """Add the fields of opaque events to the response, its choice, or the choice's message."""
    objects = {"chunk": body, "choice": choice, "delta": choice["message"]}
    objects["end"] = choice["message"]
    spoken: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for event in message.opaque:
        placed = opaque_to_wire(event, counts)
        if placed is None:
            losses.add("opaque", event.name, "no field, dropped")
            continue
        position, fields = placed
        for name, value in fields.items():
            if name == "audio" and is_object(value):
                spoken.append(value)
            else:
                _join(objects[position], name, [value] if position == "end" else value)
    if spoken:
        choice["message"]["audio"] = _join_sound(spoken)


def _join_sound(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sound of an answer, whose data and transcript a stream has in pieces."""
    sound: dict[str, Any] = {}
    for delta in deltas:
        sound.update({name: value for name, value in delta.items() if value is not None})
    for name, join in (("data", _join_base64), ("transcript", "".join)):
        if pieces := [delta[name] for delta in deltas if isinstance(delta.get(name), str)]:
            sound[name] = join(pieces)
    return sound


def _join_base64(pieces: list[str]) -> str:
    """Return the Base64 of the bytes of all pieces; each may have a padding of its own."""
    if not any(piece.endswith("=") for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:  # no Base64, which its reader may judge
        return "".join(pieces)


def _join(owner: dict[str, Any], name: str, value: Any) -> None:
    """Set a field of `owner`; join arrays and objects with an earlier piece of the field."""
    before = owner.get(name)
    if is_array(before) and is_array(value):
        before += value
    elif is_object(before) and is_object(value):
        for key, item in value.items():
            _join(before, key, item)
    elif value is not None or before is None:
        owner[name] = value


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return a response with its model and creation time replaced; None replaces nothing."""
    body = body if model is None else {**body, "model": model}
    return body if created is None else {**body, "created": int(created)}


def _message_to_wire(message: Message) -> tuple[dict[str, Any], bool]:
    """Return the message of a choice, and whether it is a refusal."""
    blocks = message.blocks
    texts = [block.text for block in blocks if isinstance(block, Text)]
    reasoning = [block.text for block in blocks if isinstance(block, Reasoning)]
    refusals = [block.text for block in blocks if isinstance(block, Refusal)]
    value: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": "".join(refusals) if refusals else None,
    }
    if reasoning:
        value["reasoning_content"] = "".join(reasoning)
    if calls := [call_to_wire(call) for call in message.tool_calls]:
        value["tool_calls"] = calls
    if annotations := _annotations_of(message):
        value["annotations"] = annotations
    return value, bool(refusals)


def _annotations_of(message: Message) -> list[Any]:
    annotations = Annotations(StoredBytes(sys.maxsize))  # the message is in memory already
    for index, block in enumerate(message.blocks):
        if isinstance(block, Text):
            annotations.start_block(index)
            annotations.stop_block(index, len(block.text))
            for citation in block.citations:
                annotations.add(index, citation)
    return annotations.to_wire()


def _read_created(message: Message) -> int:
    extra = message.extra or {}
    return count_of(extra.get("created", extra.get("created_at"))) or 0


def _service_tier(message: Message) -> str | None:
    """Return the message's last service tier, as Chat Completions names it."""
    tier: str | None = None
    for extra in (message.extra, message.usage.extra, message.stop_extra):
        word = (extra or {}).get("service_tier")
        if isinstance(word, str):
            tier = CAPABILITIES.service_tiers.get(word)
    return tier


MODELS = shared_models(DIALECT)
