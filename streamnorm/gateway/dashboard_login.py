"""Login to the dashboard: an admin key opens a session.

A key is posted once; the browser then has the random id of a session in a cookie.  The server
stores a digest of the id alone, in memory, or in a directory that all workers share.  The digest is
one with the admin keys: files may outlive the gateway, and a changed key ends all sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path

from streamnorm.gateway.admission import MAX_KEY_BYTES, ClientKeys, resolve_key
from streamnorm.gateway.config import DashboardConfig

SESSION_S = 12 * 60 * 60
"""Seconds after which a session ends."""

# Below it a key could be guessed, though only a few a minute are tried.
_MIN_KEY_CHARS = 16
_ID_BYTES = 32
_MAX_ID_CHARS = 64
_MAX_SESSIONS = 64  # the oldest ends for a new one
_MAX_WRONG_KEYS = 10  # of one address
_FORGET_S = 60.0
_MAX_ADDRESSES = 1000
_IPV6_PREFIX = 64  # whoever has one address of a network has all of it


class WrongKeys:
    """Counts the wrong admin keys from each client address, up to a limit."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def seconds_to_wait(self, address: str) -> float:
        """Return how many seconds an address must wait before it may send a key."""
        count, until = self._counts.get(_network_of(address), (0, 0.0))
        return max(until - time.monotonic(), 0.0) if count >= _MAX_WRONG_KEYS else 0.0

    def add(self, address: str) -> bool:
        """Count a wrong key; return whether the address has now reached the limit."""
        network, now = _network_of(address), time.monotonic()
        count, until = self._counts.pop(network, (0, 0.0))
        if now >= until:
            count, until = 0, now + _FORGET_S
        self._counts[network] = count + 1, until
        while len(self._counts) > _MAX_ADDRESSES:
            self._counts.popitem(last=False)
        return count + 1 == _MAX_WRONG_KEYS


def _network_of(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(ip_network((found, _IPV6_PREFIX), strict=False))
    return str(found)


class Sessions:
    """The sessions of logged-in administrators.

    Args:
        config: Who may see the dashboard.
        environ: The environment that holds the keys.
        directory: A directory that all workers share; None for a server of one process.

    Raises:
        ConfigError: There are no keys, or one is too short.
    """

    def __init__(
        self, config: DashboardConfig, environ: Mapping[str, str], directory: Path | None
    ) -> None:
        where = "dashboard.admin_keys"
        self._keys = ClientKeys.of(config.admin_keys, environ, where, _MIN_KEY_CHARS)
        keys = resolve_key(config.admin_keys, where, environ)
        self._secret = hashlib.sha256(keys.encode("utf-8", "surrogatepass")).digest()
        self._directory = directory
        self._ends: dict[str, float] = {}  # by the digest of the id, the oldest first

    def open(self, key: str) -> str | None:
        """Open a session and return its id; None if the key is wrong."""
        key = key.strip()  # pasted with the space around it, which no key has
        if not 0 < len(key) <= MAX_KEY_BYTES or not self._keys.has(key):
            return None
        id = secrets.token_urlsafe(_ID_BYTES)
        digest, end = self._digest(id), time.time() + SESSION_S
        if self._directory is None:
            self._ends[digest] = end
            while len(self._ends) > _MAX_SESSIONS:
                del self._ends[next(iter(self._ends))]
        else:
            self._store(self._directory, digest, end)
        return id

    def is_open(self, id: str) -> bool:
        """Return whether a session exists and has not expired."""
        return 0 < len(id) <= _MAX_ID_CHARS and time.time() < self._end_of(self._digest(id))

    def close(self, id: str) -> None:
        """End a session."""
        digest = self._digest(id[:_MAX_ID_CHARS])
        self._ends.pop(digest, None)
        if self._directory is not None:
            with suppress(OSError):
                _file_of(self._directory, digest).unlink()

    def _end_of(self, digest: str) -> float:
        if self._directory is None:
            return self._ends.get(digest, 0.0)
        try:
            found = _file_of(self._directory, digest).lstat()
        except OSError:
            return 0.0
        return found.st_mtime if _is_own(found) else 0.0

    def _digest(self, id: str) -> str:
        return hmac.digest(self._secret, id.encode("utf-8", "surrogatepass"), "sha256").hex()

    def _store(self, directory: Path, digest: str, end: float) -> None:
        """Store a session as an empty file whose modification time is the session's end."""
        file = _file_of(directory, digest)
        file.touch(mode=0o600)
        os.utime(file, (end, end))
        ends: list[tuple[float, Path]] = []
        for each in directory.glob(_file_of(directory, "*").name):
            with suppress(OSError):  # another worker has removed it
                found = each.lstat()
                if _is_own(found):
                    ends.append((found.st_mtime, each))
        for _, each in sorted(ends)[:-_MAX_SESSIONS]:
            each.unlink(missing_ok=True)


def _file_of(directory: Path, digest: str) -> Path:
    return directory / f"dashboard_session_{digest}"


def _is_own(found: os.stat_result) -> bool:
    """Return whether this user owns the file of a session."""
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()  # Windows has no user ids
