"""Required and optional fields of each event, block, delta and citation.

https://docs.anthropic.com/en/docs/build-with-claude/streaming and the types of the
official SDKs, including beta types (read 2026-11-21).  Additional fields are legal: the
vendor adds some from time to time, and all clients ignore them.  Unknown types of events,
blocks, deltas, citations and errors are violations: major clients end the session at them.
"""

from __future__ import annotations

from streamnorm._core.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    NULL_OR_TEXT,
    OBJECT,
    TEXT,
    Shape,
    array,
    either,
    nullable,
    object_of,
    tagged,
    word,
)

_NULL_OR_COUNT = nullable(COUNT)
_NULL_OR_OBJECT = nullable(OBJECT)

STOP_REASON = word(
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
)

_USAGE_PARTS = {
    "cache_creation_input_tokens": _NULL_OR_COUNT,
    "cache_read_input_tokens": _NULL_OR_COUNT,
    "cache_creation": nullable(
        object_of({"ephemeral_5m_input_tokens": COUNT, "ephemeral_1h_input_tokens": COUNT})
    ),
    "server_tool_use": nullable(
        object_of({}, {"web_search_requests": COUNT, "web_fetch_requests": COUNT})
    ),
    "output_tokens_details": nullable(object_of({"thinking_tokens": COUNT})),
    "iterations": nullable(array(OBJECT)),
    "service_tier": NULL_OR_TEXT,
    "inference_geo": NULL_OR_TEXT,
    "speed": NULL_OR_TEXT,
}

_FROM_CODE = object_of({"tool_id": TEXT})
_CALLER = nullable(
    tagged(
        {
            "direct": OBJECT,
            "code_execution_20250825": _FROM_CODE,
            "code_execution_20260120": _FROM_CODE,
            "code_execution_20260521": _FROM_CODE,
        }
    )
)

_CITED = {"cited_text": TEXT}
_DOCUMENT = {"document_title": NULL_OR_TEXT, "file_id": NULL_OR_TEXT}


def _in_document(start: str, end: str) -> Shape:
    return object_of({**_CITED, "document_index": COUNT, start: COUNT, end: COUNT}, _DOCUMENT)


CITATION = tagged(
    {
        "char_location": _in_document("start_char_index", "end_char_index"),
        "page_location": _in_document("start_page_number", "end_page_number"),
        "content_block_location": _in_document("start_block_index", "end_block_index"),
        "web_search_result_location": object_of(
            {**_CITED, "url": TEXT, "encrypted_index": TEXT}, {"title": NULL_OR_TEXT}
        ),
        "search_result_location": object_of(
            {
                **_CITED,
                "source": TEXT,
                "search_result_index": COUNT,
                "start_block_index": COUNT,
                "end_block_index": COUNT,
            },
            {"title": NULL_OR_TEXT},
        ),
    }
)

TOOLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that have an input."""


def _result(content: Shape = OBJECT) -> Shape:
    return object_of({"tool_use_id": NAME, "content": content}, {"caller": _CALLER})


def _tool(**fields: Shape) -> Shape:
    return object_of({"id": NAME, "name": NAME, "input": OBJECT, **fields}, {"caller": _CALLER})


_TEXT_BLOCK = object_of({"text": TEXT}, {"citations": nullable(array(CITATION))})

BLOCKS = {
    "text": _TEXT_BLOCK,
    "thinking": object_of({"thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": object_of({"data": TEXT}),
    "tool_use": _tool(),
    "server_tool_use": _tool(),
    "web_search_tool_result": _result(either(ARRAY, OBJECT)),
    "web_fetch_tool_result": _result(),
    "code_execution_tool_result": _result(),
    "bash_code_execution_tool_result": _result(),
    "text_editor_code_execution_tool_result": _result(),
    "tool_search_tool_result": _result(),
    "container_upload": object_of({"file_id": TEXT}),
    "mcp_tool_use": _tool(server_name=TEXT),
    "mcp_tool_result": object_of(
        {"tool_use_id": NAME, "is_error": BOOLEAN, "content": either(TEXT, ARRAY)}
    ),
    "mcp_tool_listing": object_of({"mcp_server_name": TEXT, "tools": ARRAY}),
    "compaction": object_of(
        {},
        {
            "content": NULL_OR_TEXT,
            "encrypted_content": NULL_OR_TEXT,
            "signature": NULL_OR_TEXT,
            "tool_changes": nullable(ARRAY),
        },
    ),
    "advisor_tool_result": _result(),
    "fallback": object_of(
        {"from": object_of({"model": TEXT}), "to": object_of({"model": TEXT}), "trigger": OBJECT}
    ),
}
"""Blocks by type."""

BLOCK = tagged(BLOCKS)

DELTAS = {
    "text_delta": object_of({"text": TEXT}),
    "input_json_delta": object_of({"partial_json": TEXT}),
    "thinking_delta": object_of({"thinking": TEXT}, {"estimated_tokens": _NULL_OR_COUNT}),
    "signature_delta": object_of({"signature": TEXT}),
    "citations_delta": object_of({"citation": CITATION}),
    "compaction_delta": object_of({}, {"content": NULL_OR_TEXT, "encrypted_content": NULL_OR_TEXT}),
}
"""Deltas by type."""

_CONTAINER = nullable(object_of({"id": TEXT, "expires_at": TEXT}))

_MESSAGE = object_of(
    {
        "id": TEXT,
        "type": word("message"),
        "role": word("assistant"),
        "model": TEXT,
        "content": array(BLOCK),
        "usage": object_of({"input_tokens": COUNT, "output_tokens": COUNT}, _USAGE_PARTS),
    },
    {
        "stop_reason": nullable(STOP_REASON),
        "stop_sequence": NULL_OR_TEXT,
        "stop_details": _NULL_OR_OBJECT,
        "container": _CONTAINER,
        "diagnostics": _NULL_OR_OBJECT,
        "context_management": _NULL_OR_OBJECT,
    },
)

_ENDING = object_of(
    {},
    {
        "stop_reason": nullable(STOP_REASON),
        "stop_sequence": NULL_OR_TEXT,
        "stop_details": _NULL_OR_OBJECT,
        "container": _CONTAINER,
    },
)

_ERROR = object_of(
    {
        "type": word(
            "invalid_request_error",
            "authentication_error",
            "billing_error",
            "permission_error",
            "not_found_error",
            "conflict_error",
            "request_too_large",
            "rate_limit_error",
            "timeout_error",
            "api_error",
            "overloaded_error",
        ),
        "message": TEXT,
    },
    {"details": _NULL_OR_OBJECT},
)

EVENTS = {
    "message_start": object_of({"message": _MESSAGE}),
    "content_block_start": object_of({"index": COUNT, "content_block": BLOCK}),
    "content_block_delta": object_of({"index": COUNT, "delta": tagged(DELTAS)}),
    "content_block_stop": object_of({"index": COUNT}),
    "message_delta": object_of(
        {
            "delta": _ENDING,
            "usage": object_of(
                {"output_tokens": COUNT}, {"input_tokens": _NULL_OR_COUNT, **_USAGE_PARTS}
            ),
        },
        {"context_management": _NULL_OR_OBJECT},
    ),
    "message_stop": ANYTHING,
    "ping": ANYTHING,
    "error": object_of({"error": _ERROR}, {"request_id": NULL_OR_TEXT}),
}
"""Events by type."""
