"""Ids and signatures that must survive a dialect with narrower rules.

Both are reversible, so that what a client sends back can be given to the provider
as the provider wrote it.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

_ESCAPED = "snid_"
_TAGGED = "sn1."
_TAGGED_WITH_ID = "sn1-id."
_CARRIED = "sn1-of."
_SEALED = "sn1-redacted."
_SEALED_WITH_ID = "sn1-redacted-id."
_BASE64_TAGGED = base64.b64encode(_TAGGED[:3].encode()).decode()  # of all prefixes above
_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE_BYTE = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPED_BYTE = re.compile(rb"_([0-9a-f]{2})")


@lru_cache(maxsize=64)  # a call and its result stand near each other
def escape_id(id: str) -> str:
    """Return an id of letters, digits, `_` and `-` only.

    Ids that have no other characters stay as they are, so that those of most
    providers never change.  Kimi's `functions.get_weather:0` must come back verbatim.
    """
    if _SAFE.fullmatch(id) and not id.startswith(_ESCAPED):
        return id
    escaped = _UNSAFE_BYTE.sub(lambda m: b"_%02x" % m[0][0], id.encode("utf-8", "replace"))
    return _ESCAPED + escaped.decode()


def unescape_id(id: str) -> str:
    """Return the id that `escape_id` was given; any other stays as it is."""
    if not id.startswith(_ESCAPED):
        return id
    escaped = id[len(_ESCAPED) :].encode("utf-8", "replace")
    plain = _ESCAPED_BYTE.sub(lambda m: bytes([int(m[1], 16)]), escaped).decode("utf-8", "replace")
    return plain if escape_id(plain) == id else id


def mint_id(*parts: object) -> str:
    """Return a tool id for a call that came without one, the same for the same parts."""
    digest = blake2b("\0".join(map(str, parts)).encode("utf-8", "replace"), digest_size=12)
    return f"call_{digest.hexdigest()}"


class Signed(NamedTuple):
    """A signature, or reasoning that only its issuer can read.

    Attributes:
        signature: The signature.
        issuer: Who can verify it.
        id: Id of the item that it is bound to; None if it is bound to none.
    """

    signature: str
    issuer: str | None = None
    id: str | None = None


def tag_signature(signature: str, issuer: str | None, id: str | None = None) -> str:
    """Return a signature as an opaque value that names who can verify it, and under which id."""
    return _write_tag(Signed(signature, issuer, id), _TAGGED, _TAGGED_WITH_ID)


def untag_signature(value: str) -> Signed | None:
    """Return the signature and its issuer, or None if the value was not tagged by us."""
    return _read_tag(value, _TAGGED, _TAGGED_WITH_ID)


class SignatureCarrier(NamedTuple):
    """A signature on a block of its own.

    Attributes:
        signature: The signature.
        issuer: Who can verify it.
        id: Id of the tool call that it signs; empty for the text before it.
    """

    signature: str
    issuer: str | None
    id: str = ""


def write_carrier(carried: SignatureCarrier) -> str:
    """Return a signature as an opaque value that names what it signs."""
    signature, issuer, id = carried
    return f"{_CARRIED}{_quote(id)}.{_quote(issuer or '')}.{signature}"


def read_carrier(value: str) -> SignatureCarrier | None:
    """Return what `write_carrier` was given, or None if the value is none of ours."""
    if not value.startswith(_CARRIED):
        return None
    id, _, rest = value[len(_CARRIED) :].partition(".")
    issuer, _, signature = rest.partition(".")
    return SignatureCarrier(signature, _unquote(issuer) or None, _unquote(id))


def tag_redacted_reasoning(data: str, issuer: str | None, id: str | None = None) -> str:
    """Return reasoning that only its issuer can read as an opaque value that says so."""
    return _write_tag(Signed(data, issuer, id), _SEALED, _SEALED_WITH_ID)


def untag_redacted_reasoning(value: str) -> Signed | None:
    """Return what `tag_redacted_reasoning` was given, or None if the value is none of ours."""
    return _read_tag(value, _SEALED, _SEALED_WITH_ID)


def unwrap_base64(value: str) -> str:
    """Return the tagged or sealed value that Base64 text holds; empty if we did not write it."""
    if not value.startswith(_BASE64_TAGGED):
        return ""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _write_tag(signed: Signed, prefix: str, prefix_with_id: str) -> str:
    signature, issuer, id = signed
    if id:  # in a form of its own: without an id the value is that of earlier versions
        return f"{prefix_with_id}{_quote(issuer or '')}.{_quote(id)}.{signature}"
    return f"{prefix}{_quote(issuer or '')}.{signature}"


def _read_tag(value: str, prefix: str, prefix_with_id: str) -> Signed | None:
    if value.startswith(prefix):
        issuer, _, signature = value[len(prefix) :].partition(".")
        return Signed(signature, _unquote(issuer) or None)
    if not value.startswith(prefix_with_id):
        return None
    issuer, _, rest = value[len(prefix_with_id) :].partition(".")
    id, _, signature = rest.partition(".")
    return Signed(signature, _unquote(issuer) or None, _unquote(id) or None)


def _quote(name: str) -> str:
    return name.replace("%", "%25").replace(".", "%2e")


def _unquote(name: str) -> str:
    return name.replace("%2e", ".").replace("%25", "%")
