"""Codex."""

from __future__ import annotations

import json
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["CODEX"]

_CONFIG = """
model = "gpt-5.1-codex"
model_provider = "gateway"
check_for_update_on_startup = false

[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 5000

[analytics]
enabled = false
"""


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(_CONFIG.format(url=url))
    arguments = [program, "exec", "--json", "--skip-git-repo-check"]
    arguments += ["--dangerously-bypass-approvals-and-sandbox", prompt]
    return Launch(arguments, {"CODEX_HOME": str(home / ".codex"), "GATEWAY_KEY": "sk-dummy"})


def _read(id: str, path: Path) -> ToolCall:
    return structs.replace(tool_call("exec_command", cmd=f"cat {path}"), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--json`: the last message of the agent, and whether its turn failed."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    said = [item["text"] for item in items if item["type"] == "agent_message"]
    ended = any(line["type"] == "turn.completed" for line in lines)
    return Report(said[-1] if said else "", bool(status) or not ended)


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, Expected(2, "answered", "two turns"))


_EXPECTED = {
    "529_first": Expected(3, "answered", "a request that got a 5xx is sent again"),
}

CODEX = Agent(
    name="codex",
    dialect="openai_responses",
    program="@openai/codex-*/vendor/*/bin/codex",
    upstreams=("openai_chat", "anthropic", "gemini", "openai_responses"),
    launch=_launch,
    read=_read,
    report=_report,
    expect=_expect,
)
