"""The URL of an exchange: its dialect, its server, and a name for its file."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from streamnorm._registry import DIALECTS, detect_path

_MAX_SLUG_CHARS = 60

# Servers that are not named for the second-level domain; those of the dialects' own vendors
# stand in their endpoints.
_SERVERS = {
    "aliyuncs.com": "qwen",
    "amazonaws.com": "bedrock",
    "azure.com": "azure",
    "baidubce.com": "qianfan",
    "bigmodel.cn": "zai",
    "googleapis.com": "vertex",
    "kimi.com": "moonshot",
    "snowflakecomputing.com": "snowflake",
    "x.ai": "xai",
    "xiaomimimo.com": "xiaomi",
    "z.ai": "zai",
}
_NOT_PUBLIC = frozenset({"example", "internal", "invalid", "lan", "local", "localhost", "test"})
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gov", "net", "org"})

_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONG_PIECE = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16}|[0-9a-f]{32}|x{8}", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


def path_of(url: str) -> str:
    """Return the path of a URL, decoded, without empty segments: `/v1/messages`."""
    return "/" + "/".join(segment for segment in unquote(_split(url).path).split("/") if segment)


def query_of(url: str) -> list[tuple[str, str]]:
    """Return the query of a URL, decoded and sorted."""
    return sorted(parse_qsl(_split(url).query, keep_blank_values=True))


def dialect_of(url: str) -> str | None:
    """Return the name of the dialect whose endpoints match the path of a URL, or None."""
    return detect_path(path_of(url))


def server_of(url: str) -> str | None:
    """Return the name of the server of a URL, such as `deepseek` for `https://api.deepseek.com/…`.

    None for IP addresses, loopback, and names of private networks.
    """
    host = (_split(url).hostname or "").rstrip(".")
    labels = host.split(".")
    if len(labels) < 2 or labels[-1] in _NOT_PUBLIC or labels[-2] == "example":
        return None
    if _is_address(host):
        return None
    for servers in (*(known.endpoints.servers for known in DIALECTS.values()), _SERVERS):
        for suffix, server in servers.items():
            if f".{host}".endswith(f".{suffix}"):
                return server
    if len(labels) > 2 and labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2:
        return labels[-3]
    return labels[-2]


def slug_of(url: str) -> str:
    """Return a name for the file of an exchange, such as `chat-completions`.

    It has at most 60 characters of `A-Z a-z 0-9 . _ -`.  Segments before the version in the
    path, and segments that look like an id or a secret, are left out.
    """
    segments = path_of(url).split("/")[1:]
    versions = [n for n, segment in enumerate(segments) if _VERSION.fullmatch(segment)]
    named = segments[versions[-1] + 1 :] if versions else segments
    named = [s for s in named if not _UUID.search(s) and not _LONG_PIECE.search(s)]
    slug = _UNSAFE.sub("-", "-".join(named))[-_MAX_SLUG_CHARS:].strip("-._")
    # `NAME.body.json` would be a body, not a companion.
    return slug.removesuffix(".body") or "request"


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # a host in brackets that is no address
        return urlsplit("")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
