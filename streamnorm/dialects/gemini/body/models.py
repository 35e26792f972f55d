"""Lists of models.

https://ai.google.dev/api/models (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelPage,
    model_from_wire,
    model_to_wire,
    models_in,
    page_of,
    page_size,
    text,
)
from streamnorm._core.codec import ModelsCodec
from streamnorm._core.json import count_of
from streamnorm.dialects.gemini.wire import DIALECT

_DEFAULT_SIZE, _MAX_SIZE = 50, 1000
_PREFIX = "models/"
_FIELDS = {
    "displayName": ModelField("name", text, str),
    "inputTokenLimit": ModelField("max_input_tokens", count_of, int),
    "outputTokenLimit": ModelField("max_output_tokens", count_of, int),
}

# What is translated for every model; clients offer only models that have the first.
_METHODS = ("generateContent", "countTokens")


def _read_model(value: dict[str, Any]) -> ModelInfo:
    model = model_from_wire(value, DIALECT, "name", _FIELDS)
    return structs.replace(model, id=model.id.removeprefix(_PREFIX))


def _write_model(model: ModelInfo) -> dict[str, Any]:
    name = _PREFIX + model.id
    if (own := model.original.get(DIALECT)) is not None:
        is_same = own["name"] in (name, model.id)  # of a tuned model, without the prefix
        return own if is_same else {**own, "name": name}
    fields = model_to_wire(model, _FIELDS)
    return {"name": name, **fields, "supportedGenerationMethods": list(_METHODS)}


def _read_list(body: dict[str, Any]) -> ModelPage:
    token = text(body.get("nextPageToken"))
    models = models_in(body, "models", _read_model)
    return ModelPage(models, None if token is None else {**MODELS.query, "pageToken": token})


def _write_list(models: Sequence[ModelInfo], query: Mapping[str, str]) -> dict[str, Any]:
    size = page_size(query, "pageSize", _DEFAULT_SIZE, _MAX_SIZE)
    page, has_more = page_of(models, size, after=query.get("pageToken") or None)
    body: dict[str, Any] = {"models": [_write_model(model) for model in page]}
    if has_more:
        body["nextPageToken"] = page[-1].id
    return body


MODELS = ModelsCodec(
    query={"pageSize": str(_MAX_SIZE)},
    read_list=_read_list,
    write_list=_write_list,
    read_model=_read_model,
    write_model=_write_model,
)
