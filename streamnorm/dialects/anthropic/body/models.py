"""Lists of models.

https://platform.claude.com/docs/en/api/models/list (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelPage,
    model_from_wire,
    model_to_wire,
    models_in,
    page_of,
    page_size,
    rfc3339_text,
    seconds_of_text,
    text,
)
from streamnorm._core.codec import ModelsCodec
from streamnorm._core.json import count_of
from streamnorm.dialects.anthropic.body.content import DIALECT

_DEFAULT_SIZE, _MAX_SIZE = 20, 1000
_FIELDS = {
    "display_name": ModelField("name", text, str),
    "created_at": ModelField("created", seconds_of_text, rfc3339_text),
    "retires_at": ModelField("retires", seconds_of_text, rfc3339_text),
    "max_input_tokens": ModelField("max_input_tokens", count_of, int),
    "max_tokens": ModelField("max_output_tokens", count_of, int),
}


def _read_model(value: dict[str, Any]) -> ModelInfo:
    return model_from_wire(value, DIALECT, "id", _FIELDS)


def _write_model(model: ModelInfo) -> dict[str, Any]:
    if (own := model.original.get(DIALECT)) is not None:
        return {**own, "id": model.id}
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": rfc3339_text(0),  # what the vendor writes for an unknown date
        "lifecycle": "active" if model.retires is None else "deprecated",
        **model_to_wire(model, _FIELDS),
    }


def _read_list(body: dict[str, Any]) -> ModelPage:
    last = text(body.get("last_id"))
    has_more = body.get("has_more") is True and last is not None
    models = models_in(body, "data", _read_model)
    return ModelPage(models, {**MODELS.query, "after_id": last} if has_more and last else None)


def _write_list(models: Sequence[ModelInfo], query: Mapping[str, str]) -> dict[str, Any]:
    size = page_size(query, "limit", _DEFAULT_SIZE, _MAX_SIZE)
    page, has_more = page_of(
        models, size, after=query.get("after_id"), before=query.get("before_id")
    )
    return {
        "data": [_write_model(model) for model in page],
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


MODELS = ModelsCodec(
    query={"limit": str(_MAX_SIZE)},
    read_list=_read_list,
    write_list=_write_list,
    read_model=_read_model,
    write_model=_write_model,
)
