"""What providers write: their errors, and what ends their streams.

Anthropic and Chat Completions write them as their encoders do.  Responses has the bodies of
Chat Completions; of its two events for errors, `error` stands alone where no `response` was
told before.  Gemini's errors are `google.rpc.Status`, but for those of its Interactions API.
https://platform.openai.com/docs/api-reference/responses-streaming,
https://ai.google.dev/gemini-api/docs/troubleshooting (read 2026-11-21) and
https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from streamnorm._core.events import StreamError
from streamnorm._core.json import InvalidJSON, compact, decode_any, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm._registry import detect, encoder
from streamnorm.recording.faults.layout import Located, events_of, line_end
from streamnorm.sse import Frame

__all__ = ["Speech", "dialect_of", "error_body", "error_frames", "is_terminal", "overloaded"]

Speech: TypeAlias = Literal["anthropic", "openai_chat", "openai_responses", "gemini"]
"""The dialects whose errors are known."""

_SPEECHES: dict[str, Speech] = {
    "anthropic": "anthropic",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "gemini": "gemini",
}

_GEMINI_WORDS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

_INTERACTION_TERMINALS = ("interaction.completed", "interaction.complete")
_RESPONSES_TERMINALS = ("response.completed", "response.incomplete", "response.failed")
_MAX_DEPTH = Limits().max_json_depth


def dialect_of(name: str | None, events: list[Located]) -> Speech | None:
    """Return the dialect of an answer: the one it is said to be, or looks like."""
    if name is not None and (known := _SPEECHES.get(name)) is not None:
        return known
    for event in events:
        if (found := _looks_like(event.frame)) is not None:
            return found
    return None


def is_terminal(dialect: Speech | None, frame: Frame) -> bool:
    """Tell whether an event says that the message is complete."""
    match dialect:
        case "openai_chat":
            return frame.data.startswith("[DONE]")
        case "anthropic":
            return _type_of(frame) == "message_stop"
        case "openai_responses":
            return _type_of(frame) in _RESPONSES_TERMINALS
        case "gemini":
            if frame.data.startswith("[DONE]") or _kind_of(frame) in _INTERACTION_TERMINALS:
                return True
            return _finishes(_object_of(frame))
        case None:
            return False


def overloaded(dialect: Speech | None) -> int:
    """Return the HTTP status by which a provider says that it is overloaded."""
    return 529 if dialect == "anthropic" else 503


def error_body(dialect: Speech | None, status: int) -> bytes:
    """Return the body of an error response."""
    message = f"status {status}, injected as a fault"
    if dialect == "gemini":
        return compact(_google(status, message)).encode()
    room = "anthropic" if dialect == "anthropic" else "openai_chat"
    return encoder(room).error_body(StreamError("upstream", message, status_hint=status))


def error_frames(dialect: Speech, body: bytes, before: list[Located]) -> bytes:
    """Return the events by which a provider says in a stream that it is overloaded.

    Args:
        dialect: The provider's.
        body: All of the stream, whose lines end as those of the events will.
        before: What has been said.
    """
    status = overloaded(dialect)
    message = "overloaded, injected as a fault"
    match dialect:
        case "anthropic" | "openai_chat":
            data = encoder(dialect).encode(StreamError("upstream", message, status_hint=status))
        case "openai_responses":
            data = _responses_error(message, [_object_of(event.frame) for event in before])
        case "gemini" if any(_kind_of(event.frame) for event in events_of(body)[:1]):
            told = {"error": {"code": "service_unavailable", "message": message}}
            data = _framed("error", {**told, "event_type": "error"})
        case "gemini":
            data = b"data: %b\n\n" % compact(_google(status, message)).encode()
    default = b"\r\n" if dialect == "gemini" else b"\n"
    return data.replace(b"\n", line_end(body, default))


def _looks_like(frame: Frame) -> Speech | None:
    value = _object_of(frame)
    if str(value.get("type", frame.event)).startswith("response."):
        return "openai_responses"
    if "candidates" in value or "promptFeedback" in value:
        return "gemini"
    return _SPEECHES.get(detect(frame) or "")


def _type_of(frame: Frame) -> object:
    return _object_of(frame).get("type", frame.event)


def _kind_of(frame: Frame) -> str:
    """Return the type of an event of the Interactions API; nothing for other frames."""
    return str(_object_of(frame).get("event_type", ""))


def _finishes(value: dict[str, Any]) -> bool:
    candidates, feedback = value.get("candidates"), value.get("promptFeedback")
    if is_object(feedback) and feedback.get("blockReason"):
        return True
    return is_array(candidates) and any(
        is_object(candidate) and candidate.get("finishReason") for candidate in candidates
    )


def _object_of(frame: Frame) -> dict[str, Any]:
    """Return the JSON object of an event; an empty one if it has none."""
    try:
        value = decode_any(frame.data, max_depth=_MAX_DEPTH)
    except InvalidJSON:
        return {}
    return value if is_object(value) else {}


def _google(status: int, message: str) -> dict[str, Any]:
    word = _GEMINI_WORDS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return {"error": {"code": status, "message": message, "status": word}}


def _responses_error(message: str, before: list[dict[str, Any]]) -> bytes:
    """Return an `error`, flat as it is published and nested as it is sent, and the end."""
    numbers = [value["sequence_number"] for value in before if "sequence_number" in value]
    number = numbers[-1] + 1 if numbers and isinstance(numbers[-1], int) else 0
    told = {"code": "server_is_overloaded", "message": message, "param": None}
    error = {"type": "server_error", **told}
    data = _named("error", {"sequence_number": number, **told, "error": error})
    responses = [value["response"] for value in before if is_object(value.get("response"))]
    if responses:
        reason = {"code": told["code"], "message": message}
        failed = {**responses[-1], "status": "failed", "error": reason}
        data += _named("response.failed", {"sequence_number": number + 1, "response": failed})
    return data


def _named(type: str, fields: dict[str, Any]) -> bytes:
    return _framed(type, {"type": type, **fields})


def _framed(name: str, payload: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {compact(payload)}\n\n".encode()
