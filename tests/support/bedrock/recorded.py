"""Hand-written recordings of `InvokeModelWithResponseStream`, built from events.

    python tests/support/bedrock/recorded.py

writes `recordings/anthropic/bedrock/*.eventstream` and their companions.  The events expected of
each stand beside it, written by hand.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from streamnorm.recording import RecordedRequest, RecordedResponse, Recording
from streamnorm.recording.format import Companion, RecordedRead
from support.bedrock.chunks import chunk, exception

__all__ = ["RECORDINGS", "make_recording"]

_FOLDER = Path(__file__).parents[3] / "recordings" / "anthropic" / "bedrock"
_URL = (
    "https://bedrock-runtime.eu-west-1.amazonaws.com/model/"
    "eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke-with-response-stream"
)
_TOOL = {
    "name": "get_tide",
    "description": "Returns the next high tide.",
    "input_schema": {"type": "object", "properties": {"port": {"type": "string"}}},
}


def _start(id: str) -> dict[str, Any]:
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 412, "output_tokens": 4},
    }
    return {"type": "message_start", "message": message}


def _open(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def _tool(index: int, id: str, *pieces: str) -> list[dict[str, Any]]:
    return [
        _open(index, type="tool_use", id=id, name="get_tide", input={}),
        *[_delta(index, type="input_json_delta", partial_json=piece) for piece in pieces],
        _stop(index),
    ]


_METRICS = {
    "inputTokenCount": 412,
    "outputTokenCount": 96,
    "invocationLatency": 1873,
    "firstByteLatency": 640,
}

RECORDINGS: dict[str, tuple[dict[str, Any] | bytes, ...]] = {
    "chunks-parallel-tools": (
        _start("msg_bdrk_01TideCallsTwoPortsAtOnce9"),
        _open(0, type="thinking", thinking="", signature=""),
        _delta(0, type="thinking_delta", thinking="Two ports, "),
        _delta(0, type="thinking_delta", thinking="two calls."),
        _delta(0, type="signature_delta", signature="EqQBCkYIBxgCKkBTaWduZWRieW5vYm9keQ=="),
        _stop(0),
        _open(1, type="text", text=""),
        _delta(1, type="text_delta", text="Olá! Vou ver "),
        _delta(1, type="text_delta", text="as marés 🌊."),
        _stop(1),
        *_tool(2, "toolu_bdrk_01FaroFaroFaroFaroFaro", "", '{"port"', ': "Faro"}'),
        *_tool(3, "toolu_bdrk_01HortaHortaHortaHort", "", '{"port": "Hor', 'ta"}'),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 96},
        },
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": _METRICS},
    ),
    "chunks-throttled": (
        _start("msg_bdrk_01TooFastForThisRegionToday"),
        _open(0, type="text", text=""),
        _delta(0, type="text_delta", text="The next high"),
        exception("throttlingException", message="Too many tokens, please wait."),
    ),
}
"""The events of each recording, and an exception as bytes, by its name."""


def make_recording(name: str) -> Recording:
    """Return a recording in which each message is a read."""
    # Bedrock pads each chunk, presumably to hide the length of its text.
    messages = [
        item if isinstance(item, bytes) else chunk(item, string.ascii_letters[: 3 + n * 7 % 40])
        for n, item in enumerate(RECORDINGS[name])
    ]
    request = RecordedRequest(
        "POST",
        _URL,
        {"accept": "application/json", "content-type": "application/json"},
        {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 1024,
            "tools": [_TOOL],
            "messages": [{"role": "user", "content": "When is high tide in Faro and Horta?"}],
        },
    )
    headers = {
        "content-type": "application/vnd.amazon.eventstream",
        "x-amzn-bedrock-content-type": "application/json",
    }
    companion = Companion(
        1,
        "anthropic",
        "invoke_chunks",
        "bedrock",
        "written",
        request,
        RecordedResponse(200, headers, ".eventstream"),
    )
    reads = [RecordedRead(640 if not n else 23, len(data)) for n, data in enumerate(messages)]
    return Recording(b"".join(messages), companion, reads=reads)


if __name__ == "__main__":
    for recorded in RECORDINGS:
        make_recording(recorded).save(_FOLDER / recorded)
