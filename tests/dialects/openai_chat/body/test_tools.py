"""Tools and the choice among them, read and written."""

from __future__ import annotations

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
    without_source,
    write,
)

from streamnorm import DecodeError, EncodeError, Text, Tool, ToolChoice
from streamnorm._core.tools import AnyTool
from streamnorm.tools import CustomTool, Grammar, MCPServer, ServerTool

HI = message("user", Text("Hi"))
SCHEMA = {"type": "object", "properties": {"t": {"type": "integer"}}}
F = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
LARK = {"syntax": "lark", "definition": "start: /.+/"}
P = {"type": "custom", "custom": {"name": "p"}}

TOOLS: dict[str, tuple[dict[str, Any], AnyTool]] = {
    "function": (F, Tool("f", input_schema=SCHEMA)),
    "function with all": (
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "Does.",
                "parameters": SCHEMA,
                "strict": True,
            },
        },
        Tool("f", "Does.", SCHEMA, strict=True),
    ),
    "custom tool": (P, CustomTool("p")),
    "custom tool with a grammar": (
        {
            "type": "custom",
            "custom": {
                "name": "p",
                "description": "Edits.",
                "format": {"type": "grammar", "grammar": LARK},
            },
        },
        CustomTool("p", "Edits.", Grammar("lark", "start: /.+/")),
    ),
}


def tools_of(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    return without_source(read({**body_of({"role": "user", "content": "Hi"}), **body})).tools


@pytest.mark.parametrize(("value", "tool"), TOOLS.values(), ids=TOOLS)
def test_tools_are_read_and_written(value: dict[str, Any], tool: AnyTool) -> None:
    assert tools_of({"tools": [value]}) == (tool,)
    body = write(asked(HI, tools=(tool,)))
    assert body["tools"] == [value]
    assert problems("openai_chat", body) == []


READ: dict[str, tuple[dict[str, Any], AnyTool]] = {
    "function without parameters": (
        {"type": "function", "function": {"name": "f"}},
        Tool("f", input_schema={"type": "object", "properties": {}}),
    ),
    "function without a type": ({"function": F["function"]}, Tool("f", input_schema=SCHEMA)),
    "function as Responses has it": (
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False},
        Tool("f", input_schema=SCHEMA, strict=False),
    ),
    "custom tool of any text": (
        {"type": "custom", "custom": {"name": "p", "format": {"type": "text"}}},
        CustomTool("p"),
    ),
    "tool of a server": (
        {"type": "web_search", "force_search": True},
        ServerTool("web_search", "openai_chat", {"type": "web_search", "force_search": True}),
    ),
}


@pytest.mark.parametrize(("value", "tool"), READ.values(), ids=READ)
def test_tools_of_servers_and_clients_are_read(value: dict[str, Any], tool: AnyTool) -> None:
    assert tools_of({"tools": [value]}) == (tool,)


@pytest.mark.parametrize(
    "value",
    [
        {**F, "cache_control": {"type": "ephemeral"}, "function": {**F["function"], "x": 1}},
        {"type": "function", "function": {**F["function"], "strict": None, "description": None}},
        {"type": "custom", "x": 1, "custom": {"name": "p", "y": 2, "format": None}},
        {"type": "web_search", "force_search": True},
        {"type": "builtin_function", "function": {"name": "$web_search"}},
    ],
)
def test_other_fields_of_a_tool_are_kept(value: dict[str, Any]) -> None:
    request = read(body_of({"role": "user", "content": "Hi"}, tools=[value]))
    assert write(without_source(request))["tools"] == [value]


def test_a_tool_stays_the_object_that_it_was() -> None:
    flat = {"type": "function", "name": "f", "parameters": {}}
    request = read(body_of({"role": "user", "content": "Hi"}, tools=[flat, F]))
    fewer = structs.replace(request, tools=request.tools[:1])
    assert write(fewer)["tools"][0] is flat


def test_legacy_functions_are_tools() -> None:
    function = {"name": "f", "description": "Does.", "parameters": SCHEMA}
    body = {"functions": [function], "function_call": {"name": "f"}}
    tool = Tool("f", "Does.", SCHEMA)
    assert tools_of(body) == (tool,)
    request = read({**body_of({"role": "user", "content": "Hi"}), **body})
    assert request.tool_choice == ToolChoice("named", ("f",))
    renamed = write(structs.replace(request, model="other"))
    assert {name: renamed[name] for name in body} == body
    assert "tools" not in renamed
    assert write(without_source(request))["tool_choice"] == {
        "type": "function",
        "function": {"name": "f"},
    }


def test_the_search_of_a_model_is_a_tool_of_the_server() -> None:
    options = {"search_context_size": "low"}
    search = ServerTool("web_search", "openai_chat", options, search_context_size="low")
    assert tools_of({"web_search_options": options}) == (search,)
    body = write(asked(HI, tools=(search,)))
    assert body["web_search_options"] == options
    assert "tools" not in body
    assert problems("openai_chat", body) == []
    place = {"type": "approximate", "approximate": {"city": "Rome"}}
    (located,) = tools_of({"web_search_options": {"user_location": place}})
    assert isinstance(located, ServerTool)
    assert located.user_location == {"city": "Rome"}
    (elsewhere,) = tools_of({"web_search_options": {"user_location": "Rome"}})
    assert isinstance(elsewhere, ServerTool)
    assert elsewhere.user_location is None
    of_another = ServerTool(
        "web_search", "anthropic", user_location={"city": "Rome"}, search_context_size="low"
    )
    assert write(asked(HI, tools=(of_another,)))["web_search_options"] == {
        "search_context_size": "low",
        "user_location": place,
    }
    foreign = ServerTool("web_search", "anthropic")
    both = write(asked(HI, tools=(foreign, Tool("f", input_schema=SCHEMA))))
    assert (both["web_search_options"], both["tools"]) == ({}, [F])


def test_a_tool_that_has_no_form_is_an_error() -> None:
    with pytest.raises(EncodeError, match="tools: MCPServer among the tools, expected a function"):
        write(asked(HI, tools=(MCPServer("s"),)))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"tools": 5}, "$.tools"),
        ({"tools": [5]}, "$.tools[0]"),
        ({"tools": [{}]}, "$.tools[0].name"),
        ({"tools": [{"type": 5}]}, "$.tools[0].type"),
        ({"tools": [{"type": "function", "function": 5}]}, "$.tools[0].function"),
        ({"tools": [F, {"type": "function", "function": {}}]}, "$.tools[1].function.name"),
        ({"tools": [{"type": "custom"}]}, "$.tools[0].custom"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "$.tools[0].custom.name"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "p", "format": "grammar"}}]},
            "$.tools[0].custom.format",
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "p", "format": {"type": "grammar"}}}]},
            "$.tools[0].custom.format.grammar",
        ),
        (
            {
                "tools": [
                    {
                        "type": "custom",
                        "custom": {
                            "name": "p",
                            "format": {"type": "grammar", "grammar": {"syntax": "lark"}},
                        },
                    }
                ]
            },
            "$.tools[0].custom.format.grammar.definition",
        ),
        ({"functions": [{"parameters": {}}]}, "$.functions[0].name"),
        ({"web_search_options": 5}, "$.web_search_options"),
    ],
)
def test_what_is_no_tool_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        tools_of(fields)
    assert caught.value.path == path


CHOICES: dict[str, tuple[Any, ToolChoice]] = {
    "auto": ("auto", ToolChoice("auto")),
    "none": ("none", ToolChoice("none")),
    "required": ("required", ToolChoice("required")),
    "function": (
        {"type": "function", "function": {"name": "f"}},
        ToolChoice("named", ("f",)),
    ),
    "custom tool": (
        {"type": "custom", "custom": {"name": "p"}},
        ToolChoice("named", ("p",), "custom"),
    ),
    "allowed tools": (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [
                    {"type": "function", "function": {"name": "f"}},
                    {"type": "custom", "custom": {"name": "p"}},
                ],
            },
        },
        ToolChoice("required", ("f", "p")),
    ),
}


@pytest.mark.parametrize(("value", "choice"), CHOICES.values(), ids=CHOICES)
def test_choices_are_read_and_written(value: Any, choice: ToolChoice) -> None:
    hi = {"role": "user", "content": "Hi"}
    assert read(body_of(hi, tools=[F, P], tool_choice=value)).tool_choice == choice
    body = write(asked(HI, tools=(Tool("f"), CustomTool("p")), tool_choice=choice))
    assert body["tool_choice"] == value
    assert problems("openai_chat", body) == []


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("any", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
        ({"function": {"name": "f"}}, ToolChoice("named", ("f",))),
    ],
)
def test_choices_of_servers_and_clients_are_read(value: Any, choice: ToolChoice) -> None:
    hi = {"role": "user", "content": "Hi"}
    assert read(body_of(hi, tools=[F], tool_choice=value)).tool_choice == choice


def allowed(**fields: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": fields}


@pytest.mark.parametrize(
    "value",
    [
        "sometimes",
        5,
        {"type": "web_search"},
        {"type": "function"},
        {"type": "function", "function": {"name": 5}},
        {"type": "function", "function": "f"},
        {"type": "allowed_tools"},
        allowed(mode="auto"),
        allowed(mode="auto", tools=[]),
        allowed(mode="none", tools=[F]),
        allowed(mode=5, tools=[F]),
        allowed(mode="auto", tools=[F, {"type": "mcp"}]),
        allowed(mode="auto", tools=[F, {"type": "function"}]),
    ],
)
def test_a_choice_of_another_form_stays_as_it_is(value: Any) -> None:
    request = read(body_of({"role": "user", "content": "Hi"}, tools=[F], tool_choice=value))
    assert request.tool_choice is None
    assert request.extra == {"openai_chat": {"tool_choice": value}}
    assert write(without_source(request))["tool_choice"] == value


def test_a_choice_of_a_server_tool_is_weakened_where_the_model_has_it_without_a_name() -> None:
    choice = ToolChoice("named", (), "web_search")
    request = asked(HI, tools=(Tool("f"),), tool_choice=choice)
    assert write(request)["tool_choice"] == "auto"
    assert lost_by(request) == ["tool_choice_weakened"]
    unnamed = asked(HI, tools=(Tool("f"),), tool_choice=ToolChoice("named"))
    assert write(unnamed)["tool_choice"] == "required"


def test_a_choice_without_tools_is_dropped() -> None:
    """The API refuses both fields then."""
    request = asked(HI, tool_choice=ToolChoice("none"), parallel_tool_calls=False)
    assert write(request) == body_of({"role": "user", "content": "Hi"})
    assert lost_by(request) == ["tool_choice", "parallel_tool_calls"]
    own = read(body_of({"role": "user", "content": "Hi"}, tools=[F], tool_choice="auto"))
    assert write(structs.replace(own, tools=())) == body_of({"role": "user", "content": "Hi"})


def test_a_choice_without_tools_stays_in_its_dialect() -> None:
    body = body_of({"role": "user", "content": "Hi"}, tool_choice="none", functions=[])
    assert write(structs.replace(read(body), model="n")) == {**body, "model": "n"}
