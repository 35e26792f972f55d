"""Tools that the web page executes, decoded from request bodies."""

from __future__ import annotations

from typing import Any

from streamnorm._core.bodies.fields import get_object, get_str, read_objects, require_str
from streamnorm._core.errors import DecodeError
from streamnorm._core.tools import Tool


def tools_from_wire(body: dict[str, Any]) -> tuple[Tool, ...]:
    """Return the tools of a request.

    Raises:
        DecodeError: An entry is no tool, or has the name of an earlier one.
    """
    names: set[str] = set()

    def read(item: dict[str, Any]) -> Tool:
        tool = _tool_from_wire(item)
        if tool.name in names:
            raise DecodeError("name of another tool, expected one of its own", path="$.name")
        names.add(tool.name)
        return tool

    return tuple(read_objects(body.get("tools"), read, "$.tools"))


def _tool_from_wire(value: dict[str, Any]) -> Tool:
    """Return a tool without its `metadata`, which only the page reads."""
    name = require_str(value, "name")
    if not name:
        raise DecodeError("an empty name, expected one", path="$.name")
    return Tool(name, get_str(value, "description"), get_object(value, "parameters"))
