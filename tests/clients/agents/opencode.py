"""opencode, on each of the AI SDK's packages that it holds."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from clients.agent import Agent, Expected, Launch, Report, default_of
from clients.tasks import READ_FILES, Asked
from clients.variants import VARIANTS
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["OPENCODE"]

_PACKAGES = {
    "openai_chat": ("@ai-sdk/openai-compatible", "/v1"),
    "anthropic": ("@ai-sdk/anthropic", "/v1"),
    "openai_responses": ("@ai-sdk/openai", "/v1"),
    "gemini": ("@ai-sdk/google", "/v1beta"),
}


def _launch(
    dialect: str, program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]
) -> Launch:
    package, path = _PACKAGES[dialect]
    limit = {"context": 200000, "output": 8000}
    model = {
        "name": "a model",
        "tool_call": True,
        "reasoning": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": limit,
    }
    # Its own plugin of this provider speaks over a WebSocket.
    is_built_in = "websocket" in options
    name = "openai" if is_built_in else "gateway"
    provider = {
        "npm": package,
        "name": name,
        "options": {"baseURL": url + path, "apiKey": "sk-dummy"},
        "models": {"model": model, "small": {"name": "a small model", "limit": limit}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"{name}/model",
        "small_model": f"{name}/small",
        "permission": {"external_directory": "allow", "read": "allow"},
        "provider": {name: provider},
    }
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(config))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    environ = {f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}
    if is_built_in:
        del environ["OPENCODE_DISABLE_DEFAULT_PLUGINS"]
        environ["OPENCODE_EXPERIMENTAL_WEBSOCKETS"] = "true"
        # Which it asks for the key of a provider that has a plugin.
        stored = home / ".local" / "share" / "opencode"
        stored.mkdir(parents=True)
        (stored / "auth.json").write_text('{"openai": {"type": "api", "key": "sk-dummy"}}')
    return Launch([program, "run", "--format", "json", prompt], environ)


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("read", filePath=str(asked.folder / name)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the lines of `--format json`: the last text, and whether the last step ended well."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    texts = [line["part"]["text"] for line in lines if line["type"] == "text"]
    ends = [line["part"]["reason"] for line in lines if line["type"] == "step_finish"]
    is_error = any(line["type"] == "error" for line in lines) or ends[-1:] != ["stop"]
    return Report(texts[-1] if texts else "", bool(status) or is_error)


def _expect(variant: str, upstream: str) -> Expected:
    default = default_of(variant)
    with_title = default._replace(requests=default.requests + 1, why=f"a title, {default.why}")
    return _EXPECTED.get(variant.removeprefix("websocket_"), with_title)


_AGAIN = "a title, two turns, and the one again whose error may pass: connection, 429 or 5xx"
_EXPECTED = dict.fromkeys(
    ("429_first", "529_first", "cut", "cut_calls", "cut_final", "error", "silent"),
    Expected(4, "answered", _AGAIN),
)


_DROPPED = {
    # Chat Completions has no place for them.
    "openai_chat": ("anthropic", "openai_responses", "gemini", "bedrock_converse"),
    # Its version of @ai-sdk/google does not read them from a part without text.
    "gemini": ("anthropic", "openai_responses", "bedrock_converse"),
}


def _not_over_websocket(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    sent = (folder / "creates.jsonl").read_text()
    # All but that for the title.
    turns = sent.count("\n")
    return [] if turns == len(requests) - 1 else [f"{turns} creates of {len(requests)} requests"]


# What it does over a WebSocket, with the whole history in each create.
_WEBSOCKET = tuple(
    VARIANTS[name]._replace(
        name="websocket" if name == "plain" else f"websocket_{name}",
        options=("websocket",),
        is_tapped=True,
        task=READ_FILES._replace(problems=_not_over_websocket),
    )
    for name in ("plain", "pause", "429_first", "cut_calls")
)


def _agent(name: str, dialect: str) -> Agent:
    return Agent(
        name=name,
        dialect=dialect,
        program="opencode-linux-*/bin/opencode",
        upstreams=(*_PACKAGES, "bedrock_converse"),
        launch=partial(_launch, dialect),
        read=_read,
        report=_report,
        expect=_expect,
        # It sends Gemini's calls back without ids, which the gateway makes anew.
        keeps_call_ids=dialect != "gemini",
        drops_signatures=_DROPPED.get(dialect, ()),
        drops_reasoning_ids=True,
        variants=_WEBSOCKET if dialect == "openai_responses" else (),
        # It begins a step again for as long as its error may pass, with longer and longer pauses.
        # OpenAI refuses the calls of an answer that broke off, which it sends back twice.
        skips=("always_cut", "always_529", "websocket_cut_calls on openai_responses"),
    )


OPENCODE = (
    _agent("opencode", "openai_chat"),
    _agent("opencode-anthropic", "anthropic"),
    _agent("opencode-responses", "openai_responses"),
    _agent("opencode-gemini", "gemini"),
)
