"""A whole response reads as the recorded stream of the same answer.

The bodies are what the vendor's SDK accumulates from the chunks of each recording.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from support.corpus import each_recording_of, payloads

from streamnorm import Completed, Recording, accumulate, decode_message, decoder

# What the SDK's accumulator makes of these is another answer.
MISREAD = {
    "baseten/reasoning-text-and-call-in-one-delta": "joins the ids that are sent twice",
    "bedrock/placeholder-empty-object": "joins the placeholder and the arguments",
    "fireworks/id-and-name-repeated": "joins the ids and names",
    "groq/executed-tools-and-new-ids": "drops the usage beside the choices",
    "mistral/content-in-parts": "keeps the last parts alone",
    "moonshot/no-space-behind-the-colon": "drops the usage of the choice",
    "moonshot/usage-in-the-choice": "drops the usage of the choice",
    "ollama/index-always-zero": "joins two calls",
    "openai/audio": "drops the usage",
    "openai/text-in-the-middle-of-arguments": "has no order of text and calls",
    "openrouter/gemini-signature-after-its-call": "joins two details",
    "openrouter/gemini-signature-before-its-call": "joins two details",
    "openrouter/numeric-id": "adds the ids",
    "openrouter/reasoning-details-signature": "joins the formats",
    "openrouter/text-between-calls": "has no order of text and calls",
    "qianfan/cumulative-arguments": "joins the arguments",
    "sglang/matched-stop-sequence": "drops the stop sequence",
    "vllm/arguments-resent-at-the-end": "joins the arguments",
    "vllm/metadata-again-with-the-last-arguments": "joins the ids",
    "vllm/text-in-the-finish-chunk": "drops the stop sequence",
    "zai/index-minus-one-objects-in-the-finish-chunk": "joins two calls",
    "zai/reasoning-behind-the-text": "has no order of text and reasoning",
}


def body_of(recording: Recording) -> dict[str, Any] | None:
    """Return the response that the SDK accumulates; None if it cannot."""
    state = ChatCompletionStreamState()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what servers send in other types
        try:
            for payload in payloads(recording.body):
                if not payload.startswith("[DONE]"):
                    value = json.loads(payload)
                    state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=value))
        except (AssertionError, AttributeError, IndexError, TypeError):
            return None
        body: dict[str, Any] = state.current_completion_snapshot.to_dict(mode="json")
    return body


@each_recording_of("openai_chat")
def test_a_response_reads_as_its_stream(recording: Recording) -> None:
    source = decoder("openai_chat", server=recording.server)
    events = source.feed(recording.body) + source.close()
    if not isinstance(source.outcome, Completed):
        pytest.skip("no whole answer")
    body = body_of(recording)
    if body is None:
        pytest.skip("the SDK reads no answer")
    message = accumulate(events)
    read = decode_message(body, "openai_chat", server=recording.server)
    same = (read.blocks, read.stop_reason, read.stop_sequence, read.usage) == (
        message.blocks,
        message.stop_reason,
        message.stop_sequence,
        message.usage,
    )
    assert same == (str(recording) not in MISREAD)
