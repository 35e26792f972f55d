"""URLs of upstreams and requests, and server names by host."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._registry import DIALECTS, detect_path, dialect_at

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
# Top-level domains that RFC 2606 and RFC 6762 reserve, and those of private networks.
_NOT_PUBLIC = frozenset({"example", "internal", "invalid", "lan", "local", "localhost", "test"})
# Labels below the domain of a country that belong to its registry: `vendor.co.uk` is `vendor`.
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gov", "net", "org"})


def check_base_url(url: str) -> str:
    """Check a base URL, and return it without a trailing slash.

    Raises:
        ValueError: It is no http or https URL, or has a user, a query or a fragment.
    """
    # By the WHATWG URL standard a backslash is a slash and ends the host; not so for `urlsplit`.
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("base_url has a character that no URL has, expected a URL")
    try:
        parts = urlsplit(url)
        has_host, _ = bool((parts.hostname or "").encode("idna")), parts.port
    except ValueError as exc:  # of a host that is no name or address, or of a port that is none
        raise ValueError("base_url is no URL, expected http:// or https://") from exc
    if parts.scheme not in ("http", "https") or not has_host:
        raise ValueError("base_url is no http or https URL, expected one")
    # Clients would send them as Basic authentication, beside or in place of the key.
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url has a user or a password, expected the key as a header")
    if "?" in url or "#" in url:
        raise ValueError("base_url has a query or a fragment, expected none")
    return url.rstrip("/")


def path_of(url: str) -> str:
    """Return the path of a URL, decoded, without empty segments: `/v1/messages`."""
    # Users write base URLs with a slash at the end, and SDKs begin their paths with one.
    return "/" + "/".join(segment for segment in unquote(split_url(url).path).split("/") if segment)


def query_of(url: str) -> list[tuple[str, str]]:
    """Return the query of a URL, decoded and sorted."""
    return sorted(parse_qsl(split_url(url).query, keep_blank_values=True))


def detect_url(url: str) -> str | None:
    """Return the name of the dialect whose endpoints match a URL's path, or None."""
    return detect_path(path_of(url))


def dialect_of_url(url: str) -> Dialect | None:
    """Return the dialect whose endpoints match a URL, with the framing used there, or None."""
    known = dialect_at(path_of(url))
    if known is None or not is_websocket_url(url):
        return known
    framing = known.endpoints.socket_framing
    return None if framing is None else structs.replace(known, framing=framing)


def is_websocket_url(url: str) -> bool:
    """Return whether a URL has the scheme of WebSockets."""
    return split_url(url).scheme in ("ws", "wss")


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; empty parts if the text is no URL."""
    try:
        return urlsplit(url)
    except ValueError:  # a host in brackets that is no address
        return urlsplit("")


def server_of(url: str) -> str | None:
    """Return the server name for a URL, such as `deepseek` for `https://api.deepseek.com/…`.

    None for IP addresses, loopback, and names of private networks.
    """
    host = (split_url(url).hostname or "").rstrip(".")
    labels = host.split(".")
    if len(labels) < 2 or labels[-1] in _NOT_PUBLIC or labels[-2] == "example":
        return None
    # A private address may be any server that speaks the dialect.
    if _is_address(host):
        return None
    for servers in (*(known.endpoints.servers for known in DIALECTS.values()), _SERVERS):
        for suffix, server in servers.items():
            if f".{host}".endswith(f".{suffix}"):
                return server
    if len(labels) > 2 and labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2:
        return labels[-3]
    return labels[-2]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
