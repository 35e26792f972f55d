"""Qwen Code."""

from __future__ import annotations

import json
from pathlib import Path

from clients.agent import Agent, Expected, Launch, default_of, report_of_stream_json
from clients.tasks import Asked
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["QWEN_CODE"]

_SETTINGS = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "model": {"generationConfig": {"maxRetries": 1, "modalities": {"image": True}}},
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
}


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps(_SETTINGS))
    arguments = ["node", program, "-p", prompt]
    arguments += ["--approval-mode", "yolo", "--output-format", "stream-json"]
    environ = {
        "OPENAI_API_KEY": "sk-dummy",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "a-model",
    }
    return Launch(arguments, environ)


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("read_file", file_path=str(asked.folder / name)), id=id)


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, default_of(variant))


_BROKEN = "a stream that broke off is an error that is not retried"
_EXPECTED = {
    **dict.fromkeys(
        ("429_first", "529_first"), Expected(3, "answered", "the SDK sends a request again")
    ),
    **dict.fromkeys(("cut", "cut_calls", "error", "always_cut"), Expected(1, "failed", _BROKEN)),
    "cut_final": Expected(2, "failed", _BROKEN),
    "silent": Expected(3, "answered", "a turn that timed out is begun again"),
    "always_529": Expected(28, "failed", "14 attempts, each of two requests as maxRetries is 1"),
}

QWEN_CODE = Agent(
    name="qwen-code",
    dialect="openai_chat",
    program="@qwen-code/qwen-code/cli-entry.js",
    upstreams=("anthropic", "openai_responses", "gemini", "bedrock_converse", "openai_chat"),
    launch=_launch,
    read=_read,
    report=report_of_stream_json,
    expect=_expect,
    # Chat Completions has no place for them.
    drops_signatures=("anthropic", "openai_responses", "gemini", "bedrock_converse"),
)
