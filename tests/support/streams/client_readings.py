"""The expected reading of a projected stream by a client of each dialect.

The clients are the independent readers of each dialect; the expected form of a unified
message is written here by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from streamnorm import (
    Citation,
    Event,
    Message,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    ToolCall,
    Usage,
    accumulate,
)
from streamnorm._core.text import escape_id, tag_signature
from support.anthropic import reader as anthropic_reader
from support.gemini import judge as gemini_judge
from support.gemini import reader as gemini_reader
from support.gemini_interactions import judge as interactions_judge
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat import reader as chat_reader
from support.openai_responses import judge as responses_judge
from support.openai_responses import reader as responses_reader
from support.streams.content import content_of, error_words

__all__ = ["anthropic_content", "assert_client_has", "assert_reads_as", "ends_in_error"]

_DOCUMENTS = ("char_location", "page_location", "content_block_location")
_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_FILLING = {
    "anthropic": (),
    "openai_chat": (),
    "openai_responses": ("logprobs", "response.custom_tool_call_input."),
    "gemini": ("groundingMetadata", "citationMetadata"),
    "gemini_interactions": (
        *("text_annotation_delta", "google_", "code_execution_", "url_context_", "file_search_"),
        "mcp_server_tool_",
    ),
}
"""Prefixes of opaque events that are written within known events."""
_FORMATS = {
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
}

_READERS: dict[str, Callable[[bytes], Any]] = {
    "anthropic": anthropic_reader.read,
    "openai_chat": chat_reader.read,
    "openai_responses": responses_reader.read,
    "gemini": gemini_reader.read,
    "gemini_interactions": interactions_reader.read,
}

_ENDS = {
    "anthropic": (rb"event: error\n", rb'event: message_stop\ndata: {"type":"message_stop"'),
    "openai_chat": (rb'data: {"error":{', rb"data: \[DONE\]"),
    "openai_responses": (
        rb"event: response.failed\n",
        rb"event: response.(completed|incomplete)\n",
    ),
    "gemini": (
        rb'data: {"error":{|data: .*"finishReason":"(MALFORMED_|UNEXPECTED_|TOO_MANY_|MISSING_)',
        rb'data: .*"(finishReason|blockReason|usageMetadata)":',
    ),
    "gemini_interactions": (
        rb"event: error\n",
        rb"event: (done|interaction\.completed?)\n",
    ),
    "ui_message_stream": (rb'data: {"type":"error"', rb'data: {"type":"finish"'),
    "ag_ui": (rb'data: {"type":"RUN_ERROR"', rb'data: {"type":"RUN_FINISHED"'),
}
"""The last frame of a stream that fails, and of one that does not."""
_DONE = {"ui_message_stream": b"data: [DONE]\n\n"}
"""What follows either."""


def ends_in_error(data: bytes, dialect: str, *, foreign: bool = False) -> bool:
    """Return whether a stream ends in an error event; assert that a client accepts it.

    Args:
        data: The stream.
        dialect: Its dialect.
        foreign: Whether it may have events that no client knows.
    """
    if foreign:  # such a client may only look for the end
        data = data.removesuffix(_DONE.get(dialect, b":")).rstrip(b"\r\n")
        last = re.split(rb"(?>\r\n|\r|\n)[\r\n]+", data)[-1].lstrip()
        failed, ended = (re.match(end, last) is not None for end in _ENDS[dialect])
        assert failed or ended
        return failed
    return _READERS[dialect](data).error is not None


def assert_client_has(
    data: bytes,
    projected: list[Event],
    dialect: str,
    *,
    extras: bool = False,
    reasoning: str | None = "reasoning_content",
    include_usage: bool = True,
) -> None:
    """Assert that a client reads a stream as the projected events."""
    events: list[Any] = []
    if dialect == "anthropic":
        got = anthropic_reader.read(data, extras=extras)
        assert_reads_as(got, accumulate(projected), extras=extras)
        error, events = got.error, got.others
    elif dialect == "openai_responses":
        response = responses_reader.read(data)
        responses_judge.assert_reads_as(response, accumulate(projected), extras=extras)
        error, events = response.error, response.others
    elif dialect == "gemini":
        parts = gemini_reader.read(data)
        gemini_judge.assert_reads_as(parts, accumulate(projected))
        error, events = parts.error, parts.others
    elif dialect == "gemini_interactions":
        interaction = interactions_reader.read(data)
        interactions_judge.assert_reads_as(interaction, accumulate(projected))
        error, events = interaction.error, interaction.others
    else:
        chat = chat_reader.read(data, extras=extras)
        _check_chat(chat, projected, reasoning, include_usage=include_usage)
        error = chat.error
    failed = projected[-1] if projected else None
    assert (error is not None) == isinstance(failed, StreamError)
    if error is not None and isinstance(failed, StreamError):
        written = StreamError("upstream", error["message"])
        assert error_words(written) == error_words(failed)
    # An event of a block is renumbered with it.
    opaques = [event for event in projected if isinstance(event, Opaque)]
    told = [event for event in opaques if not event.name.startswith(_FILLING[dialect])]
    if dialect != "openai_chat":
        assert len(events) == len(told)


# Anthropic


def assert_reads_as(got: anthropic_reader.Read, message: Message, *, extras: bool = False) -> None:
    """Assert that an Anthropic client reads a stream as the expected message."""
    # The input of a call that broke off is nothing as yet.
    content = [{**b, "input": b["input"] or "{}"} if "input" in b else b for b in got.content]
    if extras:  # what the vendor sent beside, which has no place in the message
        wanted = anthropic_content(message)
        assert len(content) == len(wanted)
        for block, expected in zip(content, wanted, strict=True):
            assert block.items() >= expected.items()
    else:
        assert content == anthropic_content(message)
    reason = {"pause": "pause_turn"}.get(message.stop_reason or "", message.stop_reason)
    if got.stop_reason not in ("compaction", "model_context_window_exceeded"):
        assert got.stop_reason == reason
    if got.stop_reason is not None:
        assert got.usage == _anthropic_usage(message.usage)
        assert got.stop is not None
        assert got.stop["stop_sequence"] == message.stop_sequence


def anthropic_content(message: Message) -> list[dict[str, Any]]:
    """Return a message's content as an Anthropic client should read it."""
    return [_anthropic_block(block) for block in message.blocks]


def _anthropic_block(block: object) -> dict[str, Any]:
    match block:
        case Text(text, citations):
            cited = {"citations": [_location(source) for source in citations]}
            return {"type": "text", "text": text, **(cited if citations else {})}
        case Reasoning(signature=signature, issuer=issuer, id=id):
            if signature is not None and issuer != "anthropic":
                signature = tag_signature(signature, issuer, id)
            return {"type": "thinking", "thinking": block.text, "signature": signature or ""}
        case RedactedReasoning(data, issuer, id):
            data = data if issuer == "anthropic" else tag_signature(data, issuer, id)
            return {"type": "redacted_thinking", "data": data}
        case ToolCall(id, name, arguments):
            call = {"type": "tool_use", "id": escape_id(id), "name": name}
            return {**call, "input": arguments or "{}"}
        case ServerToolCall(id, name, arguments, kind):
            return {"type": kind, "id": id, "name": name, "input": arguments or "{}"}
        case ServerToolResult(id, kind, content):
            return {"type": kind, "tool_use_id": id, "content": content}
        case OpaqueBlock(data=data):
            return dict(json.loads(data))
        case _:
            pytest.fail(f"{type(block).__name__} has no place")


def _location(source: Citation) -> dict[str, Any]:
    title = "document_title" if source.kind in _DOCUMENTS else "title"
    words = {"url": source.url, title: source.title, "cited_text": source.cited_text}
    told = {key: value for key, value in words.items() if value is not None}
    known = ("document_title", "file_id") if source.kind in _DOCUMENTS else ("title",)
    return {"type": source.kind, **dict.fromkeys(known), **told, **(source.extra or {})}


def _anthropic_usage(usage: Usage) -> dict[str, int]:
    cached, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max((usage.input_tokens or 0) - cached - written, 0),
        "output_tokens": usage.output_tokens or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }


# Chat Completions


def _check_chat(
    got: chat_reader.Read, projected: list[Event], field: str | None, *, include_usage: bool
) -> None:
    answers = content_of(projected, "openai_chat").messages
    if not got.head:
        assert not any(message.blocks or message.stop_reason for message in answers.values())
        return
    assert got.answers.keys() == answers.keys()
    for choice in answers:
        message = accumulate(projected, choice=choice)
        assert (got.head["id"], got.head["model"]) == (message.id, message.model)
        _check_answer(got.answers[choice], message, field)
    usage = accumulate(projected).usage
    stopped = {event.choice for event in projected if isinstance(event, MessageStop)}
    if stopped >= answers.keys() and include_usage and _chat_usage(usage):
        assert got.usage is not None
        assert got.usage.items() >= _chat_usage(usage).items()
    else:
        assert got.usage is None


def _check_answer(got: chat_reader.Answer, message: Message, field: str | None) -> None:
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    refusals = [block.text for block in message.blocks if isinstance(block, Refusal)]
    thoughts = [block.text for block in message.blocks if isinstance(block, Reasoning)]
    assert got.texts.get("content", "") == "".join(texts)
    assert got.texts.get("refusal", "") == "".join(refusals)
    for name in ("reasoning_content", "reasoning"):
        assert got.texts.get(name, "") == ("".join(thoughts) if field == name else "")
    details = [got.details[index] for index in sorted(got.details)]
    assert _joined(details) == (_joined(_details(message)) if field == "reasoning_details" else [])
    for call in got.calls:  # the arguments of one that broke off are nothing as yet
        if call["type"] == "function":
            call["arguments"] = call["arguments"] or "{}"
    assert got.calls == [_call(block) for block in message.tool_calls]
    sources = [source for b in message.blocks if isinstance(b, Text) for source in b.citations]
    placed = got.annotations[: len(sources)]  # behind them stands what no text was open for
    assert [a[a["type"]].get("url") for a in placed] == [source.url for source in sources]
    assert all(a[a["type"]]["start_index"] >= 0 for a in placed)
    if message.stop_reason is not None:
        finish = _FINISHES[message.stop_reason]
        assert got.finish == ("stop" if refusals and finish == "content_filter" else finish)
        sequence = message.stop_sequence if message.stop_reason == "stop_sequence" else None
        assert got.stop == sequence


def _details(message: Message) -> list[dict[str, str]]:
    details: list[dict[str, str]] = []
    for block in message.blocks:
        match block:
            case Reasoning(signature=signature, issuer=issuer, id=id):
                detail = {"type": "reasoning.text"}
                if block.text:
                    detail["text"] = block.text
                if signature is not None:
                    known = issuer in _FORMATS
                    sealed = signature if known else tag_signature(signature, issuer, id)
                    detail |= {"signature": sealed, "format": _FORMATS.get(issuer or "", "unknown")}
                    detail |= {"id": id} if known and id is not None else {}
                details.append(detail)
            case RedactedReasoning(data, "anthropic"):
                format = _FORMATS["anthropic"]
                details.append({"type": "reasoning.encrypted", "data": data, "format": format})
            case RedactedReasoning(data, issuer, id):
                sealed = tag_signature(data, issuer, id)
                details.append({"type": "reasoning.encrypted", "data": sealed, "format": "unknown"})
            case _:
                pass
    return details


def _joined(details: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return reasoning details joined where only their indexes differ."""
    joined: list[dict[str, str]] = []
    for detail in details:
        plain = joined and joined[-1].keys() <= {"type", "text"}
        if plain and detail["type"] == joined[-1]["type"] == "reasoning.text":
            text = joined[-1].get("text", "") + detail.get("text", "")
            joined[-1] = {**detail, **({"text": text} if text else {})}
        else:
            joined.append(detail)
    return joined


def _call(call: ToolCall) -> dict[str, Any]:
    told: dict[str, Any] = {"id": call.id, "type": call.kind, "name": call.name}
    if call.kind == "function":
        told["arguments"] = call.arguments or "{}"
    else:
        told["input"] = call.arguments
    if call.signature is not None:
        signature = call.signature
        if call.issuer != "google":
            signature = tag_signature(signature, call.issuer)
        told["extra_content"] = {"google": {"thought_signature": signature}}
    return told


def _chat_usage(usage: Usage) -> dict[str, Any]:
    """Return the known counts; {} if there are none."""
    if usage == Usage():
        return {}
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
