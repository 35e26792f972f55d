"""Reversible spellings of ids and signatures for dialects with narrower rules.

What a client sends back is restored, and given to the provider as the provider wrote it.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

_ESCAPED = "snid_"
# The digit is the version of the tag: histories outlive releases.
_TAGGED = "sn1."
_TAGGED_WITH_ID = "sn1-id."
_CARRIED = "sn1-of."
_SEALED = "sn1-redacted."
_SEALED_WITH_ID = "sn1-redacted-id."
_BASE64_TAGGED = base64.b64encode(_TAGGED[:3].encode()).decode()  # of all prefixes above
# Anthropic's pattern for ids of calls.  Mistral's, nine letters and digits, has no room for an
# escape.
_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE_BYTE = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPED_BYTE = re.compile(rb"_([0-9a-f]{2})")


@lru_cache(maxsize=64)  # a call and its result have the same id, and are close to each other
def escape_id(id: str) -> str:
    """Return an id in letters, digits, `_` and `-` only.

    Ids without other characters stay as they are, so the ids of most providers never change.
    Kimi's `functions.get_weather:0` must come back verbatim.
    """
    if _SAFE.fullmatch(id) and not id.startswith(_ESCAPED):
        return id
    escaped = _UNSAFE_BYTE.sub(lambda m: b"_%02x" % m[0][0], id.encode("utf-8", "replace"))
    return _ESCAPED + escaped.decode()


def unescape_id(id: str) -> str:
    """Undo `escape_id`; an id that it did not escape stays as it is."""
    if not id.startswith(_ESCAPED):
        return id
    escaped = id[len(_ESCAPED) :].encode("utf-8", "replace")
    plain = _ESCAPED_BYTE.sub(lambda m: bytes([int(m[1], 16)]), escaped).decode("utf-8", "replace")
    # A vendor's id may begin like ours.
    return plain if escape_id(plain) == id else id


def mint_id(*parts: object) -> str:
    """Return an id for a call that came without one; equal parts give equal ids."""
    # Derived, not random: a stream decoded twice, or replayed, has equal ids.
    digest = blake2b("\0".join(map(str, parts)).encode("utf-8", "replace"), digest_size=12)
    return f"call_{digest.hexdigest()}"


class Signed(NamedTuple):
    """A signature, or redacted reasoning, with its issuer.

    Attributes:
        signature: The opaque value.
        issuer: Vendor that can verify or read it; None if unknown.
        id: Id of the item that it is bound to; None if it is bound to none.
    """

    signature: str
    issuer: str | None = None
    id: str | None = None


def tag_signature(signature: str, issuer: str | None, id: str | None = None) -> str:
    """Return a signature with a tag that names its issuer and the item it is bound to."""
    return _write_tag(Signed(signature, issuer, id), _TAGGED, _TAGGED_WITH_ID)


def untag_signature(value: str) -> Signed | None:
    """Undo `tag_signature`; None if the value has no such tag."""
    return _read_tag(value, _TAGGED, _TAGGED_WITH_ID)


class SignatureCarrier(NamedTuple):
    """A signature that an empty reasoning block carries for another block.

    Attributes:
        signature: The signature.
        issuer: Vendor that can verify it; None if unknown.
        id: Id of the tool call that it signs; "" for the text before the carrier.
    """

    signature: str
    issuer: str | None
    id: str = ""


def write_carrier(carried: SignatureCarrier) -> str:
    """Return the signature of a carrier block, with a tag that names the signed block."""
    signature, issuer, id = carried
    return f"{_CARRIED}{_quote(id)}.{_quote(issuer or '')}.{signature}"


def read_carrier(value: str) -> SignatureCarrier | None:
    """Undo `write_carrier`; None if the value has no such tag."""
    if not value.startswith(_CARRIED):
        return None
    id, _, rest = value[len(_CARRIED) :].partition(".")
    issuer, _, signature = rest.partition(".")
    return SignatureCarrier(signature, _unquote(issuer) or None, _unquote(id))


def tag_redacted_reasoning(data: str, issuer: str | None, id: str | None = None) -> str:
    """Return redacted reasoning with a tag that names its issuer and the item it is bound to."""
    return _write_tag(Signed(data, issuer, id), _SEALED, _SEALED_WITH_ID)


def untag_redacted_reasoning(value: str) -> Signed | None:
    """Undo `tag_redacted_reasoning`; None if the value has no such tag."""
    return _read_tag(value, _SEALED, _SEALED_WITH_ID)


def unwrap_base64(value: str) -> str:
    """Return the tagged value in Base64 text; "" if the text has no tag of ours."""
    if not value.startswith(_BASE64_TAGGED):
        return ""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _write_tag(signed: Signed, prefix: str, prefix_with_id: str) -> str:
    signature, issuer, id = signed
    if id:  # a tag of its own: values without an id stay readable by earlier versions
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
