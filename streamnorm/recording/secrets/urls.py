"""The positions of credentials in a URL: userinfo, path, query and fragment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote, unquote_plus

from streamnorm.recording.secrets.authorization import in_value

__all__ = ["in_url", "public_url"]

# Matches every text: RFC 3986, appendix B.
_URL = re.compile(r"([^:/?#]+:)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_PUBLIC_QUERY = frozenset({"alt", "api-version", "beta", "limit", "starting_after", "stream"})
# Neither recorded nor secret: their values may occur in bodies, which must stay intact.
_HARMLESS_QUERY = frozenset(
    {"after", "before", "include", "include[]", "model", "order", "purpose"}
)

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


def _is_not_harmless(name: str) -> bool:
    return name not in _PUBLIC_QUERY | _HARMLESS_QUERY


def in_url(url: str, *, is_secret: Callable[[str], bool] = _is_not_harmless) -> Iterator[str]:
    """Yield the credentials in a URL: userinfo, tokens in the path, and secret parameters.

    Args:
        url: The URL.
        is_secret: Whether a parameter of query or fragment with this name, in lower case, is
            a secret; by default all that are not known to be harmless.
    """
    _, authority, path, query, fragment = _parts(url)
    userinfo = authority.rpartition("@")[0]
    for value in (userinfo, *userinfo.partition(":")[::2]):
        yield value
        yield unquote(value)
    yield from _in_path(path)
    for name, value in _pairs(f"{query}&{fragment}"):
        name = unquote_plus(name).lower()
        if not is_secret(name):
            continue
        yield value
        yield unquote(value)
        plain = unquote_plus(value)
        yield plain
        yield from in_value(plain)
        if name == "x-amz-credential":
            # The key of SigV4, and behind it date, region and service.
            yield plain.partition("/")[0]


def _in_path(path: str) -> Iterator[str]:
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
    """Return whether a part of a path looks random, and is no id of an object."""
    if _names_token(before):
        return len(part) >= _MIN_NAMED_TOKEN_CHARS and re.search("[0-9]", part) is not None
    # In `/v1/responses/resp_…` the name of a collection precedes an id.
    if len(before) > 1 and before.endswith("s"):
        return False
    return _RANDOM.search(part) is not None or (
        _BASE64.fullmatch(part) is not None and all(r.search(part) for r in _RANDOM_IN_BASE64)
    )


def _names_token(name: str) -> bool:
    """Return whether a segment or a parameter names the token that follows."""
    return name.lower().replace("-", "").replace("_", "").removesuffix("s") in _TOKEN_NAMES


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
