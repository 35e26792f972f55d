"""Claude Code."""

from __future__ import annotations

import json
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report
from clients.tasks import Asked
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
        "CLAUDE_CODE_MAX_RETRIES": "2",  # of 10 by default, over minutes
    }
    return Launch(arguments, environ)


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("Read", file_path=str(asked.folder / name)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--output-format stream-json`; the last is the result."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    result = next((line for line in reversed(lines) if line["type"] == "result"), {})
    return Report(result.get("result", ""), bool(status or result.get("is_error", True)))


def _expect(variant: str, upstream: str) -> Expected:
    if variant.startswith("to_"):
        return Expected(3, "answered", "the gateway asks both upstreams for the second turn")
    return _EXPECTED.get(variant, Expected(2, "answered", "two turns"))


_AGAIN_WHOLE = "after a stream that broke off it asks once more, for no stream"
_EXPECTED = {
    "429_first": Expected(3, "answered", "a request that got a 429 is sent again"),
    "529_first": Expected(3, "answered", "a request that got a 529 is sent again"),
    "cut": Expected(3, "answered", _AGAIN_WHOLE),
    "cut_calls": Expected(3, "answered", _AGAIN_WHOLE),
    "cut_final": Expected(3, "answered", _AGAIN_WHOLE),
    "error": Expected(3, "answered", "an overloaded_error is retried as a 529 is"),
    "silent": Expected(3, "answered", _AGAIN_WHOLE),
    "always_cut": Expected(3, "failed", "one stream, and CLAUDE_CODE_MAX_RETRIES whole bodies"),
    "always_529": Expected(3, "failed", "the first request and CLAUDE_CODE_MAX_RETRIES"),
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
