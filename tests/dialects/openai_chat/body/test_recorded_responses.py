"""A whole response reads as the recorded stream of the same answer.

The bodies are what the vendor's SDK accumulates from the chunks of each recording.
"""

from __future__ import annotations

import pytest
from support.bodies.responses import whole_answer_of
from support.streams.corpus import each_recording_of

from streamnorm import Completed, accumulate, decode_message
from streamnorm.codec import decoder
from streamnorm.recording import Recording

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
    "openrouter/signature-after-the-call": "joins the formats",
    "openrouter/text-between-calls": "has no order of text and calls",
    "qianfan/cumulative-arguments": "joins the arguments",
    "sglang/matched-stop-sequence": "drops the stop sequence",
    "vllm/arguments-resent-at-the-end": "joins the arguments",
    "vllm/metadata-again-with-the-last-arguments": "joins the ids",
    "vllm/text-in-the-finish-chunk": "drops the stop sequence",
    "zai/index-minus-one-objects-in-the-finish-chunk": "joins two calls",
    "zai/reasoning-behind-the-text": "has no order of text and reasoning",
}


@each_recording_of("openai_chat")
def test_a_response_reads_as_its_stream(recording: Recording) -> None:
    source = decoder("openai_chat", server=recording.server)
    events = source.feed(recording.body) + source.close()
    if not isinstance(source.outcome, Completed):
        pytest.skip("no whole answer")
    body = whole_answer_of("openai_chat", recording.body)
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
