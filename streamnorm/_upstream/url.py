"""The URL of an endpoint: the base URL of an upstream, and the path that a dialect has."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

__all__ = ["check_base_url", "endpoint_url"]

_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?", re.ASCII)


def check_base_url(url: str) -> str:
    """Return a base URL without the slash at its end.

    Raises:
        ValueError: It is no http or https URL, or has a user, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError as exc:  # a host in brackets that is no address, or a port that is none
        raise ValueError("base_url is no URL, expected http:// or https://") from exc
    if parts.scheme not in ("http", "https") or not has_host:
        raise ValueError("base_url is no http or https URL, expected one")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url has a user or a password, expected the key as a header")
    if "?" in url or "#" in url:
        raise ValueError("base_url has a query or a fragment, expected none")
    return url.rstrip("/")


def endpoint_url(base_url: str, path: str, *, version_in_base_url: bool) -> str:
    """Return the URL of an endpoint.

    The version of the API is not doubled: where the base URL ends in one, that is it.

    Args:
        base_url: A URL that `check_base_url` returned.
        path: Path of the endpoint as the dialect has it, with its query: `/v1/messages`.
        version_in_base_url: Whether a version anywhere in the base URL is that of the API, as
            in `https://host/v1beta/openai`.

    Raises:
        ValueError: The path leaves the base URL.
    """
    segments = path.partition("?")[0].split("/")
    if any(unquote(segment) in (".", "..") for segment in segments):
        raise ValueError("a path with dot segments, expected none")
    versions = urlsplit(base_url).path.split("/")
    if not version_in_base_url:
        versions = versions[-1:]
    if _VERSION.fullmatch(segments[1]) and any(map(_VERSION.fullmatch, versions)):
        path = path[len(segments[1]) + 1 :]
    return base_url + path
