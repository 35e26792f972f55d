"""Configuration of a gateway: its structs, and their reading from TOML.

keepalive_s = 15

[upstreams.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8000/v1"

[upstreams.claude]
dialect = "anthropic"
base_url = "https://api.anthropic.com"
key = "env:ANTHROPIC_API_KEY"

[[models]]
match = "claude-*"
to = ["claude", "local/qwen3-32b"]
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.errors import StreamnormError, did_you_mean
from streamnorm._core.json import is_object
from streamnorm._core.limits import Limits
from streamnorm.log.log import DEFAULT_LEASE_S, MAX_STREAM_BYTES, MIN_LINGER_S
from streamnorm.log.log import DEFAULT_TTL_S as DEFAULT_STREAM_TTL_S
from streamnorm.state.stored import DEFAULT_TTL_S

T = TypeVar("T", bound=Struct)

# Some thirty years: the upper bound excludes what is no number of seconds.
_MAX_S = 1e9
_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=_MAX_S)]
_Delay: TypeAlias = Annotated[float, Meta(ge=0, le=_MAX_S)]
_Bound: TypeAlias = Annotated[int, Meta(ge=1)]
# The longest histories of agents, some 8 MB of text, have half as many.  Messages of a few bytes
# with so many take some 150 MB and a second.
_MAX_JSON_VALUES = 500_000
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_UNKNOWN_VALUE = "Invalid enum value "
_Name: TypeAlias = Annotated[str, Meta(min_length=1)]
_Names: TypeAlias = Annotated[list[_Name], Meta(min_length=1)]


class ConfigError(StreamnormError):
    """The configuration is invalid; the text is one line that names the key."""

    def __init__(self, text: str) -> None:
        # Keys are quoted in it, and TOML lets them hold anything.
        shown = (char if char.isprintable() else ascii(char)[1:-1] for char in text)
        super().__init__("".join(shown))


class UpstreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider and how to reach it: dialect, URL, key, framing and transport.

    Attributes:
        dialect: The dialect.
        base_url: The base URL, with the version of its API or without.
        key: Where its key comes from: `env:NAME`, a variable of the environment; `client`,
            the key of each request; `aws` or `aws:PROFILE`, the credentials of AWS, with which
            each request is signed; None sends no key.
        insecure: Whether the key is also sent over http to another host than loopback, where
            others on the network can read it, as to vLLM under the name of its service in
            Docker Compose or Kubernetes.
        server: Name of the server in profiles; None for the one that the host names, or
            `compatible` where it names none.
        normalize: Whether requests and answers of its own dialect are decoded and encoded,
            too, and not passed on unchanged.
        reuse: Whether a connection serves one request after the other.  Without it, a response
            that the provider sends unasked can never reach the next client.
        framing: Framing of its streams: server-sent events (`sse`), or the chunks of Amazon
            Bedrock's `InvokeModelWithResponseStream` (`invoke_chunks`), which has another path,
            and its key as a bearer; None for the framing of its dialect.
        transport: How it is asked for messages: over HTTP (`http`), or over a WebSocket for each
            conversation (`websocket`), which an upstream of the Responses API may have: it is then
            sent only what is new of a conversation.
        region: Region of AWS in which requests are signed; None for that of the environment or
            the profile.
    """

    dialect: str
    base_url: str
    key: str | None = None
    insecure: bool = False
    server: str | None = None
    normalize: bool = False
    reuse: bool = True
    framing: Literal["sse", "invoke_chunks"] | None = None
    transport: Literal["http", "websocket"] = "http"
    region: str | None = None


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Routing and options of the requests for one or more models.

    Attributes:
        match: Name of the models, with `*` and `?` as wildcards.  The first entry that
            matches counts.
        to: Names of upstreams, the first and then those to fall back to; `NAME/MODEL` asks
            for another model than the client.  A list in it has names of equal upstreams, which
            share the requests.
        balance: How equal upstreams share them: each conversation has one of them, where its
            prompt cache is (`conversation`), or they are asked in turn (`round_robin`).
        fall_back_on_refusal: Whether the next upstream is asked, too, if one refuses to answer
            before it has said anything: by the stop reason of an empty answer, or by its filter.
        alias: Name under which the models are listed besides, and may be asked for; `*` stands
            for their own name.  Claude Code lists only names that begin with `claude`.
        max_tokens: `max_tokens` of requests that name none.
        reasoning: Field of Chat Completions that a client of it reads reasoning from;
            `none` leaves reasoning out.
        simplify_schemas: Whether the schemas of tools are simplified.
        serial_tool_calls: Whether the model is asked for one call at a time.
        missing_tools: What becomes of a request for a search, or another tool that its provider
            executes, where the upstream has none: it is refused (`error`), or the model answers
            from memory (`drop`).
    """

    match: _Name
    to: Annotated[list[_Name | _Names], Meta(min_length=1)]
    balance: Literal["conversation", "round_robin"] = "conversation"
    fall_back_on_refusal: bool = False
    alias: _Name | None = None
    max_tokens: _Bound | None = None
    reasoning: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"
    simplify_schemas: bool = False
    serial_tool_calls: bool = False
    missing_tools: MissingTools = "error"


class PageConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the gateway's route for web pages of one dialect that have no backend.

    Attributes:
        model: Name of the model that answers.
        system: System text of each request.
        tools: Tools that the provider executes for the model.
        max_tokens: Bound on the tokens of an answer.
        max_body_bytes: Bound on the body of a request.
        max_messages: Bound on the messages of a request; each step of an answer is one, and its
            results another.
        page_client: Client of the pages, such as `ai@7` or `ag-ui@1`, to write what older ones do
            not show; without, what all of them accept.
        allow_system: Whether a page may send system messages; without, they are refused.
        allow_tools: Whether a page may offer the model tools that it executes itself; without,
            they are refused.
        resume: Whether an answer goes on without its page, which gets it again after a reload, at
            `/ui/chat/{id}/stream`, where `useChat` asks for it; needs `log`.
    """

    model: _Name
    system: _Name | None = None
    tools: list[Literal["web_search", "web_fetch", "code_execution"]] = []
    max_tokens: _Bound | None = None
    max_body_bytes: _Bound = 4 * 1024 * 1024
    max_messages: _Bound = 5000
    page_client: _Name | None = None
    allow_system: bool = False
    allow_tools: bool = False
    resume: bool = False


class LogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the log, which stores streams beyond their clients' connections.

    Attributes:
        url: `memory:` in a server of one process, `sqlite:PATH`, `redis://HOST` (also `rediss:`,
            `valkey:`, `valkeys:`), or `env:NAME`, a variable that holds such a URL.
        ttl_s: Seconds after its last change at which a stream is forgotten.
        lease_s: Seconds without news after which the gateway that produces a stream counts as dead.
        max_bytes: Bound on one stream, in bytes of its upstream.
        mode: What becomes of a request whose stream cannot be stored: it is refused before the
            upstream is asked (`require`), or answered without the log (`best_effort`).
        linger_s: Seconds without a client, at any gateway, after which a stream is cancelled, 5 or
            more.  None cancels none; responses in the background need no client.
    """

    url: _Name
    ttl_s: _Seconds = DEFAULT_STREAM_TTL_S
    lease_s: _Seconds = DEFAULT_LEASE_S
    max_bytes: _Bound = MAX_STREAM_BYTES
    mode: Literal["require", "best_effort"] = "require"
    linger_s: Annotated[float, Meta(ge=MIN_LINGER_S, le=_MAX_S)] | None = None


class DashboardConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the dashboard: its admin keys, and whether it shows timelines.

    Attributes:
        admin_keys: Where the keys come from that open the page: `env:NAME`, a variable that holds
            them separated by commas, each of 16 characters or more.  They open nothing else, and
            `client_keys` do not open the page.
        timelines: Whether a request whose stream is in `log` has a link to its timeline, which
            shows the answer.
    """

    admin_keys: _Name
    timelines: bool = False


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a gateway.

    Attributes:
        upstreams: The providers, by the names that `models` uses.
        models: Where requests go.  Without entries, each request goes to the first upstream
            of its own dialect, or else to the first of all, for the model that it names.
        pages: What pages without a backend get, by their protocol: `ui_message_stream`, which
            `useChat` reads, at `/ui/chat`, and `ag_ui` at `/ag-ui/run`.  Without an entry there is
            no such route.
        client_keys: Where the keys that clients must have come from: `env:NAME`, a variable
            that holds them separated by commas; None lets everybody in.
        aws_client_keys: Where the access keys come from with which clients of Amazon Bedrock may
            sign their requests: `env:NAME`, a variable that holds pairs `ID:SECRET`, separated by
            commas.  With them alone, nobody else is let in.
        open: Whether a gateway without `client_keys` answers on other addresses than loopback, to
            everybody who reaches it.
        hosts: Names and addresses, without a port, under which clients reach a gateway without
            `client_keys`, besides those of loopback.  With entries, it answers under no others;
            without, only the `Host` of requests to loopback is checked.
        origins: Origins of pages in a browser that may use a gateway without `client_keys`, as
            `https://app.example`, besides its own.
        cors: Whether pages of `origins` can read answers (CORS), also those with a key.
        seal_key: Where the key comes from that seals the summaries of compacted conversations:
            `env:NAME`, a variable that holds one of 32 characters or more, or several separated
            by commas, of which the first seals and all open.  None is a random key of each
            process, whose summaries no other process can read, nor this one after a restart.
        state: Where the answers of a client of Responses are stored: `memory:` in a server of one
            process, `sqlite:PATH`, `redis://HOST` (also `rediss:`, `valkey:`, `valkeys:`), or
            `env:NAME`, a variable that holds such a URL.  None stores nothing.
        state_ttl_s: Seconds after its last use at which an answer is forgotten.
        log: Where the streams are stored that outlive their clients: those of requests with an
            `Idempotency-Key` or an `x-streamnorm-stream`.  None has no such streams.
        dashboard: Who may watch the gateway at `/dashboard`.  None has no such page.
        on_disconnect: What becomes of an answer whose client has left: it is cancelled, or
            read to its end.
        websockets: Whether clients of Responses may open a WebSocket at `/v1/responses`; without,
            they are told to go on over HTTP.
        keepalive_s: Seconds of silence after which a client is sent a ping.
        commit_after_s: Seconds after which status 200 and a ping are sent although the
            upstream has not answered; this ends the fallback.  None never does so.
        first_byte_s: Seconds in which an upstream must begin its answer.
        idle_s: Seconds in which an upstream must go on; in which the body of a request must go on,
            and arrive, with one more for each 16 KiB of it; and in which a client must read of
            its stream, at most twice as many.
        progress_s: Seconds in which an upstream must send an event that is no ping.
        finish_grace_s: Seconds that a finished answer may stay open.
        drain_grace_s: Seconds that running answers have when the server stops.
        retries: How often a request is sent again to the same upstream before anything was
            received from it.  Most clients do that themselves.
        max_streams: Bound on the requests that are answered at the same time, and another on the
            streams of the log that are produced.
        max_body_bytes: Bound on the body of a request.
        max_event_bytes: Bound on one event of an upstream.
    """

    upstreams: Annotated[dict[_Name, UpstreamConfig], Meta(min_length=1)]
    models: list[ModelConfig] = []
    pages: dict[_Name, PageConfig] = {}
    client_keys: str | None = None
    aws_client_keys: str | None = None
    open: bool = False
    hosts: list[_Name] = []
    origins: list[_Name] = []
    cors: bool = False
    seal_key: str | None = None
    state: _Name | None = None
    state_ttl_s: _Seconds = DEFAULT_TTL_S
    log: LogConfig | None = None
    dashboard: DashboardConfig | None = None
    # The provider bills what it generates: an answer without a reader is cancelled.
    on_disconnect: Literal["cancel", "drain"] = "cancel"
    # Codex and the SDK of the vendor prefer it: they then send only what is new of a conversation.
    websockets: bool = True
    # Below the 20 s after which Claude Code gives up, and the 60 s of nginx and load balancers.
    keepalive_s: _Seconds = 15.0
    # None, because status 200 gives up the status of the answer and every other upstream.
    commit_after_s: _Delay | None = None
    # The timeout of the official SDKs: reasoning models are silent for minutes.
    first_byte_s: _Seconds = 600.0
    idle_s: _Seconds = 120.0
    progress_s: _Seconds = 600.0
    # Some servers keep the connection open behind the last chunk.
    finish_grace_s: _Seconds = 5.0
    # Kubernetes kills after 30 s.
    drain_grace_s: _Delay = 25.0
    # SDKs retry twice by themselves: retries on both sides multiply.
    retries: Annotated[int, Meta(ge=0)] = 0
    max_streams: _Bound = 1000
    # Anthropic refuses larger requests with 413.
    max_body_bytes: _Bound = 32 * 1024 * 1024
    max_event_bytes: _Bound = 16 * 1024 * 1024

    @property
    def has_client_keys(self) -> bool:
        """Whether clients must authenticate."""
        return self.client_keys is not None or self.aws_client_keys is not None


def missing_botocore(where: str) -> ConfigError:
    """Return the error for a configuration key that needs the extra `bedrock`."""
    return ConfigError(f"{where}: botocore is not installed (pip install '.[bedrock]')")


def request_limits(config: Config) -> Limits:
    """Return the bounds on requests."""
    return Limits(max_event_bytes=config.max_body_bytes, max_json_values=_MAX_JSON_VALUES)


def answer_limits(config: Config) -> Limits:
    """Return the bounds on answers."""
    return Limits(max_event_bytes=config.max_event_bytes, max_json_values=_MAX_JSON_VALUES)


def read_config(path: str | Path) -> Config:
    """Read a configuration from a TOML file.

    Raises:
        ConfigError: It cannot be read, or is no valid configuration.
    """
    try:
        # Editors on Windows write a byte order mark, at which TOML 1.0 would end.
        value = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: byte {exc.start} is not UTF-8, expected TOML") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    return config_of(value, str(path))


def config_of(value: dict[str, Any], name: str) -> Config:
    """Return decoded TOML as a configuration.

    Raises:
        ConfigError: It is no valid configuration; the text begins with `name`.
    """
    try:
        upstreams = value.get("upstreams")
        if is_object(upstreams):  # msgspec does not say in which entry of a table an error is
            for key, upstream in upstreams.items():
                _convert(upstream, UpstreamConfig, f"upstreams.{key}")
        pages = value.get("pages")
        if is_object(pages):
            for key, page in pages.items():
                _convert(page, PageConfig, f"pages.{key}")
        tables: list[tuple[str, type[Struct]]] = [
            ("log", LogConfig),
            ("dashboard", DashboardConfig),
        ]
        for key, table in tables:
            if is_object(value.get(key)):
                _convert(value[key], table, key)
        return _convert(value, Config, "")
    except ConfigError as exc:
        raise ConfigError(f"{name}: {exc}") from exc


def check_config(config: Config) -> Config:
    """Check the types and bounds of a configuration's values; return the configuration.

    Raises:
        ConfigError: One has not.
    """
    return config_of(msgspec.to_builtins(config), "config")


def _suggestion(problem: str, path: str, type: type[Struct]) -> str:
    """Return a hint for an unknown key or value: what is expected; "" for other problems.

    Args:
        problem: What msgspec found.
        path: The path of the table, or of the value, below the table that was read.
        type: The type of that.
    """
    table = ModelConfig if path.startswith("models[") else type
    if problem.startswith(_UNKNOWN_VALUE):
        key = path.rpartition(".")[2].partition("[")[0]
        return f"; expected one of {', '.join(_values_of(get_type_hints(table)[key]))}"
    found = _UNKNOWN_KEY.fullmatch(problem)
    if found is None:
        return ""
    # TOML ends a table at the next one, not at an empty line.
    if table is not Config and found[1] in Config.__struct_fields__:
        return "; a key of the top, expected above the first table"
    known = table.__struct_fields__
    return did_you_mean(found[1], known) or f"; expected one of {', '.join(known)}"


def _values_of(annotation: object) -> list[str]:
    """Return the values of the `Literal` in an annotation."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for part in get_args(annotation) for value in _values_of(part)]


def _convert(value: object, type: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).rpartition(" - at `")
        if not problem:
            problem, path = path, ""
        path = path.rstrip("`").rpartition("$")[2].lstrip(".")
        key = ".".join(part for part in (where, path) if part)
        text = problem[0].lower() + problem[1:] + _suggestion(problem, path, type)
        raise ConfigError(f"{key}: {text}" if key else text) from exc


class Timeouts(Struct, frozen=True):
    """Time limits of an upstream, in seconds; see `Config`."""

    first_byte_s: float
    idle_s: float
    progress_s: float
    finish_grace_s: float


def upstream_timeouts(config: Config) -> Timeouts:
    """Return the time limits of upstreams."""
    return Timeouts(config.first_byte_s, config.idle_s, config.progress_s, config.finish_grace_s)
