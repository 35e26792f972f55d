"""Tools of a request and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.gemini.bodies import Written, read, request_of, without_source

from streamnorm import DecodeError, EncodeError, Text
from streamnorm._core.bodies.request import Request
from streamnorm._core.tools import CustomTool, MCPServer, ServerTool, Tool, ToolChoice

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
F, G = Tool("f", input_schema=SCHEMA), Tool("g", input_schema=SCHEMA)
BROWSER = {"environment": "ENVIRONMENT_BROWSER"}
STRICT = Tool("s", input_schema=SCHEMA, strict=True)


def tools_of(*entries: dict[str, Any]) -> tuple[Any, ...]:
    return without_source(read({"contents": [], "tools": list(entries)})).tools


def written(*tools: Any, **fields: Any) -> Written:
    return Written(request_of(Text("Hi"), tools=tools, **fields))


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        (
            {
                "functionDeclarations": [
                    {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}
                ]
            },
            Tool("f", "d", SCHEMA),
        ),
        (
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "parametersJsonSchema": SCHEMA,
                        "responseJsonSchema": {},
                        "behavior": "BLOCKING",
                    }
                ]
            },
            Tool(
                "f",
                input_schema=SCHEMA,
                extra={"gemini": {"responseJsonSchema": {}, "behavior": "BLOCKING"}},
            ),
        ),
        ({"googleSearch": {}}, ServerTool("web_search", "gemini", {"googleSearch": {}})),
        (
            {"googleSearch": {"timeRangeFilter": {}, "excludeDomains": ["a.org"]}},
            ServerTool(
                "web_search",
                "gemini",
                {"googleSearch": {"timeRangeFilter": {}, "excludeDomains": ["a.org"]}},
                blocked_domains=("a.org",),
            ),
        ),
        ({"urlContext": {}}, ServerTool("web_fetch", "gemini", {"urlContext": {}})),
        ({"codeExecution": {}}, ServerTool("code_execution", "gemini", {"codeExecution": {}})),
        (
            {"fileSearch": {"fileSearchStoreNames": ["a"]}},
            ServerTool("file_search", "gemini", {"fileSearch": {"fileSearchStoreNames": ["a"]}}),
        ),
        ({"googleMaps": {}}, ServerTool("google_maps", "gemini", {"googleMaps": {}})),
        (
            {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
            ServerTool(
                "computer", "gemini", {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
            ),
        ),
        (
            {"enterpriseWebSearch": {}},
            ServerTool("enterpriseWebSearch", "gemini", {"enterpriseWebSearch": {}}),
        ),
        (
            {
                "mcpServers": [
                    {
                        "name": "wiki",
                        "streamableHttpTransport": {
                            "url": "https://w.org/mcp",
                            "headers": {"X-A": "b", "Authorization": "Bearer tok"},
                            "timeout": "5s",
                        },
                    }
                ]
            },
            MCPServer(
                "wiki",
                "https://w.org/mcp",
                "tok",
                {"X-A": "b"},
                require_approval="never",
                extra={"gemini": {"streamableHttpTransport.timeout": "5s"}},
            ),
        ),
        (
            {"mcpServers": [{"name": "wiki", "streamableHttpTransport": {}}]},
            MCPServer("wiki", require_approval="never"),
        ),
        (
            {
                "mcpServers": [
                    {
                        "name": "a",
                        "streamableHttpTransport": {"headers": {"Authorization": "Basic x"}},
                    }
                ]
            },
            MCPServer("a", headers={"Authorization": "Basic x"}, require_approval="never"),
        ),
    ],
    ids=repr,
)
def test_a_tool_is_read_and_written(entry: dict[str, Any], tool: Any) -> None:
    assert tools_of(entry) == (tool,)
    assert written(tool).body["tools"] == [entry]


def test_schemas_of_google_are_read_as_json_schema() -> None:
    declarations = [
        {"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}},
        {"name": "g", "parameters_json_schema": SCHEMA, "parameters": {"type": "OBJECT"}},
        {"name": "h", "description": None},
    ]
    f, g, h = tools_of({"function_declarations": declarations})
    assert f == F
    assert g == Tool("g", input_schema=SCHEMA, extra={"gemini": {"parameters": {"type": "OBJECT"}}})
    assert h == Tool(
        "h",
        input_schema={"type": "object", "properties": {}},
        extra={"gemini": {"description": None}},
    )


def test_functions_without_a_schema_have_no_parameters() -> None:
    assert written(Tool("f")).body["tools"] == [{"functionDeclarations": [{"name": "f"}]}]


def test_neighbours_of_one_kind_are_grouped() -> None:
    search = ServerTool("web_search", "anthropic")
    wiki, docs = MCPServer("wiki"), MCPServer("docs")
    entries = written(F, G, search, wiki, docs, STRICT).body["tools"]
    assert [[*entry] for entry in entries] == [
        ["functionDeclarations"],
        ["googleSearch"],
        ["mcpServers"],
        ["functionDeclarations"],
    ]
    assert [tool["name"] for tool in entries[0]["functionDeclarations"]] == ["f", "g"]
    assert [server["name"] for server in entries[2]["mcpServers"]] == ["wiki", "docs"]


def test_a_tool_that_did_not_change_is_written_as_it_was() -> None:
    old: dict[str, Any] = {"name": "f", "parameters": {"type": "OBJECT"}}
    wiki = {"name": "wiki", "streamable_http_transport": {}}
    entries = [{"functionDeclarations": [old], "codeExecution": None}, {"mcpServers": [wiki]}]
    request = read({"contents": [], "tools": [*entries, {"google_search": {"a_b": 1}}]})
    changed = Written(structs.replace(request, tools=(*request.tools, G)), typed=False).body[
        "tools"
    ]
    assert changed == [
        {"functionDeclarations": [old]},
        {"mcpServers": [wiki]},
        {"googleSearch": {"a_b": 1}},
        {"functionDeclarations": [{"name": "g", "parametersJsonSchema": SCHEMA}]},
    ]


@pytest.mark.parametrize("kind", ["web_search", "web_fetch", "code_execution"])
def test_a_server_tool_becomes_google_s(kind: str) -> None:
    body = written(ServerTool(kind, "openai_responses", {"type": kind})).body
    ((field, value),) = body["tools"][0].items()
    assert value == {}
    assert tools_of({field: {}})[0].kind == kind


def test_calls_of_mcp_servers_cannot_wait_for_approval() -> None:
    assert written(MCPServer("a", require_approval="always")).lost == {"require_approval": 1}
    assert written(MCPServer("a")).lost == {}


def test_other_tools_have_no_legal_form() -> None:
    for tool in (ServerTool("image_generation", "openai_responses"), CustomTool("c")):
        with pytest.raises(EncodeError) as caught:
            written(F, tool)
        assert caught.value.path == "tools[1]"


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"functionDeclarations": "f"}, "functionDeclarations"),
        ({"functionDeclarations": {}}, "functionDeclarations[0].name"),
        ({"functionDeclarations": [{"name": "f"}, {}]}, "functionDeclarations[1].name"),
        (
            {"functionDeclarations": [{"name": "f", "parameters": {"items": 1}}]},
            "functionDeclarations[0].parameters.items",
        ),
        ({"googleSearch": True}, "googleSearch"),
        ({"googleSearch": {"excludeDomains": [1]}}, "googleSearch.excludeDomains[0]"),
        ({"mcpServers": [{"name": 1}]}, "mcpServers[0].name"),
        (
            {"mcpServers": [{"streamableHttpTransport": {"headers": {"a": 1}}}]},
            "mcpServers[0].streamableHttpTransport.headers",
        ),
    ],
    ids=repr,
)
def test_a_tool_of_another_form_is_refused(entry: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        tools_of({"googleSearch": {}}, entry)
    assert caught.value.path == f"$.tools[1].{path}"


# The choice

AUTO, NONE, REQUIRED = ToolChoice("auto"), ToolChoice("none"), ToolChoice("required")


def choice_of(**calling: Any) -> Request:
    return read(
        {
            "contents": [],
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "toolConfig": {"functionCallingConfig": calling},
        }
    )


@pytest.mark.parametrize(
    ("calling", "choice"),
    [
        ({"mode": "AUTO"}, AUTO),
        ({"mode": "NONE"}, NONE),
        ({"mode": "ANY"}, REQUIRED),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice("named", ("f",))),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, ToolChoice("required", ("f", "g"))),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice("auto", ("f",))),
        ({"mode": "AUTO", "allowedFunctionNames": ["f"]}, ToolChoice("auto", ("f",))),
        ({"mode": "VALIDATED"}, None),
        ({"mode": "MODE_UNSPECIFIED"}, None),
        ({"mode": 2}, None),  # protocol buffers have numbers for words
        ({}, None),
    ],
    ids=repr,
)
def test_the_choice_is_read(calling: dict[str, Any], choice: ToolChoice | None) -> None:
    request = choice_of(**calling)
    assert request.tool_choice == choice
    body = Written(request, typed=calling.get("mode") != 2).body
    assert body["toolConfig"] == {"functionCallingConfig": calling}


def test_a_mode_without_a_unified_word_is_kept() -> None:
    request = choice_of(mode="NEW", allowedFunctionNames=["f"])
    name = "toolConfig.functionCallingConfig"
    assert request.extra == {
        "gemini": {f"{name}.mode": "NEW", f"{name}.allowedFunctionNames": ["f"]}
    }
    anew = Written(without_source(request), typed=False).body["toolConfig"]
    assert anew == {"functionCallingConfig": {"mode": "NEW", "allowedFunctionNames": ["f"]}}


def test_validated_arguments_are_strict_tools() -> None:
    (tool,) = choice_of(mode="VALIDATED").tools
    assert isinstance(tool, Tool)
    assert tool.strict is True
    (tool,) = choice_of(mode="AUTO").tools
    assert isinstance(tool, Tool)
    assert tool.strict is None


WEAKENED = {"tool_choice_weakened": 1}


@pytest.mark.parametrize(
    ("choice", "tools", "calling", "lost"),
    [
        (None, (F,), None, {}),
        (AUTO, (F,), {"mode": "AUTO"}, {}),
        (NONE, (F,), {"mode": "NONE"}, {}),
        (REQUIRED, (F,), {"mode": "ANY"}, {}),
        (ToolChoice("named", ("f",)), (F, G), {"mode": "ANY", "allowedFunctionNames": ["f"]}, {}),
        (
            ToolChoice("required", ("f", "g")),
            (F, G),
            {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
            {},
        ),
        (
            ToolChoice("auto", ("f",)),
            (F, G),
            {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
            {"strict": 1},
        ),
        (ToolChoice("named", (), "web_search"), (F,), {"mode": "AUTO"}, WEAKENED),
        (ToolChoice("named", ("docs",), "mcp"), (F,), {"mode": "AUTO"}, WEAKENED),
        (None, (STRICT,), {"mode": "VALIDATED"}, {}),
        (AUTO, (STRICT,), {"mode": "VALIDATED"}, {}),
        (AUTO, (STRICT, F), {"mode": "VALIDATED"}, {"strict": 1}),
        (REQUIRED, (STRICT,), {"mode": "ANY"}, {"strict": 1}),
        (NONE, (STRICT,), {"mode": "NONE"}, {"strict": 1}),
        (None, (), None, {}),
        (AUTO, (ServerTool("web_search", "anthropic"),), None, {}),
        (REQUIRED, (ServerTool("web_search", "anthropic"),), None, {"tool_choice": 1}),
    ],
    ids=repr,
)
def test_the_choice_is_written(
    choice: ToolChoice | None,
    tools: tuple[Any, ...],
    calling: dict[str, Any] | None,
    lost: dict[str, int],
) -> None:
    done = written(*tools, tool_choice=choice)
    expected = None if calling is None else {"functionCallingConfig": calling}
    assert done.body.get("toolConfig") == expected
    assert done.lost == lost


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ([], "toolConfig"),
        ({"functionCallingConfig": []}, "toolConfig.functionCallingConfig"),
        (
            {"functionCallingConfig": {"allowedFunctionNames": [1]}},
            "toolConfig.functionCallingConfig.allowedFunctionNames[0]",
        ),
    ],
    ids=repr,
)
def test_a_choice_of_another_form_is_refused(config: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read({"contents": [], "toolConfig": config})
    assert caught.value.path == f"$.{path}"
