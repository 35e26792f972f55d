"""A client of Bedrock's ConverseStream: botocore's framing, parser and service model.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html (read
2026-11-22)
"""

from __future__ import annotations

from typing import Any

from support.bedrock_converse import reader

from ..cases import Call
from .reading import Content, Reading

__all__ = ["read"]

_INPUTS = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def read(data: bytes) -> Reading:
    """Read a stream as users of boto3 do."""
    events, error = reader.read(data)
    message = reader.message_of(events)
    usage = message.usage
    reading = Reading(
        accumulated=_content(message),
        stop=message.stop_reason,
        failed=error is not None,
        ended=message.stop_reason is not None,
        needs_end=True,
    )
    if usage is not None:
        inputs = sum(usage.get(key, 0) for key in _INPUTS)
        reading.usage = (inputs, usage["outputTokens"])
    reading.finalised = _content(reader.message_of(_until_stops(events, reading.grammar)))
    return reading


def _content(message: reader.Message) -> Content:
    content = Content()
    for kind, block in message.blocks:
        match kind:
            case "text":
                content.text += block
            case "reasoning":
                content.reasoning += block[0]
            case "tool":
                content.calls.append(Call(block["id"], block["name"], block["input"]))
            case _:
                pass
    return content


def _until_stops(events: list[dict[str, Any]], grammar: list[str]) -> list[dict[str, Any]]:
    """Return the events without those of blocks that have stopped; check their order."""
    open_block: int | None = None
    seen, stopped = -1, set[int]()
    kept = []
    for number, event in enumerate(events):
        (kind, value), *_ = event.items()
        if (kind == "messageStart") != (number == 0):
            grammar.append(f"{kind} is event {number}")
        index = value.get("contentBlockIndex")
        if index in stopped:
            grammar.append(f"{kind} of block {index}, which has stopped")
            continue
        kept.append(event)
        if kind == "messageStop" and open_block is not None:
            grammar.append("messageStop while a block is open")
        if index is None:
            continue
        if open_block is None and index < seen:
            grammar.append(f"block {index} comes behind block {seen}")
        if open_block not in (None, index):
            grammar.append(f"{kind} of block {index} while block {open_block} is open")
        open_block = index
        seen = max(seen, index)
        if kind == "contentBlockStop":
            stopped.add(index)
            open_block = None
    return kept
