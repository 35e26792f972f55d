"""Objects of MCP as decoded JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamnorm import DecodeError
from streamnorm._core.mcp import mcp_object, mcp_struct, unmapped_fields


class Named(msgspec.Struct):
    name: str


class Model:
    """What a model of pydantic is to this library."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        assert (mode, by_alias) == ("json", True)
        return self._fields


def test_a_dict_is_itself_and_a_model_its_fields() -> None:
    value = {"name": "f"}
    assert mcp_object(value) is value
    assert mcp_object(Model(name="f")) == value


@pytest.mark.parametrize("value", [None, "{}", ["f"], 3, object()])
def test_no_object_is_an_error(value: object) -> None:
    with pytest.raises(DecodeError, match="expected an object of MCP"):
        mcp_object(value)


def test_depth_is_bounded() -> None:
    value: dict[str, Any] = {}
    for _ in range(126):
        value = {"a": value}
    value = {"a": [value]}
    assert mcp_object(value) is value
    with pytest.raises(DecodeError, match="nested deeper than 128"):
        mcp_object({"a": value})


def test_a_field_of_another_type_is_an_error_with_its_path() -> None:
    with pytest.raises(DecodeError, match=r"^\$\.tools\[2\]\.name: expected `str`, got `int`$"):
        mcp_struct({"name": 3}, Named, "$.tools[2]")
    with pytest.raises(DecodeError, match=r"^\$: object missing required field `name`$"):
        mcp_struct({}, Named)


def test_fields_without_a_place_are_extra_and_nulls_are_not() -> None:
    assert unmapped_fields({"name": "f", "title": "F", "icons": None}, Named) == {
        "mcp": {"title": "F"}
    }
    assert unmapped_fields({"name": "f", "icons": None}, Named) is None
