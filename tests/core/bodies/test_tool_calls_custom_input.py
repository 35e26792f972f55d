"""The free text of a custom call, out of the object that wraps it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.bodies.tool_calls import CustomToolInputDecoder

PATCH = '*** Begin Patch\n*** Update File: a.py\n-x = "\\t"\n+é 🜚 "\n*** End Patch\n'


def read(
    pieces: Iterable[str], *, max_json_depth: int = 128
) -> tuple[list[str], CustomToolInputDecoder]:
    """Return the text that each piece gave, the end's last, and the reader."""
    reader = CustomToolInputDecoder(max_json_depth=max_json_depth)
    return [*(reader.feed(piece) for piece in pieces), reader.close()], reader


def whole(arguments: str, **options: Any) -> tuple[str, bool, bool, str | None]:
    """Return the text of arguments, and what is said of it, however they are cut."""
    results = set()
    for size in (1, 2, 3, 7, max(1, len(arguments))):
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        texts, reader = read(pieces, **options)
        results.add(("".join(texts), reader.is_plain, reader.has_other_members, reader.problem))
    (result,) = results
    return result


def test_text_is_known_with_its_last_character() -> None:
    pieces = ['{"', "input", '":"', "*** Beg", "in \\", '"x', "\\", "u00", "e9", "\\n", '"', "}"]
    texts, reader = read(pieces)
    assert texts == ["", "", "", "*** Beg", "in ", '"x', "", "", "é", "\n", "", "", ""]
    assert (reader.is_plain, reader.has_other_members, reader.problem) == (False, False, None)


def test_halves_of_a_character_are_joined_over_pieces() -> None:
    texts, _ = read(['{"input":"a\\ud83d', "\\ude00b", '"}'])
    assert texts == ["a", "😀b", "", ""]
    assert whole('{"input":"\\ud83d\\ude00"}')[0] == "😀"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00"])
def test_half_of_a_character_alone_is_replaced(half: str) -> None:
    """No wire can carry it; `ToolCall.input()` reads it so, too."""
    assert whole(f'{{"input":"a{half}b"}}') == ("a�b", False, False, None)


@pytest.mark.parametrize(
    "escape", ['\\"', "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0000"]
)
def test_every_escape_is_resolved(escape: str) -> None:
    assert whole(f'{{"input":"a{escape}b"}}')[0] == json.loads(f'"a{escape}b"')


@given(
    text=st.text(),
    ascii=st.booleans(),
    indent=st.sampled_from([None, 1, "\t"]),
    others=st.dictionaries(
        st.text(max_size=3).filter(lambda key: key != "input"),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda values: (
                st.lists(values, max_size=2)
                | st.dictionaries(st.sampled_from(["input", "a"]), values, max_size=2)
            ),
        ),
        max_size=3,
    ),
    position=st.integers(0, 3),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_wrapped_text_is_the_string_of_the_object(
    text: str,
    ascii: bool,
    indent: Any,
    others: dict[str, Any],
    position: int,
    cuts: list[int],
) -> None:
    """In any order of keys, any spacing, any escapes, and however the arguments are cut."""
    members = list(others.items())
    members.insert(position, ("input", text))
    arguments = json.dumps(dict(members), ensure_ascii=ascii, indent=indent)
    places = sorted({0, *(cut for cut in cuts if cut < len(arguments)), len(arguments)})
    pieces = [arguments[start:end] for start, end in pairwise(places)]
    texts, reader = read(pieces)
    assert "".join(texts) == json.loads(arguments)["input"]
    assert (reader.is_plain, reader.problem) == (False, None)
    assert reader.has_other_members is bool(others)


@given(st.text('{}[]":,\\u0d8input tru1.\n', max_size=30))
def test_any_arguments_give_the_same_text_however_they_are_cut(arguments: str) -> None:
    text, is_plain, _, problem = whole(arguments)
    if is_plain:
        assert (text, problem) == (arguments, None)


# Other forms


@pytest.mark.parametrize(
    "arguments",
    [
        PATCH,
        " \n" + PATCH,
        "{ not JSON }",
        "{'input': 'a'}",
        '"*** Begin Patch"',
        '["apply_patch","x"]',
        "null",
        "12 apples",
        "12",
        "tru",
        '{"patch":"*** Begin Patch"}',
        '{"input":null}',
        '{"input":{"a":1}}',
        '{"input":["a"]}',
        '{"input": 1}',
        '{"a":1,"input":false,"b":2}',
        '{"a":1 "input":"x"}',
        '{"input":null,"input":"x"}',
        '{"Input":"x"}',
        '{"a":{"input":"x"}}',
    ],
)
def test_arguments_of_another_form_are_the_text_unchanged(arguments: str) -> None:
    text, is_plain, _, problem = whole(arguments)
    assert (text, is_plain, problem) == (arguments, True, None)


def test_plain_text_passes_at_its_first_character() -> None:
    texts, _ = read(["*** ", "Begin", " Patch"])
    assert texts == ["*** ", "Begin", " Patch", ""]
    texts, _ = read(['{"', "a", '": ', "x", "y"])
    assert texts == ["", "", "", '{"a": x', "y", ""]


@pytest.mark.parametrize("arguments", ["", "{}", " { } ", "\n"])
def test_no_arguments_are_no_text(arguments: str) -> None:
    assert whole(arguments) == ("", False, False, None)


def test_empty_text_is_wrapped() -> None:
    assert whole('{"input":""}') == ("", False, False, None)


# Unfinished text


@pytest.mark.parametrize(
    ("arguments", "text", "problem"),
    [
        ('{"input":"*** Beg', "*** Beg", "text ends at character 17, expected more"),
        ('{"input":"a\\', "a", "text ends at character 12, expected more"),
        ('{"input":"a"', "a", "text ends at character 12, expected a comma or }"),
        ('{"input":"a","b":', "a", "text ends at character 17, expected a value"),
        ('{"inp', '{"inp', "text ends at character 5, expected more"),
        ("{", "{", "text ends at character 1, expected a key or }"),
        ('{"a":1,', '{"a":1,', "text ends at character 7, expected a key"),
    ],
)
def test_text_that_was_cut_is_unfinished(arguments: str, text: str, problem: str) -> None:
    found, is_plain, _, why = whole(arguments)
    assert (found, is_plain, why) == (text, False, problem)


@pytest.mark.parametrize(
    ("arguments", "text", "problem"),
    [
        ('{"input":"a\nb"}', "a", "character 11 does not fit, expected a character of a string"),
        ('{"input":"a\\x"}', "a", "character 12 does not fit, expected a character of a string"),
        ('{"input":"a"}}', "a", "character 13 does not fit, expected the end of the text"),
        ('{"input":"a"} {"input":"b"}', "a", "character 14 does not fit"),
        ('{"input":"a","input":"b"}', "a", "second member `input`, expected one"),
        ('{"input":"a","input":null}', "a", "second member `input`, expected one"),
    ],
)
def test_text_before_what_is_no_json_is_unfinished(arguments: str, text: str, problem: str) -> None:
    found, is_plain, _, why = whole(arguments)
    assert (found, is_plain) == (text, False)
    assert why is not None
    assert why.startswith(problem)


def test_other_members_may_not_nest_too_deep() -> None:
    deep = "[[[1]]]"
    assert whole(f'{{"input":"a","b":{deep}}}', max_json_depth=4)[3] is None
    assert whole(f'{{"input":"a","b":{deep}}}', max_json_depth=3)[3] is not None
    arguments = f'{{"b":{deep},"input":"a"}}'
    assert whole(arguments, max_json_depth=3)[:2] == (arguments, True)
