"""Arguments of calls as an object: exact, or by the policy that was asked for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamnorm import EncodeError, ToolCall
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy, arguments_object
from streamnorm._core.losses import Losses


def object_of(text: str, policy: ArgumentsPolicy = "error") -> tuple[Any, list[str]]:
    losses = Losses()
    value = arguments_object(ToolCall("c", "f", text), policy, losses, "messages[1].blocks[0]")
    return value, [loss.feature for loss in losses.list()]


def test_an_object_keeps_order_numbers_and_characters() -> None:
    value, lost = object_of('{"b":1,"a":12345678901234567890123,"é":"\\ud83d\\ude00"}')
    assert list(value.items()) == [("b", 1), ("a", 12345678901234567890123), ("é", "😀")]
    assert lost == []


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_no_arguments_are_the_empty_object(text: str) -> None:
    assert object_of(text) == ({}, [])


def test_half_a_character_becomes_the_replacement_character() -> None:
    value = {"a": "\ufffd", "b": 1.5}
    assert object_of('{"a":"\\ud83d","b":1.5}') == (value, ["half_character"])


def test_halves_of_one_character_lose_nothing_when_they_are_joined() -> None:
    assert object_of('{"a":"\ud83d\ude00"}') == ({"a": "\U0001f600"}, [])


@pytest.mark.parametrize("text", ['{"a":1e400}', ' {"a":[-1e999]}'])
def test_number_beyond_a_double_is_named(text: str) -> None:
    """Such arguments are JSON, which has no bounds on numbers (RFC 8259, section 6)."""
    message = f"arguments of {len(text)} characters have a number that no double is near to"
    with pytest.raises(EncodeError, match=message):
        object_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "null",
        '{"a":',
        "x",
        '{"a":1}}',
        "[" * 9999,
        '{"a":NaN}',
        '{"a":1e400}',
        '{"a":-Infinity}',
    ],
)
def test_anything_else_is_an_error_without_its_text(text: str) -> None:
    with pytest.raises(EncodeError, match=f"arguments of {len(text)} characters") as caught:
        object_of(text)
    assert caught.value.path == "messages[1].blocks[0]"


def test_raw_keeps_the_text() -> None:
    assert object_of("[1]", "raw") == ({"_raw": "[1]"}, ["arguments_raw"])


def test_repair_finds_an_object() -> None:
    pytest.importorskip("json_repair")
    assert object_of('{"a":1', "repair") == ({"a": 1}, ["arguments_repaired"])
    with pytest.raises(EncodeError, match="cannot be repaired"):
        object_of("[1]", "repair")


def test_repair_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json_repair", None)
    with pytest.raises(EncodeError, match="no json-repair, expected the extra `repair`"):
        object_of('{"a":1', "repair")
