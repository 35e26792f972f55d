"""Token count requests and model lists of every dialect, decoded and encoded.

A count is asked for in four steps, none of which does I/O:

    request = decode_count_request(body, client, path=path, headers=headers)
    asked = encode_count_request(request, upstream)       # None: estimate
    count = decode_token_count(answer, asked.dialect)     # or: estimator.estimate(request)
    encoded = encode_token_count(count, client)           # body, and headers that mark an estimate

A server's list of models is read page by page, and written as a page of the client's:

    listing = ModelListing(upstream)
    while listing.next_path is not None:
        listing.add(get(listing.next_path))
    encoded = encode_models(listing.models, client, query=query, model_map=model_map)

One model is asked for with `model_path`, read by `decode_model` and written by `encode_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, structs

from streamnorm._answers import error_in
from streamnorm._bodies import Encoded, codec_of, encode_request, reader_of, request_of, target_of
from streamnorm._core.bodies.fields import Body, body_object
from streamnorm._core.bodies.models import ModelInfo, ModelPage, ModelsCodec, apply_model_map
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.bodies.request import Request, Source, is_same_dialect
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy
from streamnorm._core.bodies.wire_fields import path_segment
from streamnorm._core.codec import CountCodec, Written
from streamnorm._core.errors import DecodeError, UnknownDialect
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import detect_path, lookup
from streamnorm.profiles import Profiles, shipped_profiles

CANNOT_COUNT = frozenset({404, 405, 501})
"""Statuses of servers that have no such endpoint, though their dialect does."""

ESTIMATED_HEADER = "x-streamnorm-estimated"
"""Header of an answer that is an estimate; its value is what is estimated."""

_ESTIMATED_FIELD = "estimated"
_ESTIMATED = "input_tokens"


def decode_count_request(
    body: Body,
    dialect: str,
    *,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Request:
    """Decode a token count request, and return the message request to count.

    Args:
        body: JSON text, or the decoded object.
        dialect: Dialect of the body.
        path: Path of the URL, without its query; it names the model of some dialects.
        headers: Headers of the request, which name betas.
        limits: Bounds.

    Raises:
        DecodeError: The body is not of the dialect, or exceeds a bound.
        UnknownDialect: There is no such dialect, or it counts no tokens.
    """
    value = body_object(body, limits, finite=True)
    return count_request_of(value, dialect, path=path, headers=headers, limits=limits)


def count_request_of(
    value: dict[str, Any],
    dialect: str,
    *,
    path: str | None,
    headers: Mapping[str, str] | None,
    limits: Limits,
) -> Request:
    """Return the message request to count, from a count request decoded by `body_object`.

    Raises:
        DecodeError: As for `decode_count_request`.
        UnknownDialect: As for `decode_count_request`.
    """
    count = _count_codec(dialect)
    invoked = count.read_invocation(value)
    if invoked is not None:  # in the dialect that Bedrock's InvokeModel has at the same model
        path = f"{(path or '').rpartition('/')[0]}/invoke"
        other = detect_path(path)
        if other is None:
            raise DecodeError("no path with the name of a model, expected one")
        body = body_object(invoked, limits, finite=True)
        request = request_of(
            body, reader_of(lookup(other)), path=path, headers=headers, limits=limits
        )
        # Of a message: in its own dialect, too, a count has fewer fields.
        return structs.replace(request, source=None)
    asked = count.read_request(value)
    return request_of(asked, reader_of(lookup(dialect)), path=path, headers=headers, limits=limits)


class CountRequest(Struct, frozen=True):
    """An encoded token count request.

    Attributes:
        dialect: Dialect of the request and of its answer: that of the messages, or another one
            in which the server counts.
        body: The JSON object.
        path: Path of the endpoint, with the model where it stands there.
        headers: Headers that belong to the body, such as betas; never a key.
        losses: What the dialect could not carry.
    """

    dialect: str
    body: dict[str, Any]
    path: str
    headers: dict[str, str] = {}
    losses: tuple[Loss, ...] = ()


def encode_count_request(
    request: Request,
    dialect: str,
    *,
    server: str | None = None,
    version: str | None = None,
    profiles: Profiles | None = None,
    repair: RepairPolicy = "error",
    arguments: ArgumentsPolicy = "error",
    strict: bool = False,
) -> CountRequest | None:
    """Return the count request for a message request; None if the server counts no tokens.

    A server that is not known to count none may still answer with a status of `CANNOT_COUNT`.

    Args:
        request: The request whose tokens are asked for.
        dialect: Dialect to write.
        server: As in `encode_request`; so are the others.
        version: Version of the vendor's API.
        profiles: What models, servers and versions refuse.
        repair: What becomes of tool results that are missing, late, or of no call.
        arguments: What becomes of tool arguments that are no JSON object.
        strict: Whether to raise `LossyEncoding` at the first loss.

    Raises:
        EncodeError: The request has no legal form in the dialect, or the version is unknown.
        LossyEncoding: Something would be lost, and `strict` is set.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    known = profiles or shipped_profiles()
    target = target_of(request, codec_of(lookup(dialect)).capabilities, known, server, version)
    if target.path is not None:  # where a message has another path, a count has another one, too
        return None
    if target.counted_in is not None:
        dialect, version = target.counted_in, None
        target = target_of(request, codec_of(lookup(dialect)).capabilities, known, server, version)
    count = codec_of(lookup(dialect)).count
    if count is None:
        return None
    asked = request
    is_left = is_same_dialect(request, dialect) and not known.knows(server, dialect)
    if request.max_tokens is None and not is_left:
        # A message needs the field and a count has none: its default is no loss.
        asked = structs.replace(request, max_tokens=target.max_tokens)
    encoded = encode_request(
        asked,
        dialect,
        server=server,
        version=version,
        profiles=profiles,
        repair=repair,
        arguments=arguments,
        missing_tools="drop",  # nothing answers
        strict=strict,
    )
    body = encoded.body
    if count.fields is not None:
        fields = count.fields | _own_fields(request, dialect)
        body = {name: value for name, value in body.items() if name in fields}
    written = count.write_request(Written(body, encoded.path, encoded.headers))
    return CountRequest(
        lookup(dialect).name, written.body, written.path, written.headers, encoded.losses
    )


def decode_token_count(
    body: Body,
    dialect: str,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> TokenCount:
    """Return the number of tokens in a server's response to a count request.

    Raises:
        DecodeError: The body is no such answer of the dialect, or exceeds a bound.
        UpstreamError: The body is an error, of whatever dialect.
        UnknownDialect: There is no such dialect, or it counts no tokens.
    """
    value = body_object(body, limits)
    try:
        return _count_codec(dialect).read_count(value)
    except DecodeError:
        if (error := error_in(value)) is not None:
            raise error from None
        raise


def encode_token_count(count: TokenCount, dialect: str) -> Encoded:
    """Encode a number of tokens as the response to a count request.

    An estimate has `"estimated": true` beside it, and the header `x-streamnorm-estimated`.

    Raises:
        UnknownDialect: There is no such dialect, or it counts no tokens.
    """
    body = _count_codec(dialect).write_count(count)
    if not count.is_estimate:
        return Encoded(body)
    return Encoded({**body, _ESTIMATED_FIELD: True}, headers={ESTIMATED_HEADER: _ESTIMATED})


def _own_fields(request: Request, dialect: str) -> frozenset[str]:
    """Return the field names of a request's original body; none if it was in another dialect."""
    source = request.source
    if isinstance(source, Source) and is_same_dialect(request, dialect):
        return frozenset(source.value)
    return frozenset()


def _count_codec(dialect: str) -> CountCodec:
    count = codec_of(lookup(dialect)).count
    if count is None:
        raise UnknownDialect(
            f"no counts of tokens in dialect {dialect!r}, expected a dialect that has them"
        )
    return count


MAX_MODELS = 10_000
"""Bound on the models of a listing."""


class ModelListing:
    """The model list of a server, read page by page.

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
        """Add the models of the page at `next_path`, and set `next_path` to the next page.

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
    """Return the page of a model list that the client's query names, encoded.

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
    """Return the path of the endpoint that describes one model.

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
    """Return the model that a server's response describes.

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
    """Return the response that describes one model.

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
    models = codec_of(lookup(dialect)).models
    if models is None:
        raise UnknownDialect(
            f"no lists of models in dialect {dialect!r}, expected a dialect that has them"
        )
    return models
