"""Tools from and to the Model Context Protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.json_texts import ANY_TEXT, values

from streamnorm import CacheMark, DecodeError, Tool
from streamnorm.tools import Namespace

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LISTED: dict[str, Any] = {
    "name": "get_weather",
    "title": "Weather",
    "description": "Weather of a city",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"a": 1},
}


def test_a_listed_tool_is_a_tool_and_back() -> None:
    tool = Tool.from_mcp(LISTED)
    assert (tool.name, tool.description) == ("get_weather", "Weather of a city")
    assert tool.input_schema == SCHEMA
    assert tool.extra == {
        "mcp": {
            "title": "Weather",
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
            "_meta": {"a": 1},
        }
    }
    assert tool.to_mcp() == LISTED


def test_a_tool_of_name_and_schema_alone() -> None:
    tool = Tool.from_mcp({"name": "f", "inputSchema": {}, "title": None})
    assert tool == Tool("f", None, {})
    assert tool.to_mcp() == {"name": "f", "inputSchema": {"type": "object"}}


def test_a_tool_without_schema_takes_any_object_in_mcp() -> None:
    assert Tool("f").to_mcp() == {"name": "f", "inputSchema": {"type": "object"}}


def test_a_namespace_stands_before_the_name() -> None:
    tool = Tool("delete", namespace=Namespace("crm"), strict=True, cache=CacheMark())
    assert tool.to_mcp() == {"name": "crm__delete", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"inputSchema": {}}, r"^\$: object missing required field `name`$"),
        ({"name": "f"}, r"^\$: object missing required field `inputSchema`$"),
        ({"name": "f", "inputSchema": []}, r"^\$\.inputSchema: expected `object`, got `array`$"),
        ({"name": "f", "inputSchema": {}, "description": 3}, r"^\$\.description: expected"),
        ([], "expected an object of MCP"),
    ],
)
def test_what_is_no_tool_is_an_error(value: object, error: str) -> None:
    with pytest.raises(DecodeError, match=error):
        Tool.from_mcp(value)


def test_half_a_character_is_replaced() -> None:
    tool = Tool.from_mcp({"name": "f\ud83d", "description": "\ud83d", "inputSchema": {}})
    assert (tool.name, tool.description) == ("f�", "�")


ANY = values(ANY_TEXT)
LISTS = st.fixed_dictionaries(
    {"name": ANY_TEXT, "inputSchema": st.dictionaries(ANY_TEXT, ANY, max_size=3)},
    optional={"description": ANY_TEXT | ANY, "title": ANY, "annotations": ANY},
)


@given(LISTS | ANY)
def test_any_value_is_a_tool_or_an_error_of_ours(value: object) -> None:
    try:
        tool = Tool.from_mcp(value)
    except DecodeError:
        return
    again = Tool.from_mcp(tool.to_mcp())
    assert (again.name, again.description, again.extra) == (tool.name, tool.description, tool.extra)
    assert again.input_schema == {"type": "object", **(tool.input_schema or {})}
