"""Auxiliary endpoints: token counts and model lists.

https://ai.google.dev/api/tokens and https://ai.google.dev/api/models (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from msgspec import structs

from streamnorm._core.bodies.fields import get_object, require_count
from streamnorm._core.bodies.models import ModelField, ModelInfo, ModelsCodec, Pages, text
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.codec import CountCodec, Written
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import count_of
from streamnorm.dialects.gemini.wire import DIALECT, to_camel

_REQUEST, _CACHED = "generateContentRequest", "cachedContentTokenCount"
_VERSION = "/v1beta/"


class _Count(CountCodec, frozen=True):
    """The codec of `countTokens`."""

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return `generateContentRequest`, or the body itself if it has none.

        Vertex AI has the fields of the request at the top level, as `generateContent` has them.
        """
        request = get_object(to_camel(body), _REQUEST)
        return body if request is None else request

    def write_request(self, written: Written) -> Written:
        resource, _, _ = written.path.rpartition(":")
        if not resource:
            raise EncodeError("no model, expected one", path="model")
        # At the top level the Gemini API reads `contents` alone: tools and the system
        # instruction count only within `generateContentRequest`.
        model = unquote(resource.removeprefix(_VERSION))
        body = {_REQUEST: {"model": model, **written.body}}
        return structs.replace(written, body=body, path=f"{resource}:countTokens")

    def read_count(self, body: dict[str, Any]) -> TokenCount:
        wire = to_camel(body)
        return TokenCount(require_count(wire, self.tokens), count_of(wire.get(_CACHED)))

    def write_count(self, count: TokenCount) -> dict[str, Any]:
        cached = count.cached_tokens
        return super().write_count(count) | ({} if cached is None else {_CACHED: cached})


COUNT = _Count(tokens="totalTokens")

_MODEL_FIELDS = {
    "displayName": ModelField("name", text, str),
    "inputTokenLimit": ModelField("max_input_tokens", count_of, int),
    "outputTokenLimit": ModelField("max_output_tokens", count_of, int),
}
_PREFIX = "models/"  # tuned models are named `tunedModels/…`


def _new_model(model: ModelInfo) -> dict[str, Any]:
    # Both methods are translated for every model; clients hide models without `generateContent`.
    methods = ["generateContent", "countTokens"]
    return {"name": _PREFIX + model.id, "supportedGenerationMethods": methods}


def _list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    return {"models": objects, **({"nextPageToken": page[-1].id} if has_more else {})}


MODELS = ModelsCodec(
    dialect=DIALECT,
    list_field="models",
    id_field="name",
    id_prefix=_PREFIX,
    fields=_MODEL_FIELDS,
    new_model=_new_model,
    list_of=_list_of,
    next_cursor=lambda body: text(body.get("nextPageToken")),
    pages=Pages("pageSize", 50, 1000, "pageToken"),
)
