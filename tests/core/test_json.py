"""Untrusted JSON: what msgspec refuses, depth, and characters cut in half."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import Citation
from streamnorm._core import json as json_module
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    compact,
    convert,
    count_of,
    decode_any,
    is_json,
    lone_surrogate_path,
    object_in,
    objects_of,
    rejoin,
    string_of,
    too_deep,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def nested(depth: int) -> str:
    """Return JSON text of a number within `depth` arrays and objects."""
    opening = "".join('{"a":' if level % 2 else "[" for level in range(depth))
    closing = "".join("}" if level % 2 else "]" for level in reversed(range(depth)))
    return f"{opening}1{closing}"


@given(JSON)
def test_any_value_is_read_back_as_written(value: object) -> None:
    assert decode_any(json.dumps(value), max_depth=10) == value
    assert json.loads(compact(value)) == value


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400"])
def test_number_that_is_not_finite_is_null(text: str) -> None:
    assert decode_any(f'{{"logprob":{text}}}', max_depth=5) == {"logprob": None}


@pytest.mark.parametrize("text", ["", "{", '{"a":1}x', "[DONE]", "1" * 5000, "\ufeff{}", "nul"])
def test_text_that_is_no_json_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(InvalidJSON, match=f"no JSON in {len(text)} characters") as caught:
        decode_any(text, max_depth=5)
    assert not caught.value.too_deep


@pytest.mark.parametrize(("depth", "refused"), [(9, False), (10, False), (11, True)])
def test_depth_is_bounded(depth: int, *, refused: bool) -> None:
    if not refused:
        assert decode_any(nested(depth), max_depth=10) == json.loads(nested(depth))
        return
    with pytest.raises(InvalidJSON, match="nested deeper than 10") as caught:
        decode_any(nested(depth), max_depth=10)
    assert caught.value.too_deep


def test_depth_beyond_the_recursion_limit_is_the_same_error() -> None:
    with pytest.raises(InvalidJSON) as caught:
        decode_any(nested(sys.getrecursionlimit() * 50), max_depth=10)
    assert caught.value.too_deep


@pytest.mark.parametrize(
    ("value", "deep"),
    [(1, False), ("[[[[", False), ([1], False), ([[1]], False), ([{"a": [1]}], True), ([], False)],
)
def test_depth_counts_the_containers_around_a_value(value: object, *, deep: bool) -> None:
    assert too_deep(value, 2) is deep


def test_lone_surrogate_is_preserved_in_delta_text_and_replaced_elsewhere() -> None:
    text = r'{"choices":[{"delta":{"content":"a\ud83d","role":"\ud83d"}}],"content\ud83d":1}'
    assert decode_any(text, max_depth=9, pieces=frozenset({"choices", "delta", "content"})) == {
        "choices": [{"delta": {"content": "a\ud83d", "role": "�"}}],
        "content�": 1,
    }


def test_only_delta_text_preserves_lone_surrogates() -> None:
    text = r'{"usage":{"content":"\ud83d"},"delta":["\udc00",{"content":"\ude00"}]}'
    assert decode_any(text, max_depth=9, pieces=frozenset({"delta", "content"})) == {
        "usage": {"content": "�"},
        "delta": ["�", {"content": "\ude00"}],
    }


def test_whole_pair_of_escapes_is_one_character() -> None:
    assert decode_any(r'{"a":"\ud83d\ude00"}', max_depth=5) == {"a": "😀"}


@given(st.text(st.sampled_from("ab😀\ud83d\ude00é"), max_size=8), st.data())
def test_text_cut_between_surrogates_is_joined_again(text: str, draw: st.DataObject) -> None:
    units = clean(text).encode("utf-16-le")
    cuts = draw.draw(st.lists(st.integers(0, len(units) // 2), max_size=4).map(sorted))
    joined, carry = "", ""
    for start, end in zip([0, *cuts], [*cuts, len(units) // 2], strict=True):
        piece = units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
        out, carry = rejoin(carry, piece)
        out.encode()
        joined += out
    assert joined + clean(carry) == clean(text)


def test_only_a_trailing_high_surrogate_is_held() -> None:
    assert rejoin("", "a\ud83d") == ("a", "\ud83d")
    assert rejoin("\ud83d", "\ude00b") == ("😀b", "")
    assert rejoin("\ud83d", "b") == ("�b", "")
    assert rejoin("", "\ude00") == ("�", "")
    assert rejoin("\ud83d", "") == ("", "\ud83d")


def test_values_of_odd_types_are_converted() -> None:
    assert convert({"a": "1"}, dict[str, int]) == {"a": 1}
    assert convert(1.0, int) == 1


def test_type_error_names_only_the_types() -> None:
    with pytest.raises(InvalidJSON, match=r"^expected `int`, got `str`") as caught:
        convert({"a": "secret"}, dict[str, int])
    assert "secret" not in str(caught.value)


def test_lone_surrogate_in_a_wrongly_typed_value_is_refused() -> None:
    with pytest.raises(InvalidJSON, match="expected no string"):
        convert({"a": "\ud83d"}, dict[str, int])


@pytest.mark.parametrize("end", [65_534, 65_535, 65_536, 65_537])
def test_surrogates_are_found_wherever_a_long_text_is_cut(end: int) -> None:
    text = "\u00e9" + "a" * (end - 1)
    assert lone_surrogate_path({"a": text + "\ud83d\ude00" + "b" * 9}) is None
    for half in ("\ud83d", "\ude00"):
        assert lone_surrogate_path({"a": text + half + "b" * 9}) == "a"
        assert lone_surrogate_path({"a": text + half}) == "a"
    assert lone_surrogate_path({"a": "\ud83d\ude00" * 40_000 + "\ud83d"}) == "a"


def test_compact_text_has_no_white_space_and_no_half_characters() -> None:
    value = {"a": [1, "\ud83d"], "\ude00": {"b": "x"}}
    assert compact(value) == '{"a":[1,"�"],"�":{"b":"x"}}'
    assert compact(Citation("k", url="\ud800", extra={"a": "\udfff"})) == (
        '{"kind":"k","url":"�","extra":{"a":"�"}}'
    )


@given(st.text(st.characters()))
def test_clean_text_can_always_be_encoded(text: str) -> None:
    assert clean(text).encode().decode() == clean(text)
    assert msgspec.json.decode(msgspec.json.encode(clean(text))) == clean(text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("{}", True),
        (' [1, {"a": null}] ', True),
        ('"a"', True),
        ("7", True),
        ("null", True),
        ("", False),
        (" ", False),
        ('{"a":', False),
        ("{}{}", False),
        ("{a:1}", False),
        ("NaN", False),
        ('{"a":"\ud83d"}', False),
        ("[" * 10**5, False),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_text_is_json_if_it_is_one_whole_value(text: str, *, whole: bool) -> None:
    assert is_json(text) is whole


@pytest.mark.parametrize(
    ("value", "count"),
    [
        *((0, 0), (12, 12), (12.0, 12), (2**63 - 1, 2**63 - 1)),
        *((-1, None), (-0.5, None), (1.5, None), (2**63, None), (1e300, None)),
        *((float("inf"), None), (float("nan"), None)),
        *((True, None), (None, None), ("12", None), ([12], None), ({}, None)),
    ],
    ids=repr,
)
def test_count_is_a_non_negative_integer(value: object, count: int | None) -> None:
    assert count_of(value) == count


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "18446744073709551616", "-9223372036854775809", "9" * 1000]
)
def test_long_number_keeps_its_value(text: str) -> None:
    assert decode_any(f"[{text}]", max_depth=5) == [int(text)]
    assert decode_any(f'{{"a":{text}, "b":NaN}}', max_depth=5) == {"a": int(text), "b": None}


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (None, ""), (3, ""), ("\ud83d", "\ufffd")])
def test_text_field_must_be_a_string(value: object, text: str) -> None:
    assert string_of({"key": value}, "key") == text
    assert string_of({}, "key") == ""


@pytest.mark.parametrize(
    ("value", "found"), [([{"a": 1}, 3, None, {}], [{"a": 1}, {}]), (None, []), ({}, []), ("x", [])]
)
def test_only_objects_of_an_array_are_returned(value: object, found: list[Any]) -> None:
    assert objects_of(value) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a":1}', {"a": 1}), ("[1]", {}), ("null", {}), ("{broken", {}), ("", {})],
)
def test_json_that_is_no_object_is_read_as_an_empty_object(text: str, value: object) -> None:
    assert object_in(text) == value
    assert object_in('{"a":' * 1000 + "1" + "}" * 1000) == {}


def test_long_text_is_cleaned_in_pieces_that_split_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_module, "_CLEANED_CHARS", 2)
    high, low = "\ud83d", "\ude00"
    for prefix in ("", "a"):
        text = prefix + high + low + "b" + high + high + low + low + "c" + high
        assert clean(text) == prefix + "\U0001f600b\ufffd\U0001f600\ufffdc\ufffd"


def test_large_text_that_msgspec_refuses_is_read() -> None:
    """Half a pair and a number that is not finite, in text that is decoded in pieces."""
    filler = ["x" * 1000] * 2_200
    text = json.dumps({"a": filler, "b": "half \ud83d", "c": float("nan"), "d": [1e308]})
    read = decode_any(text.replace("1e+308", "1e999"), max_depth=2)
    assert read == {"a": filler, "b": "half \ufffd", "c": None, "d": [None]}
    with pytest.raises(InvalidJSON, match="no JSON in"):
        decode_any(text[:-1], max_depth=2)
