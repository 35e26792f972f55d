"""Names of servers, which select their profiles, by the hosts of their URLs."""

from __future__ import annotations

from ipaddress import ip_address

from streamnorm._registry import DIALECTS
from streamnorm.http.urls import split_url

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


def server_of(url: str) -> str | None:
    """Return the name of the server of a URL, such as `deepseek` for `https://api.deepseek.com/…`.

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
