"""Reasoning items of a request."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.requests import read, read_items

from streamnorm import translate_request
from streamnorm._core.blocks import (
    InputBlock,
    Reasoning,
    RedactedReasoning,
)

OWN = "openai_responses"


REASONING: dict[str, tuple[dict[str, Any], InputBlock]] = {
    "encrypted": (
        {
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "One."},
                {"type": "summary_text", "text": "Two."},
            ],
            "encrypted_content": "gAAA",
        },
        Reasoning(("One.", "Two."), "gAAA", "openai", "rs_1"),
    ),
    "as Codex sends it": (
        {"id": "rs_1", "summary": [], "content": None, "encrypted_content": "gAAA"},
        Reasoning((), "gAAA", "openai", "rs_1", extra={OWN: {"content": None}}),
    ),
    "not encrypted": (
        {"summary": [], "encrypted_content": None},
        Reasoning(extra={OWN: {"encrypted_content": None}}),
    ),
    "text of the reasoning": (
        {"summary": [], "content": [{"type": "reasoning_text", "text": "a"}]},
        Reasoning(
            ("a",),
            extra={OWN: {"summary": [], "content": [{"type": "reasoning_text", "text": "a"}]}},
        ),
    ),
    "another vendor's": (
        {"summary": [], "encrypted_content": "sn1.anthropic.EqQB"},
        Reasoning((), "EqQB", "anthropic"),
    ),
    "its own, from another dialect": (
        {"id": "rs_sn_2", "summary": [], "encrypted_content": "sn1-id.openai.rs_1.gAAA"},
        Reasoning((), "gAAA", "openai", "rs_1"),
    ),
    "its own, from another dialect without its id": (
        {"id": "rs_sn_2", "summary": [], "encrypted_content": "sn1.openai.gAAA"},
        Reasoning((), "gAAA", "openai"),
    ),
    "another vendor's, redacted": (
        {"id": "rs_1", "summary": [], "encrypted_content": "sn1-redacted.anthropic.EqQB"},
        RedactedReasoning("EqQB", "anthropic", extra={OWN: {"id": "rs_1", "summary": []}}),
    ),
    "forwarded by OpenRouter": (
        {"summary": [], "encrypted_content": "EqQB", "format": "anthropic-claude-v1"},
        Reasoning((), "EqQB", "anthropic", extra={OWN: {"format": "anthropic-claude-v1"}}),
    ),
}


@pytest.mark.parametrize(("fields", "block"), REASONING.values(), ids=REASONING)
def test_reasoning_item(fields: dict[str, Any], block: InputBlock) -> None:
    (message,) = read_items({"type": "reasoning", **fields})
    assert message.blocks == (block,)


def test_reasoning_of_a_server_is_its_own() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    (message,) = read({"input": [item]}, server="xai").messages
    assert message.blocks == (Reasoning((), "x", "xai"),)


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
SAID = {"role": "assistant", "content": "One moment."}


@pytest.mark.parametrize(
    ("sealed", "messages"),
    [
        ("sn1..sn1-of.c.google.s", ["assistant"]),  # signs the call that follows
        ("sn1..sn1-of..google.s", ["assistant"]),  # signs the text before it
        ("sn1.anthropic.EqQB", ["assistant", "assistant"]),
        ("gAAA", ["assistant", "assistant"]),
    ],
)
def test_signature_of_another_block_begins_no_answer(sealed: str, messages: list[str]) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": sealed}
    assert [message.role for message in read_items(SAID, item, CALL)] == messages


def test_text_before_a_signed_call_is_sent_with_it() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "sn1..sn1-of.c.google.c2ln"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    body = {"model": "m", "input": [{"role": "user", "content": "u"}, SAID, item, CALL, result]}
    _, model, _ = translate_request(body, dialect=OWN, to="gemini").body["contents"]
    assert model == {
        "role": "model",
        "parts": [
            {"text": "One moment."},
            {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": "c2ln"},
        ],
    }
