"""Whole responses of real answers say what their streams say, in every dialect.

No recording has one answer as a stream and as a body; both are therefore written from each real
stream, and read again.
"""

from __future__ import annotations

import json

import pytest
from msgspec import structs
from support.streams.content import DIRECTIONS, decode, encode
from support.streams.corpus import corpus, needs_corpus

from streamnorm import (
    Block,
    Completed,
    EncodeError,
    Failed,
    Message,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    accumulate,
    decode_message,
    encode_message,
    message_events,
)

_MAX_BYTES = 300_000


def real_messages(dialect: str, one_in: int) -> list[tuple[str, Message]]:
    """Return the messages of real streams whose calls are all complete."""
    found: list[tuple[str, Message]] = []
    for stream in corpus(dialect)[::one_in]:
        if stream.bytes > _MAX_BYTES:
            continue
        events, outcome, _ = decode([stream.body], dialect, server=stream.provider)
        if isinstance(outcome, Completed):
            message = accumulate(events)
            if message.stop_reason is not None and all(map(is_complete, message.blocks)):
                found.append((stream.name, message))
    return found


def is_complete(block: Block) -> bool:
    if not isinstance(block, ToolCall) or block.kind == "custom":
        return True
    try:
        return isinstance(json.loads(block.arguments or "{}"), dict)
    except ValueError:
        return False


def content(message: Message, dialect: str) -> Message:
    """Return a message without what a stream and a body spell in their own ways.

    Arguments are compared as values, and of usage the counts.  Extra fields stand at other
    places in a body.  Ids that were minted depend on the place.
    """
    return structs.replace(
        message,
        id="",
        blocks=_joined(tuple(map(_content, message.blocks)), dialect),
        block_extras=(),
        usage=structs.replace(message.usage, extra=None),
        extra=None,
        stop_extra=None,
    )


def _content(block: Block) -> Block:
    match block:
        case ToolCall(kind="function"):
            return structs.replace(block, arguments=_value(block.arguments))
        case ServerToolCall():
            return structs.replace(block, id="", arguments=_value(block.arguments))
        case ServerToolResult():
            return structs.replace(block, tool_call_id="")
        case Text(citations=cited):
            plain = tuple(structs.replace(citation, extra=None) for citation in cited)
            return structs.replace(block, citations=plain)
        case _:
            return block


def _value(arguments: str) -> str:
    return json.dumps(json.loads(arguments or "{}"))


def _joined(blocks: tuple[Block, ...], dialect: str) -> tuple[Block, ...]:
    """Return the blocks of a body of Chat Completions: all reasoning, all text, all calls."""
    if dialect != "openai_chat":
        return blocks
    reasoning = "".join(block.text for block in blocks if isinstance(block, Reasoning))
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    others = [block for block in blocks if not isinstance(block, Text | Reasoning)]
    return (Reasoning((reasoning,)), Text(text), *others)


@needs_corpus
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_whole_response_says_what_its_stream_says(source: str, target: str) -> None:
    for name, message in real_messages(source, 3):
        written, _ = encode([*message_events(message)], target)
        events, outcome, _ = decode([written], target)
        if isinstance(outcome, Failed):  # there is a call that only the source's clients execute
            with pytest.raises(EncodeError, match="waits for the client"):
                encode_message(message, target)
            continue
        whole = encode_message(message, target)
        body = decode_message(json.dumps(whole.body), target)
        assert content(body, target) == content(accumulate(events), target), name
