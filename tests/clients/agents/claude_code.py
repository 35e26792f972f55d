"""Claude Code."""

from __future__ import annotations

import json
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["CLAUDE_CODE"]


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    arguments = [program, "-p", prompt, "--allowedTools", "Read"]
    arguments += ["--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"]
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Launch(arguments, environ)


def _read(id: str, path: Path) -> ToolCall:
    return structs.replace(tool_call("Read", file_path=str(path)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--output-format stream-json`; the last is the result."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    result = next((line for line in reversed(lines) if line["type"] == "result"), {})
    return Report(result.get("result", ""), bool(status or result.get("is_error", True)))


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, Expected(2, "answered", "two turns"))


_EXPECTED = {
    "429_first": Expected(3, "answered", "the SDK sends a request again that got a 429"),
    "529_first": Expected(3, "answered", "the SDK sends a request again that got a 529"),
}

CLAUDE_CODE = Agent(
    name="claude-code",
    dialect="anthropic",
    program="@anthropic-ai/claude-code-*/claude",
    upstreams=("openai_chat", "openai_responses", "gemini", "anthropic"),
    launch=_launch,
    read=_read,
    report=_report,
    expect=_expect,
)
