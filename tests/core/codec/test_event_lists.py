"""`list_events` and `add_id`: single events of bytes that may be any server's."""

from __future__ import annotations

import pytest

from streamnorm._core.codec.framing import add_id, list_events


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (b"data: 1\n\ndata: 2\n\n", [b"data: 1\n\n", b"data: 2\n\n"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"]),
        (b"a: 1\nb: 2\n\n\n\ndata: 2\n\n", [b"a: 1\nb: 2\n\n\n\n", b"data: 2\n\n"]),
        (b"data: 1\n\ndata: ", [b"data: 1\n\n", b"data: "]),
        (b":", [b":"]),
        (b"\r\n", [b"\r\n"]),
    ],
)
def test_events_end_with_their_blank_lines(data: bytes, events: list[bytes]) -> None:
    assert list_events(data) == events


@pytest.mark.parametrize(
    ("event", "with_id"),
    [
        (b"data: 1\n\n", b"data: 1\nid: x\n\n"),
        (b"data: 1\r\n\r\n", b"data: 1\r\nid: x\r\n\r\n"),
        (b"data: 1\r\r", b"data: 1\rid: x\r\r"),
        (b"id: 7\ndata: 1\n\n\n", b"id: 7\ndata: 1\nid: x\n\n\n"),  # the last id counts
        (b"data: 1\n", b"data: 1\n"),
        (b":", b":"),
    ],
)
def test_id_is_the_last_line_of_a_whole_event(event: bytes, with_id: bytes) -> None:
    assert add_id(event, b"x") == with_id
