"""Calls in contents: ids, arguments in fragments, and numbers that Google stores."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.bodies import Written, blocks_of, contents_of, request_of

from streamnorm import DecodeError, OpaqueBlock, ToolCall


@pytest.mark.parametrize(
    ("call", "block"),
    [
        (
            {"id": "1", "name": "f", "args": {"b": 1, "a": "ü"}},
            ToolCall("1", "f", '{"b":1,"a":"ü"}'),
        ),
        ({"name": "f", "args": {}}, ToolCall("", "f", "{}")),
        (
            {"name": "f", "args": {"a": 123456789012345678901234567890}},
            ToolCall("", "f", '{"a":123456789012345678901234567890}'),
        ),
    ],
    ids=repr,
)
def test_a_call_is_read_and_written(call: dict[str, Any], block: ToolCall) -> None:
    assert blocks_of({"functionCall": call}) == (block,)
    written = Written(request_of(block)).body["contents"][0]["parts"]
    assert written == [{"functionCall": call}]


def test_a_call_without_arguments_has_none() -> None:
    assert blocks_of({"functionCall": {"name": "f"}}) == (ToolCall("", "f"),)
    assert contents_of(ToolCall("", "f")) == [{"functionCall": {"name": "f", "args": {}}}]


def test_other_fields_of_a_call_are_kept() -> None:
    part = {"functionCall": {"name": "f", "args": {}, "willContinue": False}, "partMetadata": {}}
    extra = {"gemini": {"functionCall.willContinue": False, "partMetadata": {}}}
    block = ToolCall("", "f", "{}", extra=extra)
    assert blocks_of(part) == (block,)
    assert contents_of(block) == [part]


def test_arguments_in_fragments_are_joined() -> None:
    entries = [
        {"jsonPath": "$.a", "numberValue": 2},
        {"jsonPath": "$.b", "stringValue": "x", "willContinue": True},
        {"jsonPath": "$.b", "stringValue": "y"},
    ]
    part = {"functionCall": {"name": "f", "partialArgs": entries}}
    assert blocks_of(part) == (ToolCall("", "f", '{"a":2,"b":"xy"}'),)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([{"jsonPath": "a", "numberValue": 2}], "no path"),
        ([{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}], "cut"),
    ],
)
def test_fragments_that_are_no_arguments_are_refused(entries: list[Any], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        blocks_of({"functionCall": {"name": "f", "partialArgs": entries}})
    assert caught.value.path == "$.contents[0].parts[0].functionCall.partialArgs"


@pytest.mark.parametrize(
    "call",
    [{}, {"name": ""}, {"name": "f", "willContinue": True}, {"partialArgs": [], "id": "1"}],
    ids=repr,
)
def test_a_fragment_of_a_call_is_opaque(call: dict[str, Any]) -> None:
    (block,) = blocks_of({"functionCall": call, "partMetadata": {}})
    assert isinstance(block, OpaqueBlock)
    assert contents_of(block) == [{"functionCall": call, "partMetadata": {}}]


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ({"name": "f", "args": "{}"}, "args"),
        ({"name": "f", "args": []}, "args"),
        ({"name": "f", "id": 1}, "id"),
    ],
    ids=repr,
)
def test_a_call_of_another_form_is_refused(call: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        blocks_of({"functionCall": call})
    assert caught.value.path == f"$.contents[0].parts[0].functionCall.{path}"


@pytest.mark.parametrize(
    ("arguments", "lost"),
    [
        ('{"a":9007199254740992}', 0),
        ('{"a":9007199254740993}', 1),
        ('{"a":-9007199254740993}', 1),
        ('{"a":18014398509481984}', 0),
        ('{"a":[9007199254740993,{"b":9007199254740993}]}', 2),
        ('{"a":0.1}', 0),
        ('{"a":0.1000000000000000055511151231257827}', 1),
        ('{"a":1.00000000000000000000}', 0),
        ('{"a":"9007199254740993"}', 0),
        ('{"a":1e-400}', 1),
        ('{"a":1e100}', 0),
        ('{"a":1e10}', 0),
        ('{"a":' + "9" * 401 + "}", 1),
    ],
)
def test_numbers_that_a_double_changes_are_a_loss(arguments: str, lost: int) -> None:
    written = Written(request_of(ToolCall("1", "f", arguments)))
    assert written.lost["number_precision"] == lost


def test_broken_arguments_have_no_numbers() -> None:
    written = Written(request_of(ToolCall("1", "f", '{"a":9007199254740993')), arguments="raw")
    assert written.lost == {"arguments_raw": 1}
