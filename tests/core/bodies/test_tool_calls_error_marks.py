"""Errors of tools in dialects that have no field for them."""

from __future__ import annotations

import pytest

from streamnorm import CacheMark, Image, Text, ToolResult
from streamnorm._core.bodies.tool_calls import mark_error, unmark_error

PNG = Image("image/png", "aGk=")
MARKED = Text("<tool_error>timeout</tool_error>", cache=CacheMark())


def test_the_text_of_an_error_is_marked_as_a_whole() -> None:
    result = ToolResult("a", (Text("timeout", cache=CacheMark()), PNG), is_error=True)
    assert mark_error(result) == (MARKED, PNG)
    parted = ToolResult("a", (Text("time"), PNG, Text("out")), is_error=True)
    assert mark_error(parted) == (Text(MARKED.text), PNG)
    empty = ToolResult("a", is_error=True)
    assert mark_error(empty) == (Text("<tool_error></tool_error>"),)


def test_a_result_that_is_no_error_stays() -> None:
    content = (Text("a"), PNG)
    assert mark_error(ToolResult("a", content)) is content


def test_only_the_exact_mark_is_read_back() -> None:
    unmarked = (True, (Text("timeout", cache=CacheMark()), PNG))
    assert unmark_error((MARKED, PNG)) == unmarked


@pytest.mark.parametrize(
    "content",
    [
        (),
        (PNG, MARKED),
        (MARKED, Text("more")),
        (Text("<tool_error>open"),),
        (Text("shut</tool_error>"),),
        (Text(" <tool_error>a</tool_error>"),),
    ],
    ids=repr,
)
def test_anything_else_is_no_error(content: tuple[Text | Image, ...]) -> None:
    assert unmark_error(content) == (False, content)
