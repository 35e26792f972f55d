"""The end-to-end headers."""

from __future__ import annotations

import pytest

from streamnorm.asgi.servers import select_end_to_end


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Content-Length",
        b"Keep-Alive",
        b"Proxy-Authenticate",
        b"Proxy-Authorization",
        b"Proxy-Connection",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
    ],
)
def test_hop_by_hop_headers_are_removed(name: bytes) -> None:
    assert select_end_to_end([(b"a", b"1"), (name, b"x"), (b"b", b"2")]) == [
        (b"a", b"1"),
        (b"b", b"2"),
    ]


def test_headers_named_by_connection_are_removed() -> None:
    given = [
        (b"X-Hop", b"1"),
        (b"connection", b"close, x-hop"),
        (b"connection", b"X-Two"),
        (b"x-two", b""),
    ]
    assert select_end_to_end([*given, (b"x-end", b"2")]) == [(b"x-end", b"2")]


def test_end_to_end_headers_pass_in_order_with_repetitions() -> None:
    given = [(b"Set-Cookie", b"a=1"), (b"Authorization", b"x"), (b"set-cookie", b"b=2")]
    expected = [(b"set-cookie", b"a=1"), (b"authorization", b"x"), (b"set-cookie", b"b=2")]
    assert select_end_to_end(given) == expected


def test_further_names_are_removed() -> None:
    assert select_end_to_end([(b"Host", b"a"), (b"b", b"1")], without=[b"host"]) == [(b"b", b"1")]
