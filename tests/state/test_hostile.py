"""Requests and answers of any shape: our own errors, and nothing of another caller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.state.responses import answered, message

from streamnorm import DecodeError
from streamnorm.state import (
    Found,
    Item,
    MemoryStore,
    StateError,
    StoredResponse,
    StoreError,
    Turn,
    read_operation,
)

IDS = st.sampled_from(["resp_1", "msg_1", "", "\ud800", "a" * 1000])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | IDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "id", "content"]), inner, max_size=4)
    ),
    max_leaves=8,
)
ITEMS = st.lists(
    VALUES
    | st.fixed_dictionaries({"type": st.just("item_reference"), "id": IDS})
    | st.fixed_dictionaries({"role": st.just("user"), "content": VALUES}),
    max_size=4,
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "input": ITEMS | VALUES,
        "previous_response_id": IDS | VALUES,
        "store": st.booleans() | VALUES,
        "conversation": VALUES,
        "background": VALUES,
        "prompt": VALUES,
    },
)


@given(BODIES, st.dictionaries(st.sampled_from(["type", "role", "id", "content"]), VALUES))
def test_any_request_is_expanded_or_refused(body: dict[str, Any], output: dict[str, Any]) -> None:
    store = MemoryStore()
    answered(store, message("msg_1", "x"), input="Hi")
    try:
        turn = Turn(body)
        sent = turn.expand(store.find("a", turn.lookup))
    except (DecodeError, StateError) as exc:
        refusal = str(exc)
    else:
        refusal = ""
    assert "a" * 1000 not in refusal
    if refusal:
        return
    assert not sent.get("previous_response_id")
    json.dumps(sent)
    stored = turn.stored({"id": turn.id, "status": "completed", "output": [output]})
    assert (stored is None) == (body.get("store") is False)
    if stored is not None:
        store.put("a", stored)
        for path in ("/v1/responses/{}", "/v1/responses/{}/input_items"):
            operation = read_operation("GET", path.format(turn.id))
            assert operation is not None
            operation.answer(store.find("a", operation.lookup))


@given(BODIES)
def test_no_request_finds_what_another_caller_stored(body: dict[str, Any]) -> None:
    store = MemoryStore()
    id, _ = answered(store, message("msg_1", "secret"), input="secret")
    for more in ({}, {"previous_response_id": id}, {"input": [{"id": "msg_1"}]}):
        try:
            turn = Turn({**body, **more})
            sent = turn.expand(store.find("b", turn.lookup))
        except (DecodeError, StateError):
            continue
        assert "secret" not in str(sent)


DAMAGED = pytest.mark.parametrize(
    ("json", "expected"),
    [
        (b"", "the store holds damaged JSON"),
        (b"{", "the store holds damaged JSON"),
        (b'{"a": "\xff"}', "the store holds damaged JSON"),
        (b"[" * 100_000, "the store holds damaged JSON"),
        (b"[]", "the store holds list, expected an object"),
        (b"1", "the store holds int, expected an object"),
    ],
)


@DAMAGED
def test_damaged_item_is_no_input(json: bytes, expected: str) -> None:
    turn = Turn({"input": [{"type": "item_reference", "id": "x"}]})
    with pytest.raises(StoreError) as caught:
        turn.expand(Found((), {"x": Item("x", json)}))
    assert str(caught.value) == expected


@DAMAGED
@pytest.mark.parametrize("path", ["/v1/responses/r1", "/v1/responses/r1/input_items"])
def test_damaged_response_is_no_answer(json: bytes, expected: str, path: str) -> None:
    item, body = Item("x", json), json or b'{"id":"r1"}'  # an empty one is of none
    operation = read_operation("GET", path)
    assert operation is not None
    with pytest.raises(StoreError) as caught:
        operation.answer(Found((StoredResponse("r1", None, body, (item,), (item,)),)))
    assert str(caught.value) == expected
