"""The end-to-end headers."""

from __future__ import annotations

import pytest

from streamnorm.asgi.application import end_to_end


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Content-Length",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ],
)
def test_hop_by_hop_headers_are_removed(name: str) -> None:
    assert end_to_end([("a", "1"), (name, "x"), ("b", "2")]) == [("a", "1"), ("b", "2")]


def test_headers_named_by_connection_are_removed() -> None:
    given = [("X-Hop", "1"), ("connection", "close, x-hop"), ("connection", "X-Two"), ("x-two", "")]
    assert end_to_end([*given, ("x-end", "2")]) == [("x-end", "2")]


def test_end_to_end_headers_pass_in_order_with_repetitions() -> None:
    given = [("Set-Cookie", "a=1"), ("Authorization", "x"), ("set-cookie", "b=2")]
    expected = [("set-cookie", "a=1"), ("authorization", "x"), ("set-cookie", "b=2")]
    assert end_to_end(given) == expected


def test_further_names_are_removed() -> None:
    assert end_to_end([("Host", "a"), ("b", "1")], without=["host"]) == [("b", "1")]
