"""Profiles: rules in TOML that narrow capabilities by version, model and server.

A file is a list of `[[profile]]` tables.  A table states where it applies (`dialect`, `server`,
`model`, `version`) and what it changes: `set`, `add` and `remove` have capabilities by name, and
`unset` lists capabilities that become None.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from fnmatch import translate
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import parse_path
from streamnorm._core.bodies.request import OutputFormat, Request, Role
from streamnorm._core.errors import EncodeError, ProfileError, UnknownDialect
from streamnorm._core.json import is_object
from streamnorm._core.tools import ToolChoice
from streamnorm._registry import lookup

__all__ = ["ProfileError", "Profiles"]

# Clients choose the names of models; no real name is longer.
_MAX_MODEL_CHARS = 256

_MAX_FILE_BYTES = 1024 * 1024
_MAX_NARROWED = 256
_MAX_RESOLVED_CHARS = 512

_Key: TypeAlias = tuple[int, str | None, str, str | None]  # base, server, model, version


def names_model(pattern: re.Pattern[str] | None, model: str) -> bool:
    """Return whether a pattern matches a model's name; None matches all names."""
    return pattern is None or pattern.match(model[:_MAX_MODEL_CHARS].lower()) is not None


def model_pattern(globs: tuple[str, ...], where: str) -> re.Pattern[str] | None:
    """Return a pattern for globs of model names; None without globs.

    A glob matches a whole name, or the part of it after a `/` or a `.`.  A `!` before a glob
    excludes the names that it matches.

    Args:
        globs: The globs.
        where: Position in the file, for errors.

    Raises:
        ProfileError: All globs are exclusions.
    """
    if not globs:
        return None
    wanted = [glob for glob in globs if not glob.startswith("!")]
    if not wanted:
        raise ProfileError(f"{where}.model: nothing but exclusions, expected a name")
    excluded = [glob[1:] for glob in globs if glob.startswith("!")]
    # Gateways put vendors before names: `openai/gpt-5`, `us.anthropic.claude-opus-4-5`.
    start = r"(?:.*[/.])?"
    refusal = f"(?!{start}(?:{_any_of(excluded)}))" if excluded else ""
    return re.compile(f"{refusal}{start}(?:{_any_of(wanted)})")


def _any_of(globs: Iterable[str]) -> str:
    return "|".join(translate(glob.lower()) for glob in globs)


VENDOR = "vendor"
"""Name for the server of the dialect's vendor."""

Names: TypeAlias = str | tuple[str, ...]
Change: TypeAlias = Literal["set", "add", "remove", "unset"]

_FIELDS = {
    field.name: field
    for field in structs.fields(BodyCapabilities)
    if field.name not in ("dialect", "only_refusals")
}
_MODES = get_args(get_type_hints(ToolChoice)["mode"])
# Legal values of the capabilities whose type is a plain `str`.
_WORDS: dict[str, tuple[str, ...]] = {
    "budget_choices": _MODES,
    "choices_of_tool": _MODES,
    "efforts_with_search": _FIELDS["efforts"].default,
    "efforts_with_tools": _FIELDS["efforts"].default,
    # A server that can only switch reasoning on or off may call its effort `default`.
    "efforts": (*_FIELDS["efforts"].default, "default"),
    "exclusive_fields": Request.__struct_fields__,
    "fields": Request.__struct_fields__,
    "off_efforts": _FIELDS["efforts"].default,
    "output_kinds": get_args(get_type_hints(OutputFormat)["kind"]),
    "reasoning_choices": _MODES,
    "reasoning_needs": ("stream", "text"),
    "reasoning_excludes": Request.__struct_fields__,
    "roles": get_args(Role),
}
_PATHS = ("denied_fields", "hashed_texts", "known_fields", "renamed_fields", "replaced_values")
_PATTERNS = (
    "id_pattern",
    "issued_id_pattern",
    "name_pattern",
    "output_name_pattern",
    "personal_users",
    "reasoning_id_pattern",
    "signature_pattern",
)


class Rule(Struct, frozen=True, kw_only=True):
    """One profile: changes of capabilities, and the targets they apply to.

    Attributes:
        dialects: Dialects of the targets.
        servers: Servers of the targets, `vendor` for the dialect's vendor; empty = any.
        models: Pattern of the models of the targets; None = any.
        version: Version of the API; None = any.
        is_default: Whether the rule applies if no version and no known server is named.
        hosts_vendor: Whether the servers run the models of the dialect's vendor, so that the
            vendor's rules for models apply there, too.
        translated: Whether the rule applies only to requests from other dialects: it is about
            fields that a server ignores or names differently, not about refusals.
        changes: New values of capabilities.
        added: Elements to add to sets and tables.
        removed: Elements to remove from sets and tables.
    """

    dialects: frozenset[str]
    servers: frozenset[str]
    models: re.Pattern[str] | None
    version: str | None
    is_default: bool
    hosts_vendor: bool
    translated: bool
    changes: dict[str, Any]
    added: dict[str, Any]
    removed: dict[str, frozenset[str]]

    @property
    def layer(self) -> tuple[bool, bool, bool]:
        """Precedence: versions apply first, then models, then servers; later rules win."""
        return bool(self.servers), self.models is not None, self.version is not None

    def names_model(self, model: str) -> bool:
        """Return whether the rule applies to a model."""
        return names_model(self.models, model)

    def apply(self, target: BodyCapabilities) -> BodyCapabilities:
        """Return capabilities with the rule's changes."""
        changes = dict(self.changes)
        for name, added in self.added.items():
            changes[name] = changes.get(name, getattr(target, name)) | added
        for name, removed in self.removed.items():
            before = changes.get(name, getattr(target, name))
            changes[name] = _remove(before, removed)
        return structs.replace(target, **changes)


def _remove(before: Any, removed: frozenset[str]) -> Any:
    if is_object(before):
        return {name: value for name, value in before.items() if name not in removed}
    return type(before)(value for value in before if value not in removed)


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[profile]]` table of a file."""

    dialect: Names
    server: Names = ()
    model: Names = ()
    version: str | None = None
    default: bool = False
    hosts_vendor: bool = False
    translated: bool = False
    set: dict[str, Any] = {}
    add: dict[str, Any] = {}
    remove: dict[str, Any] = {}
    unset: tuple[str, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    profile: tuple[_Table, ...] = ()


def read_rules(text: str, name: str) -> list[Rule]:
    """Read the profiles in a file.

    Args:
        text: Text of the file.
        name: Name of the file, for errors.

    Raises:
        ProfileError: The text is no TOML, or no file of profiles.
    """
    try:
        tables = msgspec.convert(tomllib.loads(text), _File).profile
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as exc:
        raise ProfileError(f"{name}: {_lower(exc)}") from exc
    return [_rule(table, f"{name}: profile[{number}]") for number, table in enumerate(tables)]


def _rule(table: _Table, where: str) -> Rule:
    if table.default and table.version is None:
        raise ProfileError(f"{where}.default: no version, expected one")
    changes = {
        name: _read("set", name, value, f"{where}.set.{name}") for name, value in table.set.items()
    }
    for name in table.unset:
        _read("unset", name, None, f"{where}.unset: {name}")
        changes[name] = None
    return Rule(
        dialects=frozenset(_dialect(name, where) for name in as_names(table.dialect)),
        servers=frozenset(as_names(table.server)),
        models=model_pattern(as_names(table.model), where),
        version=table.version,
        is_default=table.default,
        hosts_vendor=table.hosts_vendor,
        translated=table.translated,
        changes=changes,
        added={
            name: _read("add", name, value, f"{where}.add.{name}")
            for name, value in table.add.items()
        },
        removed={
            name: _read("remove", name, value, f"{where}.remove.{name}")
            for name, value in table.remove.items()
        },
    )


def as_names(names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else names


def _dialect(name: str, where: str) -> str:
    try:
        return lookup(name).name
    except UnknownDialect as exc:
        raise ProfileError(f"{where}.dialect: {exc}") from exc


# Capabilities


def _read(change: Change, name: str, value: Any, where: str) -> Any:
    """Return one change's value, converted to the capability's type."""
    field = _FIELDS.get(name)
    if field is None:
        raise ProfileError(f"{where}: no such capability, expected one of {', '.join(_FIELDS)}")
    kinds = [kind for kind in _alternatives(field.type) if kind is not NoneType]
    is_optional = len(kinds) < len(_alternatives(field.type))
    if change == "unset":
        if not is_optional:
            raise ProfileError(f"{where}: always has a value, expected one that may have none")
        return None
    kind = _restrict_words(name, kinds[0] if len(kinds) == 1 else field.type)
    if change != "set":
        kind = _elements(change, kind, is_optional, where)
    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"{where}: {_lower(exc)}") from exc
    if change != "remove":
        _check(name, converted, where)
    return converted


def _alternatives(kind: Any) -> tuple[Any, ...]:
    origin = get_origin(kind)
    return get_args(kind) if origin in (Union, UnionType) else (kind,)


def _restrict_words(name: str, kind: Any) -> Any:
    words = _WORDS.get(name)
    if words is None:
        return kind
    word: Any = Literal[words]
    if get_origin(kind) is tuple:
        return GenericAlias(tuple, (word, ...))
    return GenericAlias(frozenset, word)


def _elements(change: Change, kind: Any, is_optional: bool, where: str) -> Any:
    """Return the element type of a capability, for additions and removals."""
    origin = get_origin(kind)
    if is_optional or origin not in (frozenset, dict, tuple):
        raise ProfileError(f"{where}: no set, expected it under set")
    if change == "add":
        if origin is tuple:
            raise ProfileError(f"{where}: has an order, expected it under set")
        return kind
    return GenericAlias(frozenset, get_args(kind)[0])


def _check(name: str, value: Any, where: str) -> None:
    """Check that the regular expressions and field paths in a value are valid."""
    try:
        if name in _PATTERNS:
            re.compile(value)
        elif name == "beta_fields":
            for paths in value.values():
                for path in paths:
                    parse_path(path)
        elif name in _PATHS:
            for path in value:
                last = parse_path(path)[-1]
                if last.field and name != "denied_fields":
                    raise ValueError("a choice of elements, expected the name of a field last")
        if name in ("prefill_fields", "renamed_fields"):
            for path in value if name == "prefill_fields" else value.values():
                if not re.fullmatch(r"[^.\[\]]+(\.[^.\[\]]+)?", path):
                    raise ValueError("no name of a field, expected one with at most one dot")
    except (ValueError, re.error) as exc:
        raise ProfileError(f"{where}: {_lower(exc)}") from exc


def _lower(exc: Exception) -> str:
    text = str(exc)
    return text[:1].lower() + text[1:]


class Profiles:
    """Profiles of models, servers and API versions, which narrow a dialect's capabilities.

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
        """Load the profiles that streamnorm ships, and the profiles in TOML files.

        Later files win over earlier ones, and all files over the shipped profiles.

        Raises:
            ProfileError: A file cannot be read, or holds no valid profiles.
        """
        rules = _shipped_rules()
        for path in paths:
            rules += _sort_by_layer(read_rules(_read_layer(Path(path)), str(path)))
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
        """Return a dialect's capabilities, narrowed to a server, model and API version.

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
        if not same_dialect and len(model) <= _MAX_RESOLVED_CHARS:
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


def _read_layer(path: Path) -> str:
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
