"""Which headers pass a hop, and which are about the connection alone."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["end_to_end"]

# RFC 9110 §7.6.1, and its forerunners' Keep-Alive and proxies' credentials.  The length is
# the server's to tell, as it is who frames the body.
_OF_THE_CONNECTION = {
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


def end_to_end(
    headers: Iterable[tuple[str, str]], *, without: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """Return the headers that pass on, in order, those of one name several times too.

    Args:
        headers: What arrived.
        without: More names to leave out, in lower case.
    """
    given = [(name.lower(), value) for name, value in headers]
    named = {
        option.strip().lower()
        for name, value in given
        if name == "connection"
        for option in value.split(",")
    }
    left_out = {*_OF_THE_CONNECTION, *named, *without}
    return [(name, value) for name, value in given if name not in left_out]
