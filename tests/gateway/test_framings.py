"""An upstream whose streams are the chunks of Amazon Bedrock."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.bedrock.chunks import EVENTS, chunk, exception
from support.bedrock.signatures import assert_signed, set_credentials
from support.bedrock_converse.frames import START, end, stop, text
from support.gateway.calls import CHAT, JSON, MESSAGES, called, opened
from support.http.raw_http import RawUpstream, raw_upstream
from support.streams.content import decode

from streamnorm import Completed, Failed, TextDelta, Truncated
from streamnorm.aio.pump import LargeEventPump
from streamnorm.aws import CredentialsError, Signer
from streamnorm.gateway import Config, ConfigError, Gateway, UpstreamConfig

pytestmark = pytest.mark.anyio

STREAM = b"".join(map(chunk, EVENTS))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def http(body: bytes, status: str = "200 OK", kind: str = "vnd.amazon.eventstream") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/{kind}\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


def bedrock(url: str, **options: Any) -> dict[str, UpstreamConfig]:
    config = UpstreamConfig(
        dialect="anthropic", base_url=url, key="env:KEY", framing="invoke_chunks", **options
    )
    return {"bedrock": config}


async def ask(answer: bytes, path: str, body: dict[str, Any]) -> tuple[Any, RawUpstream]:
    with raw_upstream(answer) as upstream:
        async with opened(bedrock(upstream.url), environ={"KEY": "k1"}) as app:
            caller = await called(app, path, {**body, "model": "anthropic.claude-x-v1:0"})
    return caller, upstream


@pytest.mark.parametrize(
    ("client", "path", "body"),
    [
        ("openai_chat", "/v1/chat/completions", {**CHAT, "stream": True}),
        ("anthropic", "/v1/messages", {**MESSAGES, "stream": True}),
    ],
)
async def test_stream_of_chunks(client: str, path: str, body: dict[str, Any]) -> None:
    caller, upstream = await ask(http(STREAM), path, body)
    assert caller.status == 200
    decoded = decode([b"".join(caller.bodies)], client)
    assert TextDelta(0, "It snows.") in decoded.events
    assert isinstance(decoded.outcome, Completed)
    ((head, sent),) = upstream.requests
    assert upstream.targets == [b"/model/anthropic.claude-x-v1:0/invoke-with-response-stream"]
    assert b"authorization: bearer k1" in [line.lower() for line in head]
    fields = json.loads(sent)
    assert fields["anthropic_version"] == "bedrock-2023-05-31"
    assert {"model", "stream"}.isdisjoint(fields)


async def test_whole_answer() -> None:
    message = {
        **EVENTS[0]["message"],
        "content": [{"type": "text", "text": "It snows."}],
        "stop_reason": "end_turn",
    }
    caller, upstream = await ask(
        http(json.dumps(message).encode(), kind="json"), "/v1/chat/completions", CHAT
    )
    answer = json.loads(b"".join(caller.bodies))
    assert answer["choices"][0]["message"]["content"] == "It snows."
    assert upstream.targets == [b"/model/anthropic.claude-x-v1:0/invoke"]


async def test_refusal_of_the_provider() -> None:
    refused = http(b'{"message":"Too many tokens."}', "429 Too Many Requests", "json")
    caller, _ = await ask(refused, "/v1/chat/completions", {**CHAT, "stream": True})
    assert caller.status == 429
    assert caller.error["message"] == "Too many tokens."


async def test_exception_in_the_stream_ends_that_of_the_client() -> None:
    data = b"".join(map(chunk, EVENTS[:3])) + exception("throttlingException", message="Slow.")
    caller, _ = await ask(http(data), "/v1/messages", {**MESSAGES, "stream": True})
    decoded = decode([b"".join(caller.bodies)], "anthropic")
    assert TextDelta(0, "It snows.") in decoded.events
    assert isinstance(decoded.outcome, Failed)
    assert decoded.outcome.error.message == "Slow."


async def test_cut_within_a_message_is_no_success() -> None:
    caller, _ = await ask(http(STREAM[:-30]), "/v1/messages", {**MESSAGES, "stream": True})
    decoded = decode([b"".join(caller.bodies)], "anthropic")
    assert isinstance(decoded.outcome, Failed | Truncated)


@pytest.mark.parametrize(
    "options", [{"dialect": "openai_chat"}, {"dialect": "anthropic", "server": "vertex"}]
)
def test_framing_of_another_server_stops_the_start(options: dict[str, Any]) -> None:
    upstream = UpstreamConfig(base_url="https://h", framing="invoke_chunks", **options)
    with pytest.raises(ConfigError, match=r"upstreams\.local\.framing: invoke_chunks of"):
        Gateway(Config(upstreams={"local": upstream}))


async def test_large_chunk_is_worked_on_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its base64 has no line end, by which events of other streams end."""
    threads: set[bool] = set()
    feed_ahead = LargeEventPump.feed_ahead

    def recorded(pump: LargeEventPump, data: bytes) -> None:
        threads.add(threading.current_thread() is threading.main_thread())
        feed_ahead(pump, data)

    monkeypatch.setattr(LargeEventPump, "feed_ahead", recorded)
    text = "a line of code " * 40_000
    large = {**EVENTS[2], "delta": {"type": "text_delta", "text": text}}
    events = (*EVENTS[:2], large, *EVENTS[3:])
    caller, _ = await ask(
        http(b"".join(map(chunk, events))), "/v1/messages", {**MESSAGES, "stream": True}
    )
    assert TextDelta(0, text) in decode([b"".join(caller.bodies)], "anthropic").events
    assert threads == {False}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


def signed_upstream(url: str, **options: Any) -> UpstreamConfig:
    settings = {"key": "aws", "region": "eu-west-1", "framing": "invoke_chunks", **options}
    return UpstreamConfig(dialect="anthropic", base_url=url, insecure=True, **settings)


@pytest.mark.usefixtures("credentials")
async def test_requests_are_signed_as_they_are_sent() -> None:
    model = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-x"
    with raw_upstream(http(STREAM)) as upstream:
        async with opened({"bedrock": signed_upstream(upstream.url)}) as app:
            body = {**MESSAGES, "stream": True, "model": model}
            headers = (*JSON, ("x-api-key", "sk-of-the-client"))
            caller = await called(app, "/v1/messages", body, headers=headers)
    assert caller.status == 200
    ((head, sent),) = upstream.requests
    pairs = [line.decode().partition(": ") for line in head[1:]]
    found = {name.lower(): value for name, _, value in pairs}
    (target,) = upstream.targets
    assert_signed("POST", upstream.url + target.decode(), found, sent)
    assert "x-api-key" not in found


@pytest.mark.parametrize("stream", [True, False])
async def test_messages_without_a_name_are_told_apart(stream: bool) -> None:
    """Claude Code joins messages of one id, and sends the reasoning of none but the last back."""
    answer = {
        "output": {"message": {"role": "assistant", "content": [{"text": "It snows."}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    messages = b"".join([START, text(0, "It snows."), stop(0), end()])
    response = http(messages) if stream else http(json.dumps(answer).encode(), kind="json")
    ids: list[bytes] = []
    with raw_upstream(response) as upstream:
        config = UpstreamConfig(dialect="bedrock_converse", base_url=upstream.url)
        async with opened({"bedrock": config}) as app:
            for _ in range(2):
                caller = await called(app, "/v1/messages", {**MESSAGES, "stream": stream})
                data = b"".join(caller.bodies)
                ids += re.findall(rb'"id": ?"([^"]+)"', data)[:1]
    assert len({*ids}) == 2


@pytest.mark.usefixtures("credentials")
async def test_credentials_that_cannot_be_refreshed_are_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(signer: Signer, request: Any) -> Any:
        raise CredentialsError("no credentials of AWS: secret")

    monkeypatch.setattr(Signer, "sign_request", fail)
    async with opened({"bedrock": signed_upstream("http://127.0.0.1:9")}) as app:
        caller = await called(app, "/v1/chat/completions", {**CHAT, "stream": True})
    assert (caller.status, caller.error["message"]) == (
        502,
        "the gateway has no credentials of AWS",
    )


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"region": None}, "upstreams.local.key: no region of AWS"),
        ({"key": "aws:none"}, "upstreams.local.key: no credentials of AWS: ProfileNotFound"),
        ({"key": None}, "upstreams.local.region: one without key"),
    ],
)
def test_what_cannot_sign_stops_the_start(options: dict[str, Any], problem: str) -> None:
    upstream = signed_upstream("https://h", **options)
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Gateway(Config(upstreams={"local": upstream}))


@pytest.mark.usefixtures("credentials")
def test_missing_botocore_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    monkeypatch.delitem(sys.modules, "streamnorm.aws", raising=False)
    with pytest.raises(ConfigError, match=r"botocore is not installed \(pip install"):
        Gateway(Config(upstreams={"local": signed_upstream("https://h")}))
