"""Reader of streams with botocore's framing, parser and service model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from botocore.eventstream import EventStream
from botocore.exceptions import EventStreamError
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import create_parser

__all__ = ["Message", "Reading", "message_of", "read"]

_MODEL: Any = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
_SHAPE = _MODEL.operation_model("ConverseStream").output_shape.members["stream"]


class Reading(NamedTuple):
    """A stream as read by a boto3 client.

    Attributes:
        events: The events; half a message at the end is dropped in silence.
        error: Code of the exception that ended the stream; None if none did.
    """

    events: list[dict[str, Any]]
    error: str | None


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> Iterator[bytes]:
        yield self._data


def read(data: bytes) -> Reading:
    """Read a stream with botocore."""
    parser: Any = create_parser("rest-json")
    stream = EventStream(_Body(data), _SHAPE, parser._event_stream_parser, "ConverseStream")
    events: list[dict[str, Any]] = []
    try:
        events.extend(stream)
    except EventStreamError as exc:
        return Reading(events, exc.response["Error"]["Code"])
    return Reading(events, None)


class Message(NamedTuple):
    """The message accumulated from events, as by users of boto3.

    Attributes:
        blocks: Kind and content of each block that a client shows or executes.
        stop_reason: `stopReason`; None without a `messageStop`.
        usage: The tokens; None without `metadata`.
    """

    blocks: list[tuple[str, Any]]
    stop_reason: str | None
    usage: dict[str, Any] | None


def message_of(events: list[dict[str, Any]]) -> Message:
    """Accumulate events by block index."""
    blocks: dict[int, tuple[str, Any]] = {}
    stop_reason, usage = None, None
    for event in events:
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": tool}}}:
                name = "server" if tool.get("type") == "server_tool_use" else "tool"
                blocks[index] = (name, {"id": tool["toolUseId"], "name": tool["name"], "input": ""})
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": part}}:
                _extend(blocks, index, part)
            case {"messageStop": {"stopReason": str(reason)}}:
                stop_reason = reason
            case {"metadata": {"usage": tokens}}:
                usage = tokens
            case _:
                pass
    kept = [blocks[index] for index in sorted(blocks)]
    return Message([_finished(block) for block in kept if block[1] != ""], stop_reason, usage)


def _extend(blocks: dict[int, tuple[str, Any]], index: int, part: dict[str, Any]) -> None:
    match part:
        case {"text": text}:
            blocks[index] = ("text", blocks.get(index, ("text", ""))[1] + text)
        case {"toolUse": {"input": text}}:
            blocks[index][1]["input"] += text
        case {"reasoningContent": {"redactedContent": data}}:
            blocks[index] = ("redacted", blocks.get(index, ("redacted", b""))[1] + data)
        case {"reasoningContent": {"text": text}}:
            before = blocks.get(index, ("reasoning", ("", "")))[1]
            blocks[index] = ("reasoning", (before[0] + text, before[1]))
        case {"reasoningContent": {"signature": signature}}:
            before = blocks.get(index, ("reasoning", ("", "")))[1]
            blocks[index] = ("reasoning", (before[0], before[1] + signature))
        case _:
            pass


def _finished(block: tuple[str, Any]) -> tuple[str, Any]:
    kind, content = block
    if kind in ("tool", "server"):
        return kind, {**content, "input": _json_or_text(content["input"])}
    return block


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text
