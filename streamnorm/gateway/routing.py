"""Which upstreams answer a request: by its model, in the order of the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from streamnorm._bodies import codec_of
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import UnknownDialect
from streamnorm._registry import lookup
from streamnorm._upstream.requests import Upstream
from streamnorm._upstream.url import check_base_url
from streamnorm.gateway.config import Config, ConfigError, ModelConfig, UpstreamConfig
from streamnorm.recording.operations import server_of

__all__ = ["Routing", "Target"]

_DEFAULTS = ModelConfig(match="*", to=[])


class Target(Struct, frozen=True, kw_only=True):
    """One upstream that may answer a request.

    Attributes:
        name: Name of the upstream in the configuration.
        upstream: The upstream, with its key, and its name of the model if that is another.
        normalize: Whether what is of its own dialect is decoded and encoded, too.
        options: The options of the model.
    """

    name: str
    upstream: Upstream
    normalize: bool
    options: ModelConfig = _DEFAULTS

    def __repr__(self) -> str:
        return f"Target({self.name!r})"


class Routing:
    """The upstreams of a configuration, and the models that they answer for.

    Args:
        config: The configuration.
        environ: The environment that holds the keys; None for that of the process.

    Raises:
        ConfigError: An upstream is wrong, its key is missing, or a model names no upstream.
    """

    def __init__(self, config: Config, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        if not config.upstreams:
            raise ConfigError("upstreams: none, expected at least one")
        self._targets = {
            name: _target(name, upstream, environ) for name, upstream in config.upstreams.items()
        }
        self._models = [
            (model, self._targets_of(model, at)) for at, model in enumerate(config.models)
        ]

    def targets(self, model: str, client: Dialect) -> tuple[Target, ...]:
        """Return the upstreams for a model, the first to ask first; empty if there is none.

        Args:
            model: The model that the client names; "" if the request names none.
            client: The client's dialect.
        """
        for entry, targets in self._models:
            if fnmatchcase(model, entry.match):
                return targets
        if self._models:
            return ()
        targets = tuple(self._targets.values())
        own = [target for target in targets if target.upstream.dialect == client.name]
        return (own[0] if own else targets[0],)

    def _targets_of(self, model: ModelConfig, at: int) -> tuple[Target, ...]:
        if not model.to:
            raise ConfigError(f"models[{at}].to: no upstream, expected at least one")
        targets: list[Target] = []
        for text in model.to:
            name, _, own_model = text.partition("/")
            target = self._targets.get(name)
            if target is None:
                known = ", ".join(self._targets)
                raise ConfigError(f"models[{at}].to: upstream {name!r}, expected one of {known}")
            upstream = target.upstream
            if own_model:
                upstream = structs.replace(upstream, model=own_model)
            targets.append(structs.replace(target, upstream=upstream, options=model))
        return tuple(targets)


def _target(name: str, config: UpstreamConfig, environ: Mapping[str, str]) -> Target:
    where = f"upstreams.{name}"
    if "/" in name:
        raise ConfigError(f"{where}: a name with a slash, expected none")
    try:
        codec_of(config.dialect)
        dialect = lookup(config.dialect)
    except UnknownDialect as exc:
        raise ConfigError(f"{where}.dialect: {exc}") from exc
    try:
        base_url = check_base_url(config.base_url)
    except ValueError as exc:
        raise ConfigError(f"{where}.{exc}") from exc
    return Target(
        name=name,
        upstream=Upstream(
            dialect=dialect.name,
            base_url=base_url,
            server=config.server or server_of(base_url),
            headers=_key_header(config, dialect, where, environ),
            passes_key=config.key == "client",
        ),
        normalize=config.normalize,
    )


def _key_header(
    config: UpstreamConfig, dialect: Dialect, where: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the header that holds an upstream's key; {} if it has none of its own."""
    if config.key is None or config.key == "client":
        return {}
    kind, _, variable = config.key.partition(":")
    if kind != "env" or not variable:
        raise ConfigError(f"{where}.key: no place of a key, expected env:NAME or client")
    key = environ.get(variable, "")
    if not key:
        raise ConfigError(f"{where}.key: {variable} is not set in the environment")
    header = dialect.endpoints.key_headers[0]
    return {header: f"Bearer {key}" if header == "authorization" else key}
