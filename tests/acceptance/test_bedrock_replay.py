"""boto3 reads replayed event streams, whole and with faults, and is recorded through the proxy.

python -m pytest tests/acceptance/test_bedrock_replay.py
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest
from support.bedrock.recorded import RECORDINGS, make_recording
from support.bedrock.signatures import KEY_ID, SECRET
from support.gateway.servers import served
from support.http.strict_upstreams import strict_provider

from streamnorm import StreamError
from streamnorm.asgi import RecordingProxy, ReplayApp
from streamnorm.recording import Recording, faults
from streamnorm.recording.faults import Fault
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder
from streamnorm.testing import tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

FOLDER = Path(__file__).parents[2] / "recordings" / "anthropic" / "bedrock"
MODEL = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"
ASKED = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": []}
EVENTS = [event for event in RECORDINGS["chunks-parallel-tools"] if not isinstance(event, bytes)]


def make_client(url: str) -> Any:
    return boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


def ask(url: str) -> list[Any]:
    """Return the events that boto3 reads."""
    client = make_client(url)
    try:
        answer = client.invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(ASKED))
        assert answer["contentType"] == "application/json"
        with closing(answer["body"]) as events:
            return [json.loads(event["chunk"]["bytes"]) for event in events]
    finally:
        client.close()


async def asked(responder: Any) -> list[Any]:
    async with served(ReplayApp(responder), strict=False) as url:
        return await asyncio.to_thread(ask, url)


def library(name: str, **options: Any) -> Library:
    return Library(FOLDER / f"{name}.eventstream", drift="ignore", **options)


@pytest.mark.parametrize("how", ["recorded", "event", "byte", "hostile", "random:1"])
async def test_boto3_reads_a_replayed_stream(how: str) -> None:
    assert await asked(library("chunks-parallel-tools", rechunk=how)) == EVENTS


async def test_boto3_raises_a_replayed_exception() -> None:
    with pytest.raises(botocore.exceptions.EventStreamError, match=r"throttlingException.*please"):
        await asked(library("chunks-throttled"))


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (faults.http(429), botocore.exceptions.ClientError, "(ThrottlingException)"),
        (faults.http(404), botocore.exceptions.ClientError, "(ResourceNotFoundException)"),
        (faults.error_event(event=3), botocore.exceptions.EventStreamError, "throttlingException"),
        (faults.garbage(event=3), Exception, "Checksum mismatch"),
    ],
    ids=str,
)
async def test_boto3_raises_the_error_of_a_fault(
    fault: Fault, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind) as caught:
        await asked(library("chunks-parallel-tools", faults=[fault]))
    assert told in str(caught.value)


async def test_boto3_drops_half_a_message_in_silence() -> None:
    """That is why a cut must never be a clean end: with one, boto3 reports nothing."""
    body = make_recording("chunks-parallel-tools").body
    assert await asked(library("chunks-parallel-tools", faults=[faults.truncate(byte=2000)])) == [
        event for event, end in zip(EVENTS, ends(body), strict=True) if end <= 2000
    ]


def ends(body: bytes) -> list[int]:
    return make_recording("chunks-parallel-tools").framing.layout.find_event_ends(body)


async def test_boto3_is_answered_by_a_fake_provider() -> None:
    events = await asked(strict_provider("It snows.", strict=False))
    assert "".join(e["delta"].get("text", "") for e in events if "delta" in e) == "It snows."


def converse(url: str) -> tuple[str, dict[str, Any]]:
    """Return the text that boto3 reads of a stream, and the whole answer to a second request."""
    client = make_client(url)
    asked: dict[str, Any] = {
        "modelId": MODEL,
        "messages": [{"role": "user", "content": [{"text": "Does it snow?"}]}],
    }
    try:
        with closing(client.converse_stream(**asked)["stream"]) as events:
            deltas = [e["contentBlockDelta"] for e in events if "contentBlockDelta" in e]
        text = "".join(delta["delta"]["text"] for delta in deltas)
        return text, client.converse(**asked)["output"]["message"]
    finally:
        client.close()


async def test_boto3_converses_with_a_strict_fake_provider() -> None:
    provider = strict_provider(["It snows.", tool_call("get_weather", city="Oslo")])
    async with served(ReplayApp(provider), strict=False) as url:
        text, message = await asyncio.to_thread(converse, url)
    assert text == "It snows."
    (block,) = message["content"]
    assert (block["toolUse"]["name"], block["toolUse"]["input"]) == (
        "get_weather",
        {"city": "Oslo"},
    )
    assert provider.violations == ()


@pytest.mark.parametrize(
    ("turn", "kind", "told"),
    [
        (
            StreamError("upstream", "slow", status_hint=429),
            botocore.exceptions.ClientError,
            "(ThrottlingException)",
        ),
        (
            ["It", StreamError("upstream", "slow", status_hint=429)],
            botocore.exceptions.EventStreamError,
            "(throttlingException)",
        ),
        (faults.http(404), botocore.exceptions.ClientError, "(ResourceNotFoundException)"),
        (
            ["It", faults.error_event(event=2)],
            botocore.exceptions.EventStreamError,
            "(throttlingException)",
        ),
    ],
    ids=["error", "error in the stream", "http", "error_event"],
)
async def test_boto3_raises_the_error_of_a_fake_provider(
    turn: Any, kind: type[Exception], told: str
) -> None:
    async with served(ReplayApp(strict_provider([turn, "…"])), strict=False) as url:
        with pytest.raises(kind) as caught:
            await asyncio.to_thread(converse, url)
    assert told in str(caught.value)


async def test_boto3_is_recorded_through_the_proxy(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    async with (
        served(ReplayApp(library("chunks-parallel-tools")), strict=False) as upstream,
        served(RecordingProxy(upstream, recorder), strict=False) as url,
    ):
        assert await asyncio.to_thread(ask, url) == EVENTS
    assert recorder.failures == ()
    assert_recorded(tmp_path)
    assert await asked(Library(tmp_path)) == EVENTS


def assert_recorded(directory: Path) -> None:
    (path,) = directory.glob("*.eventstream")
    found, made = Recording.load(path), make_recording("chunks-parallel-tools")
    assert (found.body, found.dialect, found.framing) == (made.body, "anthropic", made.framing)
    assert found.request is not None
    assert (found.request.body, found.response.end) == (ASKED, "eof")
    written = b"".join(each.read_bytes() for each in directory.iterdir())
    assert KEY_ID.encode() not in written
