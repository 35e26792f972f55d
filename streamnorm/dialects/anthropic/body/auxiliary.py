"""Auxiliary endpoints: token counts and model lists.

https://platform.claude.com/docs/en/api/messages-count-tokens and
https://platform.claude.com/docs/en/api/models/list (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelsCodec,
    Pages,
    rfc3339_text,
    seconds_of_text,
    text,
)
from streamnorm._core.codec import CountCodec
from streamnorm._core.json import count_of
from streamnorm.dialects.anthropic.wire import DIALECT

# Fields of a request that the endpoint has, too; it has neither `max_tokens` nor `stream`.
COUNT = CountCodec(
    fields=frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
        | {"cache_control", "speed", "mcp_servers", "context_management", "compaction"}
        | {"billing_policy"}
    ),
    suffix="/count_tokens",
)

_MODEL_FIELDS = {
    "display_name": ModelField("name", text, str),
    "created_at": ModelField("created", seconds_of_text, rfc3339_text),
    "retires_at": ModelField("retires", seconds_of_text, rfc3339_text),
    "max_input_tokens": ModelField("max_input_tokens", count_of, int),
    "max_tokens": ModelField("max_output_tokens", count_of, int),
}


def _new_model(model: ModelInfo) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": rfc3339_text(0),  # what the vendor writes for an unknown date
        "lifecycle": "active" if model.retires is None else "deprecated",
    }


def _list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "data": objects,
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def _next_cursor(body: dict[str, Any]) -> str | None:
    return text(body.get("last_id")) if body.get("has_more") is True else None


MODELS = ModelsCodec(
    dialect=DIALECT,
    fields=_MODEL_FIELDS,
    new_model=_new_model,
    list_of=_list_of,
    next_cursor=_next_cursor,
    pages=Pages("limit", 20, 1000, "after_id", "before_id"),
)
