"""A request for a tool of its provider that the target does not have is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.projection_targets import Projection, request, user

from streamnorm import (
    Conversation,
    EncodeError,
    InputMessage,
    Request,
    Text,
    Tool,
    ToolChoice,
    translate_request,
)
from streamnorm._auxiliary import encode_count_request
from streamnorm.tools import MCPServer, ServerTool, encode_tools

SEARCH = ServerTool("web_search", "other")
CODE = ServerTool("code_execution", "other")
DOCS, WIKI = MCPServer("docs"), MCPServer("wiki")
LACKS: dict[str, Any] = {"server_tools": {}, "mcp_servers": None}


def offered(*tools: Any, choice: ToolChoice | None = None, **options: Any) -> Projection:
    return Projection(request(user("Go"), tools=tools, tool_choice=choice), **LACKS, **options)


@pytest.mark.parametrize("choice", [None, ToolChoice("auto"), ToolChoice("required")])
@pytest.mark.parametrize(
    ("tools", "found"), [((SEARCH,), "web_search"), ((CODE, DOCS), "code_execution")]
)
def test_request_with_no_tool_but_those_that_the_target_lacks_is_an_error(
    tools: tuple[Any, ...], found: str, choice: ToolChoice | None
) -> None:
    with pytest.raises(EncodeError) as caught:
        offered(*tools, choice=choice)
    expected = f"no tool but {found}, expected a tool that target has"
    assert (caught.value.path, caught.value.args[0]) == ("tools", expected)
    done = offered(*tools, choice=choice, missing_tools="drop")
    assert done.request.tools == ()


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (ToolChoice("named", ("web_search",), "web_search"), "web_search"),
        (ToolChoice("named", (), "web_search"), "web_search"),
        (ToolChoice("named", ("docs",), "mcp"), "the MCP server docs"),
    ],
)
def test_tool_that_is_forced_and_missing_is_an_error(choice: ToolChoice, found: str) -> None:
    tools = (Tool("f"), SEARCH, WIKI, DOCS)
    with pytest.raises(EncodeError) as caught:
        offered(*tools, choice=choice)
    expected = f"{found} is forced, expected a tool that target has"
    assert (caught.value.path, caught.value.args[0]) == ("tool_choice", expected)
    done = offered(*tools, choice=choice, missing_tools="drop")
    assert done.request.tools == (Tool("f"),)
    assert done.request.tool_choice == ToolChoice("auto")


@pytest.mark.parametrize(
    "choice",
    [
        None,
        ToolChoice("auto"),
        ToolChoice("required"),
        ToolChoice("named", ("f",)),
        ToolChoice("named", ("other",), "mcp"),
    ],
)
def test_missing_tool_beside_another_is_a_loss(choice: ToolChoice | None) -> None:
    done = offered(Tool("f"), SEARCH, DOCS, choice=choice)
    assert done.request.tools == (Tool("f"),)
    assert done.lost["server_tool_dropped"] == done.lost["mcp_server_dropped"] == 1


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_tool_that_a_choice_allows_and_the_target_lacks_is_an_error(mode: Any) -> None:
    """The model would call another tool, or answer from memory."""
    choice = ToolChoice(mode, server_kinds=("code_execution", "web_search"))
    with pytest.raises(EncodeError) as caught:
        offered(Tool("f"), SEARCH, choice=choice)
    expected = "no allowed tool but web_search, expected a tool that target has"
    assert (caught.value.path, caught.value.args[0]) == ("tool_choice", expected)
    with pytest.raises(EncodeError, match="no allowed tool but the MCP server docs"):
        offered(Tool("f"), DOCS, choice=ToolChoice(mode, server_kinds=("mcp",)))
    done = offered(Tool("f"), SEARCH, choice=choice, missing_tools="drop")
    assert (done.request.tools, done.request.tool_choice) == ((), None)
    beside = ToolChoice(mode, ("f",), server_kinds=("web_search",))
    assert offered(Tool("f"), Tool("g"), SEARCH, choice=beside).request.tools == (Tool("f"),)


def test_missing_tool_that_may_not_be_called_is_a_loss() -> None:
    assert offered(SEARCH, choice=ToolChoice("none")).lost == {"server_tool_dropped": 1}


def test_tool_that_is_dropped_beside_functions_cannot_be_forced() -> None:
    tools = (Tool("f"), SEARCH)
    asked = request(user("Go"), tools=tools, tool_choice=ToolChoice("named", ("s",), "web_search"))
    with pytest.raises(EncodeError, match="web_search is forced"):
        Projection(asked, mixed_tools=False)
    assert len(Projection(asked).request.tools) == 2


# What two agents send for a search

CLAUDE_CODE = {
    "model": "claude-haiku-4-5",
    "max_tokens": 32000,
    "system": "You are an assistant for performing a web search tool use",
    "messages": [
        {"role": "user", "content": "Perform a web search for the query: weather in Oslo"}
    ],
    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "tool", "name": "web_search"},
    "stream": True,
}
GEMINI_CLI = {
    "contents": [{"role": "user", "parts": [{"text": "weather in Oslo"}]}],
    "tools": [{"googleSearch": {}}],
}
PATH = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"


@pytest.mark.parametrize(
    ("body", "dialect", "error"),
    [
        (CLAUDE_CODE, "anthropic", "tool_choice: web_search is forced"),
        (GEMINI_CLI, "gemini", "tools: no tool but web_search"),
    ],
)
def test_search_of_an_agent_is_refused_where_the_model_would_make_it_up(
    body: dict[str, Any], dialect: str, error: str
) -> None:
    asked: dict[str, Any] = {"dialect": dialect, "path": PATH if dialect == "gemini" else None}
    with pytest.raises(EncodeError) as caught:
        translate_request(body, to="openai_chat", **asked)
    assert str(caught.value) == f"{error}, expected a tool that openai_chat has"
    made = translate_request(body, to="openai_chat", missing_tools="drop", **asked)
    assert "tools" not in made.body
    assert "tool_choice" not in made.body
    assert "server_tool_dropped" in [loss.feature for loss in made.losses]
    searched = translate_request(body, to="openai_responses", **asked).body
    assert searched["tools"] == [{"type": "web_search"}]


@pytest.mark.parametrize(
    "model", ["gpt-4o-search-preview", "gpt-4o-mini-search-preview-2025-03-11"]
)
def test_search_reaches_a_model_that_searches_for_each_answer(model: str) -> None:
    body = {**CLAUDE_CODE, "model": model}
    made = translate_request(body, dialect="anthropic", to="openai_chat").body
    assert made["web_search_options"] == {}
    assert not {"tools", "tool_choice"} & made.keys()


# What else takes tools

ASKED = Request(
    model="m", messages=(InputMessage("user", (Text("Go"),)),), tools=(SEARCH,), max_tokens=9
)


def test_conversation_has_the_option() -> None:
    chat = Conversation(ASKED)
    with pytest.raises(EncodeError, match="no tool but web_search"):
        chat.dump("openai_chat")
    assert "tools" not in chat.dump("openai_chat", missing_tools="drop").body
    with pytest.raises(EncodeError, match="no tool but web_search"):
        chat.dump("openai_chat")


def test_count_of_tokens_and_tools_alone_are_no_request_for_an_answer() -> None:
    code = Request(model="m", messages=ASKED.messages, tools=(ServerTool("computer", "other"),))
    counted = encode_count_request(code, "openai_responses")
    assert counted is not None
    assert "tools" not in counted.body
    assert encode_tools([SEARCH], "openai_chat").body == {}
