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
def test_headers_of_the_connection_stay_behind(name: str) -> None:
    assert end_to_end([("a", "1"), (name, "x"), ("b", "2")]) == [("a", "1"), ("b", "2")]


def test_headers_that_the_connection_names_stay_behind() -> None:
    given = [("X-Hop", "1"), ("connection", "close, x-hop"), ("connection", "X-Two"), ("x-two", "")]
    assert end_to_end([*given, ("x-end", "2")]) == [("x-end", "2")]


def test_all_others_pass_in_order_and_as_often_as_they_came() -> None:
    given = [("Set-Cookie", "a=1"), ("Authorization", "x"), ("set-cookie", "b=2")]
    expected = [("set-cookie", "a=1"), ("authorization", "x"), ("set-cookie", "b=2")]
    assert end_to_end(given) == expected


def test_more_names_can_be_left_out() -> None:
    assert end_to_end([("Host", "a"), ("b", "1")], without=["host"]) == [("b", "1")]
