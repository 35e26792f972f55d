"""The positions of credentials in a request or a response: headers and JSON fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

from streamnorm._core.json import InvalidJSON, decode_any, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm.recording.secrets.authorization import in_authorization, in_value
from streamnorm.recording.secrets.urls import in_url

__all__ = [
    "in_header",
    "in_json",
    "is_secret_field",
    "is_secret_header",
    "json_in",
    "replace_strings",
]

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
# What stands in an object beside a secret, or is a schema of it.
_DESCRIPTIONS = frozenset({"description", "name", "title", "type"})
_SCHEMA_FIELDS = frozenset(
    {"$anchor", "$comment", "$defs", "$id", "$ref", "$schema", "additionalproperties", "allof"}
    | {"anyof", "const", "default", "definitions", "deprecated", "enum", "example", "examples"}
    | {"format", "items", "maximum", "maxitems", "maxlength", "minimum", "minitems", "minlength"}
    | {"nullable", "oneof", "pattern", "properties", "propertyordering", "readonly", "required"}
    | {"uniqueitems", "writeonly"}
)
_SCHEMA_MARKS = frozenset({"$ref", "allof", "anyof", "const", "enum", "oneof", "type"})
_MAX_DEPTH = Limits().max_json_depth

_NameRule: TypeAlias = Callable[[str], bool]


def is_secret_header(name: str) -> bool:
    """Return whether a header with this name holds a secret."""
    name = name.lower()
    return bool(_SECRET_HEADER.search(name)) and not _HARMLESS_HEADER.search(name)


def is_secret_field(name: str) -> bool:
    """Return whether a field of JSON or of a form with this name holds a secret."""
    name = _normalised(name)
    return name in _SECRET_FIELDS or name.endswith(_SECRET_ENDS)


def in_header(name: str, value: str) -> Iterator[str]:
    """Yield the credentials in a header of a request or a response."""
    match name.lower():
        case "authorization" | "proxy-authorization":
            yield from in_authorization(value)
        case "cookie":
            yield from _in_cookies(value.split(";"))
        case "set-cookie":
            yield from _in_cookies(value.split(";")[:1])
        case "location" | "content-location" | "referer":
            yield from in_url(value)
        case "www-authenticate":
            pass
        case other:
            if is_secret := is_secret_header(other):
                yield value
            yield from in_value(value)
            decoded = json_in(value)  # a gateway's configuration, for example
            yield from _in_secret("", decoded) if is_secret else in_json(decoded)


def _in_cookies(cookies: Iterable[str]) -> Iterator[str]:
    for cookie in cookies:
        value = cookie.partition("=")[2].strip().strip('"')
        yield value
        yield unquote(value)
        yield from in_value(unquote(value))


def json_in(text: str) -> Any:
    """Return the JSON object or array that a text is; None if it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return decode_any(text, max_depth=_MAX_DEPTH)
    except InvalidJSON:
        return None


def in_json(value: Any, is_secret: _NameRule = is_secret_field) -> Iterator[str]:
    """Yield the credentials in a decoded JSON value, from fields with secret names."""
    if is_array(value):
        for item in value:
            yield from in_json(item, is_secret)
    elif is_object(value):
        for name, item in value.items():
            if is_secret(name):
                yield from _in_secret(name, item)
            elif is_secret is is_secret_header and isinstance(item, str):
                yield from in_header(name, item)
            else:
                yield from in_json(item, _rule_below(name))


def _in_secret(name: str, value: Any) -> Iterator[str]:
    """Yield the credentials in the value of a secret field."""
    if is_array(value):
        for item in value:
            yield from _in_secret(name, item)
    elif is_object(value):
        public = _public_fields(value)
        for inner, item in value.items():
            yield from in_json(item) if inner in public else _in_secret(inner, item)
    elif (text := _text_of(value)) is None:
        pass
    elif name.lower() in _LISTS:
        yield from in_header(name, text)
    else:
        yield text
        yield from in_value(text)


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
    """Return the value of a secret field with its strings replaced."""
    if is_array(value):
        return [_hidden(item, replace, hide) for item in value]
    if is_object(value):
        public = _public_fields(value)
        hidden: dict[str, Any] = {}
        for name, item in value.items():
            is_public = name in public
            hidden[replace(name)] = (
                replace_strings(item, replace, hide) if is_public else _hidden(item, replace, hide)
            )
        return hidden
    text = _text_of(value)
    return value if text is None else hide(text)


def _public_fields(value: dict[str, Any]) -> set[str]:
    """Return the fields of an object in a secret field that are not secret themselves."""
    names = {name: _normalised(name) for name in value}
    is_schema = not _SCHEMA_MARKS.isdisjoint(names.values())
    public = _DESCRIPTIONS | _SCHEMA_FIELDS if is_schema else _DESCRIPTIONS
    return {name for name, normalised in names.items() if normalised in public}


def _normalised(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


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
