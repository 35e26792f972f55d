"""The arguments of a call, as far as it may be executed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamnorm import ToolCall
from streamnorm.aio.executing import RefusedCall, check_policy, read_arguments


def call(arguments: str) -> ToolCall:
    return ToolCall("call_1", "f", arguments)


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    assert read_arguments(call(arguments), "error") == {}


@pytest.mark.parametrize("policy", ["error", "repair"])
@pytest.mark.parametrize(
    "arguments",
    [
        *("{", '{"city"', '{"city": "Os', '{"city": "Oslo"', '{"n": 12', '{"n": tr', "["),
        *("{'city': 'Os", "{city: 'Oslo', days: [1, 2", "{'a': {'city': 'Oslo'}"),  # broken, too
    ],
)
def test_arguments_that_end_too_early_are_never_read(arguments: str, policy: Any) -> None:
    with pytest.raises(RefusedCall, match="cut off"):
        read_arguments(call(arguments), policy)


@pytest.mark.parametrize("arguments", ["{'city': 'Oslo'}", '{"city": Oslo}', '{"city": "Oslo",}'])
def test_broken_arguments_are_refused_or_repaired(arguments: str) -> None:
    with pytest.raises(RefusedCall, match=r"no JSON object: character \d+ does not fit, expected"):
        read_arguments(call(arguments), "error")
    assert read_arguments(call(arguments), "repair") == {"city": "Oslo"}


@pytest.mark.parametrize("policy", ["error", "repair"])
def test_arguments_that_are_no_object_are_refused(policy: Any) -> None:
    with pytest.raises(RefusedCall, match="no JSON object"):
        read_arguments(call("[1]"), policy)


def test_the_missing_extra_is_named_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    check_policy("repair")
    monkeypatch.setitem(sys.modules, "json_repair", None)
    check_policy("error")
    with pytest.raises(
        ImportError, match=r"expected the extra `repair`: pip install '\.\[repair\]' in a clone"
    ):
        check_policy("repair")
