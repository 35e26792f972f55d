"""A client of Bedrock's InvokeModel on a provider of another dialect, in process."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import httpx2
import pytest
from support.bedrock.chunks import invoked
from support.bedrock.signatures import KEY_ID, SECRET
from support.openai_chat.chunks import DONE, content

from streamnorm.transports.httpx import TranscodingTransport
from streamnorm.transports.httpx2 import TranscodingTransport as TranscodingTransport2

pytestmark = pytest.mark.anyio

URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Ax%2Fclaude"
BODY = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Snow?"}],
}
STREAM = b"".join([content("It "), content("snows.", "stop"), DONE])
EVENTS = {"content-type": "text/event-stream"}
SETTINGS = {"client": "anthropic", "upstream": "openai_chat", "base_url": "https://h/v1"}


def answering(answer: Any) -> tuple[TranscodingTransport, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    return TranscodingTransport(httpx.MockTransport(respond), **SETTINGS), seen


async def test_stream_comes_in_chunks() -> None:
    transport, seen = answering(httpx.Response(200, headers=EVENTS, content=STREAM))
    async with httpx.AsyncClient(transport=transport) as client:
        answer = await client.post(f"{URL}/invoke-with-response-stream", json=BODY)
    assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert invoked(answer.content).events[-1]["type"] == "message_stop"
    sent = json.loads(seen[0].content)
    assert (sent["model"], sent["stream"]) == ("arn:x/claude", True)


@pytest.mark.parametrize("end", ["invoke", "invoke-with-response-stream"])
def test_error_has_the_form_of_the_cloud(end: str) -> None:
    refused = httpx.Response(429, json={"error": {"message": "Slow."}})
    transport, _ = answering(refused)
    with httpx.Client(transport=transport) as client:
        answer = client.post(f"{URL}/{end}", json=BODY)
    assert (answer.status_code, answer.json()) == (429, {"message": "Slow."})
    assert answer.headers["x-amzn-errortype"] == "ThrottlingException"


def test_anthropics_sdk_for_bedrock_reads_a_stream() -> None:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, content=STREAM)

    transport = TranscodingTransport2(httpx2.MockTransport(respond), **SETTINGS)
    with httpx2.Client(transport=transport) as http:
        client = anthropic.AnthropicBedrock(
            aws_access_key=KEY_ID,
            aws_secret_key=SECRET,
            aws_region="us-east-1",
            http_client=http,
        )
        with client.messages.stream(model="m", max_tokens=9, messages=BODY["messages"]) as events:
            assert events.get_final_text() == "It snows."
