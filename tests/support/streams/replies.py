"""Answers to translated requests, and a client's reading of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from streamnorm import (
    Reply,
)
from streamnorm._core.bodies.request import ToolName
from support.anthropic import frames as anthropic
from support.openai_chat.chunks import DONE, call, calls, chunk
from support.openai_responses import frames as responses

REPLY = Reply(
    tools={
        "apply_patch": ToolName("apply_patch", is_custom=True),
        "crm__get": ToolName("get", "crm"),
        "crm__run": ToolName("run", "crm", is_custom=True),
    }
)
# What the freeform tool of the worked examples is called with, as wrapped and as text.
PIECES = ['{"', "input", '":"', "*** Beg", "in \\", '"x', '\\"', "\\", "n", '"', "}"]
LIVE = ["*** Beg", "in ", '"x', '"', "\n"]

IN_PIECES = ("anthropic", "openai_chat", "openai_responses")
"""The dialects that send arguments in pieces of their text."""

FINISHES = {
    "tool_use": ("tool_use", "tool_calls", "completed"),
    "max_tokens": ("max_tokens", "length", "incomplete"),
}


def answer(source: str, *tools: tuple[str, Iterable[str]], reason: str = "tool_use") -> list[bytes]:
    """Return a stream with tool calls, one after another."""
    finish = dict(zip(IN_PIECES, FINISHES[reason], strict=True))[source]
    frames: list[bytes] = []
    for number, (name, pieces) in enumerate(tools):
        match source:
            case "anthropic":
                frames += [
                    anthropic.block(number, "tool_use", id=f"c{number}", name=name),
                    *(
                        anthropic.delta(number, "input_json_delta", partial_json=piece)
                        for piece in pieces
                    ),
                    anthropic.stop(number),
                ]
            case "openai_chat":
                frames.append(calls(call(number, f"c{number}", name)))
                frames += [calls(call(number, arguments=piece)) for piece in pieces]
            case _:
                item = {"id": f"fc_{number}", "call_id": f"c{number}", "name": name}
                frames.append(responses.added(number, "function_call", arguments="", **item))
                frames += [
                    responses.args(piece, number, item_id=f"fc_{number}") for piece in pieces
                ]
                whole = {**item, "arguments": "".join(pieces), "status": finish}
                frames.append(responses.done(number, "function_call", **whole))
    if source == "anthropic":
        return [anthropic.start(), *frames, anthropic.end(finish), anthropic.STOP]
    if source == "openai_chat":
        return [*frames, chunk({}, finish), DONE]
    incomplete = {"incomplete_details": {"reason": "max_output_tokens"}}
    details = incomplete if finish == "incomplete" else {}
    return [responses.START, *frames, responses.completed(status=finish, **details)]


def payloads(out: bytes) -> list[dict[str, Any]]:
    lines = [line for line in out.decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def inputs(out: bytes) -> list[str]:
    """Return the input deltas of custom calls in a Responses stream."""
    kind = "response.custom_tool_call_input.delta"
    return [payload["delta"] for payload in payloads(out) if payload["type"] == kind]


each_source = pytest.mark.parametrize("source", IN_PIECES)
