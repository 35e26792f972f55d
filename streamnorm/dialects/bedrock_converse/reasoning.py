"""Signatures of reasoning and redacted reasoning, in both directions.

`redactedContent` is a blob, so its Base64 is the wire's; the bytes in it are the vendor's own
opaque text, such as `data` of Anthropic's `redacted_thinking`.
"""

from __future__ import annotations

import base64
import binascii

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean
from streamnorm._core.text import Signed, tag_signature, untag_signature

# Claude's signatures pass from one platform to another (Anthropic's guide to extended thinking).
_ISSUER = "anthropic"
# A blob that is no text stays Base64 behind this mark.
_BLOB = "sn1-blob."


def signature_from_wire(value: str) -> Signed:
    """Return a signature and its issuer: the issuer in its tag, or Anthropic."""
    return untag_signature(value) or Signed(value, _ISSUER)


def signature_to_wire(signed: Signed) -> str:
    """Return a signature for the wire, tagged with its issuer unless Claude's vendor issued it."""
    return signed.signature if signed.issuer == _ISSUER else tag_signature(*signed)


def blob_from_wire(value: str) -> bytes:
    """Return the bytes of a blob.

    Raises:
        Fatal: The value is no Base64.
    """
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise malformed(f"a blob of {len(value)} characters, expected Base64") from exc


def redacted_from_wire(blob: bytes) -> RedactedReasoning:
    """Return the redacted reasoning in the bytes of `redactedContent`."""
    data = blob.decode("ascii", "replace")
    if not blob.isascii() or data.startswith(_BLOB):
        return RedactedReasoning(_BLOB + base64.b64encode(blob).decode(), _ISSUER)
    return RedactedReasoning(*signature_from_wire(clean(data)))


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return `redactedContent`."""
    data = signature_to_wire(Signed(block.data, block.issuer, block.id))
    if data.startswith(_BLOB):
        return data[len(_BLOB) :]
    return base64.b64encode(data.encode("utf-8", "replace")).decode()
