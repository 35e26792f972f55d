"""Requests as creates of a WebSocket, and what of their input is new."""

from __future__ import annotations

import json
from typing import Any

import msgspec
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


def digests_of(body: dict[str, Any]) -> list[bytes]:
    """Return the digests of a body's fields and items, as the gateway writes bodies."""
    create = read_upstream_create(msgspec.json.encode(body))
    assert create is not None
    return create.digests


def test_metadata_of_the_client_may_change() -> None:
    """Codex sends the headers of each request as `client_metadata`, in any order."""
    body = {"model": "m", "input": [USER]}
    first = {"turn_id": "1", "window_id": "w"}
    others: tuple[dict[str, str] | None, ...] = ({"window_id": "w", "turn_id": "2"}, {}, None)
    for other in others:
        assert digests_of({**body, "client_metadata": first}) == digests_of(
            body if other is None else {**body, "client_metadata": other}
        )
    create = read_upstream_create(msgspec.json.encode({**body, "client_metadata": first}))
    assert create is not None
    assert json.loads(create.message())["client_metadata"] == first


MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
HELLO = {"type": "input_text", "text": "Grüße, fjäll."}
RESULT = {"type": "function_call_output", "call_id": "c"}


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        (
            {"role": "user", "content": [{**HELLO, **MARK}]},
            {"role": "user", "content": HELLO["text"]},
        ),
        (
            {"role": "user", "content": [HELLO, {**HELLO, **MARK}]},
            {"role": "user", "content": [HELLO, HELLO]},
        ),
        (
            {**RESULT, "output": [{**HELLO, **MARK}]},
            {**RESULT, "output": HELLO["text"]},
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "u", **MARK}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "u"}]},
        ),
    ],
    ids=["text", "last text", "result", "image"],
)
def test_mark_of_a_cache_may_move(marked: dict[str, Any], plain: dict[str, Any]) -> None:
    """Agents on Anthropic's dialect, as Claude Code, mark the end of each request."""
    first = {"model": "m", "input": [marked]}
    second = {"model": "m", "input": [plain, {"role": "user", "content": [{**HELLO, **MARK}]}]}
    assert digests_of(second)[:2] == digests_of(first)
    create = read_upstream_create(msgspec.json.encode(first))
    assert create is not None
    assert json.loads(create.message())["input"] == [marked]


def test_word_of_the_mark_in_a_text_is_a_text() -> None:
    quoted, other = (
        {"model": "m", "input": [{"role": "user", "content": f'{word}"prompt_cache_breakpoint"'}]}
        for word in ("a", "b")
    )
    assert digests_of(quoted) != digests_of(other)
    nested = {"role": "user", "content": [{**HELLO, "x": MARK}]}
    assert digests_of({"input": [nested]}) != digests_of({"input": [{**USER, "content": [HELLO]}]})
