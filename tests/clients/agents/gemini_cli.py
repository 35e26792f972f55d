"""Gemini CLI."""

from __future__ import annotations

import json
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report, default_of
from clients.tasks import Asked
from clients.variants import SERVERS
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["GEMINI_CLI"]

_SETTINGS = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 3},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
}


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(_SETTINGS))
    arguments = ["node", program, "-p", prompt, "-m", "gemini-2.5-flash"]
    arguments += ["--approval-mode", "yolo", "--output-format", "stream-json"]
    environ = {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return Launch(arguments, environ)


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("read_file", file_path=str(asked.folder / name)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--output-format stream-json`: the text behind the last tool's result.

    The text of an answer that broke off precedes that of the second attempt.
    """
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    answer = ""
    for line in lines:
        if line["type"] == "tool_result":
            answer = ""
        elif line["type"] == "message" and line["role"] == "assistant":
            answer += line["content"]
    result = lines[-1] if lines else {}
    answer = answer[max(answer.rfind("FINAL"), 0) :]
    return Report(answer, bool(status) or result.get("status") != "success")


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, default_of(variant))


_AGAIN = "a request that got a 429 or 5xx, or whose stream broke off, is sent again after a pause"
_EXPECTED = dict.fromkeys(
    ("429_first", "529_first", "cut", "cut_calls", "cut_final", "error", "silent"),
    Expected(3, "answered", _AGAIN),
) | dict.fromkeys(("always_cut", "always_529"), Expected(3, "failed", "maxAttempts is 3"))

GEMINI_CLI = Agent(
    name="gemini-cli",
    dialect="gemini",
    program="@google/gemini-cli/bundle/gemini.js",
    upstreams=("anthropic", "openai_chat", "openai_responses", "bedrock_converse", "gemini"),
    launch=_launch,
    read=_read,
    report=_report,
    expect=_expect,
    variants=SERVERS,
    # It sends back signatures of calls, but no thoughts.
    drops_signatures=("anthropic", "openai_responses", "bedrock_converse"),
)
