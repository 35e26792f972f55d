"""Text that a client stores for its server, authenticated by a key of the server.

A seal is `sn1.compaction.KEY.TAG.TEXT`: the id of the key, the HMAC-SHA256 of all the rest, and
the text, the last two in URL-safe base64 without padding.  A seal proves where the text comes
from and that it is unchanged; it does not hide the text, which is made of what the client sent.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

__all__ = ["MAX_SEALED_BYTES", "Sealer", "has_seal"]

# More than any model writes in one answer: 128,000 tokens of 8 bytes.
MAX_SEALED_BYTES = 1024 * 1024
"""Bound on the text of a seal, in UTF-8 bytes."""

_PREFIX = "sn1.compaction."
_KEY_BYTES = 32
_ID_BYTES = 6
_MAX_SEAL_CHARS = MAX_SEALED_BYTES * 4 // 3 + 128


class Sealer:
    """Seals texts, and opens the seals of all servers that have one of its keys.

    Args:
        keys: The keys.  The first one seals, all of them open: a new key is put first, and the
            old one removed once no client stores a seal of it.  None is a random key, which no
            other process has.
    """

    def __init__(self, keys: Sequence[bytes] | None = None) -> None:
        keys = keys or [secrets.token_bytes(_KEY_BYTES)]
        self._keys = {_id_of(key): key for key in reversed(keys)}
        self._first = _id_of(keys[0])

    def seal(self, text: str) -> str:
        """Return a text with a seal.

        Raises:
            ValueError: It has more than `MAX_SEALED_BYTES`.
        """
        data = text.encode("utf-8", "replace")  # a model may end in half a surrogate pair
        if len(data) > MAX_SEALED_BYTES:
            raise ValueError(f"{len(data)} bytes of text, expected at most {MAX_SEALED_BYTES}")
        payload = _base64(data)
        tag = _tag(self._keys[self._first], self._first, payload)
        return f"{_PREFIX}{self._first}.{tag}.{payload}"

    def open(self, seal: str) -> str | None:
        """Return the text of a seal; None if none of the keys made it, or it was changed."""
        if not has_seal(seal) or len(seal) > _MAX_SEAL_CHARS or not seal.isascii():
            return None
        id, _, rest = seal.removeprefix(_PREFIX).partition(".")
        tag, _, payload = rest.partition(".")
        key = self._keys.get(id)
        # Nothing is decoded before the tag is verified.
        if key is None or not hmac.compare_digest(tag, _tag(key, id, payload)):
            return None
        return urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode()


def has_seal(text: str) -> bool:
    """Return whether a text looks like a seal, whoever made it."""
    return text.startswith(_PREFIX)


def _id_of(key: bytes) -> str:
    """Return the id of a key, which shows nothing of it."""
    return hmac.digest(key, b"streamnorm key id", "sha256")[:_ID_BYTES].hex()


def _tag(key: bytes, id: str, payload: str) -> str:
    return _base64(hmac.digest(key, f"{_PREFIX}{id}.{payload}".encode(), "sha256"))


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
