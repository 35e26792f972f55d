"""Fields of Google's JSON: two spellings, and what has no unified field."""

from __future__ import annotations

import pytest

from streamnorm import DecodeError
from streamnorm.dialects.gemini.wire import add_extra, extra_of, to_camel


def test_both_spellings_are_read_as_one() -> None:
    value = {"function_call": {"in_ner": 1}, "thoughtSignature": "s", "parameters_json_schema": 2}
    assert to_camel(value) == {
        "functionCall": {"in_ner": 1},
        "thoughtSignature": "s",
        "parametersJsonSchema": 2,
    }


def test_an_object_in_camel_case_is_itself() -> None:
    value = {"functionCall": {}, "$ref": 1}
    assert to_camel(value) is value


@pytest.mark.parametrize("name", ["_meta", "a_", "A_b", "a__b", "x-y_z"])
def test_a_name_in_neither_spelling_stays(name: str) -> None:
    assert to_camel({name: 1}) == {name: 1}


def test_a_field_in_both_spellings_is_refused() -> None:
    with pytest.raises(DecodeError, match="both spellings") as caught:
        to_camel({"topK": 1, "top_k": 2})
    assert caught.value.path == "$.topK"


def test_extra_fields_go_back_to_their_inner_objects() -> None:
    extra = extra_of(
        {
            "toolConfig.functionCallingConfig.stream": True,
            "toolConfig.retrievalConfig": {},
            "other.field": 1,
            "kept": 2,
            "there": 3,
        }
    )
    wire = add_extra({"there": 0, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, extra)
    assert wire == {
        "there": 0,
        "toolConfig": {
            "functionCallingConfig": {"mode": "ANY", "stream": True},
            "retrievalConfig": {},
        },
        "other.field": 1,
        "kept": 2,
    }


def test_a_field_that_is_named_like_a_path_adds_at_most_two_levels() -> None:
    path = "toolConfig." * 1000 + "x"
    wire = add_extra({}, extra_of({"generationConfig": None, "generationConfig.a": 1, path: 2}))
    inner = "toolConfig." * 998 + "x"
    assert wire == {
        "generationConfig": None,
        "generationConfig.a": 1,
        "toolConfig": {"toolConfig": {inner: 2}},
    }


def test_no_extra_fields_are_none() -> None:
    assert extra_of({}) is None
    assert add_extra({"a": 1}, None) == {"a": 1}
    assert add_extra({"a": 1}, {"other": {"b": 2}}) == {"a": 1}
