"""The agents, by name."""

from __future__ import annotations

from clients.agent import Agent
from clients.agents.claude_code import CLAUDE_CODE
from clients.agents.codex import CODEX

__all__ = ["AGENTS"]

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (CLAUDE_CODE, CODEX)}
