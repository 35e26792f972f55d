"""A fake provider at the paths of Amazon Bedrock, and faults in the form of its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import pytest
from support.bedrock.chunks import EVENTS, chunk, invoked
from support.bedrock.signatures import KEY_ID, SECRET

from streamnorm import StreamError
from streamnorm.codec import INVOKE_CHUNKS, SSE
from streamnorm.recording import RecordedResponse, Recording, faults
from streamnorm.recording.format import Companion, Playback, WireRequest
from streamnorm.recording.library import Library
from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports import httpx as of_httpx
from streamnorm.transports import httpx2 as of_httpx2

HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
MODEL = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"
ASKED: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "Does it snow?"}],
}
BODY = b"".join(map(chunk, EVENTS))


def request(operation: str, body: object = ASKED, model: str = MODEL) -> WireRequest:
    path = f"/model/{model.replace(':', '%3A')}/{operation}"
    return WireRequest("POST", HOST + path, (), json.dumps(body).encode())


def invoke(provider: FakeProvider, *, stream: bool = True, body: object = ASKED) -> Playback:
    operation = "invoke-with-response-stream" if stream else "invoke"
    return provider.respond(request(operation, body))


def test_stream_is_written_in_chunks() -> None:
    playback = invoke(FakeProvider(["It snows."]))
    assert (playback.status, playback.framing) == (200, INVOKE_CHUNKS)
    assert playback.headers == {
        "content-type": "application/vnd.amazon.eventstream",
        "x-amzn-bedrock-content-type": "application/json",
    }
    events = invoked(playback.body).events
    assert [event["type"] for event in events[:2]] == ["message_start", "content_block_start"]
    assert events[0]["message"]["model"] == MODEL
    assert "".join(e["delta"].get("text", "") for e in events if "delta" in e) == "It snows."
    assert "amazon-bedrock-invocationMetrics" in events[-1]
    assert len(playback.steps) > 2


def test_whole_answer_is_that_of_the_vendor() -> None:
    playback = invoke(FakeProvider(["It snows."]), stream=False, body={**ASKED, "stream": True})
    assert playback.headers == {"content-type": "application/json"}
    assert json.loads(playback.body)["content"] == [{"type": "text", "text": "It snows."}]


def test_error_response_is_that_of_the_cloud() -> None:
    error = StreamError("upstream", "too fast", "rate_limit_error", 429)
    for stream in (True, False):
        playback = invoke(FakeProvider([error]), stream=stream)
        assert (playback.status, json.loads(playback.body)) == (429, {"message": "too fast"})
        assert playback.headers["x-amzn-errortype"] == "ThrottlingException"


def test_error_in_a_stream_is_an_exception() -> None:
    error = StreamError("upstream", "too fast", status_hint=429)
    found = invoked(invoke(FakeProvider([["It", error]])).body)
    assert found.exceptions == [("throttlingException", {"message": "too fast"})]
    assert not any(event["type"] == "error" for event in found.events)


def test_faults_have_the_form_of_the_cloud() -> None:
    provider = FakeProvider("It snows.", faults=[faults.http(529), faults.http(404)])
    refused = invoke(provider)
    assert (refused.status, refused.headers["x-amzn-errortype"]) == (529, "ThrottlingException")
    assert json.loads(refused.body) == {"message": "status 529, injected as a fault"}
    assert invoke(provider).headers["x-amzn-errortype"] == "ResourceNotFoundException"
    cut = invoke(FakeProvider("It snows.", faults=[faults.error_event(event=1)]))
    assert invoked(cut.body).exceptions[0][0] == "throttlingException"


def test_strict_provider_refuses_in_the_form_of_the_cloud() -> None:
    provider = FakeProvider("It snows.", strict=True)
    assert invoke(provider).status == 200
    assert provider.violations == ()
    refused = invoke(provider, body={**ASKED, "messages": []})
    assert (refused.status, refused.headers["x-amzn-errortype"]) == (400, "ValidationException")
    assert json.loads(refused.body).keys() == {"message"}
    assert len(provider.violations) == 1
    assert invoke(provider, body=[]).headers["x-amzn-errortype"] == "ValidationException"


def of_vendor(tmp_path: Path, *, framed: bool) -> Path:
    """Save a recording of the vendor's own API, or one of Bedrock."""
    lines = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in EVENTS
    )
    companion = Companion(1, "anthropic")
    if framed:
        response = RecordedResponse(body=".eventstream")
        companion = Companion(1, "anthropic", "invoke_chunks", response=response)
    Recording(BODY if framed else lines, companion).save(tmp_path / "a")
    return tmp_path / f"a{'.eventstream' if framed else '.sse'}"


def test_recording_of_the_same_form_is_played_as_it_is(tmp_path: Path) -> None:
    playback = invoke(FakeProvider(of_vendor(tmp_path, framed=True)))
    assert (playback.body, playback.framing) == (BODY, INVOKE_CHUNKS)


def test_recording_in_another_framing_is_translated(tmp_path: Path) -> None:
    playback = invoke(FakeProvider(of_vendor(tmp_path, framed=False)))
    found = invoked(playback.body).events
    assert [event["type"] for event in found] == [event["type"] for event in EVENTS]
    provider = FakeProvider(of_vendor(tmp_path, framed=True))
    body = json.dumps({"model": "m", "stream": True, **ASKED}).encode()
    played = provider.respond(WireRequest("POST", "https://a.example/v1/messages", (), body))
    assert (played.headers["content-type"], played.framing) == ("text/event-stream", SSE)
    assert Recording(played.body, Companion(1, "anthropic")).message().text == "It snows."


def test_faults_of_a_library_have_the_form_of_the_cloud(tmp_path: Path) -> None:
    of_vendor(tmp_path, framed=True)
    library = Library(tmp_path, faults=[faults.http(429)])
    playback = library.respond(request("invoke-with-response-stream"))
    assert playback.headers["x-amzn-errortype"] == "ThrottlingException"
    assert library.respond(request("invoke-with-response-stream")).body == BODY


@pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_answer_is_recorded_and_replayed_by_the_transports(family: Any, tmp_path: Path) -> None:
    package = {"httpx": of_httpx, "httpx2": of_httpx2}[family.__name__]
    provider: Any = FakeProvider("It snows.").transport(family.__name__)

    def post(transport: Any) -> Any:
        with family.Client(transport=transport) as client:
            return client.post(request("invoke-with-response-stream").url, json=ASKED)

    answer = post(package.RecordingTransport(provider, tmp_path))
    replayed = post(package.ReplayTransport(tmp_path))
    assert answer.content == replayed.content
    assert len(invoked(replayed.content).events) > 4
    for name in ("content-type", "x-amzn-bedrock-content-type"):
        assert answer.headers[name] == replayed.headers[name]
    (path,) = tmp_path.glob("*.eventstream")
    assert Recording.load(path).message().text == "It snows."


def sdk(http: Any) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(
        aws_access_key=KEY_ID,
        aws_secret_key=SECRET,
        aws_region="eu-west-1",
        http_client=http,
        max_retries=0,
    )


def test_sdk_of_anthropic_for_bedrock_is_answered() -> None:
    turns = [tool_call("get_weather", city="Oslo"), "It snows in Oslo."]
    provider = FakeProvider(turns, strict=True)
    question: Any = {
        "model": MODEL,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Does it snow in Oslo?"}],
    }
    with provider.client(anthropic.DefaultHttpxClient) as http:
        with sdk(http).messages.stream(**question) as stream:
            (call,) = stream.get_final_message().content
        assert (call.type, getattr(call, "input", None)) == ("tool_use", {"city": "Oslo"})
        (text,) = sdk(http).messages.create(**question).content
        assert getattr(text, "text", None) == "It snows in Oslo."


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, anthropic.RateLimitError), (400, anthropic.BadRequestError), (500, anthropic.APIError)],
)
def test_sdk_of_anthropic_raises_the_error_of_a_fault(status: int, kind: type[Exception]) -> None:
    provider = FakeProvider("It snows.", faults=[faults.http(status)])
    with (
        provider.client(anthropic.DefaultHttpxClient) as http,
        pytest.raises(kind, match="injected as a fault"),
    ):
        sdk(http).messages.create(model=MODEL, max_tokens=9, messages=[])
