"""The betas that fields of a request need."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.bodies import Body, parts_of, read, write

FIELDS: list[tuple[str, Body]] = [
    (
        "mcp-client-2025-11-20",
        {
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "wiki"}],
            "mcp_servers": [{"type": "url", "name": "wiki", "url": "https://w.org"}],
        },
    ),
    (
        "context-management-2025-06-27",
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
    ),
    ("compact-2026-01-12", {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
    (
        "mid-conversation-output-config-2026-07-01",
        {"messages": [{"role": "system", "content": "a", "output_config": {"effort": "low"}}]},
    ),
    (
        "mid-conversation-system-clear-at-2026-08-21",
        {"messages": [{"role": "system", "content": "a", "clear_at": "never"}]},
    ),
    (
        "mid-conversation-tool-changes-2026-07-01",
        {
            "messages": [
                {
                    "role": "system",
                    "content": [
                        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
                    ],
                }
            ]
        },
    ),
    (
        "thinking-binding-controls-2026-08-01",
        {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}},
    ),
    (
        "thinking-display-updates-2026-08-18",
        {"thinking": {"type": "adaptive", "display": "updates"}},
    ),
    (
        "task-budgets-2026-03-13",
        {"output_config": {"task_budget": {"type": "tokens", "total": 10}}},
    ),
    ("advisor-tool-2026-03-01", {"tools": [{"type": "advisor_20260301", "name": "advisor"}]}),
    *(
        (f"computer-use-{beta}", {"tools": [{"type": type, "name": "n"}]})
        for beta, type in (
            ("2024-10-22", "computer_20241022"),
            ("2024-10-22", "bash_20241022"),
            ("2024-10-22", "text_editor_20241022"),
            ("2025-01-24", "computer_20250124"),
            ("2025-11-24", "computer_20251124"),
        )
    ),
]


@pytest.mark.parametrize(("beta", "fields"), FIELDS)
def test_field_brings_its_beta(beta: str, fields: Body) -> None:
    request = read(**fields)
    assert write(request).betas == [beta]
    assert write(parts_of(request)).betas == [beta]
    assert write(request, allowed_betas=frozenset({beta})).betas == [beta]
    assert write(request, allowed_betas=frozenset({"files-api-2025-04-14"})).betas == []


@pytest.mark.parametrize(("beta", "fields"), FIELDS)
def test_beta_that_is_there_is_not_added(beta: str, fields: Body) -> None:
    headers = {"anthropic-beta": f"files-api-2025-04-14, {beta}"}
    assert write(read(headers, **fields)).betas == ["files-api-2025-04-14", beta]


@pytest.mark.parametrize("name", ["mcp-client-2025-11-20", "mcp-client-2026-09-15"])
def test_later_beta_of_mcp_servers_is_as_good(name: str) -> None:
    _, fields = FIELDS[0]
    assert write(read({"anthropic-beta": name}, **fields)).betas == [name]
    servers = {"mcp_servers": fields["mcp_servers"]}
    assert write(read({"anthropic-beta": name}, **servers)).betas == [name]


def test_beta_by_its_second_name_is_as_good_where_the_server_knows_it() -> None:
    fields = {"messages": [{"role": "system", "content": "a", "output_config": {"effort": "low"}}]}
    first, second = "mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"
    request = read({"anthropic-beta": second}, **fields)
    assert write(request).betas == [second]
    assert first in write(request, allowed_betas=frozenset({first})).betas


def test_servers_without_toolsets_need_the_older_beta() -> None:
    request = read(mcp_servers=FIELDS[0][1]["mcp_servers"])
    assert write(request).betas == ["mcp-client-2025-04-04"]
    assert write(parts_of(request)).betas == ["mcp-client-2025-11-20"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "tools": [
                {"type": "bash_20250124", "name": "bash"},
                {"type": None, "input_schema": {}, "name": "f"},
            ]
        },
        {"messages": [{"role": "user", "content": "a", "clear_at": "never"}]},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]}]},
        {"context_management": {"edits": "all"}},
        {"context_management": None},
        {"thinking": {"type": "adaptive", "block_binding": None}},
        {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
)
def test_other_fields_need_no_beta(fields: dict[str, Any]) -> None:
    assert write(read(**fields)).betas == []


@pytest.mark.parametrize(
    ("header", "betas"),
    [("a", ("a",)), (" a , b,", ("a", "b")), ("", ()), (",", ())],
)
def test_betas_are_read_from_their_header(header: str, betas: tuple[str, ...]) -> None:
    request = read({"anthropic-beta": header})
    assert request.betas == betas
    assert write(request).betas == list(betas)
