"""Claude Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.agent import (
    Agent,
    Expected,
    Launch,
    default_of,
    one_after_the_other,
    report_of_stream_json,
)
from clients.tasks import READ_FILES, Asked, Call
from clients.variants import SERVERS, Variant
from msgspec import structs

from streamnorm import ToolCall
from streamnorm.testing import tool_call

__all__ = ["CLAUDE_CODE"]


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    model = next((word[6:] for word in options if word.startswith("model=")), "claude-sonnet-4-5")
    arguments: list[str | Path] = [program, "-p", prompt, "--allowedTools", "Read"]
    arguments += ["--output-format", "stream-json", "--verbose", "--model", model]
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",  # of 10 by default, over minutes
    }
    if "bedrock" in options:
        environ |= _BEDROCK | {"ANTHROPIC_BEDROCK_BASE_URL": url}
    if "bearer" in options:
        environ |= {"AWS_BEARER_TOKEN_BEDROCK": _BEARER}
    if "schema" in options:
        arguments += ["--json-schema", json.dumps(_SCHEMA)]
    if "discovery" in options:
        environ["CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY"] = "1"
    if "follow-up" in options:
        further = [*arguments, "--continue"]
        further[2] = _FOLLOW_UP[0]
        arguments = one_after_the_other(arguments, further)
    return Launch(arguments, environ)


_BEDROCK = {
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret-of-nobody",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_BEARER = "bearer-of-the-gateway"
_FOLLOW_UP = ("Say the second word again.", "FINAL ANSWER: fjäll ✓.")


_SCHEMA = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": {"type": "string"}}},
    "required": ["words"],
    "additionalProperties": False,
}


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    return structs.replace(tool_call("Read", file_path=str(asked.folder / name)), id=id)


def _expect(variant: str, upstream: str) -> Expected:
    return _EXPECTED.get(variant, default_of(variant))


_AGAIN_WHOLE = "after a stream that broke off it asks once more, for no stream"
_EXPECTED = {
    "follow_up": Expected(3, "answered", "two turns, and the answer to what the user says then"),
    "bedrock": Expected(4, "answered", "two turns, and two models that it probes before"),
    "bedrock_listed": Expected(2, "answered", "two turns, and the probes are refused"),
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


def _write_structured(asked: Asked, read: Call) -> list[ToolCall]:
    words = tool_call("StructuredOutput", words=["larch", "fjäll ✓"])
    return [structs.replace(words, id="call_Structured")]


_STRUCTURED = READ_FILES._replace(
    rounds=[*READ_FILES.rounds, _write_structured],
    final='{"words":["larch","fjäll ✓"]}',
)

_LISTED = """
[[models]]
match = "claude-sonnet-4-5"
to = ["local"]
"""


def _models_not_listed(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    lines = (folder / "gateway.log").read_text().splitlines()
    listed = [line for line in lines if "operation=models" in line]
    return [] if any("status=200" in line for line in listed) else [f"{len(listed)} lists"]


CLAUDE_CODE = Agent(
    name="claude-code",
    dialect="anthropic",
    program="@anthropic-ai/claude-code-*/claude",
    upstreams=("openai_chat", "openai_responses", "gemini", "bedrock_converse", "anthropic"),
    launch=_launch,
    read=_read,
    report=report_of_stream_json,
    expect=_expect,
    own_variants=None,
    # It asks for thinking with a budget, and Anthropic's answers then begin with thinking.
    skips=("no_reasoning on anthropic",),
    variants=(
        *SERVERS,
        Variant(
            "follow_up", options=("follow-up",), task=READ_FILES._replace(follow_up=_FOLLOW_UP)
        ),
        # A model that decides itself how much it thinks.
        Variant("adaptive", options=("model=claude-opus-4-8",)),
        # Signed with a key of the gateway's.
        Variant(
            "bedrock",
            options=("bedrock",),
            settings='aws_client_keys = "env:AWS_CLIENT_KEYS"',
            environ={
                "AWS_CLIENT_KEYS": "{AWS_ACCESS_KEY_ID}:{AWS_SECRET_ACCESS_KEY}".format(**_BEDROCK)
            },
        ),
        # With a bearer, and of a gateway that has no model that it probes.
        Variant(
            "bedrock_listed",
            options=("bedrock", "bearer"),
            settings='client_keys = "env:CLIENT_KEYS"' + _LISTED,
            environ={"CLIENT_KEYS": _BEARER},
            task=READ_FILES._replace(problems=_models_not_listed),
        ),
        Variant("json_schema", options=("schema",), task=_STRUCTURED),
        Variant(
            "discovery",
            options=("discovery",),
            settings=_LISTED,
            task=READ_FILES._replace(problems=_models_not_listed),
        ),
    ),
)
