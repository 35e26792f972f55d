"""Claude Code in front of servers that speak its own dialect and refuse some of it.

The upstream refuses what the server does.  The bytes of a body are written by hand: what a client
spells in its own way arrives so, wherever the server takes it.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.gateway.servers import served_gateway
from support.http.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio


ASKED = rb'{"role":"user", "content":[{"type":"text","text":"Read \u00e4\/b"}]}'
THOUGHT = rb'{"type":"thinking","thinking":"Hm \u2026","signature":"c2ln"}'
CALL = rb'{"type":"tool_use","id":"toolu_1","name":"Read","input":{"from":1.50,"to": 1e2}}'
RESULT = rb'{"type":"tool_result","tool_use_id":"toolu_1","content":"\u00e4"}'
REMINDER = rb'{"type":"text","text":"<system-reminder>","cache_control":{"type":"ephemeral"}}'
SYSTEM = rb'{"role":"system","content":"The file \u00e4\/b changed."}'
SAID = rb'{"role":"assistant","content":[{"type":"text", "text":"Done."}]}'
MORE = rb'{"role":"user","content":"And \u00e9?"}'
TOOL = rb'{"name":"Read","input_schema":{"type":"object","properties":{"from":{"minimum":0.50}}}}'
EDITS = rb'{"edits":[{"type":"clear_tool_uses_20250919"}]}'
BETA = "context-management-2025-06-27"
PATH = "/v1/messages"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def message(role: bytes, *blocks: bytes) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role, b",".join(blocks))


TURNS = [
    ASKED,
    message(b"assistant", THOUGHT, CALL),
    message(b"user", RESULT, REMINDER),
    SYSTEM,
    SAID,
    MORE,
]
DEMOTED = rb'{"role":"user","content":"<system>\nThe file \u00e4\/b changed.\n</system>"}'


def body(turns: list[bytes], *fields: bytes) -> bytes:
    head = [b'"model":"claude-opus-4-8"', b'"max_tokens":32000', b'"messages":[' + b",".join(turns)]
    return b"{" + b",".join([*head[:2], head[2] + b"]", b'"tools":[%b]' % TOOL, *fields]) + b"}"


async def relayed(sent: bytes, server: str, path: str = PATH) -> Any:
    """Return the only request that a server was sent, after an answer that the client got."""
    upstream = ScriptedUpstream({path: ANSWER})
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": BETA}
    async with (
        served_gateway(upstream, "anthropic", options={"server": server}) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        answer = await http.post(
            PATH, content=sent, headers={**headers, "content-type": "application/json"}
        )
    assert (answer.status_code, answer.json()) == (200, ANSWER)
    [received] = upstream.requests
    return received


@pytest.mark.parametrize("server", ["deepseek", "kimi", "copilot", "anthropic"])
async def test_server_that_refuses_nothing_of_it_is_sent_the_same_bytes(server: str) -> None:
    sent = body(TURNS, b'"context_management":%b' % EDITS, b'"metadata": {"user_id":"u"}')
    received = await relayed(sent, server)
    assert received.body == sent
    assert received.headers["anthropic-beta"] == BETA


async def test_qwen_gets_no_message_of_the_system_and_no_edits() -> None:
    received = await relayed(body(TURNS, b'"context_management":%b' % EDITS), "qwen")
    changed = [*TURNS[:3], DEMOTED, *TURNS[4:]]
    assert json.loads(received.body) == json.loads(body(changed))
    for kept in (*TURNS[:3], *TURNS[4:], TOOL):
        assert kept in received.body
    assert "anthropic-beta" not in received.headers


async def test_minimax_gets_results_apart_from_text() -> None:
    received = await relayed(body(TURNS, b'"temperature":0'), "minimax")
    apart = [message(b"user", RESULT), message(b"user", REMINDER)]
    changed = [*TURNS[:2], *apart, DEMOTED, *TURNS[4:]]
    assert json.loads(received.body) == json.loads(body(changed, b'"temperature":0.01'))
    for kept in (*TURNS[:2], RESULT, REMINDER, *TURNS[4:], TOOL):
        assert kept in received.body


async def test_deepseek_gets_no_image_and_no_effort_beside_thinking_that_is_off() -> None:
    image = b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}'
    text = rb'{"type":"text","text":"\u00e4","cache_control":{"type":"ephemeral"}}'
    turns = [message(b"user", text, image)]
    fields = b'"thinking":{"type":"disabled"}', b'"output_config":{"effort":"high"}'
    received = await relayed(body(turns, *fields), "deepseek")
    assert json.loads(received.body) == json.loads(body([message(b"user", text)], fields[0]))
    assert text in received.body


async def test_vllm_gets_no_thinking_and_the_call_as_it_was() -> None:
    received = await relayed(body(TURNS), "vllm")
    changed = [TURNS[0], message(b"assistant", CALL), TURNS[2], DEMOTED, *TURNS[4:]]
    assert json.loads(received.body) == json.loads(body(changed))
    for kept in (*TURNS[:1], CALL, *TURNS[4:], TOOL):
        assert kept in received.body


async def test_copilot_gets_the_mark_of_a_result_beside_its_content() -> None:
    marked = rb'{"type":"text","text":"\u00e4","cache_control":{"type":"ephemeral"}}'
    inner = b'{"type":"tool_result","tool_use_id":"toolu_1","content":[%b]}' % marked
    turns = [ASKED, message(b"assistant", CALL), message(b"user", inner)]
    received = await relayed(body(turns), "copilot")
    [result] = json.loads(received.body)["messages"][2]["content"]
    assert result == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "ä",
        "cache_control": {"type": "ephemeral"},
    }
    for kept in (ASKED, message(b"assistant", CALL), TOOL):
        assert kept in received.body
