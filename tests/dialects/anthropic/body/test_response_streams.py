"""A whole response is read as the stream of the same answer.

The whole response is the message that the official SDK adds the stream up to.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from msgspec import structs
from support.streams.corpus import recordings

from streamnorm import Completed, Message, OpaqueBlock, ServerToolCall, ToolCall, accumulate
from streamnorm._core.codec import ReadContext
from streamnorm.dialects.anthropic.body.response import read_response
from streamnorm.recording import Recording

OTHERS = {
    "anthropic/eager-input-is-no-json": "the SDK raises",
    "anthropic/max-tokens-in-arguments": "the SDK completes the input",
    "anthropic/fallback": "the SDK takes the model of the fallback",
    "anthropic/programmatic-call-in-message-start": "the stream starts with its last fields",
    "anthropic/unknown-types": "the SDK drops unknown fields of the last event",
}
ANSWERS = [
    recording
    for recording in recordings("anthropic")
    if recording.server == "anthropic" and isinstance(recording.outcome, Completed)
]


def sdk_message(stream: bytes) -> dict[str, Any]:
    """Return the message that the SDK adds a stream up to."""
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    client = anthropic.Anthropic(
        api_key="-",
        base_url="http://t",
        http_client=httpx2.Client(transport=httpx2.MockTransport(lambda _: answer)),
        max_retries=0,
    )
    with client.beta.messages.stream(model="m", max_tokens=1, messages=[]) as events:
        return events.get_final_message().to_dict(mode="json")


def comparable(message: Message) -> Message:
    """Return a message without what a stream and a whole response spell differently."""
    blocks: list[Any] = []
    for block in message.blocks:
        if isinstance(block, ToolCall | ServerToolCall):
            arguments = json.dumps(json.loads(block.arguments or "{}"), sort_keys=True)
            block = structs.replace(block, arguments=arguments)
        elif isinstance(block, OpaqueBlock):
            fields = {name: v for name, v in json.loads(block.data).items() if v is not None}
            block = structs.replace(block, data=json.dumps(fields, sort_keys=True))
        blocks.append(block)
    return structs.replace(message, blocks=tuple(blocks))


@pytest.mark.parametrize(
    "recording", [answer for answer in ANSWERS if answer.name not in OTHERS], ids=lambda r: r.name
)
def test_whole_response_is_read_as_its_stream(recording: Recording) -> None:
    whole = read_response(sdk_message(recording.body), ReadContext(server="anthropic"))
    assert comparable(accumulate(whole)) == comparable(recording.message())


def test_recordings_that_differ_are_named() -> None:
    assert OTHERS.keys() <= {answer.name for answer in ANSWERS}
    assert len(ANSWERS) - len(OTHERS) > 15
