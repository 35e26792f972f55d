"""The official package of the Model Context Protocol, with a real server in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Image as MCPImage
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, ToolAnnotations
from mcp.types import TextResourceContents as TextResource
from mcp.types import Tool as MCPTool

from streamnorm import (
    Document,
    Image,
    InputMessage,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    encode_request,
    run_tools,
)
from streamnorm.tools import decode_tools, encode_tools

Run: TypeAlias = Callable[[Callable[[Client], Awaitable[Any]]], Any]

PNG = b"\x89PNG\r\n"
DIALECTS = ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]


def weather_server() -> MCPServer:
    server = MCPServer("weather", log_level="CRITICAL")

    @server.tool(title="Weather", annotations=ToolAnnotations(read_only_hint=True))
    def get_weather(city: str, days: int = 1) -> dict[str, float]:
        """Return the weather of a city."""
        return {"temperature": len(city) + days / 2}

    @server.tool()
    def draw_map() -> MCPImage:
        """Draw a map."""
        return MCPImage(data=PNG, format="png")

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("of which the client hears nothing")

    @server.tool()
    def refuse() -> CallToolResult:
        """Refuse."""
        text = TextContent(type="text", text="no station")
        return CallToolResult(content=[text], structured_content={"code": 7}, is_error=True)

    @server.tool()
    def find() -> CallToolResult:
        """Find documents."""
        note = TextResource(uri="file:///a.md", mime_type="text/markdown", text="# A")
        return CallToolResult(
            content=[
                EmbeddedResource(type="resource", resource=note),
                ResourceLink(type="resource_link", uri="file:///b.md", name="b.md"),
            ]
        )

    @server.tool()
    def break_protocol() -> str:
        """Break the protocol."""
        raise MCPError(-32603, "the server is gone")

    return server


@pytest.fixture(params=["legacy", "auto"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return a function that calls another one with a client, on the loop that `mcp` needs.

    The server speaks the version of the protocol with sessions (`legacy`), or the latest.
    """

    def run(test: Callable[[Client], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with Client(weather_server(), mode=request.param) as client:
                return await test(client)

        return anyio.run(main)

    return run


def listed(run: Run) -> list[MCPTool]:
    tools: list[MCPTool] = run(Client.list_tools).tools
    return tools


def called(run: Run, name: str, **arguments: object) -> Any:
    return run(lambda client: client.call_tool(name, arguments))


def test_a_list_of_tools_passes_both_ways(run: Run) -> None:
    tools = listed(run)
    read = [Tool.from_mcp(tool) for tool in tools]
    assert [MCPTool.model_validate(tool.to_mcp()) for tool in read] == tools
    weather = read[0]
    assert (weather.name, weather.description) == (
        "get_weather",
        "Return the weather of a city.",
    )
    assert weather.input_schema is not None
    assert weather.input_schema["required"] == ["city"]
    assert weather.extra is not None
    assert weather.extra["mcp"]["title"] == "Weather"
    assert weather.extra["mcp"]["annotations"]["readOnlyHint"] is True


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_of_the_server_pass_through_each_dialect(run: Run, dialect: str) -> None:
    tools = listed(run)
    encoded = encode_tools([Tool.from_mcp(tool) for tool in tools], dialect)
    assert {loss.feature for loss in encoded.losses} <= {"title", "annotations", "outputSchema"}
    for tool, read in zip(tools, decode_tools(encoded.body["tools"], dialect), strict=True):
        assert isinstance(read, Tool)
        again = MCPTool.model_validate(read.to_mcp())
        assert (again.name, again.description) == (tool.name, tool.description)
        assert again.input_schema == tool.input_schema


def test_structured_content_arrives(run: Run) -> None:
    answer = called(run, "get_weather", city="Oslo")
    result = ToolResult.from_mcp(answer, "call_1")
    assert result.value == '{"temperature":4.5}'
    (text,) = result.content
    assert isinstance(text, Text)
    assert json.loads(text.text) == {"temperature": 4.5}
    assert not result.is_error
    assert CallToolResult.model_validate(result.to_mcp()) == answer


def test_an_image_arrives(run: Run) -> None:
    answer = called(run, "draw_map")
    result = ToolResult.from_mcp(answer)
    assert result.content == (Image("image/png", base64.b64encode(PNG).decode()),)
    assert CallToolResult.model_validate(result.to_mcp()) == answer


def test_resources_and_links_arrive(run: Run) -> None:
    answer = called(run, "find")
    result = ToolResult.from_mcp(answer)
    document, link = result.content
    assert document == Document("text/markdown", "# A", title="file:///a.md")
    assert isinstance(link, Text)
    assert link.text == "b.md: file:///b.md"
    assert CallToolResult.model_validate(result.to_mcp()) == answer


@pytest.mark.parametrize(
    ("name", "text"), [("fail", "Error executing tool fail"), ("refuse", "no station")]
)
def test_an_error_of_the_tool_is_a_result(run: Run, name: str, text: str) -> None:
    answer = called(run, name)
    result = ToolResult.from_mcp(answer)
    assert result.is_error
    assert result.content == (Text(text),)
    assert CallToolResult.model_validate(result.to_mcp()) == answer


def test_an_error_of_the_protocol_is_an_exception(run: Run) -> None:
    """Of the package itself; `run_tools` makes a result of it, as of every exception."""

    async def call(client: Client) -> None:
        with pytest.raises(MCPError, match="the server is gone"):
            await client.call_tool("break_protocol")

    run(call)


def executors_of(client: Client, tools: list[Tool]) -> dict[str, Any]:
    def executor(name: str) -> Any:
        return lambda **arguments: client.call_tool(name, arguments)

    return {tool.name: executor(tool.name) for tool in tools}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_of_a_model_are_executed_by_the_server(run: Run, dialect: str) -> None:
    calls = [
        ToolCall("call_1", "get_weather", '{"city":"Oslo"}'),
        ToolCall("call_2", "draw_map"),
        ToolCall("call_3", "refuse"),
        ToolCall("call_4", "break_protocol"),
        ToolCall("call_5", "get_weather", '{"city":7}'),
    ]

    async def execute(client: Client) -> tuple[list[Tool], tuple[ToolResult, ...]]:
        tools = [Tool.from_mcp(tool) for tool in (await client.list_tools()).tools]
        return tools, await run_tools(calls, executors_of(client, tools), tools=tools)

    tools, results = run(execute)
    assert [result.tool_call_id for result in results] == [call.id for call in calls]
    assert [result.is_error for result in results] == [False, False, True, True, True]
    assert results[0].value == '{"temperature":4.5}'
    assert isinstance(results[1].content[0], Image)
    assert results[2].content == (Text("no station"),)
    assert results[3].content == (Text("MCPError: the server is gone"),)
    assert "$.city: 7 is not of type 'string'" in str(results[4].content)
    messages = (
        InputMessage("user", (Text("Snow?"),)),
        InputMessage("assistant", tuple(calls)),
        InputMessage("user", results),
    )
    body = encode_request(Request(messages=messages, tools=tuple(tools)), dialect).body
    sent = json.dumps(body)
    assert "no station" in sent
    assert base64.b64encode(PNG).decode() in sent
