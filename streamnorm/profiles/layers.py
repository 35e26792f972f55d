"""Profiles: rules for versions, models and servers, applied in turn to a dialect's capabilities."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TypeAlias

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.errors import EncodeError, ProfileError
from streamnorm.profiles.reader import VENDOR, Rule, read_rules

_MAX_FILE_BYTES = 1024 * 1024
_MAX_NARROWED = 256
_MAX_MODEL_CHARS = 512

_Key: TypeAlias = tuple[int, str | None, str, str | None]  # base, server, model, version


class Profiles:
    """Facts about models, servers and API versions that narrow the capabilities of a dialect.

    Functions with an argument `profiles` use the shipped ones by default; `load` adds files.

    Args:
        rules: The rules; later rules win.

    Attributes:
        servers: Names of the servers with profiles.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self.servers = frozenset(name for rule in rules for name in rule.servers) - {VENDOR}
        self._known = {pair for rule in rules for pair in product(rule.servers, rule.dialects)}
        self._hosts = {
            pair
            for rule in rules
            if rule.hosts_vendor
            for pair in product(rule.servers, rule.dialects)
        }
        # Narrowed capabilities, each with its base: a key has the `id` of the base, which a new
        # object may reuse.
        self._narrowed: dict[_Key, tuple[BodyCapabilities, BodyCapabilities]] = {}

    @classmethod
    def load(cls, *paths: str | Path) -> Profiles:
        """Return the shipped profiles together with the profiles of TOML files.

        Later files win over earlier ones, and all files over the shipped profiles.

        Raises:
            ProfileError: A file cannot be read, or holds no valid profiles.
        """
        rules = _shipped_rules()
        for path in paths:
            rules += _sort_by_layer(read_rules(_read(Path(path)), str(path)))
        return cls(tuple(rules))

    def knows(self, server: str | None, dialect: str) -> bool:
        """Return whether a server has profiles for a dialect."""
        return server != VENDOR and (server, dialect) in self._known

    def runs_vendor_models(self, server: str | None, dialect: str) -> bool:
        """Return whether a server runs the models of a dialect's vendor."""
        return (server, dialect) in self._hosts

    def resolve(
        self,
        base: BodyCapabilities,
        *,
        server: str | None = None,
        model: str = "",
        version: str | None = None,
        same_dialect: bool = False,
    ) -> BodyCapabilities:
        """Return the capabilities of a dialect, narrowed to a target.

        Args:
            base: Capabilities of the dialect.
            server: Name of the server; None, or a name without profiles, is the vendor.
            model: Name of the model.
            version: Version of the API; None is the default version at the vendor, and no
                version at other servers.
            same_dialect: Whether the request is in the dialect already: rules for translated
                requests do not apply then.

        Raises:
            EncodeError: The version is unknown.
        """
        key = (id(base), server, model, version)
        known = None if same_dialect else self._narrowed.get(key)
        if known is not None and known[0] is base:
            return known[1]
        narrowed = self._narrow(base, server, model, version, same_dialect=same_dialect)
        if not same_dialect and len(model) <= _MAX_MODEL_CHARS:
            if len(self._narrowed) >= _MAX_NARROWED:  # clients choose the names of models
                self._narrowed.clear()
            self._narrowed[key] = (base, narrowed)
        return narrowed

    def _narrow(
        self,
        base: BodyCapabilities,
        server: str | None,
        model: str,
        version: str | None,
        *,
        same_dialect: bool,
    ) -> BodyCapabilities:
        rules = [rule for rule in self._rules if base.dialect in rule.dialects]
        versions = sorted({rule.version for rule in rules if rule.version is not None})
        if version is not None and version not in versions:
            known = ", ".join(versions) or "none"
            raise EncodeError(f"not known, expected one of {known}", path="version")
        of_server = [rule for rule in rules if server in rule.servers]
        is_vendor = not of_server
        asked = VENDOR if is_vendor else server
        # Another server may accept what a model refuses at its vendor.
        has_models = not same_dialect or self.runs_vendor_models(server, base.dialect)
        for rule in rules:
            if rule.servers and asked not in rule.servers:
                continue
            if same_dialect and rule.translated:
                continue
            if rule.models is not None and not (rule.servers or has_models):
                continue
            if rule.version is not None and rule.version != version:
                is_default = version is None and is_vendor and rule.is_default
                if not is_default:
                    continue
            if rule.names_model(model):
                base = rule.apply(base)
        return base


@cache
def shipped_profiles() -> Profiles:
    """Return the profiles that streamnorm ships."""
    return Profiles(tuple(_shipped_rules()))


def _shipped_rules() -> list[Rule]:
    rules: list[Rule] = []
    for file in sorted(files("streamnorm.profiles").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            rules += read_rules(file.read_text(encoding="utf-8"), file.name)
    return _sort_by_layer(rules)


def _sort_by_layer(rules: list[Rule]) -> list[Rule]:
    return sorted(rules, key=lambda rule: rule.layer)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise ProfileError(f"{path}: {exc.strerror or 'cannot be read'}") from exc
    if len(data) > _MAX_FILE_BYTES:
        raise ProfileError(f"{path}: more than {_MAX_FILE_BYTES} bytes, expected at most that")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ProfileError(f"{path}: byte {exc.start} is not UTF-8, expected TOML") from exc
