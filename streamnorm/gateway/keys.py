"""Keys: those of upstreams, from the environment, and those that clients must have."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

from streamnorm.gateway.config import ConfigError

__all__ = ["MAX_KEY_BYTES", "ClientKeys", "checked_key", "key_at"]

MAX_KEY_BYTES = 512
"""Bound on one key."""

_BEARER = "bearer "
# A name of this form is shown in errors.  What stands in its place may be a key.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
# What a header may hold.
_KEY = re.compile(rf"[!-~]{{1,{MAX_KEY_BYTES}}}", re.ASCII)


def key_at(place: str, where: str, environ: Mapping[str, str]) -> str:
    """Return what the environment holds for `env:NAME`.

    Args:
        place: The value of a configuration's key.
        where: That key.
        environ: The environment.

    Raises:
        ConfigError: It is no such place, or the variable is not set or empty.
    """
    kind, _, variable = place.partition(":")
    if kind != "env" or not _VARIABLE.fullmatch(variable):
        raise ConfigError(f"{where}: no place of a key, expected env: and the name of a variable")
    value = environ.get(variable, "")
    if not value:
        state = "empty" if variable in environ else "not set"
        raise ConfigError(f"{where}: {variable} is {state} in the environment, expected a key")
    return value


def checked_key(key: str, where: str) -> str:
    """Return a key that a header can hold.

    Raises:
        ConfigError: No header can hold it, or it is too long.
    """
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"{where}: a key of {len(key)} characters, expected 1 to {MAX_KEY_BYTES} "
            "characters of ASCII without spaces"
        )
    return key


class ClientKeys:
    """The keys that clients must have one of.

    Args:
        keys: The keys.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        # Digests have one length, so a comparison shows nothing of a key, not even its length.
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def of(cls, place: str, environ: Mapping[str, str]) -> ClientKeys:
        """Return the keys at `env:NAME`, separated by commas.

        Raises:
            ConfigError: There are none, or one is no key.
        """
        where = "client_keys"
        listed = key_at(place, where, environ).split(",")
        return cls([checked_key(key.strip(), where) for key in listed])

    def accept(self, headers: Mapping[str, str], names: Iterable[str]) -> bool:
        """Return whether one of the named headers holds a key of the list.

        Args:
            headers: Headers of a request by lower-case name, decoded as Latin-1.
            names: Names of the headers that may hold a key.
        """
        is_known = False
        for name in names:
            key = _bare(name, headers.get(name, ""))
            if 0 < len(key) <= MAX_KEY_BYTES:
                is_known |= self._has(key)
        return is_known

    def _has(self, key: str) -> bool:
        digest, is_known = _digest(key), False
        for known in self._digests:  # all of them, whichever it is
            is_known |= hmac.compare_digest(digest, known)
        return is_known


def _bare(name: str, value: str) -> str:
    """Return the key in the value of a header."""
    value = value.strip()
    if name != "authorization":
        return value
    return value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
