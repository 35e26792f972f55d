"""The parser of the standard library, whose outer levels are parsed in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.json_steps import StepwiseDecoder

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text('a"\\\n\u20ac', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=20,
)
OPTIONS: dict[str, Any] = {"parse_constant": str, "parse_float": repr, "object_pairs_hook": tuple}


def outcome(decoder: json.JSONDecoder, text: str) -> object:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as exc:
        return str(exc)


@given(JSON, st.sampled_from([None, 1]), st.integers(0, 99))
def test_same_value_or_error_as_at_once(value: Any, indent: int | None, cut: int) -> None:
    whole = "[" * (cut % 9) + json.dumps(value, indent=indent) + "]" * (cut % 9)
    for text in (whole, whole[:cut], whole[cut:]):
        for options in ({"parse_constant": str}, OPTIONS):
            decoder, expected = StepwiseDecoder(**options), json.JSONDecoder(**options)
            assert outcome(decoder, text) == outcome(expected, text)


def test_five_levels_are_parsed_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned: list[str] = []

    def make_scanner(_decoder: object) -> Any:
        def scan(text: str, start: int) -> tuple[str, int]:
            end = text.index("!", start) + 1
            scanned.append(text[start:end])
            return "part", end

        return scan

    monkeypatch.setattr(json.scanner, "make_scanner", make_scanner)
    decoder = StepwiseDecoder()
    assert decoder.decode('{"a":[{"b":[{"c":{"d"!,"e":[1!}]}]}') == {
        "a": [{"b": [{"c": "part", "e": "part"}]}]
    }
    assert scanned == ['{"d"!', "[1!"]


def test_nesting_is_bounded_by_recursion() -> None:
    with pytest.raises(RecursionError):
        StepwiseDecoder().decode("[" * 100_000)
