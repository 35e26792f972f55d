"""The bytes of a changed body: what is unchanged stays as the client wrote it."""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm._upstream.requests import splice

DATA = b'{ "model": "m",\n"n": 1.50, "messages": [ {"a": 1e2}, {"b" : 2}, "c"],"x":"\\u00e9" }'


def decoded(data: bytes = DATA) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(data)
    return body


def test_unchanged_body_is_the_same_bytes() -> None:
    body = decoded()
    assert splice(DATA, body, dict(body)) is DATA


def test_unchanged_fields_are_the_same_bytes() -> None:
    body = decoded()
    assert splice(DATA, body, {**body, "model": "n", "new": [1]}) == (
        b'{"model":"n","n":1.50,"messages":[ {"a": 1e2}, {"b" : 2}, "c"],"x":"\\u00e9","new":[1]}'
    )


def test_unchanged_objects_of_a_changed_array_are_the_same_bytes() -> None:
    body = decoded()
    first, second, text = body["messages"]
    after = {"messages": [first, {"new": 0}, text, second], "x": body["x"]}
    assert splice(DATA, body, after) == (
        b'{"messages":[{"a": 1e2},{"new":0},"c",{"b" : 2}],"x":"\\u00e9"}'
    )


def test_unchanged_parts_of_a_changed_object_are_the_same_bytes() -> None:
    data = (
        b'{"messages":[{"role":"user","content":"\\u00e9"},'
        b'{"role":"tool", "n":1.50,"content":[{"a": 1e2},{"b":"\\/"},7, "c"]}]}'
    )
    body = decoded(data)
    first, second = body["messages"]
    kept, changed, number, text = second["content"]
    content = [kept, {**changed, "d": {}}, number, text, {"new": []}, ["e"]]
    messages = [{**first, "role": "system"}, {**second, "content": content}, {"more": 1}]
    assert splice(data, body, {"messages": messages}) == (
        b'{"messages":[{"role":"system","content":"\\u00e9"},'
        b'{"role":"tool","n":1.50,"content":[{"a": 1e2},{"b":"\\/","d":{}},7,"c",'
        b'{"new":[]},["e"]]},{"more":1}]}'
    )


def test_equal_number_of_another_type_is_written() -> None:
    data = b'{"a":{"n":1.0,"m":2.50}}'
    assert splice(data, decoded(data), {"a": {"n": 1, "m": 2.5}}) == b'{"a":{"n":1,"m":2.50}}'
    assert splice(data, decoded(data), {"a": [1]}) == b'{"a":[1]}'


def test_array_in_place_of_an_object_leaves_its_neighbours_as_written() -> None:
    data = b'{"a":{"b":1},"m":2.50}'
    assert splice(data, decoded(data), {"a": [1], "m": 2.5}) == b'{"a":[1],"m":2.50}'


def test_array_that_was_none_is_written() -> None:
    body = decoded()
    assert splice(DATA, body, {"model": ["m"]}) == b'{"model":["m"]}'


def test_other_order_is_another_body() -> None:
    body = decoded(b'{"a":1.0,"b":2}')
    assert splice(b'{"a":1.0,"b":2}', body, {"b": body["b"], "a": body["a"]}) == b'{"b":2,"a":1.0}'


def test_body_with_half_of_a_character_is_written_anew() -> None:
    data = b'{"model":"m","x":"\\ud800"}'
    body = {"model": "m", "x": "\ufffd"}
    assert splice(data, body, {**body, "model": "n"}) == '{"model":"n","x":"\ufffd"}'.encode()
    within = b'{"x":[{"\\ud800":1.0,"a":2.50}]}'
    before = {"x": [{"\ufffd": 1.0, "a": 2.5}]}
    after = {"x": [{"\ufffd": 1.0, "a": 3}]}
    assert splice(within, before, after) == '{"x":[{"\ufffd":1.0,"a":3}]}'.encode()
