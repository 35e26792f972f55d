"""Shapes of JSON values, and the problems that validators report."""

from __future__ import annotations

import pytest

from streamnorm._core.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    NULL_OR_TEXT,
    NUMBER,
    OBJECT,
    TEXT,
    Shape,
    array,
    changed_fields,
    either,
    holds_object,
    nullable,
    object_of,
    parse_object,
    problems,
    tagged,
    token_problems,
    word,
)

PAIR = object_of({"a": TEXT}, {"b": COUNT})
EITHER = tagged({"one": object_of({"n": COUNT}), "two": OBJECT})


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        *((ANYTHING, value) for value in (None, 1, "", [], {})),
        (ARRAY, []),
        (BOOLEAN, False),
        *((COUNT, value) for value in (0, 7, 2**63 - 1)),
        (NAME, "a"),
        *((NUMBER, value) for value in (0, -1, 0.5)),
        (OBJECT, {}),
        (TEXT, ""),
        *((NULL_OR_TEXT, value) for value in ("", None)),
        *((nullable(PAIR), value) for value in (None, {"a": ""})),
        (nullable(array(TEXT)), []),
        *((array(COUNT), value) for value in ([], [0, 1])),
        *((word("x", "y"), value) for value in ("x", "y")),
        *((either(TEXT, ARRAY), value) for value in ("", [0])),
        *((PAIR, value) for value in ({"a": ""}, {"a": "", "b": 0}, {"a": "", "other": None})),
        *((EITHER, value) for value in ({"type": "one", "n": 0}, {"type": "two"})),
    ],
)
def test_fitting_value_has_no_problem(shape: Shape, value: object) -> None:
    assert list(problems(shape, value, "v")) == []


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        (ARRAY, {}, "v is an object, expected an array"),
        (BOOLEAN, 1, "v is an integer, expected a boolean"),
        (COUNT, -1, "v is a negative integer, expected an integer from 0"),
        (COUNT, 2**63, "v is an integer of more than 63 bits, expected an integer from 0"),
        (COUNT, 1.0, "v is a decimal number, expected an integer from 0"),
        (COUNT, True, "v is a boolean, expected an integer from 0"),
        (COUNT, "1", "v is a string of 1 characters, expected an integer from 0"),
        (NAME, "", "v is an empty string, expected a string that is not empty"),
        (NUMBER, False, "v is a boolean, expected a number"),
        (OBJECT, [], "v is an array, expected an object"),
        (TEXT, None, "v is null, expected a string"),
        (NULL_OR_TEXT, 0, "v is an integer, expected a string or null"),
        (nullable(PAIR), {"a": 0}, "v.a is an integer, expected a string"),
        (word("x", "y"), "secret", "v is a string of 6 characters, expected x or y"),
        (word("x"), ["x"], "v is an array, expected x"),
        (either(TEXT, ARRAY), {}, "v is an object, expected a string or an array"),
        (array(TEXT), ["", 1], "v[1] is an integer, expected a string"),
        (PAIR, {}, "v.a is missing, expected a string"),
        (PAIR, {"a": "", "b": None}, "v.b is null, expected an integer from 0"),
        (EITHER, {}, "v.type is missing, expected a string"),
        (EITHER, {"type": ["one"]}, "v.type is an array, expected a string"),
        (
            EITHER,
            {"type": "three"},
            "v.type is unknown in 5 characters, expected one of the protocol",
        ),
        (EITHER, {"type": "one"}, "v.n is missing, expected an integer from 0"),
    ],
)
def test_problem_names_the_finding_then_the_expectation(
    shape: Shape, value: object, expected: str
) -> None:
    assert list(problems(shape, value, "v")) == [expected]


def test_every_problem_of_a_value_is_reported_in_the_order_of_its_fields() -> None:
    shape = object_of({"a": TEXT, "b": TEXT}, {"c": array(PAIR)})
    assert list(problems(shape, {"c": [{}, 0], "a": None}, "")) == [
        "a is null, expected a string",
        "b is missing, expected a string",
        "c[0].a is missing, expected a string",
        "c[1] is an integer, expected an object",
    ]


def test_whole_payload_has_no_path() -> None:
    assert list(problems(TEXT, 0, "")) == ["payload is an integer, expected a string"]
    assert list(problems(tagged({}), {"type": 0}, "")) == ["type is an integer, expected a string"]
    assert list(problems(tagged({}), {}, "")) == ["type is missing, expected a string"]


@pytest.mark.parametrize("text", ["{}", ' {"a": [1, "\\ud83d\\ude00"]}\n', '{"a": "\\\\ud83d"}'])
def test_object_is_parsed(text: str) -> None:
    value, wrong = parse_object(text)
    assert isinstance(value, dict)
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON in 0 characters, expected an object"),
        ("{", "no JSON in 1 characters, expected an object"),
        ("{} {}", "no JSON in 5 characters, expected an object"),
        ('{"a": "\n"}', "no JSON in 10 characters, expected an object"),
        ("9" * 5000, "no JSON in 5000 characters, expected an object"),
        ("[" * 100_000, "no JSON in 100000 characters, expected an object"),
        ("[]", "payload is an array, expected an object"),
        ("null", "payload is null, expected an object"),
        ("[" * 129 + "]" * 129, "payload is an array, expected an object"),
        (
            '{"a":' + "[" * 128 + "1" + "]" * 128 + "}",
            "payload nests deeper than 128, expected at most that",
        ),
    ],
)
def test_payload_that_is_no_object_is_refused(text: str, message: str) -> None:
    assert parse_object(text) == (None, [message])


def test_nesting_at_the_limit_is_parsed() -> None:
    value, wrong = parse_object('{"a":' + "[" * 127 + "1" + "]" * 127 + "}")
    assert value is not None
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "NaN or Infinity in the payload, expected numbers"),
        ('{"a": [-Infinity]}', "NaN or Infinity in the payload, expected numbers"),
        ('{"a": "\\ud83d"}', "escape of a lone surrogate in the payload, expected pairs"),
        ('{"\\ude00": 1}', "escape of a lone surrogate in the payload, expected pairs"),
    ],
)
def test_json_that_some_clients_cannot_read_is_reported(text: str, message: str) -> None:
    value, wrong = parse_object(text)
    assert isinstance(value, dict)
    assert wrong == [message]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("{}", True), (' {"a": 1}', True), ('{"a": "\\ud83d"}', True)),
        *(("", False), ("[]", False), ("null", False), ('{"a": NaN}', False), ('{"a"', False)),
        *(("{}{}", False), ("[" * 100_000, False)),
    ],
)
def test_json_text_must_be_an_object(text: str, *, expected: bool) -> None:
    assert holds_object(text) is expected


def test_constant_field_is_reported_at_each_change() -> None:
    known: dict[str, object] = {}
    chunks: list[dict[str, object]] = [
        {"id": "a"},
        {"id": "a", "created": 1},
        {"id": 0, "created": True},  # of another type, which the shape reports
        {"id": "b", "created": 1, "other": 2},
        {"id": "a", "created": 2},
    ]
    types = {"id": str, "created": int}
    assert [list(changed_fields(known, chunk, types)) for chunk in chunks] == [
        [],
        [],
        [],
        ["id is not that of the chunk before, expected one throughout"],
        [
            "id is not that of the chunk before, expected one throughout",
            "created is not that of the chunk before, expected one throughout",
        ],
    ]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"in_tokens": 3, "out_tokens": 2, "total_tokens": 5}, []),
        (
            {"in_tokens": 3, "out_tokens": 2, "total_tokens": 6},
            ["u.total_tokens is 6, expected 5"],
        ),
        ({"in_tokens": 3, "out_tokens": None, "total_tokens": 6}, []),
        (
            {
                "in_tokens": 3,
                "in_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 2},
                "out_tokens": 2,
                "out_tokens_details": {"reasoning_tokens": 2},
            },
            ["u.in_tokens_details has 4 tokens, expected at most 3"],
        ),
        (
            {"out_tokens": 2, "out_tokens_details": {"reasoning_tokens": 3}},
            ["u.out_tokens_details has 3 tokens, expected at most 2"],
        ),
        ({"out_tokens": 2, "out_tokens_details": {"reasoning_tokens": "3"}}, []),
    ],
)
def test_contradicting_token_counts_are_reported(
    usage: dict[str, object], expected: list[str]
) -> None:
    assert list(token_problems(usage, "u", "in", "out")) == expected
