"""Tools and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_responses.requests import bare, read, read_tool, write

from streamnorm import DecodeError, encode_request
from streamnorm._core.bodies.request import Request
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    Grammar,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
    ToolChoice,
)

OWN = "openai_responses"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}

# Tools that are read as these, and written as the same object.
TOOLS: dict[str, tuple[dict[str, Any], AnyTool]] = {
    "function": (
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": SCHEMA,
            "strict": True,
            "defer_loading": True,
        },
        Tool("f", "d", SCHEMA, strict=True, deferred=True),
    ),
    "function with nulls and other fields": (
        {"type": "function", "name": "f", "parameters": None, "strict": None, "async": True},
        Tool("f", extra={OWN: {"parameters": None, "strict": None, "async": True}}),
    ),
    "custom": ({"type": "custom", "name": "f"}, CustomTool("f")),
    "custom with a grammar": (
        {"type": "custom", "name": "f", "description": "d", "format": GRAMMAR},
        CustomTool("f", "d", Grammar("lark", "start: /.+/")),
    ),
    "custom with another format": (
        {"type": "custom", "name": "f", "format": {"type": "new"}, "defer_loading": True},
        CustomTool("f", deferred=True, extra={OWN: {"format": {"type": "new"}}}),
    ),
    "MCP server": (
        {
            "type": "mcp",
            "server_label": "wiki",
            "server_url": "https://w.org/mcp",
            "authorization": "tok",
            "headers": {"X": "y"},
            "allowed_tools": ["read"],
            "require_approval": "never",
        },
        MCPServer("wiki", "https://w.org/mcp", "tok", {"X": "y"}, ("read",), "never"),
    ),
    "MCP connector": (
        {
            "type": "mcp",
            "server_label": "mail",
            "allowed_tools": {"read_only": True},
            "connector_id": "connector_gmail",
            "require_approval": {"never": {"tool_names": ["a"]}},
        },
        MCPServer(
            "mail",
            extra={
                OWN: {
                    "allowed_tools": {"read_only": True},
                    "connector_id": "connector_gmail",
                    "require_approval": {"never": {"tool_names": ["a"]}},
                }
            },
        ),
    ),
    "web search": (
        {"type": "web_search", "filters": {"allowed_domains": ["a.org"]}},
        ServerTool(
            "web_search",
            OWN,
            {"type": "web_search", "filters": {"allowed_domains": ["a.org"]}},
            ("a.org",),
        ),
    ),
    "web search of a place": (
        {"type": "web_search", "user_location": {"country": "IT"}, "search_context_size": "low"},
        ServerTool(
            "web_search",
            OWN,
            {
                "type": "web_search",
                "user_location": {"country": "IT"},
                "search_context_size": "low",
            },
            user_location={"country": "IT"},
            search_context_size="low",
        ),
    ),
    "web search, as it was": (
        {"type": "web_search_preview"},
        ServerTool("web_search", OWN, {"type": "web_search_preview"}),
    ),
    "code interpreter": (
        {"type": "code_interpreter", "container": {"type": "auto"}},
        ServerTool(
            "code_execution", OWN, {"type": "code_interpreter", "container": {"type": "auto"}}
        ),
    ),
    "computer": (
        {"type": "computer_use_preview"},
        ServerTool("computer", OWN, {"type": "computer_use_preview"}),
    ),
    "shell": ({"type": "shell"}, ServerTool("shell", OWN, {"type": "shell"})),
}


@pytest.mark.parametrize(("value", "tool"), TOOLS.values(), ids=TOOLS)
def test_tool_is_read_and_written(value: dict[str, Any], tool: AnyTool) -> None:
    assert read_tool(value) == tool
    assert write(Request(tools=(tool,)))["tools"] == [value]


def test_function_of_chat_completions_is_read() -> None:
    """Some clients send it so: its fields stand in `function`."""
    function = {"name": "f", "description": "d", "parameters": SCHEMA}
    tool = read_tool({"type": "function", "name": "f", "function": function})
    assert tool == Tool("f", "d", SCHEMA)


def test_allowed_tools_may_stand_in_a_filter() -> None:
    value = {"type": "mcp", "server_label": "a", "allowed_tools": {"tool_names": ["read"]}}
    assert read_tool(value) == MCPServer("a", allowed_tools=("read",))


def test_format_of_any_text_is_no_grammar() -> None:
    value = {"type": "custom", "name": "f", "format": {"type": "text"}}
    assert read_tool(value) == CustomTool("f")


def test_strict_and_parameters_are_always_written() -> None:
    """The types demand both, and the API enforces the schema where `strict` is absent."""
    body = write(Request(tools=(Tool("f"),)))
    empty = {"type": "object", "properties": {}}
    assert body["tools"] == [
        {"type": "function", "name": "f", "parameters": empty, "strict": False}
    ]
    assert problems(OWN, body) == []


def test_function_without_strict_is_written_as_it_was_read() -> None:
    tool = {"type": "function", "name": "f", "parameters": SCHEMA}
    request = read({"input": "a", "tools": [tool]})
    assert write(structs.replace(request, max_tokens=5))["tools"] == [tool]


def test_namespaces_are_groups() -> None:
    crm = {"type": "namespace", "name": "crm", "description": "CRM"}
    get = {"type": "function", "name": "get", "parameters": SCHEMA, "strict": False}
    run = {"type": "custom", "name": "run"}
    other = {"type": "namespace", "name": "other", "description": ""}
    tools = [{**crm, "tools": [get, run]}, get, {**crm, "tools": [get]}, {**other, "tools": [run]}]
    request = read({"input": [], "tools": tools})
    group = Namespace("crm", "CRM")
    assert [*map(bare, request.tools)] == [
        Tool("get", input_schema=SCHEMA, strict=False, namespace=group),
        CustomTool("run", namespace=group),
        Tool("get", input_schema=SCHEMA, strict=False),
        Tool("get", input_schema=SCHEMA, strict=False, namespace=group),
        CustomTool("run", namespace=Namespace("other")),
    ]
    assert write(bare(request))["tools"] == tools


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        (ServerTool("web_search", "anthropic"), {"type": "web_search"}),
        (
            ServerTool("web_search", "anthropic", allowed_domains=("a.org",)),
            {"type": "web_search", "filters": {"allowed_domains": ["a.org"]}},
        ),
        (
            ServerTool(
                "web_search",
                "anthropic",
                user_location={"city": "Rome"},
                search_context_size="low",
            ),
            {
                "type": "web_search",
                "user_location": {"type": "approximate", "city": "Rome"},
                "search_context_size": "low",
            },
        ),
        (
            ServerTool("code_execution", "gemini"),
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ),
        (ServerTool("image_generation", "x"), {"type": "image_generation"}),
        (ServerTool("tool_search", "anthropic"), {"type": "tool_search"}),
    ],
)
def test_server_tool_of_another_vendor(tool: ServerTool, value: dict[str, Any]) -> None:
    body = write(Request(tools=(tool,)))
    assert body["tools"] == [value]
    assert problems(OWN, body) == []


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_search_for_tools_that_the_client_executes_is_offered_by_no_other_vendor(
    target: str,
) -> None:
    """Codex: its calls and their results are items that no other dialect has."""
    search = {"type": "tool_search", "execution": "client", "description": "d", "parameters": {}}
    deferred = {"type": "function", "name": "f", "parameters": {}, "strict": False}
    tools = [search, {**deferred, "defer_loading": True}]
    request = read({"input": "Hi.", "tools": tools})
    assert write(request)["tools"] == tools
    assert write(bare(request))["tools"] == tools
    made = encode_request(structs.replace(request, model="m"), target)
    assert "tool_search" not in str(made.body)
    assert "defer_loading" not in str(made.body)
    lost = {loss.feature for loss in made.losses}
    assert {"server_tool_dropped", "deferred_tool_loaded"} <= lost


@pytest.mark.parametrize(
    ("tool", "path", "problem"),
    [
        (5, "$.tools[0]", "an integer, expected an object"),
        ({}, "$.tools[0].type", "missing, expected a string"),
        ({"type": "function"}, "$.tools[0].name", "missing, expected a string"),
        (
            {"type": "function", "name": "f", "parameters": []},
            "$.tools[0].parameters",
            "an array, expected an object",
        ),
        (
            {"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "lark"}},
            "$.tools[0].format.definition",
            "missing, expected a string",
        ),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "function"}]},
            "$.tools[0].tools[0].name",
            "missing, expected a string",
        ),
        ({"type": "mcp"}, "$.tools[0].server_label", "missing, expected a string"),
        (
            {"type": "mcp", "server_label": "a", "headers": {"X": 1}},
            "$.tools[0].headers",
            "an integer, expected a string",
        ),
    ],
)
def test_other_tools_are_refused_with_their_path(tool: Any, path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read({"input": [], "tools": [tool]})
    assert (caught.value.path, caught.value.args[0]) == (path, problem)


# Choices that are read as these, and written as the same value.
CHOICES: list[tuple[Any, ToolChoice]] = [
    ("auto", ToolChoice("auto")),
    ("none", ToolChoice("none")),
    ("required", ToolChoice("required")),
    ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
    ({"type": "custom", "name": "run"}, ToolChoice("named", ("run",), "custom")),
    ({"type": "mcp", "server_label": "wiki"}, ToolChoice("named", ("wiki",), "mcp")),
    ({"type": "web_search_preview"}, ToolChoice("named", (), "web_search")),
    ({"type": "code_interpreter"}, ToolChoice("named", (), "code_execution")),
    ({"type": "file_search"}, ToolChoice("named", (), "file_search")),
    (
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "run"}],
        },
        ToolChoice("required", ("f", "run")),
    ),
    (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "run"}]},
        ToolChoice("auto", ("run",), "custom"),
    ),
    (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "image_generation"}],
        },
        ToolChoice("auto", ("f",), server_kinds=("image_generation",)),
    ),
    (
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "file_search"}]},
        ToolChoice("required", server_kinds=("file_search",)),
    ),
]
OFFERED = [
    {"type": "function", "name": "f", "parameters": {}, "strict": False},
    {"type": "custom", "name": "run"},
]


@pytest.mark.parametrize(("value", "choice"), CHOICES)
def test_choice_is_read_and_written(value: Any, choice: ToolChoice) -> None:
    request = read({"input": [], "tools": OFFERED, "tool_choice": value})
    assert request.tool_choice == choice
    assert request.extra is None
    assert write(bare(request))["tool_choice"] == value


def test_allowed_server_tool_has_the_type_that_is_offered() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
    offered = [{"type": "web_search"}, *OFFERED]
    request = read({"input": [], "tools": offered, "tool_choice": allowed})
    assert request.tool_choice == ToolChoice("required", server_kinds=("web_search",))
    assert write(bare(request))["tool_choice"] == allowed


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ({"type": "mcp", "server_label": "a", "name": "b"}, ToolChoice("named", ("a",), "mcp")),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, ToolChoice("auto")),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "mcp", "server_label": "docs"}],
            },
            ToolChoice("required", server_kinds=("mcp",)),
        ),
    ],
)
def test_choice_that_says_more_is_kept_until_it_is_changed(
    value: dict[str, Any], choice: ToolChoice
) -> None:
    request = bare(read({"input": [], "tool_choice": value}))
    assert request.tool_choice == choice
    assert request.extra == {OWN: {"tool_choice": value}}
    assert write(request)["tool_choice"] == value
    changed = structs.replace(request, tool_choice=ToolChoice("none"))
    assert write(changed)["tool_choice"] == "none"


def test_choice_of_null_is_kept() -> None:
    request = bare(read({"input": [], "tool_choice": None}))
    assert request.tool_choice is None
    assert request.extra == {OWN: {"tool_choice": None}}


def test_choice_of_tools_that_nothing_names_has_an_empty_name() -> None:
    assert write(Request(tool_choice=ToolChoice("named")))["tool_choice"] == {
        "type": "function",
        "name": "",
    }


@pytest.mark.parametrize(
    ("choice", "path", "problem"),
    [
        ("any", "$.tool_choice", "a string of 3 characters, expected auto, required or none"),
        (5, "$.tool_choice", "an integer, expected an object"),
        ({}, "$.tool_choice.type", "missing, expected a string"),
        ({"type": "function"}, "$.tool_choice.name", "missing, expected a string"),
        (
            {"type": "allowed_tools", "mode": "any"},
            "$.tool_choice.mode",
            "a string of 3 characters, expected auto or required",
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]},
            "$.tool_choice.tools[0].name",
            "missing, expected a string",
        ),
    ],
)
def test_other_choices_are_refused_with_their_path(choice: Any, path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read({"input": [], "tool_choice": choice})
    assert (caught.value.path, caught.value.args[0]) == (path, problem)
