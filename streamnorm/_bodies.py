"""Whole requests of every dialect, decoded, encoded and translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from msgspec import Struct, structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    Body,
    CleanedBody,
    body_object,
    check_bounds,
    clean_body,
    count_cleaned,
)
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.bodies.projection.positions import path_before
from streamnorm._core.bodies.projection.reasoning_options import is_reasoning
from streamnorm._core.bodies.projection.results import FilledCalls, RepairPolicy
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.request import (
    ReasoningOptions,
    Reply,
    Request,
    Source,
    is_all_same_dialect,
    is_same_dialect,
    is_unchanged,
)
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy
from streamnorm._core.bodies.types import check_request_types
from streamnorm._core.bodies.wire_fields import endpoint_path, fit_fields
from streamnorm._core.codec import (
    BodyCodec,
    Dialect,
    PageCodec,
    ReadContext,
    RequestReader,
    WriteContext,
)
from streamnorm._core.errors import DecodeError, EncodeError, UnknownDialect
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Losses
from streamnorm._registry import DIALECTS, detect_body, detect_path, lookup
from streamnorm.profiles import Profiles, shipped_profiles

_NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_REQUEST_FIELDS = frozenset(Request.__struct_fields__)


class Encoded(Struct, frozen=True):
    """An encoded request or response.

    Attributes:
        body: The JSON object.
        path: Path of the endpoint, with the model where it stands there; "" of a response.
        headers: Headers that belong to the body, such as betas; never a key.
        losses: What the dialect could not carry.
        reply: How the answer's tool calls get their original names; give it to `Transcoder`
            or `encode_message`.
    """

    body: dict[str, Any]
    path: str = ""
    headers: dict[str, str] = {}
    losses: tuple[Loss, ...] = ()
    reply: Reply = Reply()


class EncodeOptions(TypedDict):
    """Keyword arguments of `encode_request`."""

    server: str | None
    version: str | None
    profiles: Profiles | None
    repair: RepairPolicy
    arguments: ArgumentsPolicy
    missing_tools: MissingTools
    strict: bool


_PolicyName: TypeAlias = Literal["repair", "arguments", "missing_tools"]
_POLICIES: tuple[tuple[_PolicyName, tuple[str, ...]], ...] = (
    ("repair", get_args(RepairPolicy)),
    ("arguments", get_args(ArgumentsPolicy)),
    ("missing_tools", get_args(MissingTools)),
)


def decode_request(
    body: Body,
    dialect: str | None = None,
    *,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Request:
    """Decode the body of a request.

    Args:
        body: JSON text, or the decoded object.
        dialect: Dialect of the body; None to detect it, by the path if that is known.
        path: Path of the URL, without its query; it names the model of some dialects.
        headers: Headers of the request, which name betas.
        limits: Bounds.

    Raises:
        DecodeError: The body is not of the dialect, or exceeds a bound.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    value = body_object(body, limits, finite=True)
    by_path = None if path is None else detect_path(path)
    known = dialect or by_path or dialect_of(value, "request")
    return request_of(value, reader_of(lookup(known)), path=path, headers=headers, limits=limits)


def request_of(
    value: dict[str, Any],
    codec: RequestReader,
    *,
    path: str | None,
    headers: Mapping[str, str] | None,
    limits: Limits,
) -> Request:
    """Return the request in a body that `body_object` has decoded.

    Args:
        value: The body.
        codec: Reader of its dialect.
        path: As for `decode_request`, like all that follow.
        headers: Headers of the request.
        limits: Bounds.

    Raises:
        DecodeError: As for `decode_request`.
    """
    known = {name.lower(): text for name, text in (headers or {}).items()}
    context = ReadContext(path=path or "", headers=known, limits=limits)
    request = codec.read_request(value, context)
    if isinstance(value, CleanedBody):
        request = structs.replace(request, source=structs.replace(request.source, cleaned=True))
    try:
        check_bounds(request, limits)
    except DecodeError as exc:
        if isinstance(codec, PageCodec) and exc.path.startswith("$.messages"):
            # A message of a page may be several of the request.
            raise DecodeError(exc.args[0], path="$.messages") from None
        raise
    return request


def encode_request(
    request: Request,
    dialect: str,
    *,
    server: str | None = None,
    version: str | None = None,
    profiles: Profiles | None = None,
    repair: RepairPolicy = "error",
    arguments: ArgumentsPolicy = "error",
    missing_tools: MissingTools = "error",
    strict: bool = False,
) -> Encoded:
    """Encode a request in a dialect, adapted to what the server accepts.

    Args:
        request: The request.
        dialect: Dialect to write.
        server: Name of the server that it is sent to; None, or one that the profiles do not
            know, is the vendor.
        version: Version of the vendor's API; None = the one that its SDK sends.
        profiles: What models, servers and versions refuse; None = what streamnorm ships.
        repair: What becomes of tool results that are missing, late, or of no call: an error,
            or they are filled in and moved.
        arguments: What becomes of tool arguments that are no JSON object where the dialect
            has objects.
        missing_tools: What becomes of a request for a search, or another tool that its provider
            executes, where the target has no such tool and the request offers no other, or
            forces it: an error, or the model answers without.
        strict: Whether to raise `LossyEncoding` at the first loss.

    Raises:
        EncodeError: The request has no legal form in the dialect, a field has a value of another
            type, or the version is unknown.
        LossyEncoding: Something would be lost, and `strict` is set.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
        ValueError: There is no such policy.
    """
    return encode_grown_request(
        request,
        dialect,
        None,
        server=server,
        version=version,
        profiles=profiles,
        repair=repair,
        arguments=arguments,
        missing_tools=missing_tools,
        strict=strict,
    )


def encode_grown_request(
    request: Request,
    dialect: str,
    memo: EncodingMemo | None,
    filled: FilledCalls = frozenset(),
    **options: Unpack[EncodeOptions],
) -> Encoded:
    """Encode a request whose history grew, with the cached encoding of old messages.

    Args:
        request: The request, whose messages begin with those of the last one.
        dialect: Dialect to write.
        memo: What was encoded of the last one with the same options; None if nothing was.
        filled: Calls whose missing results were filled in in an earlier one.
        options: The keywords of `encode_request`.
    """
    _check_policies(options)
    codec = codec_of(lookup(dialect))
    if not request.model:
        _check_agent(request, codec)
    losses, repair = Losses(strict=options["strict"]), options["repair"]
    count_cleaned(request, losses)
    is_clean = is_unchanged(request)
    if not is_clean:
        # A conversation has checked its messages, and what was decoded has the right types.
        if memo is None and not isinstance(request.source, Source):
            request = check_request_types(request)
        _check_numbers(request)
    profiles = options["profiles"] or shipped_profiles()
    # A conversation that is read from one dialect may go on with the answers of another one.
    named = profiles.knows(options["server"], codec.capabilities.dialect)
    target = target_of(
        request,
        codec.capabilities,
        profiles,
        options["server"],
        options["version"],
        named=named,
        may_be_same_dialect=memo is None,
    )
    same_target = target is codec.capabilities and is_same_dialect(request, target.dialect)
    if (
        target.only_refusals
        and target.reasoning_words is not None
        and codec.read_reasoning is not None
    ):
        request = _as_read(request, target.reasoning_words, codec.read_reasoning)
    projected, reply = project_request(
        request,
        target,
        losses,
        repair=repair,
        missing_tools=options["missing_tools"],
        same_target=same_target,
        named=named,
        memo=memo,
        filled=filled,
    )
    if target.only_refusals and target.reasoning_required and not is_reasoning(projected, target):
        target = structs.replace(target, reasoning_required=False)
    context = WriteContext(
        target, losses, options["arguments"], memo, named=named, same_target=same_target
    )
    try:
        written = codec.write_request(projected, context)
    except EncodeError as exc:
        path = path_before(exc.path, projected.messages, request.messages)
        raise EncodeError(exc.args[0], path=path) from exc
    body = written.body
    if target.only_refusals and target.reasoning_words is not None:
        body = _restore_unread(body, request.source.value, codec.reasoning_fields, target)
    body = codec.fit_body(body, context)
    body, headers = fit_fields(body, written.headers, target, losses)
    if not is_clean:
        body = clean_body(body, losses)
    path = endpoint_path(written.path, request.model, target, stream=request.stream is True)
    return Encoded(body, path, headers, losses.list() if losses.counts else (), reply)


def _check_policies(options: EncodeOptions) -> None:
    """Raise `ValueError` if a policy has no such value.

    A misspelt one would be taken for the policy that changes the request.
    """
    for name, expected in _POLICIES:
        if (policy := options[name]) not in expected:
            raise ValueError(f"{name} is {policy!r}, expected one of {', '.join(expected)}")


def _check_numbers(request: Request) -> None:
    """Raise `EncodeError` if a sampling option of a program is a number that JSON does not have."""
    options = {name: getattr(request, name) for name in _NUMBERS}
    options |= {f"logit_bias.{token}": value for token, value in (request.logit_bias or {}).items()}
    for path, value in options.items():
        if isinstance(value, float) and not isfinite(value):
            raise EncodeError("NaN or Infinity, expected a finite number", path=path)


def _check_agent(request: Request, codec: BodyCodec) -> None:
    """Raise `EncodeError` if a request without a model is for an agent of another provider."""
    for name, fields in (request.extra or {}).items():
        known = DIALECTS.get(name)
        other = None if known is None else known.codec
        if other is None or name == codec.capabilities.dialect or other.agent_field is None:
            continue
        if fields.get(other.agent_field) is not None:
            raise EncodeError("an agent of another provider, expected a model", path="model")


def _restore_unread(
    body: dict[str, Any],
    original: dict[str, Any],
    reasoning_fields: frozenset[str],
    target: BodyCapabilities,
) -> dict[str, Any]:
    """Put back the client's reasoning fields that the upstream ignores; return the body."""
    unread = reasoning_fields - (target.reasoning_words or frozenset())
    kept = {
        name: value if name in unread else body[name]
        for name, value in original.items()
        if name in unread or name in body
    }
    return kept | {name: value for name, value in body.items() if name not in original}


def _as_read(
    request: Request,
    words: frozenset[str],
    read: Callable[[dict[str, Any]], ReasoningOptions | None],
) -> Request:
    """Return a request without the reasoning options whose fields the server ignores."""
    source: Source = request.source
    if request.reasoning is not source.part.reasoning:  # changed since
        return request
    body = {name: value for name, value in source.value.items() if name in words}
    options = read(body)
    if options == request.reasoning:
        return request
    part = structs.replace(source.part, reasoning=options)
    return structs.replace(request, reasoning=options, source=structs.replace(source, part=part))


def translate_request(
    body: Body,
    *,
    to: str,
    dialect: str | None = None,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    server: str | None = None,
    version: str | None = None,
    profiles: Profiles | None = None,
    repair: RepairPolicy = "error",
    arguments: ArgumentsPolicy = "error",
    missing_tools: MissingTools = "error",
    strict: bool = False,
) -> Encoded:
    """Translate a request's body: `decode_request`, then `encode_request`."""
    return encode_request(
        decode_request(body, dialect, path=path, headers=headers),
        to,
        server=server,
        version=version,
        profiles=profiles,
        repair=repair,
        arguments=arguments,
        missing_tools=missing_tools,
        strict=strict,
    )


def reader_of(known: Dialect) -> RequestReader:
    """Return the request reader of a dialect.

    Raises:
        UnknownDialect: It has no requests.
    """
    if known.body is None:
        others = ", ".join(other.name for other in DIALECTS.values() if other.body is not None)
        raise UnknownDialect(f"no whole bodies of dialect {known.name!r}, expected one of {others}")
    return known.body()


def codec_of(known: Dialect) -> BodyCodec:
    """Return the body codec of a dialect.

    Raises:
        UnknownDialect: It has no whole bodies, or only reads requests.
    """
    reader = reader_of(known)
    if not isinstance(reader, BodyCodec):
        others = ", ".join(other.name for other in DIALECTS.values() if other.codec is not None)
        raise UnknownDialect(
            f"of dialect {known.name!r} only requests are read, expected one of {others}"
        )
    return reader


def target_of(
    request: Request,
    base: BodyCapabilities,
    profiles: Profiles,
    server: str | None,
    version: str | None,
    *,
    named: bool | None = None,
    may_be_same_dialect: bool = True,
) -> BodyCapabilities:
    """Return the capabilities of a request's server, model and version.

    Args:
        request: The request.
        base: Capabilities of the dialect.
        profiles: What models, servers and versions refuse.
        server: Name of the server.
        version: Version of the API.
        named: Whether the profiles know the server; None to ask them.
        may_be_same_dialect: Whether a request that is in the dialect of a named server already is
            changed where that refuses it, and nowhere else.

    Raises:
        EncodeError: The version is unknown, or the server answers no such request.
    """
    is_named = profiles.knows(server, base.dialect) if named is None else named
    is_nameless = version is None and not is_named and is_same_dialect(request, base.dialect)
    # For the vendor, for this model, and for a version that is not known.
    if is_nameless and request.source.part.model == request.model:
        return base
    same_dialect = may_be_same_dialect and is_named and is_all_same_dialect(request, base.dialect)
    if same_dialect:
        same_models = profiles.runs_vendor_models(server, base.dialect)
        base = base.for_same_dialect(_REQUEST_FIELDS, same_models=same_models)
    target = profiles.resolve(
        base, server=server, model=request.model, version=version, same_dialect=same_dialect
    )
    # Another model of a server without a name that refuses what the client's model does.
    if is_nameless and target == profiles.resolve(base, model=request.source.part.model):
        return base
    if not target.available:
        raise EncodeError(
            f"not answered by {server} in dialect {base.dialect}, expected another dialect",
            path="model",
        )
    return target


def dialect_of(body: dict[str, Any], kind: Literal["request", "response"]) -> str:
    """Detect the dialect of a body.

    Raises:
        DecodeError: It is of none, or of several.
    """
    found = detect_body(body, kind)
    if found is None:
        raise DecodeError(f"{kind} of no known dialect, or of several, expected dialect=")
    return found
