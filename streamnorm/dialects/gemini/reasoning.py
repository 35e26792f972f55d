"""Thought signatures, and redacted reasoning of other vendors that is carried as a signature.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-22).  Clients decode
signatures as Base64 and raise where they cannot.  A foreign signature is therefore written as
the Base64 of a tagged value that names its issuer.  Google's signatures return to its clients
unchanged.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.text import (
    Signed,
    tag_redacted_reasoning,
    tag_signature,
    untag_redacted_reasoning,
    untag_signature,
    unwrap_base64,
)

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")


def signature_from_wire(signature: str) -> Signed:
    """Return a signature and its issuer: the issuer in its tag, else Google."""
    return untag_signature(unwrap_base64(signature)) or Signed(signature, "google")


def signature_to_wire(signed: Signed, *, extras: bool) -> str:
    """Return a signature for the wire: Google's unchanged, any other tagged with its issuer.

    Args:
        signed: The signature.
        extras: Whether the signature came from Google itself and is written even if it is no
            Base64.  Another server may have cut it, and clients that cannot decode it raise.
    """
    signature, issuer, _ = signed
    # Google refuses a signature that differs from its own by one byte.
    if issuer == "google" and (extras or _is_base64(signature)) and not _is_tagged(signature):
        return signature
    return b64encode(tag_signature(*signed).encode("utf-8", "replace")).decode()


def redacted_from_wire(signature: str) -> RedactedReasoning | None:
    """Return the redacted reasoning that `redacted_to_wire` wrote as a signature, else None."""
    untagged = untag_redacted_reasoning(unwrap_base64(signature))
    return None if untagged is None else RedactedReasoning(*untagged)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return redacted reasoning of another vendor as a signature."""
    tagged = tag_redacted_reasoning(block.data, block.issuer, block.id)
    return b64encode(tagged.encode("utf-8", "replace")).decode()


def is_decodable(signature: str) -> bool:
    """Return whether the API can decode a signature: Base64 of either alphabet, padded or not."""
    is_whole = len(signature.rstrip("=")) % 4 != 1
    return is_whole and _BASE64.fullmatch(signature) is not None


def _is_base64(text: str) -> bool:
    """Return whether text is padded Base64."""
    # google-genai refuses unpadded Base64 in either alphabet (3.4.0, read 2026-11-22).
    if len(text) % 4 or _BASE64.fullmatch(text) is None:
        return False
    symbols = b"-_" if "-" in text or "_" in text else b"+/"
    data = b64decode(text, altchars=symbols)
    return b64encode(data, altchars=symbols).decode() == text  # no surplus bits at the end


def _is_tagged(signature: str) -> bool:
    """Return whether a reader would untag the signature, or ignore it because it is empty."""
    value = unwrap_base64(signature)
    is_ours = untag_signature(value) is not None or untag_redacted_reasoning(value) is not None
    return is_ours or not signature
