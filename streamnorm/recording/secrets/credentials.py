"""The positions of credentials in a request or a response: headers, URL, form and JSON fields."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, unquote_plus

from streamnorm._core.json import is_array, is_object

__all__ = [
    "in_form",
    "in_header",
    "in_json",
    "in_url",
    "is_secret_field",
    "is_secret_header",
    "public_url",
    "replace_strings",
]

# Matches every text: RFC 3986, appendix B.
_URL = re.compile(r"([^:/?#]+:)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_PUBLIC_QUERY = frozenset({"alt", "api-version", "beta", "limit", "starting_after", "stream"})
# Neither recorded nor secret: their values may occur in bodies, which must stay intact.
_HARMLESS_QUERY = frozenset(
    {"after", "before", "include", "include[]", "model", "order", "purpose"}
)

_SECRET_HEADER = re.compile(
    "auth|cookie|credential|key|organization|passw|project|secret|session|token"
)
# `x-ratelimit-limit-tokens: 150000` is a number that occurs in many bodies.
_HARMLESS_HEADER = re.compile("rate-?limit|www-authenticate|access-control-|max-tokens")

# Without hyphens and underscores.
_SECRET_FIELDS = frozenset(
    {"accesskeyid", "authorization", "cookie", "credentials", "passphrase", "passwd"}
    | {"proxyauthorization", "pwd"}
)
_SECRET_ENDS = (
    *("accesskey", "apikey", "privatekey", "secretkey", "password", "secret"),
    *("accesstoken", "authorizationtoken", "authtoken", "bearertoken", "idtoken"),
    *("refreshtoken", "securitytoken", "sessiontoken"),
)
# Fields and headers whose values contain more than the secret.
_LISTS = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
_LEAST = 6

_NameRule: TypeAlias = Callable[[str], bool]


def is_secret_header(name: str) -> bool:
    """Return whether a header with this name holds a secret."""
    name = name.lower()
    return bool(_SECRET_HEADER.search(name)) and not _HARMLESS_HEADER.search(name)


def is_secret_field(name: str) -> bool:
    """Return whether a field of JSON or of a form with this name holds a secret."""
    name = name.lower().replace("_", "").replace("-", "")
    return name in _SECRET_FIELDS or name.endswith(_SECRET_ENDS)


def in_header(name: str, value: str) -> Iterator[str]:
    """Yield the credentials in a header of a request or a response."""
    match name.lower():
        case "authorization" | "proxy-authorization":
            yield from _in_authorization(value)
        case "cookie":
            yield from _in_cookies(value.split(";"))
        case "set-cookie":
            yield from _in_cookies(value.split(";")[:1])
        case "location" | "content-location" | "referer":
            yield from in_url(value)
        case other if is_secret_header(other):
            yield value
        case _:
            pass


def _in_authorization(value: str) -> Iterator[str]:
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    # Text that contains the value contains `rest`, too, unless that is too short to search for.
    yield rest if len(rest) >= _LEAST else value
    if scheme.lower() != "basic":
        return
    try:
        pair = b64decode(rest).decode()
    except (binascii.Error, ValueError):
        return
    yield pair
    yield from pair.partition(":")[::2]


def _in_cookies(cookies: Iterable[str]) -> Iterator[str]:
    for cookie in cookies:
        value = cookie.partition("=")[2].strip().strip('"')
        yield value
        yield unquote(value)


def in_url(url: str) -> Iterator[str]:
    """Yield the credentials in a URL: userinfo, and non-public parameters of the query."""
    _, authority, _, query, fragment = _parts(url)
    userinfo = authority.rpartition("@")[0]
    for value in (userinfo, *userinfo.partition(":")[::2]):
        yield value
        yield unquote(value)
    for name, value in _pairs(f"{query}&{fragment}"):
        if unquote_plus(name).lower() not in _PUBLIC_QUERY | _HARMLESS_QUERY:
            yield value
            yield unquote(value)
            yield unquote_plus(value)


def public_url(url: str) -> str:
    """Return a URL without userinfo, fragment and non-public parameters of the query."""
    scheme, authority, path, query, _ = _parts(url)
    host = authority.rpartition("@")[2]
    kept = "&".join(
        f"{name}={value}" if value else name
        for name, value in _pairs(query)
        if name.lower() in _PUBLIC_QUERY
    )
    return f"{scheme}{'//' if host else ''}{host}{path}{'?' if kept else ''}{kept}"


def _parts(url: str) -> tuple[str, str, str, str, str]:
    match = _URL.fullmatch(url)
    assert match is not None  # noqa: S101 - it matches every text
    scheme, authority, path, query, fragment = match.groups(default="")
    return scheme, authority, path, query, fragment


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        name, separator, value = pair.partition("=")
        if separator:
            yield name, value
        elif name:
            # A flag such as `?stream`, or a value without a name.
            yield (name, "") if name.lower() in _PUBLIC_QUERY else ("", name)


def in_form(text: str) -> Iterator[str]:
    """Yield the credentials in a form, for example in a token request."""
    for name, value in parse_qsl(text):
        if is_secret_field(name):
            yield value


def in_json(value: Any, is_secret: _NameRule = is_secret_field) -> Iterator[str]:
    """Yield the credentials in a decoded JSON value, from fields with secret names."""
    if is_array(value):
        for item in value:
            yield from in_json(item, is_secret)
    elif is_object(value):
        for name, item in value.items():
            if not is_secret(name):
                yield from in_json(item, _rule_below(name))
                continue
            for leaf in item if is_array(item) else [item]:
                text = _text_of(leaf)
                if text is None:
                    yield from in_json(leaf)
                elif name.lower() in _LISTS:
                    yield from in_header(name, text)
                else:
                    yield text


def replace_strings(
    value: Any,
    replace: Callable[[str], str],
    hide: Callable[[str], str],
    is_secret: _NameRule = is_secret_field,
) -> Any:
    """Return a decoded JSON value with its strings replaced.

    Args:
        value: The value.
        replace: Returns the replacement of a string or a name; called in document order.
        hide: Returns the replacement of the value of a secret field.
        is_secret: Whether a field with this name is secret.
    """
    if isinstance(value, str):
        return replace(value)
    if is_array(value):
        return [replace_strings(item, replace, hide, is_secret) for item in value]
    if not is_object(value):
        return value
    replaced: dict[str, Any] = {}
    for name, item in value.items():
        new_name = replace(name)
        if is_secret(name):
            replaced[new_name] = _hidden(item, replace, hide)
        else:
            replaced[new_name] = replace_strings(item, replace, hide, _rule_below(name))
    return replaced


def _hidden(value: Any, replace: Callable[[str], str], hide: Callable[[str], str]) -> Any:
    if is_array(value):
        return [_hidden(item, replace, hide) for item in value]
    text = _text_of(value)
    # The schema of a secret field is no secret, and neither is null.
    return replace_strings(value, replace, hide) if text is None else hide(text)


def _text_of(value: Any) -> str | None:
    """Return a string, or the text of a number; None for any other value."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else None


def _rule_below(name: str) -> _NameRule:
    """Return the rule for secret names inside the object of a field."""
    # For example the headers that a provider shall send to an MCP server.
    return is_secret_header if name.lower().endswith("headers") else is_secret_field
