"""Requests as values, and the parts that are written as they were read."""

from __future__ import annotations

from msgspec import structs

from streamnorm import Image, InputMessage, Request, Text, Tool, ToolCall, ToolResult
from streamnorm._core.bodies.request import (
    Source,
    is_same_dialect,
    request_source,
    same_parts,
    unchanged_source,
)

CALL, RESULT = ToolCall("c", "f"), ToolResult("c")


def test_a_message_knows_its_text_calls_and_results() -> None:
    message = InputMessage("user", (Text("a"), CALL, Image(), RESULT, Text("b")))
    assert message.text == "ab"
    assert message.tool_calls == (CALL,)
    assert message.tool_results == (RESULT,)


def test_an_unchanged_part_is_written_as_it_was_read() -> None:
    for part in (InputMessage("user", (Text("a"),)), Tool("f"), Request(model="m")):
        read = structs.replace(part, source=Source("chat", {"x": 1}, part))
        assert unchanged_source(read, "chat") == {"x": 1}
        assert unchanged_source(read, "other") is None
        assert unchanged_source(part, "chat") is None
        assert is_same_dialect(read, "chat")
        assert not is_same_dialect(read, "other")
        assert not is_same_dialect(part, "chat")


def test_a_changed_part_is_written_anew() -> None:
    part = InputMessage("user", (Text("a"),))
    read = structs.replace(part, source=Source("chat", {}, part))
    changed = structs.replace(read, blocks=(Text("b"),))
    assert unchanged_source(changed, "chat") is None
    assert is_same_dialect(changed, "chat")


def test_a_request_for_another_model_is_written_as_it_was_read() -> None:
    part = Request(model="m", stop=("a",))
    body = {"model": "m", "stop": "a"}
    read = structs.replace(part, source=Source("chat", body, part))
    assert request_source(read, "chat") is body
    assert request_source(structs.replace(read, model="n"), "chat") == {"model": "n", "stop": "a"}
    assert request_source(structs.replace(read, model=""), "chat") == {"stop": "a"}
    assert request_source(structs.replace(read, model="n", stop=("b",)), "chat") is None
    assert request_source(read, "other") is None
    assert body == {"model": "m", "stop": "a"}


def test_the_same_parts_are_the_same_tuple() -> None:
    before = (CALL, RESULT)
    assert same_parts(before, (CALL, RESULT)) is before
    other = (CALL, ToolResult("c"))
    assert same_parts(before, other) is other
    assert same_parts(before, (CALL,)) == (CALL,)
