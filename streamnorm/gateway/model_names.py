"""The names of models: those that an entry of the configuration matches, and their aliases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import NamedTuple

from streamnorm.gateway.config import ConfigError, ModelConfig

__all__ = ["FoundModel", "ModelNames", "is_one_name"]

_WILDCARDS = frozenset("*?")
# One `*` at most, and something beside it.
_ALIAS = re.compile(r"(?!\*$)[^*?]*\*?[^*?]*")


class FoundModel(NamedTuple):
    """A model that a client has named.

    Attributes:
        entry: Number of its entry.
        name: Its own name.
    """

    entry: int
    name: str


class ModelNames:
    """The names that the entries of a configuration stand for.

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
        """Return the model that a client has named; None if no entry has it.

        The first entry that has it counts; its alias is tried before its `match`.
        """
        for at, (entry, pattern) in enumerate(self._entries):
            own = _own_name(name, entry)
            if own and pattern.match(own):
                return FoundModel(at, own)
            if pattern.match(name):
                return FoundModel(at, name)
        return None

    def names_of(self, entry: int, name: str) -> list[str]:
        """Return the names under which a client finds a model: its own and its alias.

        There are none if its own name is one of an earlier entry.

        Args:
            entry: Number of its entry.
            name: Its own name.
        """
        model, found = FoundModel(entry, name), self.find(name)
        if found is None or found.entry != entry:
            return []
        alias = self._entries[entry][0].alias
        names = (name,) if alias is None else (name, alias.replace("*", name))
        return [each for each in names if self.find(each) == model]


def is_one_name(match: str) -> bool:
    """Return whether a `match` is the name of one model."""
    return _WILDCARDS.isdisjoint(match)


def _own_name(name: str, entry: ModelConfig) -> str:
    """Return the name of a model whose alias is `name`; "" if it is none of the entry's."""
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
