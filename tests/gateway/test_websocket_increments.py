"""Requests as creates of a WebSocket, and what of their input is new."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.socket_upstream import call_item, text_item

from streamnorm.gateway.websocket_creates import (
    InputEnd,
    KnownResponse,
    OutputDigest,
    read_upstream_create,
)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","input":"\\ud800"}',
        b'{"model":"m","input":[}',
        b"[]",
        b'{"model":"m","input":"Hi.","background":true}',
    ],
    ids=["surrogate", "no JSON", "array", "background"],
)
def test_request_that_is_no_create_is_for_http(body: bytes) -> None:
    assert read_upstream_create(body) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"model":"m"}', {"model": "m"}),
        (b'{"model":"m","input":null,"stream":true}', {"model": "m", "input": None}),
        (b'{"model":"m","input":7,"background":false}', {"model": "m", "input": 7}),
        (b'{"input":"a","type":"x","conversation":"c"}', {"input": "a", "conversation": "c"}),
    ],
    ids=["no input", "null", "number", "conversation"],
)
def test_input_without_items_and_named_state_are_sent_as_they_are(
    body: bytes, message: dict[str, Any]
) -> None:
    """The provider says what is wrong; no later request continues the response."""
    create = read_upstream_create(body)
    assert create is not None
    assert json.loads(create.message()) == {"type": "response.create", **message}
    assert (create.end is None) == ("input" in message)


def digest_of(*items: dict[str, Any]) -> tuple[bytes, int]:
    """Return the digest of the items of an output."""
    found = OutputDigest()
    for item in items:
        found.add(json.dumps(item).encode())
    return found.digest, found.size


CALL = {"type": "function_call", "call_id": "c", "name": "f"}
SEARCH = {"type": "web_search_call", "action": {"type": "search", "query": "a"}}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]}


@pytest.mark.parametrize(
    ("items", "others"),
    [
        ([text_item("ab")], [{"role": "assistant", "content": "ab"}]),
        ([text_item("a"), text_item("b")], [text_item("ab")]),
        ([text_item("a"), {"type": "reasoning", "summary": []}, text_item("b")], [text_item("ab")]),
        ([text_item("")], []),
        ([call_item("c", '{"a": 1, "b": 2}', "f")], [{**CALL, "arguments": '{"b":2,"a":1}'}]),
        ([{**SEARCH, "id": "ws_1", "status": "completed"}], [SEARCH]),
        ([{**THOUGHT, "id": "rs_1", "encrypted_content": None}], [THOUGHT]),
    ],
    ids=["details", "joined", "empty reasoning", "no text", "spelling", "ids", "shown reasoning"],
)
def test_items_are_those_of_the_next_input(items: list[Any], others: list[Any]) -> None:
    assert digest_of(*items) == digest_of(*others)


@pytest.mark.parametrize(
    ("items", "others"),
    [
        ([text_item("a")], [text_item("b")]),
        ([text_item("a")], [{"role": "user", "content": "a"}]),
        ([text_item("a"), CALL, text_item("b")], [text_item("ab"), CALL]),
        ([{**CALL, "arguments": "{"}], [{**CALL, "arguments": "{}"}]),
        ([{**CALL, "arguments": "{}"}], [{**CALL, "arguments": "{}", "call_id": "d"}]),
        ([{**THOUGHT, "encrypted_content": "x"}], [{**THOUGHT, "encrypted_content": "y"}]),
        ([THOUGHT], []),
        ([text_item('a\0["call"]')], [text_item("a"), {"type": "call"}]),
        (
            [{"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "a"}],
            [{"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "b"}],
        ),
    ],
)
def test_other_items_are_not(items: list[Any], others: list[Any]) -> None:
    assert digest_of(*items) != digest_of(*others)


def test_item_that_cannot_be_read_is_the_same_item_alone() -> None:
    deep = b'{"type":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    found = [OutputDigest(), OutputDigest(), OutputDigest()]
    for each, item in zip(found, (deep, deep, b'{"type":"x"}'), strict=True):
        each.add(item)
    assert found[0].digest == found[1].digest != found[2].digest


EMPTY: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
USER = {"role": "user", "content": "Hi."}


@pytest.mark.parametrize(
    ("output", "behind", "start"),
    [
        ([text_item("a"), EMPTY], [USER], 3),
        ([EMPTY, text_item("a"), EMPTY, text_item("")], [USER, EMPTY], 5),
        ([text_item("a"), EMPTY], [], 3),
        ([text_item("a")], [text_item("b")], 2),
        ([*[EMPTY] * 100, text_item("a")], [USER], 102),
        ([*[EMPTY] * 1000, text_item("a")], [USER], None),
    ],
    ids=["end", "around", "no new item", "another message", "many", "too many"],
)
def test_items_without_content_are_old_ones_within_a_bound(
    output: list[Any], behind: list[Any], start: int | None
) -> None:
    """The provider would refuse a second item of an id; a client may send them without end."""
    body = json.dumps({"model": "m", "input": [USER, *output, *behind]}).encode()
    create = read_upstream_create(body)
    assert create is not None
    known = KnownResponse("resp_1", InputEnd(1, create.digests[1]), *digest_of(*output))
    assert known.may_precede(create)
    assert known.first_new_item(create) == start
