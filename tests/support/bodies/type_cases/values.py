"""Legal values where an SDK's type says only string, number or object."""

from __future__ import annotations

from datetime import datetime
from typing import Any

__all__ = ["OBJECT_NAMES", "PNG", "object_value", "scalar_values"]

PNG = "iVBORw0KGgo="
_PDF = "JVBERi0xLjQK"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_OBJECTS: dict[str, Any] = {
    **dict.fromkeys(("parameters", "parametersJsonSchema", "input_schema", "schema"), _SCHEMA),
    **dict.fromkeys(("responseJsonSchema", "response_schema", "output_schema"), _SCHEMA),
    "args": {"city": "Oslo"},
    "arguments": {"city": "Oslo"},
    "input": {"city": "Oslo"},
    "response": {"output": "snow"},
}
OBJECT_NAMES = frozenset(_OBJECTS)
"""Fields whose value is an object of a certain form, although the type says any."""

_TEXTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("url", "image_url", "file_url", "server_url", "fileUri", "uri"),
        ("https://example.com/a.png", "https://example.com/b.png"),
    ),
    **dict.fromkeys(("data", "result", "partial_image_b64"), (PNG, "iVBORw0KGgoA")),
    "file_data": (f"data:application/pdf;base64,{_PDF}", "data:application/pdf;base64,JVBERi0y"),
    "mimeType": ("image/png", "image/jpeg"),
    "responseMimeType": ("application/json", "text/x.enum"),
    "arguments": ('{"city":"Oslo"}', '{"city":"Rome"}'),
    "partial_json": ('{"city":"Oslo"}', '{"city":"Rome"}'),
    "model": ("m-1", "m-2"),
    "version": ("1", "2"),
    # Those of calls agree with those of results.
    **dict.fromkeys(("call_id", "tool_call_id", "tool_use_id"), ("call_1", "call_1")),
    "jsonPath": ("$.city", "$.town"),
    # Hours, which an API divides by, and dates.
    "timeout": ("10s", "20s"),
}
_NUMBERS: dict[str, tuple[float, float]] = {
    # Parts of what is counted.
    **dict.fromkeys(
        ("cached_tokens", "cache_write_tokens", "reasoning_tokens", "ttl_30m_tokens"), (1, 0)
    ),
    "thinking_tokens": (1, 2),
    # Two of the same effort.
    **dict.fromkeys(("budget_tokens", "thinkingBudget"), (2048, 2049)),
    "max_tokens": (4096, 8192),
    "max_completion_tokens": (4096, 8192),
    "max_output_tokens": (4096, 8192),
    "maxOutputTokens": (4096, 8192),
    "total": (20_000, 30_000),
    "temperature": (0.5, 0.25),
    "candidateCount": (2, 3),
    "n": (2, 3),
    "topK": (40, 50),
    # The sum of what a usage counts.
    **dict.fromkeys(("total_tokens", "totalTokenCount"), (6, 6)),
    "partIndex": (0, 0),
    "index": (0, 0),
    "output_index": (0, 0),
    "content_index": (0, 0),
    "summary_index": (0, 0),
    "annotation_index": (0, 0),
    "command_index": (0, 0),
    "start_index": (0, 1),
    "startIndex": (0, 1),
    "end_index": (2, 3),
    "endIndex": (2, 3),
}


def scalar_values(name: str, expected: type) -> tuple[Any, Any]:
    """Return two different legal values of a field; equal ones if only one is legal."""
    if expected is str:
        return _TEXTS.get(name, (f"{name}_A", f"{name}_B"))
    if expected is bool:
        return True, False
    if expected is int:
        return _NUMBERS.get(name, (3, 5))
    if expected is float:
        return _NUMBERS.get(name, (0.5, 0.25))
    if expected is datetime:
        return "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
    return PNG, "iVBORw0KGgoA"


def object_value(name: str) -> Any:
    """Return a legal object for a field whose type is any JSON value."""
    return _OBJECTS.get(name, {"some": "thing"})
