"""Bounds of a request: at the bound it is read, one beyond it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamnorm import DecodeError, InputMessage, Limits, Request, Text, Tool, ToolCall, ToolResult
from streamnorm._core.bodies.fields import check_bounds
from streamnorm.tools import CustomTool, MCPServer


def message(*blocks: Any) -> Request:
    return Request(messages=(InputMessage("user"), InputMessage("assistant", blocks)))


CASES: list[tuple[str, Callable[[int], Request], str]] = [
    ("max_choices", lambda n: Request(choices=n), "$.choices"),
    ("max_id_chars", lambda n: Request(model="m" * n), "$.model"),
    ("max_id_chars", lambda n: Request(tools=(MCPServer("x"), Tool("f" * n))), "$.tools[1].name"),
    ("max_id_chars", lambda n: Request(tools=(CustomTool("f" * n),)), "$.tools[0].name"),
    ("max_id_chars", lambda n: message(ToolCall("i" * n, "f")), "$.messages[1].blocks"),
    ("max_id_chars", lambda n: message(ToolCall("i", "f" * n)), "$.messages[1].blocks"),
    ("max_id_chars", lambda n: message(ToolResult("i" * n)), "$.messages[1].blocks"),
    ("max_blocks", lambda n: message(*[Text("x")] * n), "$.messages[1].blocks"),
    ("max_blocks", lambda n: message(ToolResult("i", (Text("x"),) * n)), "$.messages[1].blocks"),
    ("max_tool_calls", lambda n: message(*[ToolCall("i", "f")] * n), "$.messages[1].blocks"),
]


@pytest.mark.parametrize(("bound", "make", "path"), CASES)
def test_a_request_is_read_up_to_its_bounds(
    bound: str, make: Callable[[int], Request], path: str
) -> None:
    limits = Limits(**{bound: 5})
    check_bounds(make(4), limits)
    check_bounds(make(5), limits)
    with pytest.raises(DecodeError, match=r"6 .*, expected at most 5") as caught:
        check_bounds(make(6), limits)
    assert caught.value.path == path
