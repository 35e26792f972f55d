"""Tools, and which of them the model may call, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.anthropic.bodies import Body, parts_of, read, rewritten, write

from streamnorm import CacheMark, DecodeError, EncodeError, Request, Tool, ToolChoice
from streamnorm._core.tools import AnyTool
from streamnorm.tools import CustomTool, ServerTool

SCHEMA: Body = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Body = {"name": "get_weather", "description": "Weather now", "input_schema": SCHEMA}
SEARCH: Body = {"type": "web_search_20250305", "name": "web_search"}


def tool_in(value: Body) -> AnyTool:
    """Return what a tool is read as."""
    (tool,) = parts_of(read(tools=[value])).tools
    return tool


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (WEATHER, Tool("get_weather", "Weather now", SCHEMA)),
        ({"name": "f", "input_schema": {"type": "object"}}, Tool("f", None, {"type": "object"})),
        (
            {**WEATHER, "strict": True, "defer_loading": True},
            Tool("get_weather", "Weather now", SCHEMA, strict=True, deferred=True),
        ),
        (
            {**WEATHER, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            Tool("get_weather", "Weather now", SCHEMA, cache=CacheMark("1h")),
        ),
        (
            {**WEATHER, "eager_input_streaming": True, "input_examples": [{"city": "Rome"}]},
            Tool(
                "get_weather",
                "Weather now",
                SCHEMA,
                extra={
                    "anthropic": {
                        "eager_input_streaming": True,
                        "input_examples": [{"city": "Rome"}],
                    }
                },
            ),
        ),
    ],
)
def test_function_is_read_and_written_again(value: Body, expected: Tool) -> None:
    assert tool_in(value) == expected
    assert rewritten(tools=[value, SEARCH])["tools"] == [value, SEARCH]


def test_tool_of_an_unknown_type_with_a_schema_is_a_function() -> None:
    value = {**WEATHER, "type": "function"}
    extra = {"anthropic": {"type": "function"}}
    assert tool_in(value) == Tool("get_weather", "Weather now", SCHEMA, extra=extra)
    assert rewritten(tools=[value])["tools"] == [value]


@pytest.mark.parametrize("type", ["custom", None])
def test_type_of_a_function_need_not_be_said(type: str | None) -> None:
    assert tool_in({**WEATHER, "type": type}) == Tool("get_weather", "Weather now", SCHEMA)


def test_unchanged_tool_is_written_as_it_was_read() -> None:
    value = {**WEATHER, "type": "custom", "strict": None}
    request = structs.replace(read(tools=[value]), max_tokens=10)
    assert write(request).body["tools"][0] is value


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"type": "object"}),
        ({"properties": {}}, {"type": "object", "properties": {}}),
    ],
)
def test_schema_is_always_that_of_an_object(schema: Body | None, expected: Body) -> None:
    request = Request(tools=(Tool("f", input_schema=schema, strict=False),))
    assert write(request).body["tools"] == [{"name": "f", "input_schema": expected}]


def test_tools_are_not_all_deferred() -> None:
    deferred = Tool("f", deferred=True)
    loaded = {"name": "f", "input_schema": {"type": "object"}}
    wrote = write(Request(tools=(deferred, Tool("g", deferred=True))))
    assert wrote.body["tools"] == [loaded, {**loaded, "name": "g"}]
    assert wrote.losses == [("deferred_tool_loaded", "offered from the start")]
    search = ServerTool("tool_search", "openai_responses")
    for beside in (Tool("g"), search):
        wrote = write(Request(tools=(deferred, beside)))
        assert wrote.body["tools"][0] == {**loaded, "defer_loading": True}
        assert wrote.losses == []
    own = {**loaded, "defer_loading": True}
    assert write(structs.replace(read(tools=[own]), max_tokens=1)).body["tools"] == [own]


@pytest.mark.parametrize(
    ("value", "properties"),
    [
        ({"type": "bash_20250124", "name": "bash"}, {"command", "restart"}),
        (
            {
                "type": "text_editor_20250728",
                "name": "str_replace_based_edit_tool",
                "max_characters": 100,
            },
            {
                *("command", "path", "view_range", "file_text", "old_str", "new_str"),
                *("insert_line", "insert_text"),
            },
        ),
        (
            {"type": "text_editor_20250124", "name": "str_replace_editor"},
            {
                *("command", "path", "view_range", "file_text", "old_str", "new_str"),
                "insert_line",
            },
        ),
        (
            {"type": "memory_20250818", "name": "memory"},
            {
                *("command", "path", "view_range", "file_text", "old_str", "new_str"),
                *("insert_line", "insert_text", "old_path", "new_path"),
            },
        ),
    ],
)
def test_typed_tool_of_the_client_has_the_schema_for_other_vendors(
    value: Body, properties: set[str]
) -> None:
    tool = tool_in(value)
    assert isinstance(tool, Tool)
    assert (tool.name, tool.vendor_type) == (value["name"], value["type"])
    assert tool.description
    assert tool.input_schema is not None
    assert set(tool.input_schema["properties"]) == properties
    assert rewritten(tools=[value])["tools"] == [value]


@pytest.mark.parametrize(
    "tools",
    [
        (Tool("web_search"), ServerTool("web_search", "openai_responses")),
        (Tool("f"), Tool("f")),
    ],
    ids=["of the server", "function"],
)
def test_tool_with_the_name_of_another_one_is_refused(tools: tuple[AnyTool, ...]) -> None:
    with pytest.raises(EncodeError, match="name of another tool") as caught:
        write(Request(model="m", tools=tools))
    assert caught.value.path == "tools[1]"
    both = [{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}]
    changed = structs.replace(read(tools=both), max_tokens=1)
    assert write(changed).body["tools"] == both


def test_typed_tool_of_another_vendor_is_a_function() -> None:
    patch = Tool("apply_patch", "Edit files", SCHEMA, vendor_type="apply_patch")
    assert write(Request(tools=(patch,))).body["tools"] == [
        {"name": "apply_patch", "description": "Edit files", "input_schema": SCHEMA}
    ]


def test_tool_with_free_text_does_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="CustomTool passed"):
        write(Request(tools=(CustomTool("f"),)))


@pytest.mark.parametrize(
    ("tools", "path", "reason"),
    [
        ("a", "", "expected an array"),
        (["a"], "[0]", "expected an object"),
        ([WEATHER, {"name": "f"}], "[1].input_schema", "null, expected an object"),
        ([{"input_schema": {}}], "[0].name", "missing, expected a string"),
        ([{**WEATHER, "type": 1}], "[0].type", "expected a string"),
        ([{**WEATHER, "description": 1}], "[0].description", "expected a string"),
        ([{**WEATHER, "strict": 1}], "[0].strict", "expected a boolean"),
        ([{**WEATHER, "defer_loading": 1}], "[0].defer_loading", "expected a boolean"),
        ([{"type": "bash_20250124"}], "[0].name", "missing, expected a string"),
        ([{"type": "mcp_toolset"}], "[0].mcp_server_name", "missing, expected a string"),
    ],
)
def test_broken_tool_is_refused_with_its_path(tools: Any, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(tools=tools)
    assert error.value.path == f"$.tools{path}"


@pytest.mark.parametrize(
    ("value", "choice", "parallel"),
    [
        ({"type": "auto"}, ToolChoice("auto"), None),
        ({"type": "any"}, ToolChoice("required"), None),
        ({"type": "none"}, ToolChoice("none"), None),
        (
            {"type": "tool", "name": "get_weather"},
            ToolChoice("named", ("get_weather",)),
            None,
        ),
        (
            {"type": "tool", "name": "web_search"},
            ToolChoice("named", ("web_search",), "web_search"),
            None,
        ),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice("auto"), False),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice("required"), True),
    ],
)
def test_choice_is_read_and_written_again(
    value: Body, choice: ToolChoice, parallel: bool | None
) -> None:
    fields = {"tools": [WEATHER, SEARCH], "tool_choice": value}
    request = read(**fields)
    assert (request.tool_choice, request.parallel_tool_calls) == (choice, parallel)
    assert rewritten(**fields)["tool_choice"] == value


def test_request_without_a_choice_has_none() -> None:
    request = read(tools=[WEATHER])
    assert (request.tool_choice, request.parallel_tool_calls) == (None, None)
    assert "tool_choice" not in rewritten(tools=[WEATHER])


def test_unknown_fields_of_a_choice_are_kept() -> None:
    fields = {"tools": [WEATHER], "tool_choice": {"type": "auto", "weight": 2}}
    assert read(**fields).extra == {"anthropic": {"tool_choice": {"weight": 2}}}
    assert rewritten(**fields) == {**rewritten(tools=[WEATHER]), **fields}


@pytest.mark.parametrize("parallel", [True, False])
def test_parallel_calls_alone_are_said_in_an_auto_choice(*, parallel: bool) -> None:
    request = Request(tools=(Tool("f"),), parallel_tool_calls=parallel)
    assert write(request).body["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": not parallel,
    }


def test_choice_among_no_tools_is_dropped() -> None:
    request = Request(tool_choice=ToolChoice("auto"), parallel_tool_calls=False)
    wrote = write(request)
    assert "tool_choice" not in wrote.body
    assert wrote.losses == [
        ("tool_choice", "dropped without tools"),
        ("parallel_tool_calls", "dropped without tools"),
    ]
    assert write(Request(tool_choice=ToolChoice("none"))).losses == [
        ("tool_choice", "dropped without tools")
    ]
    assert write(Request(parallel_tool_calls=True)).losses == [
        ("parallel_tool_calls", "dropped without tools")
    ]


def test_parallel_calls_are_not_said_where_none_may_be_made() -> None:
    request = Request(tools=(Tool("f"),), tool_choice=ToolChoice("none"), parallel_tool_calls=False)
    wrote = write(request)
    assert wrote.body["tool_choice"] == {"type": "none"}
    assert wrote.losses == [("parallel_tool_calls", "dropped where no tool is called")]


def test_choice_of_a_server_tool_is_by_the_name_that_it_has_here() -> None:
    tools = (Tool("f"), ServerTool("code_execution", "openai_responses"))
    request = Request(
        tools=tools, tool_choice=ToolChoice("named", ("code_interpreter",), "code_execution")
    )
    assert write(request).body["tool_choice"] == {"type": "tool", "name": "code_execution"}


def test_choice_of_a_tool_that_was_not_written_is_auto() -> None:
    request = Request(
        tools=(Tool("f"),), tool_choice=ToolChoice("named", ("file_search",), "file_search")
    )
    wrote = write(request)
    assert wrote.body["tool_choice"] == {"type": "auto"}
    assert wrote.losses == [("tool_choice_weakened", "the tool was not written")]


@pytest.mark.parametrize(
    ("choice", "path", "reason"),
    [
        ("auto", "", "expected an object"),
        ({}, ".type", "missing, expected a string"),
        ({"type": "required"}, "", "expected auto, any, tool or none"),
        ({"type": "tool"}, ".name", "missing, expected a string"),
        (
            {"type": "auto", "disable_parallel_tool_use": 1},
            ".disable_parallel_tool_use",
            "expected a boolean",
        ),
    ],
)
def test_broken_choice_is_refused_with_its_path(choice: Any, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(tools=[WEATHER], tool_choice=choice)
    assert error.value.path == f"$.tool_choice{path}"
