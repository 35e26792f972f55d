"""The safeguards of Claude Code's auto mode: relayed to Anthropic, elsewhere one loss.

https://code.claude.com/docs/en/llm-gateway-protocol (read 2026-11-23).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.content import transcode

from streamnorm import (
    Encoded,
    Loss,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
    translate_message,
)

BETA = "dangerous-tool-use-2026-09-03"
OTHER_BETA = "interleaved-thinking-2025-05-14"
FIELD = [{"type": "dangerous_tool_use"}]
RESULTS = [
    {
        "type": "dangerous_tool_use",
        "status": {
            "type": "completed",
            "tool_uses": {"toolu_01A": {"type": "completed", "outcome": "allowed"}},
        },
    }
]
DROPPED = Loss("safeguards", "request", 1, "dropped")


def encoded(dialect: str, server: str | None, *betas: str, field: Any = FIELD) -> Encoded:
    body = {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi"}],
        "safeguards": field,
    }
    request = decode_request(body, "anthropic", headers={"anthropic-beta": ",".join(betas)})
    return encode_request(request, dialect, server=server)


def lost(made: Encoded) -> list[Loss]:
    """Return the losses of the field and of betas."""
    return [loss for loss in made.losses if loss.feature in ("safeguards", "beta", "betas")]


@pytest.mark.parametrize("server", [None, "anthropic"])
def test_field_and_beta_are_relayed_to_anthropic(server: str | None) -> None:
    made = encoded("anthropic", server, OTHER_BETA, BETA)
    assert made.body["safeguards"] == FIELD
    assert made.headers["anthropic-beta"] == f"{OTHER_BETA},{BETA}"
    assert made.losses == ()


@pytest.mark.parametrize(
    "dialect", ["openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_field_and_beta_are_one_loss_in_another_dialect(dialect: str) -> None:
    assert lost(encoded(dialect, None, BETA)) == [DROPPED]
    others = [Loss("betas", "request", 1, "dropped"), DROPPED]
    assert lost(encoded(dialect, None, BETA, OTHER_BETA)) == others
    assert lost(encoded(dialect, None, BETA, field=None)) == others[:1]


@pytest.mark.parametrize(
    "server", ["azure", "bedrock", "copilot", "deepseek", "kimi", "minimax", "qwen", "vertex"]
)
def test_field_and_beta_are_one_loss_at_another_server(server: str) -> None:
    made = encoded("anthropic", server, BETA)
    assert lost(made) == [DROPPED]
    assert "safeguards" not in made.body
    assert BETA not in json.dumps([made.body, made.headers])


def test_beta_without_its_field_is_a_loss_of_its_own() -> None:
    made = encoded("anthropic", "vertex", BETA, field=None)
    dropped = Loss("safeguards", "request", 1, "dropped")
    assert lost(made) == [dropped, Loss("beta", "request", 1, "not known to the server")]


ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "tool_use", "id": "toolu_01A", "name": "Bash", "input": {"c": "ls"}}],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
    "safeguard_results": RESULTS,
}


def stream() -> bytes:
    started = {key: value for key, value in ANSWER.items() if key != "safeguard_results"}
    block = {**ANSWER["content"][0], "input": {}}
    payloads: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**started, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"c":"ls"}'},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "safeguard_results": RESULTS},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    frames = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in payloads]
    return "".join(frames).encode()


def payloads_of(out: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix("data: "))
        for line in out.decode().splitlines()
        if line.startswith("data: {")
    ]


def test_results_of_a_whole_answer_are_relayed() -> None:
    made = translate_message(ANSWER, to="anthropic", dialect="anthropic", model="mine")
    assert made.body == {**ANSWER, "model": "mine"}
    again = encode_message(decode_message(ANSWER), "anthropic", model="mine")
    assert again.body == made.body


def test_results_of_a_stream_are_relayed_under_another_model() -> None:
    out, run = transcode([stream()], "anthropic", "anthropic", model="mine")
    payloads = payloads_of(out)
    assert payloads[0]["message"]["model"] == "mine"
    (started,) = (each for each in payloads if each["type"] == "content_block_start")
    assert started["content_block"]["id"] == "toolu_01A"
    (ended,) = (each for each in payloads if each["type"] == "message_delta")
    assert ended["delta"]["safeguard_results"] == RESULTS
    assert "safeguard_results" not in ended
    assert run.losses == ()


@pytest.mark.parametrize(
    "target", ["openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_results_reach_no_client_of_another_dialect(target: str) -> None:
    out, _ = transcode([stream()], "anthropic", target)
    whole = translate_message(ANSWER, to=target, dialect="anthropic")
    assert b"safeguard" not in out
    assert "safeguard" not in json.dumps(whole.body)


def test_results_of_another_vendor_are_no_verdict() -> None:
    """OpenRouter has a field of that name."""
    said = {"role": "assistant", "content": "Hi"}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
        "safeguard_results": RESULTS,
    }
    made = translate_message(body, to="anthropic", dialect="openai_chat")
    assert "safeguard_results" not in made.body
