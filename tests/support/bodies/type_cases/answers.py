"""Whole answers generated from the SDKs' types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from anthropic.types import Message
from anthropic.types.beta import BetaMessage
from google.genai.types import Candidate, GenerateContentResponse, Part
from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion import Choice
from openai.types.responses import Response

from support.bodies.type_cases.case import JSON, Case, cases_of, element_type
from support.bodies.type_cases.interactions import interaction_cases
from support.bodies.type_cases.walk import (
    ABSENT,
    fields_of,
    label_of,
    members,
    minimal,
    variants,
    with_member,
)

__all__ = [
    "ANTHROPIC_ANSWER",
    "GEMINI_ANSWER",
    "GEMINI_MODIFIERS",
    "RESPONSES_ANSWER",
    "answer_cases",
    "anthropic_content",
    "gemini_call_parts",
    "gemini_parts",
    "response_item",
    "response_output",
]


def answer_cases(dialect: str, *, beta: bool = False) -> Iterator[Case]:
    """Yield a whole answer for each member, literal and field of the SDK's type.

    Args:
        dialect: Its dialect.
        beta: Whether the types are those of Anthropic's betas.
    """
    yield from {
        "openai_chat": _chat,
        "openai_responses": _responses,
        "anthropic": partial(_anthropic, beta=beta),
        "gemini": _gemini,
        "gemini_interactions": interaction_cases,
    }[dialect]()


# Chat Completions

_CHAT_MESSAGE: JSON = {"role": "assistant", "content": "Done.", "refusal": None}
_CHAT_CALL: JSON = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "name_A", "arguments": "{}"},
}


def _chat_answer(message: JSON, choice: JSON, fields: JSON) -> JSON:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    whole = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish, **choice}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [whole],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        **fields,
    }


def _chat() -> Iterator[Case]:
    dialect = "openai_chat"
    fields = fields_of(ChatCompletion) or {}
    for name in fields.keys() - {"id", "object", "choices", "model"}:
        found = variants(fields[name].expected, name)
        yield from cases_of(dialect, name, found, partial(_chat_field, name))
    choice = fields_of(Choice) or {}
    for name in ("finish_reason", "logprobs"):
        found = variants(choice[name].expected, name)
        yield from cases_of(dialect, f"choices[].{name}", found, partial(_chat_choice, name))
    message = fields_of(choice["message"].expected) or {}
    for name in message.keys() - {"role"}:
        found = variants(message[name].expected, name)
        build = partial(_chat_message, name)
        yield from cases_of(dialect, f"choices[].message.{name}", found, build)


def _chat_field(name: str, value: Any) -> JSON:
    return _chat_answer(_CHAT_MESSAGE, {}, with_member({}, name, value))


def _chat_choice(name: str, value: Any) -> JSON:
    message = _CHAT_MESSAGE
    if name == "finish_reason" and value == "tool_calls":
        message = {**message, "tool_calls": [_CHAT_CALL]}
    if name == "finish_reason" and value == "function_call":
        message = {**message, "function_call": {"name": "name_A", "arguments": "{}"}}
    return _chat_answer(message, with_member({}, name, value), {})


def _chat_message(name: str, value: Any) -> JSON:
    choice = {"finish_reason": "function_call"} if name == "function_call" and value else {}
    return _chat_answer(with_member(_CHAT_MESSAGE, name, value), choice, {})


# Responses

_OUTPUT_TEXT: JSON = {"type": "output_text", "text": "Done.", "annotations": [], "logprobs": []}
_OUTPUT_MESSAGE: JSON = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [_OUTPUT_TEXT],
}
RESPONSES_ANSWER: JSON = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_700_000_000,
    "status": "completed",
    "background": False,
    "completed_at": 1_700_000_001,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "model": "m",
    "output": [_OUTPUT_MESSAGE],
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    },
    "user": None,
}
"""A response with all fields that the API sends."""


def _responses() -> Iterator[Case]:
    dialect = "openai_responses"
    fields = fields_of(Response) or {}
    for name in fields.keys() - {"id", "object", "output", "model"}:
        found = variants(fields[name].expected, name)
        yield from cases_of(dialect, name, found, partial(_response_field, name))
    for item in members(element_type(fields["output"].expected)):
        kind = label_of(item)
        build = partial(response_output, kind)
        alone = (
            response_output(_CALLS[kind], response_item(_CALLS[kind])) if kind in _CALLS else None
        )
        further = () if alone is None else (alone,)
        yield from cases_of(dialect, f"output[{kind}]", variants(item), build, *further)


def _response_field(name: str, value: Any) -> JSON:
    answer = with_member(RESPONSES_ANSWER, name, value)
    if name == "incomplete_details" and value is not ABSENT and value is not None:
        answer = {**answer, "status": "incomplete"}
    if name == "error" and value is not ABSENT and value is not None:
        answer = {**answer, "status": "failed"}
    return answer


_ITEMS = {
    label_of(item): item
    for item in members(element_type((fields_of(Response) or {})["output"].expected))
}
_CALLS = {
    "function_call_output": "function_call",
    "computer_call_output": "computer_call",
    "program_output": "program",
    "tool_search_output": "tool_search_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "mcp_approval_response": "mcp_approval_request",
    "custom_tool_call_output": "custom_tool_call",
}


def response_item(kind: str) -> JSON:
    """Return an output item of a kind with its required fields only."""
    item: JSON = minimal(_ITEMS[kind])
    return {**item, "id": f"{kind}_1"}


def response_output(kind: str, item: Any) -> JSON:
    """Return a Responses answer, with an item of a kind before its message if given."""
    if item is ABSENT:
        return RESPONSES_ANSWER
    before = [response_item(_CALLS[kind])] if kind in _CALLS else []
    return {**RESPONSES_ANSWER, "output": [*before, item, _OUTPUT_MESSAGE]}


# Anthropic

_TEXT: JSON = {"type": "text", "text": "Done.", "citations": None}
ANTHROPIC_ANSWER: JSON = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [_TEXT],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 2,
    },
}


def _anthropic(*, beta: bool) -> Iterator[Case]:
    dialect = "anthropic"
    fields = fields_of(BetaMessage if beta else Message) or {}
    for name in fields.keys() - {"id", "type", "role", "content", "model"}:
        found = variants(fields[name].expected, name)
        yield from cases_of(dialect, name, found, partial(_message_field, name))
    for block in members(element_type(fields["content"].expected)):
        kind = label_of(block)
        build = partial(anthropic_content, kind)
        yield from cases_of(dialect, f"content[{kind}]", variants(block), build)


def _message_field(name: str, value: Any) -> JSON:
    answer = with_member(ANTHROPIC_ANSWER, name, value)
    if name == "stop_reason" and value == "tool_use":
        call = {"type": "tool_use", "id": "call_1", "name": "name_A", "input": {}}
        answer = {**answer, "content": [_TEXT, call]}
    if name == "stop_reason" and value == "stop_sequence":
        answer = {**answer, "stop_sequence": "END"}
    if name == "stop_sequence" and isinstance(value, str):
        answer = {**answer, "stop_reason": "stop_sequence"}
    if name == "stop_details" and isinstance(value, dict):
        answer = {**answer, "stop_reason": "refusal"}
    return answer


def anthropic_content(kind: str, block: Any) -> JSON:
    """Return an Anthropic answer, with a block of a kind next to its text if given."""
    if block is ABSENT:
        return ANTHROPIC_ANSWER
    if kind == "tool_use":
        return {**ANTHROPIC_ANSWER, "content": [_TEXT, block], "stop_reason": "tool_use"}
    before: list[JSON] = []
    if kind.endswith("_tool_result"):
        name = kind.removesuffix("_tool_result")
        name = {"tool_search": "tool_search_tool_regex"}.get(name, name)
        call: JSON = {"type": "server_tool_use", "id": "call_1", "name": name, "input": {}}
        if kind == "mcp_tool_result":
            call = {**call, "type": "mcp_tool_use", "name": "f", "server_name": "s"}
        before = [call]
    return {**ANTHROPIC_ANSWER, "content": [*before, block, _TEXT]}


# Gemini

_CALL: JSON = {"name": "name_A", "args": {}}
_INLINE: JSON = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
GEMINI_MODIFIERS: dict[str, JSON] = {
    "thought": {"text": "Hm."},
    "thoughtSignature": {"functionCall": _CALL},
    "mediaResolution": _INLINE,
    "videoMetadata": {
        "fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/v.mp4"}
    },
    "partMetadata": {"text": "Hm."},
    "audioTranscription": _INLINE,
    "mediaProcessing": _INLINE,
    "speechMetadata": {"text": "Hm."},
    "documentMetadata": _INLINE,
    "spreadsheetMetadata": _INLINE,
    "audioMetadata": _INLINE,
}
"""Fields of a part that say more of its one datum, and that datum."""
_CANDIDATE: JSON = {
    "index": 0,
    "content": {"role": "model", "parts": [{"text": "Done."}]},
    "finishReason": "STOP",
}
GEMINI_ANSWER: JSON = {
    "candidates": [_CANDIDATE],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
    "modelVersion": "m",
    "responseId": "r-1",
}
# Fields that the SDK adds to what it received.
_OF_SDK = frozenset({"sdkHttpResponse", "automaticFunctionCallingHistory", "parsed"})


def _gemini() -> Iterator[Case]:
    dialect = "gemini"
    fields = fields_of(GenerateContentResponse) or {}
    for name in fields.keys() - _OF_SDK - {"candidates", "modelVersion", "responseId"}:
        found = variants(fields[name].expected, name)
        yield from cases_of(dialect, name, found, partial(_gemini_field, name))
    candidate = fields_of(Candidate) or {}
    for name in candidate.keys() - {"content", "index"}:
        found = variants(candidate[name].expected, name)
        build = partial(_gemini_candidate, name)
        yield from cases_of(dialect, f"candidates[].{name}", found, build)
    for name, field in (fields_of(Part) or {}).items():
        build = partial(gemini_parts, name)
        prefix = f"candidates[].content.parts[].{name}"
        none = gemini_parts("", ABSENT)
        yield from cases_of(dialect, prefix, variants(field.expected, name), build, none)


def _gemini_field(name: str, value: Any) -> JSON:
    answer = with_member(GEMINI_ANSWER, name, value)
    if name == "promptFeedback" and isinstance(value, dict) and "blockReason" in value:
        answer = {field: item for field, item in answer.items() if field != "candidates"}
    if name == "usageMetadata" and isinstance(value, dict):
        counts = [value.get(field) or 0 for field in _SUMMED]
        if value.get("totalTokenCount") is not None:
            answer["usageMetadata"] = {**value, "totalTokenCount": sum(counts)}
    return answer


_SUMMED = (
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)


def _gemini_candidate(name: str, value: Any) -> JSON:
    return {**GEMINI_ANSWER, "candidates": [with_member(_CANDIDATE, name, value)]}


def gemini_call_parts(part: JSON) -> list[JSON]:
    """Return a part, and the fragment that must follow an unfinished call."""
    call = part.get("functionCall") or {}
    if not call.get("willContinue"):
        return [part]
    started = {name: value for name, value in call.items() if name != "args"}
    arguments = [{"jsonPath": "$.city", "stringValue": "Oslo"}]
    return [{"functionCall": started}, {"functionCall": {"partialArgs": arguments}}]


def gemini_parts(name: str, value: Any) -> JSON:
    """Return a Gemini answer, with a part that has a field before its text if given."""
    part = with_member(GEMINI_MODIFIERS.get(name, {}), name, value)
    parts = gemini_call_parts(part) if part else []
    if name == "codeExecutionResult" and part:
        parts = [{"executableCode": {"language": "PYTHON", "code": "1"}}, part]
    text = {"text": "Done."}
    parts = [text, *parts] if "functionCall" in part else [*parts, text]
    candidate = {**_CANDIDATE, "content": {"role": "model", "parts": parts}}
    return {**GEMINI_ANSWER, "candidates": [candidate]}
