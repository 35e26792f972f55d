"""The versions of Anthropic's API, and its betas."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, get_args

import pytest
from msgspec import structs
from support.rules.profile_rows import SAMPLING, Row, capabilities_for, fitted_for

from streamnorm._core.bodies.wire_fields import fit_fields
from streamnorm._core.losses import Losses
from streamnorm.profiles import shipped_profiles

OLD, NEW = "2023-06-01", "2026-10-21"

USER = {"role": "user", "content": "a"}
BODY: dict[str, Any] = {
    "temperature": 1,
    "top_p": 0.9,
    "top_k": 5,
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
                {"type": "document", "source": {}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "b", "citations": [{"type": "char_location"}]},
                {"type": "document", "source": {}},
            ],
        },
    ],
}


def test_2023_06_01_has_everything() -> None:
    fitted, lost = fitted_for(BODY, "anthropic", version=OLD)
    assert fitted.body is BODY
    assert fitted.headers == {"anthropic-version": OLD}
    assert lost == []
    assert set(SAMPLING) <= capabilities_for("anthropic", version=OLD).fields


@pytest.mark.parametrize("version", [NEW, None])
def test_2026_10_21_refuses_sampling_documents_and_citations(version: str | None) -> None:
    """It is what anthropic 2 sends, so it is the default."""
    fitted, lost = fitted_for(BODY, "anthropic", version=version)
    user, assistant = BODY["messages"]
    assert fitted.body == {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, user["content"][1]]},
            {"role": "assistant", "content": [assistant["content"][0]]},
        ]
    }
    assert fitted.headers == {"anthropic-version": NEW}
    assert sorted(lost) == ["citations", "document", "temperature", "top_k", "top_p"]
    assert not capabilities_for("anthropic", version=version).fields & {*SAMPLING}


def test_default_version_is_that_of_the_official_sdk() -> None:
    from anthropic._constants import ANTHROPIC_API_VERSION

    headers = fitted_for({}, "anthropic")[0].headers
    assert headers == {"anthropic-version": ANTHROPIC_API_VERSION}


@pytest.mark.parametrize("server", ["vertex", "bedrock", "deepseek", "copilot", "minimax"])
def test_other_servers_have_no_default_version(server: str) -> None:
    fitted, _ = fitted_for({"temperature": 1}, "anthropic", server)
    assert fitted.body["temperature"] == 1
    assert "anthropic-version" not in fitted.headers


def test_version_of_a_model_that_refuses_sampling_restores_nothing() -> None:
    Row("anthropic", None, "claude-opus-4-5", {}, {"fields": SAMPLING}).check()


def test_other_dialects_have_no_version() -> None:
    assert fitted_for({}, "openai_chat")[0].headers == {}


@pytest.mark.parametrize(
    ("beta", "body", "lost"),
    [
        ("mcp-client-2025-11-20", {"mcp_servers": [{}]}, "mcp_servers"),
        ("mcp-client-2025-11-20", {"tools": [{"type": "mcp_toolset"}]}, "mcp_toolset"),
        ("context-management-2025-06-27", {"context_management": {"a": 1}}, "context_management"),
        (
            "compact-2026-01-12",
            {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            "compact_20260112",
        ),
        (
            "mid-conversation-output-config-2026-07-01",
            {"messages": [{"role": "system", "output_config": {"effort": "low"}}]},
            "output_config",
        ),
        (
            "mid-conversation-system-clear-at-2026-08-21",
            {"messages": [{"role": "system", "clear_at": "never"}]},
            "clear_at",
        ),
        (
            "mid-conversation-tool-changes-2026-07-01",
            {"messages": [{"role": "system", "content": [{"type": "tool_addition"}]}, USER]},
            "tool_addition",
        ),
        (
            "thinking-binding-controls-2026-08-01",
            {"thinking": {"block_binding": {"prefix_mismatch_behavior": "error"}}},
            "block_binding",
        ),
        ("task-budgets-2026-03-13", {"output_config": {"task_budget": {}}}, "task_budget"),
        ("thinking-display-updates-2026-08-18", {"thinking": {"display": "updates"}}, "display"),
        ("advisor-tool-2026-03-01", {"tools": [{"type": "advisor_20260301"}]}, "advisor_20260301"),
        (
            "computer-use-2025-11-24",
            {"tools": [{"type": "computer_20251124"}]},
            "computer_20251124",
        ),
        (
            "computer-use-2025-01-24",
            {"tools": [{"type": "computer_20250124"}]},
            "computer_20250124",
        ),
        ("computer-use-2024-10-22", {"tools": [{"type": "bash_20241022"}]}, "bash_20241022"),
    ],
)
def test_beta_and_its_field_go_together(beta: str, body: dict[str, Any], lost: str) -> None:
    """The vendor gets both, a server without betas neither."""
    headers = {"anthropic-beta": beta}
    fitted, names = fitted_for(body, "anthropic", headers=headers)
    assert fitted.body is body
    assert fitted.headers["anthropic-beta"] == beta
    assert names == []
    losses = Losses()
    target = structs.replace(capabilities_for("anthropic"), allowed_betas=frozenset())
    fitted = fit_fields(body, headers, target, losses)
    assert fitted.body in ({}, {"messages": [{"role": "system"}]}, {"messages": [USER]})
    assert "anthropic-beta" not in fitted.headers
    assert [loss.feature for loss in losses.list()] == [lost, "beta"]


def test_thinking_that_is_not_updated_is_no_beta() -> None:
    body = {"thinking": {"display": "summarized"}}
    assert fitted_for(body, "anthropic", "deepseek")[0].body is body


def test_every_beta_is_one_that_the_official_sdk_knows() -> None:
    from anthropic.types.anthropic_beta_param import AnthropicBetaParam

    names = get_args(get_args(AnthropicBetaParam)[1])
    patterns = capabilities_for("anthropic").beta_fields
    assert [p for p in patterns if not any(fnmatchcase(name, p) for name in names)] == []


def test_versions_are_those_of_the_issue() -> None:
    rules = {rule.version for rule in shipped_profiles()._rules}
    assert rules == {None, OLD, NEW}
