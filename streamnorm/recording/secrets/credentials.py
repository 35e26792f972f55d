"""Search for credentials by position, in headers, JSON and URLs."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, TypeAlias
from urllib.parse import unquote, unquote_plus

from streamnorm._core.json import InvalidJSON, decode_any, is_array, is_object
from streamnorm._core.limits import Limits

# `author` and `authority` are whole words: `x-authorkey` holds a key.
_SECRET_HEADER = re.compile(
    "auth(?!or(?:s|ed|ship|ity)?(?![a-z]))"
    "|cookie|credential|key|organization|passw|project|secret|session|token"
)
# `x-ratelimit-limit-tokens: 150000` is a number that occurs in many bodies.
# The pseudo headers of HTTP/2, which tools list with the others, are the request line.
_HARMLESS_HEADER = re.compile("^:|rate-?limit|www-authenticate|access-control-|max-tokens")

# Without hyphens and underscores.
_SECRET_FIELDS = frozenset(
    {"accesskeyid", "authorization", "cookie", "credentials", "passphrase", "passwd"}
    # The last are secrets for a container of OpenAI's, with the domain that may get each.
    | {"proxyauthorization", "pwd", "domainsecrets"}
)
_SECRET_ENDS = (
    *("accesskey", "apikey", "privatekey", "secretkey", "password", "secret"),
    *("accesstoken", "authorizationtoken", "authtoken", "bearertoken", "idtoken"),
    *("refreshtoken", "securitytoken", "sessiontoken", "tunneltoken"),
    # Of tools of Google, of data sources of Azure OpenAI, and of vaults of Anthropic and OpenAI.
    *("apikeystring", "connectionstring", "secretvalue"),
)
# Fields whose names are ordinary elsewhere: `token` stands in log probabilities, `key` in filters.
_SECRET_FIELDS_OF_TYPE = {
    # `authentication` of a data source of Azure OpenAI.
    "api_key": frozenset({"key"}),
    "key_and_key_id": frozenset({"key", "key_id"}),
    # A credential in a vault of Anthropic or OpenAI.
    "static_bearer": frozenset({"token"}),
}
# Fields and headers whose values contain more than the secret.
_LISTS = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
# Fields of an object in a secret field that describe the secret.
_DESCRIPTIONS = frozenset({"description", "domain", "name", "title", "type"})
_SCHEMA_FIELDS = frozenset(
    {"$anchor", "$comment", "$defs", "$id", "$ref", "$schema", "additionalproperties", "allof"}
    | {"anyof", "const", "default", "definitions", "deprecated", "enum", "example", "examples"}
    | {"format", "items", "maximum", "maxitems", "maxlength", "minimum", "minitems", "minlength"}
    | {"nullable", "oneof", "pattern", "properties", "propertyordering", "readonly", "required"}
    | {"uniqueitems", "writeonly"}
)
_SCHEMA_MARKS = frozenset({"$ref", "allof", "anyof", "const", "enum", "oneof", "type"})
_MAX_DEPTH = Limits().max_json_depth

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

# Matches every text: RFC 3986, appendix B.
_URL = re.compile(r"([^:/?#]+:)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_PUBLIC_QUERY = frozenset({"alt", "api-version", "beta", "limit", "starting_after", "stream"})
# Recorded, and no secrets: their values may occur in bodies, which must stay intact.
HARMLESS_QUERY = frozenset(
    {"after", "after_id", "before", "before_id", "include", "include[]", "model", "order"}
    | {"purpose", "upload_protocol"}
)
"""Names of parameters that recordings made before 0.2 do not have."""
_KEPT_QUERY = _PUBLIC_QUERY | HARMLESS_QUERY

# Of a tool of MCP, say, whose servers take keys in their URL.
_LINK = re.compile("(?:https?|wss?)://", re.IGNORECASE)
_LINKS = ("url", "uri")

_TOKEN_NAMES = frozenset({"apikey", "auth", "hook", "key", "secret", "token", "webhook"})
_MIN_NAMED_TOKEN_CHARS = 8
_SEPARATORS = re.compile("[;:,]")
# Letters and digits as no name has them: a UUID and a hyphenated name have shorter runs.
_RANDOM = re.compile("(?=[A-Za-z]{0,15}[0-9])(?=[0-9]{0,15}[A-Za-z])[A-Za-z0-9]{16}")
# In base64 for URLs hyphens and underscores may stand anywhere.
_BASE64 = re.compile("[A-Za-z0-9_-]{32,}")
_RANDOM_IN_BASE64 = (
    *(re.compile("[A-Z]"), re.compile("[a-z]")),
    re.compile("(?=[A-Za-z]{0,7}[0-9])[A-Za-z0-9]{8}"),
)


class Position(Enum):
    """A string's position in decoded JSON, which decides whether it is a credential.

    NAME: the name of a field.
    TEXT: a value that is searched only for known secrets and their typical shapes.
    HEADERS: an object of HTTP headers, for example the headers for an MCP server.
    HEADER: the value of a header in an object of headers.
    SECRET: a value in a field whose name says that it is secret.
    """

    NAME = auto()
    TEXT = auto()
    HEADERS = auto()
    HEADER = auto()
    SECRET = auto()


Visitor: TypeAlias = Callable[[Position, str, str], str]
"""Returns the replacement of a string, given its position, the name of its field and its text."""


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name holds a secret."""
    name = name.lower()
    return bool(_SECRET_HEADER.search(name)) and not _HARMLESS_HEADER.search(name)


def is_secret_field(name: str) -> bool:
    """Return whether a JSON or form field of this name holds a secret."""
    name = _normalise(name)
    return name in _SECRET_FIELDS or name.endswith(_SECRET_ENDS)


def is_secret_field_of(owner: dict[str, Any], name: str) -> bool:
    """Return whether a field of a JSON object holds a secret, by its name and the object's type."""
    kind = owner.get("type")
    fields = _SECRET_FIELDS_OF_TYPE.get(kind) if isinstance(kind, str) else None
    return is_secret_field(name) or (fields is not None and name in fields)


def visit_strings(
    value: Any, visit: Visitor, position: Position = Position.TEXT, name: str = ""
) -> Any:
    """Return decoded JSON with each string and field name replaced by the result of `visit`.

    Args:
        value: The value.
        visit: Called with each string in document order, and with the text of each number in
            a secret field.
        position: Position of the value.
        name: Name of the field that holds the value.
    """
    if is_array(value):
        return [visit_strings(item, visit, position, name) for item in value]
    if not is_object(value):
        text = _text_of(value) if position is Position.SECRET else value
        return visit(position, name, text) if isinstance(text, str) else value
    public = _find_public_fields(value) if position is Position.SECRET else frozenset[str]()
    visited: dict[str, Any] = {}
    for field, item in value.items():
        if position is Position.SECRET:
            below = Position.TEXT if field in public else Position.SECRET
        else:
            below = _find_position(position, value, field, item)
        new_name = visit(Position.NAME, "", field)
        visited[new_name] = visit_strings(item, visit, below, field)
    return visited


def _find_position(position: Position, owner: dict[str, Any], name: str, value: Any) -> Position:
    """Return the position of a field's value, in an object that is not inside a secret field."""
    in_headers = position is Position.HEADERS
    if is_secret_header(name) if in_headers else is_secret_field_of(owner, name):
        return Position.SECRET
    if in_headers and isinstance(value, str):
        return Position.HEADER
    return Position.HEADERS if name.lower().endswith("headers") else Position.TEXT


def _find_public_fields(value: dict[str, Any]) -> frozenset[str]:
    """Return the names of the public fields in an object that a secret field holds."""
    names = {name: _normalise(name) for name in value}
    is_schema = not _SCHEMA_MARKS.isdisjoint(names.values())
    public = _DESCRIPTIONS | _SCHEMA_FIELDS if is_schema else _DESCRIPTIONS
    return frozenset(name for name, normalised in names.items() if normalised in public)


def _normalise(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _text_of(value: Any) -> str | None:
    """Return a string, or a number's text; None for other values."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else None


def find_in_json(value: Any, position: Position = Position.TEXT) -> list[str]:
    """Return the credentials in decoded JSON, by field names."""
    found: list[str] = []

    def visit(position: Position, name: str, text: str) -> str:
        found.extend(find_in_string(position, name, text))
        return text

    visit_strings(value, visit, position)
    return found


def find_in_string(position: Position, name: str, text: str) -> Iterator[str]:
    """Yield the credentials in a string of decoded JSON.

    Args:
        position: Position of the string.
        name: Name of its field.
        text: The string.
    """
    if position is Position.TEXT and _LINK.match(text) and _normalise(name).endswith(_LINKS):
        yield from _find_in_link(text)
    elif position is Position.HEADER or (position is Position.SECRET and name.lower() in _LISTS):
        yield from find_in_header(name, text)
    elif position is Position.SECRET:
        yield text
        yield from find_in_value(text)


def find_in_header(name: str, value: str) -> Iterator[str]:
    """Yield the credentials in a header."""
    match name.lower():
        case "authorization" | "proxy-authorization":
            yield from _find_in_authorization(value)
        case "cookie":
            yield from _find_in_cookies(value.split(";"))
        case "set-cookie":
            yield from _find_in_cookies(value.split(";")[:1])
        case "location" | "content-location" | "referer" | "x-goog-upload-url":
            yield from find_in_url(value)
        case ":path":  # of HTTP/2: path and query (RFC 9113, section 8.3.1)
            yield from find_in_url(value, is_secret=is_secret_header)
        case "www-authenticate":
            pass
        case "sec-websocket-protocol":
            # Pages can send no other header: `openai-insecure-api-key.KEY` (OpenAI's guide to the
            # Realtime API with WebSockets, read 2026-11-23).
            for offered in value.split(","):
                protocol, _, key = offered.strip().partition(".")
                if protocol.endswith("key"):
                    yield key
                yield from find_in_value(offered.strip())
        case other:
            if is_secret := is_secret_header(other):
                yield value
            yield from find_in_value(value)
            # A gateway's configuration, for example.
            position = Position.SECRET if is_secret else Position.TEXT
            yield from find_in_json(decode_container(value), position)


def _find_in_cookies(cookies: Iterable[str]) -> Iterator[str]:
    for cookie in cookies:
        value = cookie.partition("=")[2].strip().strip('"')
        yield value
        yield unquote(value)
        yield from find_in_value(unquote(value))


def decode_container(text: str) -> Any:
    """Return a text's value if it is a JSON object or array; else None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return decode_any(text, max_depth=_MAX_DEPTH)
    except InvalidJSON:
        return None


def _find_in_authorization(value: str) -> Iterator[str]:
    """Yield the credentials in the value of `Authorization`, whatever its scheme."""
    scheme, rest = _split(value)
    # Text that contains the value contains `rest`, too, unless that is too short to search for.
    yield rest if len(rest) >= _LEAST else value
    yield from _find_behind_scheme(scheme, rest)


def find_in_value(value: str) -> Iterator[str]:
    """Yield the credentials after a known scheme, such as `Bearer`, in a header or field value."""
    scheme, rest = _split(value)
    if scheme in _TOKEN_SCHEMES and len(rest.split()) == 1:
        yield rest
    elif scheme in ("basic", "digest") or scheme.startswith("aws4-"):
        yield from _find_behind_scheme(scheme, rest)


def _split(value: str) -> tuple[str, str]:
    """Return the first word of a value, its scheme, in lower case, and the text after it."""
    scheme, _, rest = value.strip().replace("\t", " ").partition(" ")
    return scheme.lower(), rest.strip()


def _find_behind_scheme(scheme: str, rest: str) -> Iterator[str]:
    if scheme == "basic":
        yield from _find_in_basic(rest)
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


def _find_in_basic(encoded: str) -> Iterator[str]:
    try:
        octets = b64decode(encoded + "==", validate=False)
    except ValueError:
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


def _is_not_harmless(name: str) -> bool:
    return name not in _KEPT_QUERY


def find_in_url(url: str, *, is_secret: Callable[[str], bool] = _is_not_harmless) -> Iterator[str]:
    """Yield the credentials in a URL: userinfo, tokens in the path, and secret parameters.

    Args:
        url: The URL.
        is_secret: Whether a parameter of query or fragment with this name, in lower case, is
            a secret; by default all that are not known to be harmless.
    """
    _, authority, path, query, fragment = _split_url(url)
    userinfo = authority.rpartition("@")[0]
    for value in (userinfo, *userinfo.partition(":")[::2]):
        yield value
        yield unquote(value)
    yield from _find_in_path(path)
    for name, value in _split_query(f"{query}&{fragment}"):
        name = unquote_plus(name).lower()
        if not is_secret(name):
            continue
        yield value
        yield unquote(value)
        plain = unquote_plus(value)
        yield plain
        yield from find_in_value(plain)
        if name == "x-amz-credential":
            # The key of SigV4, and behind it date, region and service.
            yield plain.partition("/")[0]


def _find_in_link(url: str) -> Iterator[str]:
    """Yield the credentials in a URL of a body: userinfo, and parameters that are named secret."""
    _, authority, _, query, _ = _split_url(url)
    userinfo = authority.rpartition("@")[0]
    for value in (userinfo, *userinfo.partition(":")[::2]):
        yield value
        yield unquote(value)
    for name, value in _split_query(query):
        name = unquote_plus(name)
        if is_secret_field(name) or _names_token(name):
            yield value
            yield unquote_plus(value)


def _find_in_path(path: str) -> Iterator[str]:
    before = ""
    for segment in path.split("/"):
        for part in _SEPARATORS.split(unquote(segment)):
            name, equals, value = part.partition("=")
            if equals and _names_token(name):
                yield value
            elif _is_token(part, before):
                yield part
        before = segment


def _is_token(part: str, before: str) -> bool:
    """Return whether a path segment looks random, and is not an object's id."""
    if _names_token(before):
        return len(part) >= _MIN_NAMED_TOKEN_CHARS and re.search("[0-9]", part) is not None
    # In `/v1/responses/resp_…` the name of a collection precedes an id.
    if len(before) > 1 and before.endswith("s"):
        return False
    return _RANDOM.search(part) is not None or (
        _BASE64.fullmatch(part) is not None and all(r.search(part) for r in _RANDOM_IN_BASE64)
    )


def _names_token(name: str) -> bool:
    """Return whether a path segment or parameter announces a token after it."""
    return _normalise(name).removesuffix("s") in _TOKEN_NAMES


def strip_url(url: str) -> str:
    """Return a URL without userinfo, fragment and non-public query parameters."""
    scheme, authority, path, query, _ = _split_url(url)
    host = authority.rpartition("@")[2]
    kept = "&".join(
        f"{name}={value}" if value else name
        for name, value in _split_query(query)
        if name.lower() in _KEPT_QUERY
    )
    return f"{scheme}{'//' if host else ''}{host}{path}{'?' if kept else ''}{kept}"


def _split_url(url: str) -> tuple[str, str, str, str, str]:
    match = _URL.fullmatch(url)
    assert match is not None  # noqa: S101 - it matches every text
    scheme, authority, path, query, fragment = match.groups(default="")
    return scheme, authority, path, query, fragment


def _split_query(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        name, separator, value = pair.partition("=")
        if separator:
            yield name, value
        elif name:
            # A flag such as `?stream`, or a value without a name.
            yield (name, "") if name.lower() in _PUBLIC_QUERY else ("", name)
