"""Lists of models in every dialect.

A server's list is read page by page, and written as a page of the client's:

    listing = ModelListing(upstream)
    while listing.next_path is not None:
        listing.add(get(listing.next_path))
    encoded = encode_models(listing.models, client, query=query, model_map=model_map)

One model is asked for with `model_path`, read by `decode_model` and written by `encode_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import structs

from streamnorm._bodies import Encoded, codec_of, error_in
from streamnorm._core.bodies.fields import Body, body_object
from streamnorm._core.bodies.models import ModelInfo, ModelPage, ModelsCodec, apply_model_map
from streamnorm._core.bodies.wire_fields import path_segment
from streamnorm._core.errors import DecodeError, UnknownDialect
from streamnorm._core.limits import Limits
from streamnorm._registry import lookup

MAX_MODELS = 10_000
"""Bound on the models of a listing."""


class ModelListing:
    """The models of a server, read page by page.

    Args:
        dialect: Dialect of the server.
        limits: Bounds of each page.

    Raises:
        UnknownDialect: There is no such dialect, or it lists no models.

    Attributes:
        models: The models read so far, each once.
        next_path: Path and query of the page to read next; None if all were read.
    """

    def __init__(
        self,
        dialect: str,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._codec = _models_codec(dialect)
        self._path = lookup(dialect).endpoints.models_path
        self._limits = limits
        self._by_id: dict[str, ModelInfo] = {}
        self.next_path: str | None = self._path_with(self._codec.query)

    @property
    def models(self) -> list[ModelInfo]:
        return list(self._by_id.values())

    def add(self, body: Body) -> None:
        """Read the page that `next_path` named.

        A page without a new model is the last one, whatever it says.

        Args:
            body: JSON text, or the decoded object.

        Raises:
            DecodeError: The body is no list of the dialect, or exceeds a bound.
            UpstreamError: The body is an error, of whatever dialect.
        """
        value = body_object(body, self._limits)
        try:
            page: ModelPage = self._codec.read_list(value)
        except DecodeError:
            if (error := error_in(value)) is not None:
                raise error from None
            raise
        before = len(self._by_id)
        for model in page.models:
            self._by_id.setdefault(model.id, model)
        if len(self._by_id) > MAX_MODELS:
            raise DecodeError(f"{len(self._by_id)} models, expected at most {MAX_MODELS}")
        is_last = page.next_query is None or len(self._by_id) == before
        self.next_path = None if is_last else self._path_with(page.next_query or {})

    def _path_with(self, query: Mapping[str, str]) -> str:
        return f"{self._path}?{urlencode(query)}" if query else self._path


def encode_models(
    models: Sequence[ModelInfo],
    dialect: str,
    *,
    query: Mapping[str, str] | None = None,
    model_map: Mapping[str, str] | None = None,
) -> Encoded:
    """Return a page of a list of models.

    Args:
        models: All models of the server.
        dialect: Dialect to write.
        query: Query of the client's request, which names the page; None = the first one.
        model_map: The server's name of a model by the client's; None if they are the same.

    Raises:
        DecodeError: The query names no page.
        UnknownDialect: There is no such dialect, or it lists no models.
    """
    named = apply_model_map(models, model_map or {})
    return Encoded(_models_codec(dialect).write_list(named, query or {}))


def model_path(dialect: str, model: str) -> str:
    """Return the path of one model of a server.

    Raises:
        EncodeError: No path has such a name.
        UnknownDialect: There is no such dialect.
    """
    return f"{lookup(dialect).endpoints.models_path}/{path_segment(model)}"


def decode_model(
    body: Body,
    dialect: str,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> ModelInfo:
    """Return the model that a server describes.

    Raises:
        DecodeError: The body is no model of the dialect, or exceeds a bound.
        UpstreamError: The body is an error, of whatever dialect.
        UnknownDialect: There is no such dialect, or it lists no models.
    """
    value = body_object(body, limits)
    try:
        return _models_codec(dialect).read_model(value)
    except DecodeError:
        if (error := error_in(value)) is not None:
            raise error from None
        raise


def encode_model(model: ModelInfo, dialect: str, *, id: str | None = None) -> Encoded:
    """Return one model as the client's dialect has it.

    Args:
        model: The model.
        dialect: Dialect to write.
        id: The client's name of the model; None = the server's.

    Raises:
        UnknownDialect: There is no such dialect, or it lists no models.
    """
    named = model if id is None else structs.replace(model, id=id)
    return Encoded(_models_codec(dialect).write_model(named))


def _models_codec(dialect: str) -> ModelsCodec:
    models = codec_of(dialect).models
    if models is None:
        raise UnknownDialect(
            f"no lists of models in dialect {dialect!r}, expected a dialect that has them"
        )
    return models
