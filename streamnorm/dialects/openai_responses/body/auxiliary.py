"""Auxiliary endpoints: the token count of an input, and model lists.

https://platform.openai.com/docs/api-reference/models (read 2026-11-23) and
https://platform.openai.com/docs/api-reference/responses/input-tokens (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelsCodec,
    date_text,
    seconds,
    seconds_of_text,
    text,
)
from streamnorm._core.codec import CountCodec
from streamnorm._core.json import count_of
from streamnorm.dialects.openai_responses.wire import DIALECT

COUNT = CountCodec(
    fields=frozenset(
        {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"}
        | {"reasoning", "text", "truncation", "personality"}
        | {"previous_response_id", "conversation"}
    ),
    suffix="/input_tokens",
    constants={"object": "response.input_tokens"},
)

_MODEL_FIELDS = {
    "created": ModelField("created", seconds, int),
    "owned_by": ModelField("owner", text, str),
    "shutdown_date": ModelField("retires", seconds_of_text, date_text),
    "name": ModelField("name", text),  # OpenRouter, Mistral
    "max_model_len": ModelField("max_input_tokens", count_of),  # vLLM
    "context_length": ModelField("max_input_tokens", count_of),  # OpenRouter
    "context_window": ModelField("max_input_tokens", count_of),  # Groq
}


def _new_model(model: ModelInfo) -> dict[str, Any]:
    # The vendor's schema requires the last two, even if unknown.
    return {"id": model.id, "object": "model", "created": 0, "owned_by": ""}


def _list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    body: dict[str, Any] = {"object": "list", "data": objects}
    # Codex sends `client_version` to get its own catalog of prompts and tools; from an empty
    # list it goes on with the catalog it has.
    return {**body, "models": []} if "client_version" in query else body


MODELS = ModelsCodec(dialect=DIALECT, fields=_MODEL_FIELDS, new_model=_new_model, list_of=_list_of)
