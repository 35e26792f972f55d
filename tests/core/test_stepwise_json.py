"""The parser of the standard library, whose outer levels are parsed in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core import stepwise_json
from streamnorm._core.stepwise_json import StepwiseDecoder

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


ESCAPES = st.lists(
    st.sampled_from(
        ["a", "\\\\", '\\"', "\\n", "\\ud83d", "\\ude00", "\\u20ac", "\U0001f600", "u", '"']
    )
)


@given(ESCAPES, st.sampled_from(["", '"', "\\", "\n", "\\uD8"]), st.booleans())
def test_long_string_is_parsed_in_slices_as_at_once(
    parts: list[str], end: str, is_part: bool
) -> None:
    text = f'["{"".join(parts)}{end}", "{"b" * 40}"]'
    whole = f'{{"messages": [{{"content": [{{"text": {text}}}]}}]}}' if is_part else text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepwise_json, "SLICE_CHARS", 16)
        for options in ({}, {"strict": False}):
            decoder, expected = StepwiseDecoder(**options), json.JSONDecoder(**options)
            assert outcome(decoder, whole) == outcome(expected, whole)


@pytest.mark.parametrize("lead", range(8))
@pytest.mark.parametrize(
    "string",
    [
        "\\\\" * 40,
        "\\ud83d\\ude00" * 20,
        "\\ud83d" * 20,
        "\\\\ud83d\\ude00" * 20,
        "a" * 40,
        "a" * 40 + "\n" + "a" * 40,
        "a" * 40 + "\\x",
    ],
)
def test_no_escape_is_cut_by_a_slice(
    string: str, lead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepwise_json, "SLICE_CHARS", 16)
    for end in ('"', '", "more"', ""):
        text = f'["{"a" * lead}{string}{end}]'
        assert outcome(StepwiseDecoder(), text) == outcome(json.JSONDecoder(), text)


def test_long_strings_are_parsed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    scanstring = stepwise_json._scanstring

    def recorded(text: str, begin: int, strict: bool) -> tuple[str, int]:
        value, end = scanstring(text, begin, strict)
        sizes.append(end - begin)
        return value, end

    monkeypatch.setattr(stepwise_json, "_scanstring", recorded)
    halves = "\\ud83d" * 500_000
    body = f'{{"messages": [{{"content": [{{"text": "{halves}"}}]}}]}}'
    assert StepwiseDecoder().decode(body) == json.loads(body)
    assert max(sizes) <= 1024 * 1024 + 1
    assert sum(sizes) > len(halves)


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
