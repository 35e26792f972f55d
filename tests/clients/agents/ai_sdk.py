"""The AI SDK of Vercel, with each of its packages."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

from clients.agent import Agent, Expected, Launch, Report, default_of
from clients.installs import MODULES
from clients.tasks import Asked
from clients.variants import SERVERS, Variant
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["AI_SDK"]

_SCRIPT = Path(__file__).with_name("ai_sdk.mjs")
_DIALECTS = ("openai_chat", "anthropic", "openai_responses", "gemini", "bedrock_converse")


def _launch(
    dialect: str, program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]
) -> Launch:
    # A module finds packages beside itself.
    (home / "node_modules").symlink_to(MODULES)
    script = shutil.copy(_SCRIPT, home)
    return Launch(["node", script, dialect, url, prompt, *options])


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("read_file", path=str(asked.folder / name)), id=id)


def _report(output: str, status: int) -> Report:
    """Read the only line: the last step's text, and the errors."""
    found = json.loads(output.splitlines()[-1]) if output else {"answer": "", "errors": ["none"]}
    return Report(found["answer"], bool(status or found["errors"]))


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, default_of(variant))


_BROKEN = "a stream that broke off is an error, and is not asked for again"
_EXPECTED = {
    **dict.fromkeys(
        ("429_first", "529_first"), Expected(3, "answered", "a request is sent again, maxRetries 2")
    ),
    **dict.fromkeys(
        ("cut", "cut_calls", "error", "silent", "always_cut"), Expected(1, "failed", _BROKEN)
    ),
    "cut_final": Expected(2, "failed", _BROKEN),
    "always_529": Expected(3, "failed", "a request is sent again, maxRetries 2"),
    "store": Expected(1, "failed", "the gateway stores nothing: 400 for the item of step 1"),
    "state": Expected(2, "answered", "the gateway stores the items of step 1"),
}


def _agent(name: str, dialect: str, variants: tuple[Variant, ...] = ()) -> Agent:
    return Agent(
        name=name,
        dialect=dialect,
        program="ai/package.json",
        upstreams=_DIALECTS,
        launch=partial(_launch, dialect),
        read=_read,
        report=_report,
        expect=_expect,
        # Chat Completions has no place for them.
        drops_signatures=_DIALECTS if dialect == "openai_chat" else (),
        # OpenAI stores the items that it refers to, and the scripted upstream does not.
        skips=("store on openai_responses",),
        variants=variants,
    )


AI_SDK = (
    _agent("ai-sdk", "openai_chat", SERVERS),
    _agent("ai-sdk-anthropic", "anthropic"),
    # What @ai-sdk/openai does by default: it refers to the items of the step before.
    _agent(
        "ai-sdk-responses",
        "openai_responses",
        (
            Variant("store", options=("store",)),
            Variant("state", options=("store",), settings='state = "memory:"'),
        ),
    ),
    _agent("ai-sdk-gemini", "gemini"),
)
