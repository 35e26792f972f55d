"""What one delta of Chat Completions holds.

Within one delta the order is reasoning, text, refusal, tool calls.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.events import Event
from streamnorm._core.ids import untag_signature
from streamnorm._core.json import compact, is_array, is_object
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import Answer
from streamnorm.dialects.openai_chat.reasoning import issued

__all__ = ["read_delta"]


def read_delta(delta: wire.Delta, answer: Answer, events: list[Event]) -> None:
    """Append the events of one delta."""
    if delta.reasoning_details or delta.reasoning_content or delta.reasoning:
        _reasoning(delta, answer, events)
    content = delta.content
    if content:
        if isinstance(content, str):
            answer.content(content, events)
        else:
            _parts(content, answer, events)
    if delta.refusal:
        answer.piece("refusal", delta.refusal, events)
    if delta.tool_calls:
        for call in delta.tool_calls:
            _tool_call(call, answer, events)
    if delta.function_call is not None:
        name, arguments = delta.function_call.name or "", delta.function_call.arguments
        if name or arguments:
            answer.call(0, None, name, _text(arguments, answer), None, None, events)
    if delta.annotations:
        _annotations(delta.annotations, answer, events)
    for name in ("audio", "executed_tools", "images"):
        value = getattr(delta, name)
        if value:
            answer.opaque(name, value, events)


def _reasoning(delta: wire.Delta, answer: Answer, events: list[Event]) -> None:
    """Take reasoning once, where servers send it under several names."""
    details = [detail for detail in delta.reasoning_details or () if is_object(detail)]
    if not any(_detail_text(detail) for detail in details):
        text = delta.reasoning_content or delta.reasoning
        if text:
            answer.piece("reasoning", text, events)
    for detail in details:
        _detail(detail, answer, events)


def _detail(detail: dict[str, Any], answer: Answer, events: list[Event]) -> None:
    """Take one of OpenRouter's reasoning details."""
    kind, known = detail.get("type"), False
    text = _detail_text(detail)
    if text:
        answer.piece("reasoning", text, events)
        known = True
    signature = detail.get("signature")
    if isinstance(signature, str) and signature:
        signature, issuer, _ = issued(signature, detail.get("format"))
        answer.sign(signature, issuer, events)
        known = True
    data = detail.get("data")
    if kind == "reasoning.encrypted" and isinstance(data, str) and data:
        data, issuer, sealed = issued(data, detail.get("format"))
        alone = sealed or issuer == "anthropic"
        answer.encrypted(data, issuer, detail.get("id"), events, alone=alone)
        known = True
    if not known and kind not in ("reasoning.text", "reasoning.summary", "reasoning.encrypted"):
        answer.opaque("reasoning_details", detail, events)


def _detail_text(detail: dict[str, Any]) -> str:
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def _parts(parts: list[Any], answer: Answer, events: list[Event]) -> None:
    """Take Mistral's list of content parts."""
    for part in parts:
        match part:
            case str():
                answer.content(part, events)
            case {"type": "text", "text": str(text)}:
                answer.content(text, events)
            case {"type": "thinking", "thinking": thoughts} if is_array(thoughts):
                for thought in thoughts:
                    if is_object(thought) and isinstance(thought.get("text"), str):
                        answer.piece("reasoning", thought["text"], events)
                    else:
                        answer.opaque("content_part", thought, events)
                signature: object = part.get("signature")
                if isinstance(signature, str) and signature:
                    answer.sign(signature, "mistral", events)
            case _:
                answer.opaque("content_part", part, events)


def _tool_call(delta: wire.ToolCallDelta, answer: Answer, events: list[Event]) -> None:
    function = delta.function or delta.custom or wire.Function()
    kind = "custom" if delta.custom is not None or delta.type == "custom" else None
    fragment = _text(function.arguments, answer) or function.input or ""
    id = str(delta.id) if delta.id not in (None, "", "null") else None
    if not (id or function.name or fragment or delta.extra_content):
        return  # which would otherwise be a call that nobody names
    signed = _signed(delta.extra_content)
    answer.call(delta.index, id, function.name or "", fragment, kind, signed, events)
    if delta.extra_content and signed is None:
        answer.opaque("extra_content", delta.extra_content, events)


def _signed(extra: dict[str, Any] | None) -> tuple[str, str | None] | None:
    """Return the signature of a call and who issued it, as Gemini's endpoint sends it."""
    google = extra.get("google") if extra else None
    signature = google.get("thought_signature") if is_object(google) else None
    if not isinstance(signature, str) or not signature:
        return None
    return untag_signature(signature) or (signature, "google")


def _annotations(annotations: list[Any], answer: Answer, events: list[Event]) -> None:
    for annotation in annotations:
        answer.check_depth(annotation)
        citation = _citation(annotation, answer) if is_object(annotation) else None
        if citation is None or not answer.cite(citation, events):
            answer.opaque("annotations", annotation, events)


def _citation(annotation: dict[str, Any], answer: Answer) -> Citation | None:
    kind = annotation.get("type")
    if not isinstance(kind, str):
        return None
    inner = annotation.get(kind)
    rest = dict(inner) if is_object(inner) else {k: v for k, v in annotation.items() if k != "type"}

    def take(key: str, kind: type) -> Any:
        return rest.pop(key) if type(rest.get(key)) is kind else None

    # The vendor counts characters over the whole message, we within the block.
    first = answer.texts == 1
    return Citation(
        kind,
        url=take("url", str),
        title=take("title", str),
        cited_text=take("content", str),
        start=take("start_index", int) if first else None,
        end=take("end_index", int) if first else None,
        extra={key: value for key, value in rest.items() if value is not None} or None,
    )


def _text(arguments: wire.Arguments, answer: Answer) -> str:
    """Return arguments as text, those that came as an object dumped once."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    answer.check_depth(arguments)
    return compact(arguments)
