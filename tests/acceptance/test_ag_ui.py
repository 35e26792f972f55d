"""What we write as AG-UI is what `@ag-ui/client` 0.0.59 and 1.0.0 read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from acceptance.node_sdks import Heard, ask, missing
from support.streams.corpus import recordings

from streamnorm import (
    Completed,
    Message,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    Text,
    ToolCall,
    Transcoder,
    accumulate,
    project,
)
from streamnorm.codec import decoder

pytestmark = [pytest.mark.outside, pytest.mark.skipif(bool(missing()), reason=missing())]

CLIENTS = ("0", "1")
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse")
AG_UI = "ag_ui"


class Run:
    """A recording as it was written as a run, and the message that it holds."""

    def __init__(self, dialect: str, name: str, body: bytes, server: str | None) -> None:
        self.name = f"{dialect}/{name}"
        transcoder = Transcoder(dialect, AG_UI, server=server)
        self.body = b"".join(transcoder.feed(body) + transcoder.close()).decode()
        reader = decoder(dialect, server=server)
        self.passed, _ = project(reader.feed(body) + reader.close(), AG_UI)
        self.is_complete = isinstance(transcoder.outcome, Completed)


@cache
def runs() -> tuple[Run, ...]:
    return tuple(
        Run(dialect, each.name, each.body, each.server)
        for dialect in DIALECTS
        for each in recordings(dialect)
    )


def expected(message: Message) -> dict[str, Any]:
    """Return texts, reasoning and calls of a message, as messages of a thread hold them."""
    reasoning: list[str] = []
    for block in message.blocks:
        match block:
            case Reasoning(parts) if parts or block.signature:
                reasoning += parts or ("",)
            case RedactedReasoning():
                reasoning.append("")
            case _:
                pass
    calls = [
        (block.id, block.name, block.arguments or "{}")
        for block in message.blocks
        if isinstance(block, ToolCall | ServerToolCall)
    ]
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    return {"text": "".join(texts), "reasoning": reasoning, "calls": calls}


def found(heard: Heard) -> dict[str, Any]:
    messages = heard["messages"]
    return {
        "text": "".join(_contents(messages, "assistant")),
        "reasoning": _contents(messages, "reasoning"),
        "calls": [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for message in messages
            for call in message.get("toolCalls", ())
        ],
    }


def _contents(messages: list[dict[str, Any]], role: str) -> list[str]:
    return [each.get("content") or "" for each in messages if each["role"] == role]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_read_what_we_write(client: str) -> None:
    answers = ask("ag_ui", client, [{"body": run.body} for run in runs()])
    for run, heard in zip(runs(), answers, strict=True):
        assert "messages" in heard, (run.name, heard)
        assert (heard["error"] is None) == run.is_complete, run.name
        if run.is_complete:
            assert found(heard) == expected(accumulate(run.passed)), run.name


@pytest.mark.parametrize("client", CLIENTS)
def test_signatures_reach_the_history_of_the_page(client: str) -> None:
    signed = [run for run in runs() if run.is_complete and "REASONING_ENCRYPTED_VALUE" in run.body]
    assert signed
    for run, heard in zip(
        signed, ask("ag_ui", client, [{"body": each.body} for each in signed]), strict=True
    ):
        sent = run.body.count('"REASONING_ENCRYPTED_VALUE"')
        kept = json.dumps(heard["messages"]).count('"encryptedValue"')
        assert kept == sent, run.name
