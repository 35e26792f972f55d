"""Results of calls that the provider executed, in both directions.

AG-UI has no mark of such calls: a client takes a call without a result for its own.  The encoder
marks call and result in `metadata`, and answers each call.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import ServerToolCall, ServerToolResult
from streamnorm._core.json import clean, compact, is_object, object_in, string_of
from streamnorm.dialects.ag_ui.wire import PROVIDER_EXECUTED

PYDANTIC_SERVER_CALL = "pyd_ai_builtin|"
"""Start of the ids of calls that pydantic-ai's providers execute."""

_KIND = "kind"
_JSON = "isJson"
_UNANSWERED = "isUnanswered"


def mark_of(block: ServerToolCall) -> dict[str, Any]:
    """Return the `metadata` of a call that the provider executes."""
    return {PROVIDER_EXECUTED: True, _KIND: block.kind}


def is_server_call(metadata: Any) -> bool:
    """Return whether `metadata` marks a call as executed by the provider."""
    return is_object(metadata) and metadata.get(PROVIDER_EXECUTED) is True


def kind_of(metadata: dict[str, Any]) -> str:
    """Return the vendor's type of a marked call or result."""
    return string_of(metadata, _KIND)


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return `content` and `metadata` of a result."""
    is_text = isinstance(result.content, str)
    metadata = {PROVIDER_EXECUTED: True, _KIND: result.kind, _JSON: not is_text}
    return {
        "content": result.content if is_text else compact(result.content),
        "metadata": metadata,
    }


def unanswered_to_wire() -> dict[str, Any]:
    """Return `content` and `metadata` of the result of a call that the provider did not answer."""
    return {"content": "", "metadata": {PROVIDER_EXECUTED: True, _UNANSWERED: True}}


def is_unanswered(metadata: Any) -> bool:
    """Return whether a result stands for one that the provider did not send."""
    return is_object(metadata) and metadata.get(_UNANSWERED) is True


def result_from_wire(call_id: str, content: Any, metadata: Any) -> ServerToolResult:
    """Return the result of a call that the provider executed."""
    fields = metadata if is_object(metadata) else {}
    if isinstance(content, str):
        content = clean(content)
        if fields.get(_JSON) is True:
            content = object_in(f'{{"value":{content}}}').get("value")
    return ServerToolResult(call_id, kind_of(fields), content)
