"""Streams of either dialect, decoded, encoded and transcoded, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct, structs

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    Loss,
    Message,
    MessageStop,
    Note,
    Opaque,
    OpaqueBlock,
    Outcome,
    Reasoning,
    ServerToolCall,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    Usage,
    accumulate,
    decoder,
    encoder,
    project,
)
from streamnorm.ordering import Sequencer

__all__ = [
    "DIALECTS",
    "DIRECTIONS",
    "FIELDS",
    "Decoded",
    "Said",
    "decode",
    "encode",
    "in_any_order",
    "overlaps",
    "projected",
    "said",
    "transcode",
]

DIALECTS = ("anthropic", "openai_chat")
DIRECTIONS = tuple((source, target) for source in DIALECTS for target in DIALECTS)
FIELDS = ("reasoning_content", "reasoning", "reasoning_details", None)
"""Where Chat Completions may have the reasoning."""

_ENCODED = ("reasoning", "include_usage")


class Decoded(NamedTuple):
    """What came of a stream."""

    events: list[Event]
    outcome: Outcome | None
    notes: tuple[Note, ...]


class Said(Struct):
    """What a stream says: blocks, stops, counts and the dialect's own data.

    Attributes:
        messages: The answers by choice, what makes no difference made alike.
        sources: What the texts cite; Chat Completions tells of which text only for the last.
        opaques: The dialect's own data, in any order.
        failed: The words of the error at its end.
    """

    messages: dict[int, Message]
    sources: list[Any]
    opaques: list[str]
    failed: str | None


def decode(pieces: list[bytes], dialect: str | None, **options: Any) -> Decoded:
    """Decode a stream, closed at its end."""
    reader = decoder(dialect, **options)
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close()
    return Decoded(events, reader.outcome, reader.notes)


def transcode(
    pieces: list[bytes], source: str | None, target: str, **options: Any
) -> tuple[bytes, Transcoder]:
    """Transcode a stream, closed at its end; the one who asks gets it written anew."""
    options = {"verbatim": False, **options}
    transcoder = Transcoder(source, target, **options)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return b"".join(out + transcoder.close()), transcoder


def encode(events: Iterable[Event], target: str, **options: Any) -> tuple[bytes, tuple[Loss, ...]]:
    """Encode a stream as a transcoder does."""
    writer = encoder(target, **options)
    sequencer = Sequencer(overlapping=writer.projector.capabilities.overlapping)
    out: list[bytes] = []
    for event in events:
        for passed in writer.projector.push(event):
            out += [writer.render(ordered) for ordered in sequencer.push(passed)]
    return b"".join([*out, writer.close()]), writer.losses


def projected(
    events: Iterable[Event], target: str, **options: Any
) -> tuple[list[Event], tuple[Loss, ...]]:
    """Project a stream with the options of an encoder that matter."""
    return project(
        events, target, **{key: value for key, value in options.items() if key in _ENCODED}
    )


def said(events: list[Event], dialect: str, **options: Any) -> Said:
    """Return what a stream says, as far as a dialect tells it."""
    choices = {event.choice for event in events if isinstance(event, BlockStart | MessageStop)}
    messages = {choice: accumulate(events, choice=choice) for choice in sorted({0, *choices})}
    chat = dialect == "openai_chat"
    sources = [
        (source.kind, source.url, source.title, source.cited_text)
        for message in messages.values()
        for block in message.blocks
        if isinstance(block, Text)
        for source in block.citations
    ]
    opaques = [event for event in events if isinstance(event, Opaque)]
    if chat:  # a source of a text with a block behind it has no place any more
        sources += [_source(json.loads(e.data)) for e in opaques if e.name == "annotations"]
        opaques = [event for event in opaques if event.name != "annotations"]
    counted = not chat or options.get("include_usage", True)
    return Said(
        {choice: _alike(message, chat, counted) for choice, message in messages.items()},
        sorted(sources, key=repr),
        sorted(_told(event) for event in opaques),
        next((event.message for event in events if isinstance(event, StreamError)), None),
    )


def in_any_order(what: Said) -> Said:
    """Return what a stream says, the blocks of each answer sorted."""
    messages = {
        choice: structs.replace(message, blocks=tuple(sorted(message.blocks, key=repr)))
        for choice, message in what.messages.items()
    }
    return structs.replace(what, messages=messages)


def overlaps(events: Iterable[Event], overlapping: tuple[type, ...] = ()) -> bool:
    """Tell whether a block starts while one of its choice is open that it must wait for."""
    opened: dict[int, BlockStart] = {}
    for event in events:
        if isinstance(event, BlockStart):
            others = [start for start in opened.values() if start.choice == event.choice]
            if any(not isinstance(start.block, overlapping) for start in others):
                return True
            opened[event.index] = event
        elif isinstance(event, BlockStop):
            del opened[event.index]
    return False


def _source(annotation: dict[str, Any]) -> tuple[Any, ...]:
    inner = annotation.get(annotation["type"], annotation)
    return (annotation["type"], inner.get("url"), inner.get("title"), inner.get("content"))


def _told(opaque: Opaque) -> str:
    return f"{opaque.dialect} {opaque.name} {json.dumps(json.loads(opaque.data), sort_keys=True)}"


def _alike(message: Message, chat: bool, counted: bool) -> Message:
    """Return a message without what DESIGN §9 ignores."""
    usage, reason = message.usage, message.stop_reason
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    more = (usage.cache_write_tokens, usage.reasoning_tokens)
    known = Usage(*(count or 0 for count in (*counts, *more)))
    if message.tool_calls and (reason == "end_turn" or (chat and reason == "stop_sequence")):
        reason = "tool_use"  # calls say so, whatever the word
    if not message.tool_calls and reason == "tool_use":
        reason = "end_turn"
    return structs.replace(
        message,
        blocks=tuple(_block(block) for block in message.blocks),
        usage=known if counted and reason is not None else Usage(),
        stop_reason=reason,
        raw_stop_reason=None,
        extra=None,
        stop_extra=None,
        block_extras=(),
    )


def _block(block: Block) -> Block:
    match block:
        case Text(text):
            return Text(text)
        case Reasoning(parts=parts):
            return structs.replace(block, parts=tuple(filter(None, ("".join(parts),))))
        case ToolCall(arguments="", kind="function") | ServerToolCall(arguments=""):
            return structs.replace(block, arguments="{}")
        case OpaqueBlock(data=data):
            return structs.replace(block, data=json.dumps(json.loads(data), sort_keys=True))
        case _:
            return block
