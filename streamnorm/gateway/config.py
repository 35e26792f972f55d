"""The configuration of a gateway: what it says, and how it is read.

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

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from streamnorm._core.errors import StreamnormError

__all__ = ["Config", "ConfigError", "ModelConfig", "UpstreamConfig", "read_config"]


class ConfigError(StreamnormError):
    """A configuration is wrong; the text is one line that names the key."""


class UpstreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider.

    Attributes:
        dialect: Its dialect.
        base_url: Its base URL, with the version of its API or without.
        key: Where its key comes from: `env:NAME`, a variable of the environment; `client`,
            the key of each request; None sends no key.
        server: Name of the server in profiles; None for the one that the host names.
        normalize: Whether requests and answers of its own dialect are decoded and encoded,
            too, and not passed on unchanged.
    """

    dialect: str
    base_url: str
    key: str | None = None
    server: str | None = None
    normalize: bool = False


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the requests for some models go, and how.

    Attributes:
        match: Name of the models, with `*` and `?` as wildcards.  The first entry that
            matches counts.
        to: Names of upstreams, the first and then those to fall back to; `NAME/MODEL` asks
            for another model than the client.
        max_tokens: `max_tokens` of requests that name none.
        reasoning: Field of Chat Completions that a client of it reads reasoning from;
            `none` leaves reasoning out.
        simplify_schemas: Whether the schemas of tools are simplified.
        serial_tool_calls: Whether the model is asked for one call at a time.
    """

    match: str
    to: list[str]
    max_tokens: int | None = None
    reasoning: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"
    simplify_schemas: bool = False
    serial_tool_calls: bool = False


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a gateway.

    Attributes:
        upstreams: The providers, by the names that `models` uses.
        models: Where requests go.  Without entries, each request goes to the first upstream
            of its own dialect, or else to the first of all, for the model that it names.
        client_keys: Where the keys that clients must have come from: `env:NAME`, a variable
            that holds them separated by commas; None lets everybody in.
        on_disconnect: What becomes of an answer whose client has left: it is cancelled, or
            read to its end.
        keepalive_s: Seconds of silence after which a client is sent a ping.
        commit_after_s: Seconds after which status 200 and a ping are sent although the
            upstream has not answered; this ends the fallback.  None never does so.
        first_byte_s: Seconds in which an upstream must begin its answer.
        idle_s: Seconds in which an upstream must send something.
        progress_s: Seconds in which an upstream must send something else than pings.
        finish_grace_s: Seconds that a finished answer may stay open.
        drain_grace_s: Seconds that running answers have when the server stops.
        retries: How often a request is sent again to the same upstream before anything was
            received from it.  Most clients do that themselves.
        max_streams: Bound on the requests that are answered at the same time.
        max_body_bytes: Bound on the body of a request.
        max_event_bytes: Bound on one event of an upstream.
    """

    upstreams: dict[str, UpstreamConfig]
    models: list[ModelConfig] = []
    client_keys: str | None = None
    on_disconnect: Literal["cancel", "drain"] = "cancel"
    keepalive_s: float = 15.0
    commit_after_s: float | None = None
    first_byte_s: float = 600.0
    idle_s: float = 120.0
    progress_s: float = 600.0
    finish_grace_s: float = 5.0
    drain_grace_s: float = 25.0
    retries: int = 0
    max_streams: int = 1000
    max_body_bytes: int = 32 * 1024 * 1024
    max_event_bytes: int = 16 * 1024 * 1024


def read_config(path: str | Path) -> Config:
    """Return the configuration in a TOML file.

    Raises:
        ConfigError: It cannot be read, or is no valid configuration.
    """
    try:
        value = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    return config_of(value, str(path))


def config_of(value: dict[str, Any], name: str) -> Config:
    """Return the configuration that decoded TOML is.

    Raises:
        ConfigError: It is no valid configuration; the text begins with `name`.
    """
    try:
        return msgspec.convert(value, Config)
    except msgspec.ValidationError as exc:
        problem, _, where = str(exc).rpartition(" - at `$")
        key = where.rstrip("`").lstrip(".") if problem else ""
        text = problem or str(exc)
        raise ConfigError(f"{name}: {key}: {text}" if key else f"{name}: {text}") from exc
