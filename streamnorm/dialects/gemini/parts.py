"""What one part of a Gemini answer holds.

https://ai.google.dev/api/caching#Part (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm._core.blocks import (
    Block,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    file_block,
)
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean, compact, is_array, is_object, string_of
from streamnorm.dialects.gemini.answer import Answer
from streamnorm.dialects.gemini.wire import DIALECT, PIECES, RawCall, RawPart

__all__ = ["cleaned", "read_part"]

_MODIFIERS = frozenset(
    {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)
_CODE = "code_execution"
_CALL_FIELDS = frozenset({"id", "name", "args", "partialArgs", "willContinue"})


def read_part(part: dict[str, Any], raw: RawPart, answer: Answer, events: list[Event]) -> None:
    """Append the events of one part.

    Args:
        part: The part.
        raw: Its JSON text.
        answer: Whose it is.
        events: Where to append.

    Raises:
        Fatal: It cannot be read.
    """
    field = next((key for key in part if key not in _MODIFIERS and part[key] is not None), "text")
    value = part.get(field)
    extra = {
        key: cleaned(key, item) for key, item in part.items() if key != field and item is not None
    }
    match field:
        case "text":
            _text(part, extra, answer, events)
        case "functionCall" if is_object(value):
            _call(value, raw.function_call, extra, answer, events)
        case "executableCode" if is_object(value):
            text = bytes(raw.executable_code).decode() or compact(value)
            served = ServerToolCall(string_of(value, "id"), _CODE, kind=field)
            answer.server_call(served, text, extra, events)
        case "toolCall" if is_object(value):
            text = bytes(raw.tool_call).decode() or compact(value)
            served = ServerToolCall(
                string_of(value, "id"), string_of(value, "toolType"), kind=field
            )
            answer.server_call(served, text, extra, events)
        case "codeExecutionResult" | "toolResponse" if is_object(value):
            id = string_of(value, "id") or answer.last_served
            answer.result(ServerToolResult(id, field, value), extra, events)
        case "functionResponse" if is_object(value):
            id = answer.answered(string_of(value, "id"), string_of(value, "name"))
            answer.result(ServerToolResult(id, field, value), extra, events)
        case "inlineData" | "fileData" if is_object(value) and not part.get("thought"):
            answer.whole(_media(field, value), extra, events)
        case _:
            answer.whole(OpaqueBlock(DIALECT, clean(field), compact(value)), extra, events)


def _text(part: dict[str, Any], extra: dict[str, Any], answer: Answer, events: list[Event]) -> None:
    text, thought = part.get("text"), part.get("thought") is True
    answer.more(text if isinstance(text, str) else "", thought, events)
    answer.sign(string_of(extra, "thoughtSignature"), thought, events)
    for key, value in extra.items():
        if key not in ("thought", "thoughtSignature"):
            answer.opaque(key, value, events)


def _call(
    call: dict[str, Any],
    raw: RawCall | None,
    extra: dict[str, Any],
    answer: Answer,
    events: list[Event],
) -> None:
    signature = string_of(extra, "thoughtSignature")
    extra = {key: value for key, value in extra.items() if key != "thoughtSignature"}
    id, name = string_of(call, "id"), string_of(call, "name")
    entries = call.get("partialArgs")
    entries = [entry for entry in entries if is_object(entry)] if is_array(entries) else []
    goes_on = _goes_on(call) or any(_goes_on(entry) for entry in entries)
    rest = {key: item for key, item in call.items() if key not in _CALL_FIELDS}
    if rest:
        answer.opaque("functionCall", rest, events)
    if not name:
        answer.sign_call(signature, events)
        if call.get("args") is None and answer.more_call(entries, goes_on=goes_on, events=events):
            return
        if call.get("args") is not None or entries or goes_on:
            raise Fatal(StreamError("malformed", "function call without a name, expected one"))
        answer.note("extra_call_end", "tool call")
    elif entries or goes_on:
        answer.begin_call(ToolCall(id, name), signature, extra, events)
        answer.more_call(entries, goes_on=goes_on, events=events)
    else:
        text = _arguments(call, raw)
        answer.call(ToolCall(id, name), text, signature, extra, events)


def _arguments(call: dict[str, Any], raw: RawCall | None) -> str:
    """Return arguments as text, those that came as an object as they stand on the wire."""
    value = call.get("args")
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    text = bytes(raw.args).decode() if raw is not None else ""
    return text or compact(value)


def _goes_on(value: dict[str, Any]) -> bool:
    return value.get("willContinue") is True


def _media(field: str, value: dict[str, Any]) -> Block:
    data, url = value.get("data"), value.get("fileUri")
    data, url = data if isinstance(data, str) else None, url if isinstance(url, str) else None
    extra = set(value) - {"mimeType", "data", "fileUri"}
    found = None if extra else file_block(string_of(value, "mimeType"), data, url)
    return found or OpaqueBlock(DIALECT, field, compact(value))


def cleaned(key: str, value: Any) -> Any:
    """Return the value of a field that is kept; where pieces of text may stand, without
    half a character.
    """
    return msgspec.json.decode(compact(value)) if key in PIECES else value
