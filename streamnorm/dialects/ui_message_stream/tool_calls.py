"""Tool calls and their results, in both directions."""

from __future__ import annotations

import base64
from typing import Any

from streamnorm._core.blocks import Document, Image, ServerToolResult, Text, ToolResult, file_block
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    compact,
    decode_any,
    dumps,
    encode_line,
    is_json,
    is_object,
)
from streamnorm._core.limits import Limits
from streamnorm.dialects.ui_message_stream.wire import Chunk, chunk, is_refused

BROKEN = "the arguments of the call are no JSON"
UNFINISHED = "the arguments of the call ended early"
CUT = "the answer ended before the arguments of the call"
DENIED = "Tool call execution denied."
REFUSED = "the result has keys that no page accepts"

_MAX_DEPTH = Limits().max_json_depth


def input_to_wire(call: Chunk, arguments: str, *, is_unfinished: bool = False) -> bytes:
    """Return the chunk that ends a call: with its input, or with an error if that is not whole.

    The client executes a call at `tool-input-available`.  The text of the input is written as it
    is, so that no digit of a number is lost here.

    Args:
        call: The fields of the chunk, but for its type and the input.
        arguments: The text of the arguments.
        is_unfinished: Whether they ended before their text did.
    """
    text = arguments.strip() or "{}"
    if is_unfinished or not is_json(text) or _is_refused_text(text):
        error = UNFINISHED if is_unfinished else BROKEN
        return chunk({"type": "tool-input-error", **call, "input": arguments, "errorText": error})
    head = dumps({"type": "tool-input-available", **call})
    return b'data: %b,"input":%b}\n\n' % (head[:-1], encode_line(text))


def _is_refused_text(text: str) -> bool:
    # A key may be spelt with escapes.
    suspect = "__proto__" in text or "prototype" in text or "\\u" in text
    if not suspect:
        return False
    try:
        return is_refused(decode_any(text, max_depth=_MAX_DEPTH))
    except InvalidJSON:  # nests too deep
        return True


def cut_input_to_wire(call: Chunk) -> bytes:
    """Return the chunk that ends a call of which no argument arrived before the answer was cut."""
    return chunk({"type": "tool-input-error", **call, "input": "", "errorText": CUT})


def server_result_to_wire(result: ServerToolResult, fields: Chunk) -> Chunk:
    """Return the chunk of a result of the provider's tool, with further fields."""
    call = {**fields, "toolCallId": result.tool_call_id, "providerExecuted": True}
    if is_refused(result.content):
        return {"type": "tool-output-error", **call, "errorText": REFUSED}
    return {"type": "tool-output-available", **call, "output": result.content}


def result_to_wire(result: ToolResult, fields: Chunk) -> bytes:
    """Return the chunk of a result of a tool that the application executed, with further fields."""
    text = "".join(block.text for block in result.content if isinstance(block, Text))
    call = {**fields, "toolCallId": result.tool_call_id}
    if result.is_error:
        return chunk({"type": "tool-output-error", **call, "errorText": text})
    value = result.value
    if value is not None and is_json(value) and not _is_refused_text(value):
        head = dumps({"type": "tool-output-available", **call})
        return b'data: %b,"output":%b}\n\n' % (head[:-1], encode_line(value))
    return chunk({"type": "tool-output-available", **call, "output": text})


def result_from_wire(id: str, output: Any) -> ToolResult:
    """Return the result of a client tool: a text, or any JSON value."""
    if isinstance(output, str):
        return ToolResult(id, (Text(output),))
    text = compact(output)
    return ToolResult(id, (Text(text),), value=text if is_object(output) else None)


def file_to_wire(file: Image | Document) -> Chunk:
    """Return the `file` chunk of an image or a document."""
    media_type, data = file.media_type or "application/octet-stream", file.data
    url = file.url
    if data is not None:
        if media_type.startswith("text/"):
            data = base64.b64encode(data.encode("utf-8", "replace")).decode()
        url = f"data:{media_type};base64,{data}"
    return {"type": "file", "url": url or "", "mediaType": media_type}


def file_from_wire(media_type: str, url: str) -> Image | Document | None:
    """Return the image or document of a `file`; None if no block has its type."""
    kind = clean(media_type)
    if not url.startswith("data:"):
        return file_block(kind, None, clean(url))
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return file_block(kind, clean(data), None)
