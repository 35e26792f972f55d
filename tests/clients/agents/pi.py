"""pi, with each of its APIs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report, default_of
from clients.tasks import Asked
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["PI"]

_APIS = {
    "openai_chat": ("openai-completions", "/v1"),
    "anthropic": ("anthropic-messages", ""),
    "openai_responses": ("openai-responses", "/v1"),
    "gemini": ("google-generative-ai", "/v1beta"),
}


def _launch(
    dialect: str, program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]
) -> Launch:
    api, path = _APIS[dialect]
    model = {
        "id": "a-model",
        "name": "a model",
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 200000,
        "maxTokens": 8000,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    provider = {"baseUrl": url + path, "apiKey": "sk-dummy", "api": api, "models": [model]}
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"gateway": provider}}))
    arguments = ["node", program, "--mode", "json", "-p", "--no-session"]
    arguments += ["--provider", "gateway", "--model", "a-model", prompt]
    environ = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
    return Launch(arguments, environ)


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("read", path=str(asked.folder / name)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--mode json`: the last message; the exit status is always 0."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    said = [line["message"] for line in lines if line["type"] == "message_end"]
    last = next((one for one in reversed(said) if one["role"] == "assistant"), {"content": []})
    answer = "".join(part["text"] for part in last["content"] if part["type"] == "text")
    return Report(answer, bool(status) or last.get("stopReason") != "stop")


def _expect(dialect: str, variant: str, upstream: str) -> Expected:
    default = _EXPECTED.get(variant, default_of(variant))
    return _EXPECTED_OF_GEMINI.get(variant, default) if dialect == "gemini" else default


_AGAIN = "a turn whose error names a lost connection, a time-out, 429 or 5xx is begun again"
_EXPECTED = {
    **dict.fromkeys(
        ("429_first", "529_first", "cut", "cut_calls", "cut_final", "error", "silent"),
        Expected(3, "answered", _AGAIN),
    ),
    "always_cut": Expected(4, "failed", "a turn is begun again three times"),
    "always_529": Expected(12, "failed", "three requests of the SDK in each of four turns"),
}

# @google/genai raises "Incomplete JSON segment at the end", which pi does not retry.
_BROKEN = "a stream that broke off is an error that is not retried"
_EXPECTED_OF_GEMINI = {
    **dict.fromkeys(
        ("cut", "cut_calls", "error", "silent", "always_cut"), Expected(1, "failed", _BROKEN)
    ),
    "cut_final": Expected(2, "failed", _BROKEN),
    "always_529": Expected(4, "failed", "a turn is begun again three times"),
}

# Chat Completions has no place for them, and tool calls of Anthropic's have none.
_DROPPED = {
    "openai_chat": ("anthropic", "openai_responses", "gemini", "bedrock_converse"),
    "anthropic": ("gemini",),
}


def _agent(name: str, dialect: str) -> Agent:
    return Agent(
        name=name,
        dialect=dialect,
        program="@mariozechner/pi-coding-agent/dist/cli.js",
        upstreams=(*_APIS, "bedrock_converse"),
        launch=partial(_launch, dialect),
        read=_read,
        report=_report,
        expect=partial(_expect, dialect),
        # It sends Gemini's calls back without ids, which the gateway makes anew.
        keeps_call_ids=dialect != "gemini",
        drops_signatures=_DROPPED.get(dialect, ()),
        # It asks for thinking with a budget, and Anthropic's answers then begin with thinking.
        skips=("no_reasoning on anthropic",) if dialect == "anthropic" else (),
    )


PI = (
    _agent("pi", "openai_chat"),
    _agent("pi-anthropic", "anthropic"),
    _agent("pi-responses", "openai_responses"),
    _agent("pi-gemini", "gemini"),
)
