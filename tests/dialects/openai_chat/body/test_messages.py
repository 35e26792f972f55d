"""Messages of users, systems and tools, read and written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_chat.requests import (
    asked,
    body_of,
    lost_by,
    message,
    read,
    read_message,
    without_source,
    write,
)

from streamnorm import (
    CacheMark,
    DecodeError,
    Image,
    InputMessage,
    Text,
    ToolResult,
)

BOTH_WAYS: dict[str, tuple[dict[str, Any], InputMessage]] = {
    "system": ({"role": "system", "content": "Be brief."}, message("system", Text("Be brief."))),
    "developer of parts": (
        {
            "role": "developer",
            "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
        },
        message("developer", Text("A"), Text("B")),
    ),
    "user": ({"role": "user", "content": "Hi"}, message("user", Text("Hi"))),
    "user with a name": (
        {"role": "user", "name": "bob", "content": "Hi"},
        message("user", Text("Hi"), name="bob"),
    ),
    "user without content": ({"role": "user", "content": ""}, message("user")),
    "result": (
        {"role": "tool", "tool_call_id": "c1", "content": "18 °C"},
        message("user", ToolResult("c1", (Text("18 °C"),))),
    ),
    "result without content": (
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        message("user", ToolResult("c1")),
    ),
    "result of parts": (
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
        },
        message("user", ToolResult("c1", (Text("A"), Text("B")))),
    ),
    "marked result": (
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [
                {"type": "text", "text": "A", "prompt_cache_breakpoint": {"mode": "explicit"}}
            ],
        },
        message("user", ToolResult("c1", (Text("A"),), cache=CacheMark())),
    ),
}


@pytest.mark.parametrize(("value", "unified"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_messages_are_read_and_written(value: dict[str, Any], unified: InputMessage) -> None:
    assert read_message(value) == unified
    body = write(asked(unified))
    assert body["messages"] == [value]
    assert problems("openai_chat", body) == []


def test_a_message_stays_the_object_that_it_was() -> None:
    value = {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": None, "x": 1}
    request = structs.replace(read(body_of(value)), model="other")
    grown = structs.replace(request, messages=(*request.messages, message("user", Text("?"))))
    for changed in (request, grown):
        assert write(changed)["messages"][0] is value


def test_a_changed_message_is_written_anew_with_its_other_fields() -> None:
    value = {"role": "user", "content": None, "x": 1, "name": None}
    unchanged = read_message(value)
    assert unchanged.extra == {"openai_chat": {"x": 1, "content": None, "name": None}}
    assert write(asked(unchanged))["messages"] == [value]
    changed = structs.replace(unchanged, blocks=(Text("Hi"),))
    written = {"role": "user", "content": "Hi", "x": 1, "name": None}
    assert write(asked(changed))["messages"] == [written]


def test_a_message_that_has_lost_all_blocks_still_has_content() -> None:
    emptied = message("user", extra={"openai_chat": {"x": 1}})
    assert write(asked(emptied))["messages"] == [{"role": "user", "x": 1, "content": ""}]


def test_a_mark_on_a_message_is_one_on_its_last_block() -> None:
    value = {"role": "user", "content": "Hi", "cache_control": {"type": "ephemeral"}}
    assert read_message(value).blocks == (Text("Hi", cache=CacheMark()),)
    marked = {"role": "tool", "tool_call_id": "c", "cache_control": {"type": "ephemeral"}}
    assert read_message(marked).blocks == (ToolResult("c", cache=CacheMark()),)
    empty = {"role": "user", "content": "", "cache_control": {"type": "ephemeral"}}
    assert read_message(empty).extra == {"openai_chat": {"cache_control": {"type": "ephemeral"}}}


def test_a_mark_on_a_result_without_content_is_lost() -> None:
    marked = asked(message("user", ToolResult("c", cache=CacheMark())))
    assert write(marked)["messages"] == [{"role": "tool", "tool_call_id": "c", "content": ""}]
    assert lost_by(marked) == ["cache_mark_dropped"]


@pytest.mark.parametrize("content", ["<tool_error>no</tool_error>", None])
def test_the_marker_of_a_failed_tool_is_read(content: str | None) -> None:
    text = {"type": "text", "text": "<tool_error>no</tool_error>"}
    value = {"role": "tool", "tool_call_id": "c", "content": content or [text]}
    assert read_message(value).blocks == (ToolResult("c", (Text("no"),), is_error=True),)


@pytest.mark.parametrize(
    "content",
    [
        "<tool_error>no</tool_error>.",
        " <tool_error>no</tool_error>",
        [{"type": "text", "text": "<tool_error>"}, {"type": "text", "text": "</tool_error>"}],
    ],
)
def test_only_the_exact_marker_is_one(content: Any) -> None:
    (result,) = read_message({"role": "tool", "tool_call_id": "c", "content": content}).blocks
    assert isinstance(result, ToolResult)
    assert not result.is_error


def test_a_result_of_the_changed_message_keeps_its_other_fields() -> None:
    value = {"role": "tool", "tool_call_id": "c", "name": "f", "content": "ok", "x": 1}
    (result,) = read_message(value).blocks
    extra = {"openai_chat": {"x": 1}}
    assert result == ToolResult("c", (Text("ok"),), name="f", extra=extra)
    # The vendor has no name in a result.
    written = {"role": "tool", "tool_call_id": "c", "content": "ok", "x": 1}
    assert write(asked(message("user", result)))["messages"] == [written]


def test_a_legacy_result_has_a_name_and_no_id() -> None:
    value = {"role": "function", "name": "f", "content": "ok"}
    assert read_message(value).blocks == (ToolResult("", (Text("ok"),), name="f"),)


def test_a_refusal_in_a_result_is_text() -> None:
    part = {"type": "refusal", "refusal": "No."}
    value = {"role": "tool", "tool_call_id": "c", "content": [part]}
    assert read_message(value).blocks == (ToolResult("c", (Text("No."),)),)


def test_each_result_is_a_message_of_its_own() -> None:
    blocks = (
        ToolResult("c1", (Text("A"),)),
        ToolResult("c2", (Image(url="u"),)),
        Text("go on"),
        ToolResult("c3", (Text("C"),)),
    )
    image = {"type": "image_url", "image_url": {"url": "u"}}
    body = write(asked(message("user", *blocks, name="bob")))
    assert body["messages"] == [
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "tool", "tool_call_id": "c2", "content": [image]},
        {"role": "user", "name": "bob", "content": "go on"},
        {"role": "tool", "tool_call_id": "c3", "content": "C"},
    ]


def test_a_longer_conversation_repeats_the_shorter_one() -> None:
    turns = [
        message("system", Text("Be brief.")),
        message("user", Text("Hi")),
        message("assistant", Text("A"), Text("B")),
        message("user", ToolResult("c1", (Text("A"),)), Text("go on")),
        message("user", Text("?")),
    ]
    written = [write(asked(*turns[:count]))["messages"] for count in range(1, 6)]
    for shorter, longer in pairwise(written):
        assert longer[: len(shorter)] == shorter


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (5, ""),
        ("Hi", ""),
        ({"content": "Hi"}, ".role"),
        ({"role": "model", "content": "Hi"}, ".role"),
        ({"role": ["user"], "content": "Hi"}, ".role"),
        ({"role": "user", "content": "Hi", "name": 5}, ".name"),
        ({"role": "tool", "tool_call_id": 5, "content": "Hi"}, ".tool_call_id"),
        ({"role": "tool", "tool_call_id": "c1", "content": 5}, ".content"),
    ],
)
def test_what_is_no_message_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body_of({"role": "user", "content": "Hi"}, value))
    assert caught.value.path == f"$.messages[1]{path}"
    assert "model" not in caught.value.args[0]


def test_a_message_without_source_reads_as_it_was_written() -> None:
    request = read(body_of(*(value for value, _ in BOTH_WAYS.values())))
    again = read(write(without_source(request)))
    assert without_source(again) == without_source(request)
