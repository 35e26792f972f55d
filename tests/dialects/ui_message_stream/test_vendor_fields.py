"""Fields of chunks that no unified event has: metadata of providers, titles, `dynamic`."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Opaque,
    ServerToolCall,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
)
from streamnorm.codec import decoder

UI = "ui_message_stream"
ITEM = {"openai": {"itemId": "i"}}


def blocks_of(*chunks: dict[str, Any]) -> list[Event]:
    """Return the events of the blocks of a message."""
    around = [{"type": "start"}, *chunks, {"type": "finish"}]
    reader = decoder(UI)
    events = reader.feed(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in around))
    return events[1:-1]


def call(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"tool-{kind}", "toolCallId": "c", "toolName": "f", **fields}


def test_metadata_at_the_end_of_a_part_is_an_opaque_event() -> None:
    opaque = Opaque(UI, "providerMetadata", '{"openai":{"itemId":"i"}}', 0)
    start = {"type": "text-start", "id": "0"}
    delta = {"type": "text-delta", "id": "0", "delta": "x"}
    end = {"type": "text-end", "id": "0"}
    named = {**end, "providerMetadata": ITEM}
    first = [BlockStart(0, Text()), TextDelta(0, "x")]
    assert blocks_of(start, delta, named) == [*first, opaque, BlockStop(0)]
    # As at its start, they say nothing new.
    begun = BlockStart(0, Text(), extra={"providerMetadata": ITEM})
    for last in (end, named):
        found = blocks_of({**start, "providerMetadata": ITEM}, delta, last)
        assert found == [begun, TextDelta(0, "x"), BlockStop(0)]
    available = call("input-available", input={}, providerMetadata=ITEM)
    assert blocks_of(call("input-start"), available) == [
        BlockStart(0, ToolCall("c", "f")),
        JSONDelta(0, "{}"),
        opaque,
        BlockStop(0),
    ]


def test_signature_of_a_call_that_the_provider_executes_stays_metadata() -> None:
    signed = {"providerMetadata": {"anthropic": {"signature": "s"}}}
    available = call("input-available", input={}, providerExecuted=True, **signed)
    assert blocks_of(available)[0] == BlockStart(
        0, ServerToolCall("c", "f", kind="f"), extra=signed
    )


def test_fields_of_the_protocol_are_written_back() -> None:
    """Another model is named, so that the stream is written anew."""
    counts = {"inputTokens": 2, "outputTokens": 1, "totalTokens": 3}
    named = {"providerMetadata": ITEM}
    call = {"toolCallId": "c", "toolName": "f", "dynamic": True, "title": "Find"}
    chunks = [
        {"type": "start", "messageId": "m", "messageMetadata": {"n": 1, "model": "other"}},
        {"type": "start-step"},
        {"type": "text-start", "id": "0", **named},
        {"type": "text-delta", "id": "0", "delta": "x"},
        {"type": "text-end", "id": "0", "providerMetadata": {"a": {"b": 1}}},
        {"type": "tool-input-start", **call, **named},
        {"type": "tool-input-available", **call, "input": {"a": 1}, **named},
        {
            "type": "tool-output-available",
            "toolCallId": "c",
            "output": "y",
            "dynamic": True,
            **named,
        },
        {
            "type": "file",
            "url": "https://a.example/",
            "mediaType": "image/png",
            **named,
        },
        {
            "type": "file",
            "url": "https://a.example/",
            "mediaType": "image/png",
            "providerMetadata": {"google": {"thoughtSignature": "s"}},
        },
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"usage": {"x": 1, **counts}, "n": 2},
        },
    ]
    body = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks)
    run = Transcoder("ui_message_stream", "ui_message_stream", model="other")
    out = b"".join([*run.feed(body + b"data: [DONE]\n\n"), *run.close()])
    found = [json.loads(frame[6:]) for frame in out.split(b"\n\n")[:-2]]
    deltas = [each for each in found if each["type"] != "tool-input-delta"]
    assert deltas == chunks
    assert run.losses == ()
