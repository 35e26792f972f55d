"""Tools that the provider executes, and remote MCP servers, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.anthropic.bodies import Body, parts_of, read, rewritten, write

from streamnorm import CacheMark, DecodeError, EncodeError, Request
from streamnorm._core.tools import AnyTool
from streamnorm.tools import MCPServer, ServerTool

MARK: Body = {"type": "ephemeral"}
SEARCH: Body = {
    "type": "web_search_20250305",
    "name": "web_search",
    "max_uses": 3,
    "allowed_domains": ["a.org"],
    "user_location": {"type": "approximate", "city": "Rome"},
}
TOOLSET: Body = {"type": "mcp_toolset", "mcp_server_name": "wiki"}
READ_ONLY: Body = {
    **TOOLSET,
    "default_config": {"enabled": False},
    "configs": {"read": {"enabled": True}},
}
SERVER: Body = {
    "type": "url",
    "name": "wiki",
    "url": "https://w.org/mcp",
    "authorization_token": "tok",
}


def tools_in(**fields: Any) -> tuple[AnyTool, ...]:
    """Return what the tools of a request are read as."""
    return parts_of(read(**fields)).tools


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            SEARCH,
            ServerTool(
                "web_search",
                "anthropic",
                SEARCH,
                allowed_domains=("a.org",),
                max_uses=3,
                user_location={"city": "Rome"},
            ),
        ),
        (
            {"type": "web_fetch_20250910", "name": "web_fetch", "blocked_domains": ["b.org"]},
            ServerTool(
                "web_fetch",
                "anthropic",
                {"type": "web_fetch_20250910", "name": "web_fetch", "blocked_domains": ["b.org"]},
                blocked_domains=("b.org",),
            ),
        ),
    ],
)
def test_server_tool_is_read_and_written_again(value: Body, expected: ServerTool) -> None:
    assert tools_in(tools=[value]) == (expected,)
    assert rewritten(tools=[value])["tools"] == [value]


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("web_search_20260318", "web_search"),
        ("web_fetch_20260309", "web_fetch"),
        ("code_execution_20250825", "code_execution"),
        ("tool_search_tool_regex_20251119", "tool_search"),
        ("computer_20251124", "computer"),
        ("computer_toolset_20260801", "computer_toolset"),
        ("browser_toolset_20260801", "browser_toolset"),
        ("advisor_20260301", "advisor"),
        ("satellite_20280101", "satellite_20280101"),
    ],
)
def test_kind_is_one_word_for_all_vendors(type: str, kind: str) -> None:
    value = {"type": type, "cache_control": MARK}
    (tool,) = tools_in(tools=[value])
    assert isinstance(tool, ServerTool)
    assert (tool.kind, tool.cache, tool.data) == (kind, CacheMark(), {"type": type})
    assert rewritten(tools=[value])["tools"] == [value]


def test_unknown_fields_of_a_mark_after_a_server_tool_are_kept() -> None:
    value = {**SEARCH, "cache_control": {"type": "ephemeral", "scope": "org"}}
    (tool,) = tools_in(tools=[value])
    assert tool.extra == {"anthropic": {"cache_control": {"scope": "org"}}}
    assert rewritten(tools=[value])["tools"] == [value]


def test_changed_server_tool_is_written_with_its_changes() -> None:
    (tool,) = tools_in(tools=[{**SEARCH, "cache_control": MARK}])
    changed = structs.replace(tool, cache=None, allowed_domains=None, max_uses=1)
    assert write(Request(tools=(changed,))).body["tools"] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "user_location": {"type": "approximate", "city": "Rome"},
            "max_uses": 1,
        }
    ]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (
            ServerTool("web_search", "openai_responses", allowed_domains=("a.org",)),
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "allowed_domains": ["a.org"],
            },
        ),
        (
            ServerTool("web_search", "openai_responses", user_location={"city": "Rome"}),
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "user_location": {"type": "approximate", "city": "Rome"},
            },
        ),
        (
            ServerTool("web_fetch", "gemini", cache=CacheMark("1h")),
            {
                "type": "web_fetch_20250910",
                "name": "web_fetch",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
        ),
        (
            ServerTool("code_execution", "gemini"),
            {"type": "code_execution_20250825", "name": "code_execution"},
        ),
        (
            ServerTool("tool_search", "openai_responses"),
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        ),
    ],
)
def test_tool_of_another_dialect_is_written_as_its_equivalent(
    tool: ServerTool, expected: Body
) -> None:
    wrote = write(Request(tools=(tool,)))
    assert (wrote.body["tools"], wrote.losses) == ([expected], [])


def test_allowed_and_blocked_domains_are_not_written_together() -> None:
    both = ServerTool(
        "web_search", "gemini", allowed_domains=("a.org",), blocked_domains=("b.org",)
    )
    wrote = write(Request(tools=(both,)))
    assert "blocked_domains" not in wrote.body["tools"][0]
    assert wrote.losses == [("blocked_domains", "dropped beside allowed domains")]


def test_tool_without_an_equivalent_is_dropped() -> None:
    wrote = write(Request(tools=(ServerTool("file_search", "openai_responses"),)))
    assert "tools" not in wrote.body
    assert wrote.losses == [("server_tool_dropped", "file_search")]


@pytest.mark.parametrize(
    ("toolset", "server", "expected"),
    [
        (
            READ_ONLY,
            SERVER,
            MCPServer(
                "wiki",
                "https://w.org/mcp",
                "tok",
                allowed_tools=("read",),
                require_approval="never",
            ),
        ),
        (
            {**TOOLSET, "cache_control": MARK, "configs": {"read": {"defer_loading": True}}},
            {"type": "url", "name": "wiki", "url": "https://w.org/mcp", "region": "eu"},
            MCPServer(
                "wiki",
                "https://w.org/mcp",
                require_approval="never",
                cache=CacheMark(),
                extra={
                    "anthropic": {
                        "mcp_server": {"region": "eu"},
                        "mcp_toolset": {"configs": {"read": {"defer_loading": True}}},
                    }
                },
            ),
        ),
        (
            {
                **TOOLSET,
                "default_config": {"enabled": False},
                "configs": {"read": {"enabled": True, "defer_loading": True}},
            },
            SERVER,
            MCPServer(
                "wiki",
                "https://w.org/mcp",
                "tok",
                require_approval="never",
                extra={
                    "anthropic": {
                        "mcp_toolset": {
                            "default_config": {"enabled": False},
                            "configs": {"read": {"enabled": True, "defer_loading": True}},
                        }
                    }
                },
            ),
        ),
    ],
)
def test_mcp_server_and_its_toolset_are_one_tool(
    toolset: Body, server: Body, expected: MCPServer
) -> None:
    fields = {"tools": [toolset], "mcp_servers": [server]}
    assert tools_in(**fields) == (expected,)
    body = rewritten(**fields)
    assert (body["tools"], body["mcp_servers"]) == ([toolset], [server])


def test_toolset_of_a_server_that_is_known_elsewhere_has_no_url() -> None:
    assert tools_in(tools=[READ_ONLY]) == (
        MCPServer(
            "wiki",
            allowed_tools=("read",),
            require_approval="never",
            extra={"anthropic": {"mcp_toolset": {}}},
        ),
    )
    body = rewritten(tools=[READ_ONLY])
    assert body["tools"] == [READ_ONLY]
    assert "mcp_servers" not in body


@pytest.mark.parametrize(
    "configuration",
    [{"allowed_tools": ["read"]}, {"enabled": True, "allowed_tools": ["read"]}],
    ids=repr,
)
def test_server_without_a_toolset_follows_the_tools(configuration: dict[str, Any]) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    old = {**SERVER, "tool_configuration": configuration}
    request = read(tools=[search], mcp_servers=[old])
    assert parts_of(request).tools[1] == MCPServer(
        "wiki", "https://w.org/mcp", "tok", allowed_tools=("read",), require_approval="never"
    )
    changed = structs.replace(request, max_tokens=10)
    assert write(changed).body["tools"] == [search]
    assert write(changed).body["mcp_servers"] == [old]
    anew = write(parts_of(request)).body
    assert (anew["tools"], anew["mcp_servers"]) == ([search, READ_ONLY], [SERVER])


def test_other_configuration_of_a_server_is_kept() -> None:
    old = {**SERVER, "tool_configuration": {"enabled": False}}
    (tool,) = tools_in(mcp_servers=[old])
    assert tool.extra == {"anthropic": {"mcp_server": {"tool_configuration": {"enabled": False}}}}
    assert rewritten(mcp_servers=[old])["mcp_servers"] == [old]


def test_server_of_another_dialect_may_ask_for_no_approval_alone() -> None:
    server = MCPServer("wiki", "https://w.org/mcp", require_approval="always")
    wrote = write(Request(tools=(server,)))
    assert wrote.body["tools"] == [TOOLSET]
    assert wrote.body["mcp_servers"] == [
        {"type": "url", "name": "wiki", "url": "https://w.org/mcp"}
    ]
    assert wrote.losses == [("require_approval", "calls are made without approval")]


def test_two_servers_of_one_name_are_refused() -> None:
    """A toolset names its server."""
    servers = (MCPServer("wiki", "https://a.org"), MCPServer("wiki", "https://b.org"))
    with pytest.raises(EncodeError, match="name of another MCP server") as raised:
        write(Request(tools=servers))
    assert raised.value.path == "tools[1]"


def test_connector_of_another_vendor_is_dropped() -> None:
    wrote = write(Request(tools=(MCPServer("mail", extra={"openai_responses": {"a": 1}}),)))
    assert wrote.body.keys() == {"messages"}
    assert wrote.losses == [("mcp_server_dropped", "without a URL")]


@pytest.mark.parametrize(
    ("servers", "path", "reason"),
    [
        ({}, "", "expected an array"),
        ([1], "[0]", "expected an object"),
        ([{"url": "a"}], "[0].name", "missing, expected a string"),
        ([SERVER, SERVER], "[1]", "name of another server, expected one of its own"),
        ([{"name": "a", "url": 1}], "[0].url", "expected a string"),
        ([{"name": "a", "tool_configuration": 1}], "[0].tool_configuration", "an object"),
        (
            [{"name": "a", "tool_configuration": {"allowed_tools": 1}}],
            "[0].tool_configuration.allowed_tools",
            "an array",
        ),
    ],
)
def test_broken_server_is_refused_with_its_path(servers: Any, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(mcp_servers=servers)
    assert error.value.path == f"$.mcp_servers{path}"


@pytest.mark.parametrize(
    ("field", "value"), [("allowed_domains", "a.org"), ("blocked_domains", [1]), ("max_uses", "3")]
)
def test_broken_server_tool_is_refused(field: str, value: Any) -> None:
    with pytest.raises(DecodeError) as error:
        read(tools=[{"type": "web_search_20250305", "name": "web_search", field: value}])
    assert error.value.path.startswith(f"$.tools[0].{field}")
