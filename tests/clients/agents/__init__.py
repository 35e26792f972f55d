"""The agents, by name."""

from __future__ import annotations

from clients.agent import Agent
from clients.agents.ai_sdk import AI_SDK
from clients.agents.claude_code import CLAUDE_CODE
from clients.agents.codex import CODEX
from clients.agents.gemini_cli import GEMINI_CLI
from clients.agents.opencode import OPENCODE
from clients.agents.pi import PI
from clients.agents.qwen_code import QWEN_CODE

__all__ = ["AGENTS"]

AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (CLAUDE_CODE, CODEX, *OPENCODE, GEMINI_CLI, *PI, QWEN_CODE, *AI_SDK)
}
"""The agents."""
