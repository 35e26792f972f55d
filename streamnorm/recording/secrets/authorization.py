"""The credentials in the value of `Authorization`, without their scheme.

RFC 9110 (section 11.4), RFC 7616 (Digest), RFC 7617 (Basic), and AWS Signature Version 4.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator

__all__ = ["in_authorization", "in_value"]

# A name starts where none precedes, so that each text is read once.
_PARAMETER = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]++)\s*+=\s*+"
    r'(?:"((?:[^"\\]|\\.)*+)"|([^\s,;"=][^\s,;"]*+))',
    re.DOTALL,
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
_PUBLIC_PARAMETERS = frozenset(
    {"algorithm", "charset", "created", "domain", "error", "expires", "headers", "nc", "qop"}
    | {"oauth_signature_method", "oauth_timestamp", "realm", "scope", "signedheaders", "stale"}
    | {"ts", "uri", "userhash", "version"}
)
_TOKEN_SCHEMES = frozenset({"apikey", "api-key", "bearer", "dpop", "jwt", "key", "token"})
# A shorter text is searched for together with its scheme.
_LEAST = 6


def in_authorization(value: str) -> Iterator[str]:
    """Yield the credentials in the value of `Authorization`, whatever its scheme."""
    scheme, rest = _split(value)
    # Text that contains the value contains `rest`, too, unless that is too short to search for.
    yield rest if len(rest) >= _LEAST else value
    yield from _parts(scheme, rest)


def in_value(value: str) -> Iterator[str]:
    """Yield the credentials in the value of any header or field, behind a known scheme."""
    scheme, rest = _split(value)
    if scheme in _TOKEN_SCHEMES and len(rest.split()) == 1:
        yield rest
    elif scheme in ("basic", "digest") or scheme.startswith("aws4-"):
        yield from _parts(scheme, rest)


def _split(value: str) -> tuple[str, str]:
    """Return the scheme in lower case, and what follows it: empty if there is none."""
    scheme, _, rest = value.strip().replace("\t", " ").partition(" ")
    return scheme.lower(), rest.strip()


def _parts(scheme: str, rest: str) -> Iterator[str]:
    if scheme == "basic":
        yield from _in_basic(rest)
        return
    for match in _PARAMETER.finditer(rest):
        name, quoted, plain = match.groups()
        if name.lower() in _PUBLIC_PARAMETERS:
            continue
        value = plain or _QUOTED_PAIR.sub(r"\1", quoted or "")
        yield value
        if name.lower() == "credential":
            # The key of SigV4, and behind it date, region and service.
            yield value.partition("/")[0]


def _in_basic(encoded: str) -> Iterator[str]:
    try:
        octets = b64decode(encoded + "==", validate=False)
    except (binascii.Error, ValueError):
        return
    try:
        pair = octets.decode()
    except UnicodeDecodeError:
        pair = octets.decode("latin-1")
    user, colon, password = pair.partition(":")
    # Some word that is no base64 decodes to something, too.
    if colon and pair.isprintable():
        yield encoded
        yield pair
        yield user
        yield password
