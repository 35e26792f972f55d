"""Lists of models, as OpenAI and compatible servers have them.

https://platform.openai.com/docs/api-reference/models (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelPage,
    date_text,
    model_from_wire,
    model_to_wire,
    models_in,
    seconds,
    seconds_of_text,
    text,
)
from streamnorm._core.codec import ModelsCodec
from streamnorm._core.json import count_of
from streamnorm.dialects.openai_chat.body.content import DIALECT

_FIELDS = {
    "created": ModelField("created", seconds, int),
    "owned_by": ModelField("owner", text, str),
    "shutdown_date": ModelField("retires", seconds_of_text, date_text),
    "name": ModelField("name", text),  # OpenRouter, Mistral
    "max_model_len": ModelField("max_input_tokens", count_of),  # vLLM
    "context_length": ModelField("max_input_tokens", count_of),  # OpenRouter
    "context_window": ModelField("max_input_tokens", count_of),  # Groq
}

_CODEX_QUERY = "client_version"


def _read_model(value: dict[str, Any]) -> ModelInfo:
    return model_from_wire(value, DIALECT, "id", _FIELDS)


def _write_model(model: ModelInfo) -> dict[str, Any]:
    if (own := model.original.get(DIALECT)) is not None:
        return {**own, "id": model.id}
    # Clients need both, known or not.
    needed = {"created": 0, "owned_by": ""}
    return {"id": model.id, "object": "model", **needed, **model_to_wire(model, _FIELDS)}


def _read_list(body: dict[str, Any]) -> ModelPage:
    return ModelPage(models_in(body, "data", _read_model))


def _write_list(models: Sequence[ModelInfo], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the list, which has no pages whatever the query."""
    body: dict[str, Any] = {"object": "list", "data": [_write_model(model) for model in models]}
    # Codex asks for its own catalog, of prompts and tools, and goes on with that which it has.
    return {**body, "models": []} if _CODEX_QUERY in query else body


MODELS = ModelsCodec(
    query={},
    read_list=_read_list,
    write_list=_write_list,
    read_model=_read_model,
    write_model=_write_model,
)
