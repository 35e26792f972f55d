"""Routing of models to upstreams, and the choice among equal upstreams.

A provider has the prompt cache of a conversation where it answered the turn before, and so it is
with reasoning that only its author can read.  The requests of one conversation therefore go to one
upstream, whichever worker of the gateway gets them: all rank the upstreams by a digest of
conversation and upstream (rendezvous hashing).  One that is down moves its own conversations, each
to the next of its ranking, and no others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from ipaddress import ip_address
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct, structs

from streamnorm._bodies import codec_of
from streamnorm._core.bodies.request import Request
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import CredentialsError, UnknownDialect, did_you_mean
from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses import OnLoss
from streamnorm._core.tools import AnyTool, Tool
from streamnorm._registry import DIALECTS, FRAMINGS, lookup
from streamnorm._upstream.requests import RequestRefused, Upstream
from streamnorm.gateway.admission import check_key, resolve_key
from streamnorm.gateway.config import (
    Config,
    ConfigError,
    ModelConfig,
    UpstreamConfig,
    missing_botocore,
)
from streamnorm.gateway.scrubbing import UpstreamKey
from streamnorm.http.urls import check_base_url, server_of
from streamnorm.profiles import shipped_profiles
from streamnorm.tools import simplify_schema

if TYPE_CHECKING:
    from streamnorm.aws import Signer

_DEFAULTS = ModelConfig(match="*", to=[])
_MAX_SHOWN_CHARS = 64
_INVOKED = "bedrock"
_AWS = "aws"  # an upstream's key: a signature of each request
_OF_CLIENT = "client"  # an upstream's key: that of each request

# Those of Claude Code, opencode, Codex and pi (requests recorded 2026-11).
_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "x-session-affinity",
    "x-session-id",
    "session-id",
    "session_id",
    "thread-id",
)
# The conversation that an upstream stores, the chat of a page, or what shares a prompt cache.
_CONVERSATION_FIELDS = ("conversation", "threadId", "id", "prompt_cache_key", "cachedContent")
_TURNS = ("messages", "input", "contents")  # fields of the history, by dialect
_CACHE_MARK = "cache_control"
_MAX_VALUES = 256  # of which each may hold as many
_MAX_CHARS = 1024  # of the begin and of the end of each string


class Target(Struct, frozen=True, kw_only=True):
    """An upstream to which a request can be sent, with the options of the requested model.

    Attributes:
        name: Name of the upstream in the configuration.
        upstream: The upstream, with its key, and its name of the model if that is another.
        normalize: Whether requests and answers of its own dialect are re-encoded, too.
        reuse: Whether a connection serves one request after the other.
        key: The upstream's own key; None if it has none.
        signer: Signs its requests; None if they have no signature.
        websocket: Whether it is asked for messages over a WebSocket.
        conversation: Key of the conversation, where its WebSockets have one each.
        group: Number of its entry in `to`, which equal upstreams have in common.
        options: The options of the model.
    """

    name: str
    upstream: Upstream
    normalize: bool
    reuse: bool
    key: UpstreamKey | None
    signer: Signer | None = None
    websocket: bool = False
    conversation: str = ""
    group: int = 0
    options: ModelConfig = _DEFAULTS

    def __repr__(self) -> str:
        return f"Target({self.name!r})"


class Routing:
    """The configured upstreams and models.

    Args:
        config: The configuration.
        environ: The environment that holds the keys.

    Raises:
        ConfigError: An upstream is wrong, its key is missing, a model names no upstream, or an
            alias is wrong.

    Attributes:
        names: The names of the models.
    """

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._targets = {
            name: _target(name, upstream, environ) for name, upstream in config.upstreams.items()
        }
        if config.has_client_keys:
            _check_key_owners(config)
        self.names = ModelNames(config.models)
        self._models = [
            (model, self._targets_of(model, at)) for at, model in enumerate(config.models)
        ]

    def targets(self, model: str, client: Dialect) -> tuple[Target, ...]:
        """Return the upstreams for a model, in the order to ask them.

        Args:
            model: The model that the client names; "" if the request names none.
            client: The client's dialect.

        Raises:
            RequestRefused: The configuration has no such model.
        """
        if not self._models:
            targets = tuple(self._targets.values())
            own = [target for target in targets if target.upstream.dialect == client.name]
            return (own[0] if own else targets[0],)
        found = self.names.find(model)
        if found is not None:
            _, targets = self._models[found.entry]
            if found.name == model:
                return targets
            return tuple(_with_model(found.name, target) for target in targets)
        if not model:
            raise RequestRefused("no name of a model, expected one", param="model")
        raise RequestRefused(
            f"model {_quote_model(model)} is not configured, expected one of the list of models",
            404,
            code="model_not_found",
            param="model",
        )

    def native(self, client: Dialect) -> tuple[Target, ...]:
        """Return the upstreams of a client's own dialect: one of them may store its responses."""
        targets = self._targets.values()
        return tuple([each for each in targets if each.upstream.dialect == client.name])

    @property
    def entries(self) -> list[tuple[ModelConfig, tuple[Target, ...]]]:
        """The configured models, each with its upstreams."""
        return self._models

    def _targets_of(self, model: ModelConfig, at: int) -> tuple[Target, ...]:
        targets: list[Target] = []
        for number, entry in enumerate(model.to):
            where = f"models[{at}].to[{number}]"
            names = [entry] if isinstance(entry, str) else entry
            found = [self._target_of(name, where) for name in names]
            targets += [structs.replace(target, options=model, group=number) for target in found]
        return tuple(targets)

    def _target_of(self, text: str, where: str) -> Target:
        name, slash, upstream_model = text.partition("/")
        target = self._targets.get(name)
        if target is None:
            known = ", ".join(self._targets)
            expected = f"{known}{did_you_mean(name, self._targets)}"
            raise ConfigError(f"{where}: upstream {name!r}, expected one of {expected}")
        if slash and not upstream_model:
            raise ConfigError(f"{where}: no model after the slash, expected one")
        if not upstream_model:
            return target
        return structs.replace(
            target, upstream=structs.replace(target.upstream, model=upstream_model)
        )


def _quote_model(model: str) -> str:
    """Return a model name for an error message, quoted and shortened."""
    is_long = len(model) > _MAX_SHOWN_CHARS
    return repr(f"{model[: _MAX_SHOWN_CHARS - 3]}..." if is_long else model)


def _with_model(model: str, target: Target) -> Target:
    """Return a target that asks for `model`; unchanged if its upstream already names a model."""
    upstream = target.upstream
    if upstream.model is not None:
        return target
    return structs.replace(target, upstream=structs.replace(upstream, model=model))


# In profiles: a server on this machine or a private network may be any that speaks the dialect.
_UNNAMED = "compatible"


def _target(name: str, config: UpstreamConfig, environ: Mapping[str, str]) -> Target:
    where = f"upstreams.{name}"
    if "/" in name:
        raise ConfigError(f"{where}: a name with a slash, expected none")
    try:
        dialect = lookup(config.dialect)
        codec_of(dialect)
    except UnknownDialect as exc:
        raise ConfigError(f"{where}.dialect: {exc}") from exc
    try:
        base_url = check_base_url(config.base_url)
    except ValueError as exc:
        raise ConfigError(f"{where}.{exc}") from exc
    has_websocket = _has_websocket(config, dialect, f"{where}.transport")
    if config.server is not None and config.server not in (known := _servers()):
        found = f"{where}.server: {config.server!r}"
        expected = f"{', '.join(sorted(known))}{did_you_mean(config.server, known)}"
        raise ConfigError(f"{found}, expected one of {expected}")
    if config.key is not None and not (config.insecure or _is_private(base_url)):
        raise ConfigError(
            f"{where}.base_url: http with a key, which others on the network can read; "
            "expected https, a loopback host, or insecure = true"
        )
    server = config.server or server_of(base_url)
    if config.framing == "invoke_chunks" and server is None:
        server = _INVOKED
    if config.framing == "invoke_chunks" and not _invokes(dialect, server):
        raise ConfigError(
            f"{where}.framing: invoke_chunks of {dialect.name} from {server}, expected those of "
            f"a dialect that {_INVOKED} serves"
        )
    upstream = Upstream(
        dialect=dialect.name,
        base_url=base_url,
        server=server or _UNNAMED,
        framing=dialect.framing if config.framing is None else FRAMINGS[config.framing],
        headers=_key_header(config, dialect, f"{where}.key", environ),
        forwards_key=config.key == _OF_CLIENT,
    )
    return Target(
        name=name,
        upstream=upstream,
        normalize=config.normalize,
        reuse=config.reuse,
        key=UpstreamKey.of(upstream),
        signer=_signer(config, where),
        websocket=has_websocket,
    )


def _has_websocket(config: UpstreamConfig, dialect: Dialect, where: str) -> bool:
    """Return whether an upstream is asked over WebSockets."""
    if config.transport == "http":
        return False
    if dialect.endpoints.socket_framing is None:
        known = [name for name, each in DIALECTS.items() if each.endpoints.socket_framing]
        expected = ", ".join(known)
        raise ConfigError(f"{where}: websocket of {dialect.name}, expected one of {expected}")
    if (config.key or "").partition(":")[0] == _AWS:
        raise ConfigError(f"{where}: websocket with signed requests, expected another key")
    return True


def _signer(config: UpstreamConfig, where: str) -> Signer | None:
    """Return the AWS signer of an upstream's requests; None if its key is no AWS key."""
    kind, _, profile = (config.key or "").partition(":")
    if kind != _AWS:
        if config.region is not None:
            raise ConfigError(f'{where}.region: one without key = "aws", expected none')
        return None
    try:
        from streamnorm.aws import Signer
    except ImportError as exc:
        raise missing_botocore(f"{where}.key") from exc
    try:
        return Signer(config.region, profile=profile or None)
    except CredentialsError as exc:
        raise ConfigError(f"{where}.key: {exc}") from exc


def _invokes(dialect: Dialect, server: str | None) -> bool:
    """Return whether a server answers a dialect at paths that name the model."""
    base = codec_of(dialect).capabilities
    target = shipped_profiles().resolve(base, server=server, model="", version=None)
    return server == _INVOKED and target.stream_path is not None


def _servers() -> frozenset[str]:
    """Return the names of all known servers: vendors, and servers with profiles or quirks."""
    bodies = [dialect.codec for dialect in DIALECTS.values()]
    vendors = [codec.capabilities.reasoning_issuer for codec in bodies if codec is not None]
    return shipped_profiles().servers.union(
        [vendor for vendor in vendors if vendor is not None],
        *(dialect.servers_with_quirks for dialect in DIALECTS.values()),
    )


def _key_header(
    config: UpstreamConfig, dialect: Dialect, where: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the header with an upstream's key; {} if the configuration has no key."""
    if config.key is None or config.key == _OF_CLIENT or config.key.partition(":")[0] == _AWS:
        return {}
    other = f"{_OF_CLIENT}, {_AWS}"
    key = check_key(resolve_key(config.key, where, environ, other=other), where)
    # Amazon Bedrock knows no other header of a key (AWS_BEARER_TOKEN_BEDROCK).
    is_bearer = config.framing == "invoke_chunks"
    header = "authorization" if is_bearer else dialect.endpoints.key_headers[0]
    return {header: f"Bearer {key}" if header == "authorization" else key}


def _check_key_owners(config: Config) -> None:
    """Refuse upstreams that would receive the client's key to the gateway."""
    for name, upstream in config.upstreams.items():
        # A provider would learn the key of the gateway.
        if upstream.key == _OF_CLIENT:
            raise ConfigError(
                f"upstreams.{name}.key: the key of the client, which is that of the gateway "
                "with client_keys; expected a key of its own"
            )


def _is_private(base_url: str) -> bool:
    """Return whether requests to a URL are encrypted or stay on this machine."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_WILDCARDS = frozenset("*?")
# One `*` at most, and something beside it.
_ALIAS = re.compile(r"(?!\*$)[^*?]*\*?[^*?]*")


class FoundModel(NamedTuple):
    """The configured model that a client's model name stands for.

    Attributes:
        entry: Number of its entry.
        name: The own name of the model.
    """

    entry: int
    name: str


class ModelNames:
    """Finds the configuration's model entries by the model names that clients send.

    Args:
        models: The entries.

    Raises:
        ConfigError: An alias is wrong.
    """

    def __init__(self, models: Sequence[ModelConfig]) -> None:
        self._entries = [
            (model, re.compile(translate(model.match.replace("[", "[[]")))) for model in models
        ]
        for at, model in enumerate(models):
            _check_alias(model, f"models[{at}].alias")

    def find(self, name: str) -> FoundModel | None:
        """Return the model that a client has named; None if no entry matches the name.

        The first entry that has it counts; its alias is tried before its `match`.
        """
        for at, (entry, pattern) in enumerate(self._entries):
            # Claude Code lists only models whose ids begin with `claude` or `anthropic`, hence
            # aliases.
            own = _own_name(name, entry)
            if own and pattern.match(own):
                return FoundModel(at, own)
            if pattern.match(name):
                return FoundModel(at, name)
        return None

    def names_of(self, entry: int, name: str) -> list[str]:
        """Return the names by which clients can ask for a model: the model's name and alias.

        There are none if its own name is one of an earlier entry.

        Args:
            entry: Number of its entry.
            name: The own name of the model.
        """
        model, found = FoundModel(entry, name), self.find(name)
        if found is None or found.entry != entry:
            return []
        alias = self._entries[entry][0].alias
        names = (name,) if alias is None else (name, alias.replace("*", name))
        return [each for each in names if self.find(each) == model]


def is_one_name(match: str) -> bool:
    """Return whether a `match` is the name of one model, without wildcards."""
    return _WILDCARDS.isdisjoint(match)


def _own_name(name: str, entry: ModelConfig) -> str:
    """Return the model name for which `name` is an alias; "" if the entry has no such alias."""
    if entry.alias is None:
        return ""
    start, wildcard, end = entry.alias.partition("*")
    if not wildcard:
        return entry.match if name == start else ""
    if not (name.startswith(start) and name.endswith(end)):
        return ""
    return name[len(start) : len(name) - len(end)]


def _check_alias(model: ModelConfig, where: str) -> None:
    alias = model.alias
    if alias is None:
        return
    if not _ALIAS.fullmatch(alias):
        raise ConfigError(f"{where}: {alias!r}, expected a name, with one * at most")
    if "*" not in alias and not is_one_name(model.match):
        raise ConfigError(f"{where}: one name for all models of {model.match!r}, expected a *")


def changes_requests(options: ModelConfig) -> bool:
    """Return whether options may change a request, which then cannot pass unchanged."""
    return options.max_tokens is not None or options.simplify_schemas or options.serial_tool_calls


def apply_options(options: ModelConfig, request: Request, on_loss: OnLoss) -> Request:
    """Apply the options of a request's model: token limit, tool schemas, serial tool calls.

    Args:
        options: The options.
        request: The request.
        on_loss: Called with each loss.

    Raises:
        EncodeError: The schema of a tool cannot be simplified.
    """
    changes: dict[str, object] = {}
    if request.max_tokens is None and options.max_tokens is not None:
        changes["max_tokens"] = options.max_tokens
    if options.serial_tool_calls and request.tools:
        changes["parallel_tool_calls"] = False
    if options.simplify_schemas:
        changes["tools"] = tuple(_simplify(tool, on_loss) for tool in request.tools)
    return structs.replace(request, **changes) if changes else request


def _simplify(tool: AnyTool, on_loss: OnLoss) -> AnyTool:
    """Return a tool whose schema all servers accept.

    Raises:
        EncodeError: Its schema cannot be simplified.
    """
    if not isinstance(tool, Tool) or tool.input_schema is None:
        return tool
    simple = simplify_schema(tool.input_schema)
    for loss in simple.losses:
        on_loss(loss)
    if simple.schema is tool.input_schema:
        return tool
    return structs.replace(tool, input_schema=simple.schema)


class Balancer:
    """Orders the upstreams for a request; equal upstreams by conversation, or in turn."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], int] = {}  # requests so far, by entry and group

    def order(
        self, targets: tuple[Target, ...], headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> tuple[Target, ...]:
        """Return the upstreams for a request, in the order in which to ask them.

        Args:
            targets: The upstreams, those of one group side by side.
            headers: Headers of the request, names in lower case.
            body: The decoded body of the request, in any dialect.
        """
        if any(target.websocket for target in targets):
            conversation = conversation_of(headers, body)
            targets = tuple(
                structs.replace(target, conversation=conversation) if target.websocket else target
                for target in targets
            )
        if len({target.group for target in targets}) == len(targets):
            return targets
        if targets[0].options.balance == "round_robin":
            groups = [self._in_turn([*group]) for _, group in groupby(targets, _group_of)]
        else:
            conversation = conversation_of(headers, body)
            groups = [
                _rank_by_conversation([*group], conversation)
                for _, group in groupby(targets, _group_of)
            ]
        return tuple(target for group in groups for target in group)

    def _in_turn(self, group: list[Target]) -> list[Target]:
        key = group[0].options.match, group[0].group
        start = self._asked.get(key, 0) % len(group)
        self._asked[key] = start + 1
        return group[start:] + group[:start]


def conversation_of(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return a key that all requests of a conversation have in common.

    That is the id of the session, which agents send in a header or as the user, that of the
    conversation or of the chat of a page, or the key of the prompt cache, or else what stands in
    the first message of the user.

    Args:
        headers: Headers of a request, names in lower case.
        body: The decoded body of the request, in any dialect.
    """
    named = [headers.get(name) for name in _SESSION_HEADERS]
    metadata = body.get("metadata")
    if is_object(metadata):
        named.append(_string(metadata.get("user_id")))
    for name in _CONVERSATION_FIELDS:
        value = body.get(name)
        named.append(_string(value.get("id") if is_object(value) else value))
    return next(filter(None, named), "") or "\n".join(_strings(_first_message(body)))


def _first_message(body: Mapping[str, Any]) -> object:
    turns = next((body[name] for name in _TURNS if body.get(name)), None)
    if isinstance(turns, str):  # text alone, which later requests have as a message
        return {"role": "user", "content": turns}
    if not is_array(turns):
        return turns
    # Gemini's contents without a role are those of the user.
    first = (turn for turn in islice(turns, _MAX_VALUES) if is_object(turn))
    # System prompts are those of the agent, equal in all conversations.
    return next((turn for turn in first if turn.get("role", "user") == "user"), None)


def _strings(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value, shortened, and without marks for the prompt cache."""
    left = [value]
    count = 0
    while left and count < _MAX_VALUES:
        item = left.pop()
        count += 1
        if isinstance(item, str):
            is_long = len(item) > 2 * _MAX_CHARS
            yield f"{item[:_MAX_CHARS]}{item[-_MAX_CHARS:]}{len(item)}" if is_long else item
        elif is_array(item):
            left += reversed(item[:_MAX_VALUES])
        elif is_object(item):
            names = sorted(islice(item, _MAX_VALUES), reverse=True)
            left += [item[name] for name in names if name != _CACHE_MARK]


def _rank_by_conversation(group: list[Target], conversation: str) -> list[Target]:
    return sorted(group, key=lambda target: _digest(conversation, target))


def _digest(conversation: str, target: Target) -> bytes:
    name = f"{target.name}/{target.upstream.model or ''}"
    text = f"{name}\n{conversation}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def _group_of(target: Target) -> int:
    return target.group


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
