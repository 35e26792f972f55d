"""Streams decoded, encoded and transcoded, and their comparison by content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    Loss,
    Message,
    MessageStop,
    Note,
    Opaque,
    OpaqueBlock,
    Outcome,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    Usage,
    accumulate,
    project,
)
from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.grammar import Sequencer
from streamnorm._core.losses.executed_calls import executed_calls
from streamnorm._core.text import escape_id
from streamnorm._registry import framing_of
from streamnorm.codec import decoder, encoder
from streamnorm.validation import validate

__all__ = [
    "DIALECTS",
    "DIRECTIONS",
    "ENCODER_OPTIONS",
    "PAGES",
    "PROVIDERS",
    "REASONING_FIELDS",
    "Decoded",
    "StreamContent",
    "content_of",
    "decode",
    "encode",
    "error_words",
    "expected_outcome",
    "overlaps",
    "projected",
    "transcode",
    "transcode_in_any_chunks",
    "transcode_same",
    "with_sorted_blocks",
]

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
PROVIDERS = (*DIALECTS, "bedrock_converse")
"""The dialects of providers: those and the one whose frames are no server-sent events."""
PAGES = ("ui_message_stream", "ag_ui")
"""The dialects of pages, which no provider speaks."""
DIRECTIONS = tuple((source, target) for source in DIALECTS for target in DIALECTS)
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", None)
"""Values of `reasoning`: fields of Chat Completions that may hold it."""

ENCODER_OPTIONS: dict[str, list[dict[str, Any]]] = {
    dialect: [{}, {"reasoning": None}] for dialect in (*DIALECTS, *PAGES)
}
"""Options of each encoder that change what it carries."""
ENCODER_OPTIONS["openai_chat"] = [
    *({"reasoning": field} for field in REASONING_FIELDS),
    {"include_usage": False},
]

_ENCODED = ("reasoning", "include_usage", "extras")


class Decoded(NamedTuple):
    """A decoded stream."""

    events: list[Event]
    outcome: Outcome | None
    notes: tuple[Note, ...]


class StreamContent(Struct):
    """Comparable content of a stream.

    Attributes:
        messages: Messages by choice, normalized.
        sources: Cited sources, sorted; Chat Completions names the text only of the last.
        opaques: Opaque events, sorted.
        failed: What the error at its end says; None if there is none.
    """

    messages: dict[int, Message]
    sources: list[Any]
    opaques: list[str]
    failed: str | None


def decode(pieces: list[bytes], dialect: str | None, **options: Any) -> Decoded:
    """Decode a whole stream."""
    reader = decoder(dialect, **options)
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close()
    return Decoded(events, reader.outcome, reader.notes)


def decode_in_any_pieces(frames: Sequence[bytes], dialect: str | None, **options: Any) -> Decoded:
    """Decode a legal stream in several chunkings with equal results."""
    body = b"".join(frames)
    whole = decode([body], dialect, **options)
    assert whole == decode([body[i : i + 1] for i in range(len(body))], dialect, **options)
    assert whole == decode([*frames], dialect, **options)
    assert validate(whole.events) == []
    return whole


def transcode(
    pieces: list[bytes], source: str | None, target: str, **options: Any
) -> tuple[bytes, Transcoder]:
    """Transcode a whole stream, re-encoded unless `verbatim`."""
    options = {"verbatim": False, **options}
    transcoder = Transcoder(source, target, **options)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return b"".join(out + transcoder.close()), transcoder


def transcode_in_any_chunks(
    pieces: Iterable[bytes], source: str, target: str, **options: Any
) -> tuple[bytes, Transcoder]:
    """Transcode a stream in several chunkings with equal output.

    A CR ends its line, and so its event, before the LF after it is known: an appended error
    may then replace the LF.
    """
    pieces = list(pieces)
    body = b"".join(pieces)
    outs = []
    for parts in (pieces, [body], [body[i : i + 1] for i in range(len(body))]):
        run = Transcoder(source, target, **options)
        outs.append(b"".join([data for piece in parts for data in run.feed(piece)] + run.close()))
    assert outs[0] == outs[1], f"by pieces {outs[0]!r}, at once {outs[1]!r}"
    whole, bytewise = (re.sub(rb"\r\n?", b"\n", out) for out in outs[1:])
    assert whole == bytewise, f"at once {outs[1]!r}, by bytes {outs[2]!r}"
    return outs[0], run


def transcode_same(pieces: list[bytes], dialect: str, **options: Any) -> tuple[bytes, Transcoder]:
    """Transcode a stream to its own dialect in several chunkings."""
    return transcode_in_any_chunks(pieces, dialect, dialect, **options)


def encode(events: Iterable[Event], target: str, **options: Any) -> tuple[bytes, tuple[Loss, ...]]:
    """Encode events as a transcoder does."""
    writer = encoder(target, **options)
    events = list(events)
    executed, is_of_agent = executed_calls(
        event.block for event in events if isinstance(event, BlockStart)
    )
    if (executed or is_of_agent) and not writer.extras:
        writer.projector.expect_executed_calls(of_agent=is_of_agent)
    sequencer = Sequencer(overlapping=writer.projector.capabilities.overlapping)
    out: list[bytes] = []
    for event in events:
        for passed in writer.projector.push(event):
            out += [writer.render(ordered) for ordered in sequencer.push(passed)]
    written = b"".join([*out, writer.close()])
    framing = framing_of(target)
    if framing.writer is not None:
        written = framing.writer().write(written, None)
    return written, writer.losses


def projected(
    events: Iterable[Event], target: str, **options: Any
) -> tuple[list[Event], tuple[Loss, ...]]:
    """Project events with the encoder options that affect projection."""
    return project(
        events, target, **{key: value for key, value in options.items() if key in _ENCODED}
    )


def expected_outcome(outcome: Outcome | None, passed: list[Event]) -> Outcome | None:
    """Return a transcoded stream's expected outcome, from its projected events.

    A completed stream fails if the projection ends in an error: arguments without a place.
    """
    last = passed[-1] if passed else None
    if isinstance(outcome, Completed) and isinstance(last, StreamError):
        return Failed(last)
    return outcome


def content_of(events: list[Event], dialect: str, **options: Any) -> StreamContent:
    """Return a stream's content, as far as a dialect can carry it."""
    choices = {event.choice for event in events if isinstance(event, BlockStart | MessageStop)}
    messages = {choice: accumulate(events, choice=choice) for choice in sorted({0, *choices})}
    chat = dialect == "openai_chat"
    sources = [
        (source.kind, source.url, source.title or None, source.cited_text)
        for message in messages.values()
        for block in message.blocks
        if isinstance(block, Text)
        for source in block.citations
    ]
    opaques = [event for event in events if isinstance(event, Opaque)]
    if chat:  # a citation of a text before the last block is an opaque event
        sources += [
            _citation_fields(json.loads(e.data)) for e in opaques if e.name == "annotations"
        ]
        opaques = [event for event in opaques if event.name != "annotations"]
    counted = not chat or options.get("include_usage", True)
    return StreamContent(
        {choice: _normalized(message, dialect, counted) for choice, message in messages.items()},
        sorted(sources, key=repr),
        sorted(_opaque_text(event) for event in opaques),
        next((error_words(event) for event in events if isinstance(event, StreamError)), None),
    )


def error_words(error: StreamError) -> str:
    """Return an error's message, equal for context overflows in all dialects."""
    return error.message if context_overflow(error) is None else "the context is full"


def with_sorted_blocks(content: StreamContent) -> StreamContent:
    """Return content with each message's blocks sorted."""
    messages = {
        choice: structs.replace(message, blocks=tuple(sorted(message.blocks, key=repr)))
        for choice, message in content.messages.items()
    }
    return structs.replace(content, messages=messages)


def overlaps(events: Iterable[Event], overlapping: tuple[type, ...] = ()) -> bool:
    """Return whether a block starts while another block of its choice is open."""
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


def _citation_fields(annotation: dict[str, Any]) -> tuple[Any, ...]:
    inner = annotation.get(annotation["type"], annotation)
    return (annotation["type"], inner.get("url"), inner.get("title") or None, inner.get("content"))


def _opaque_text(opaque: Opaque) -> str:
    data = json.loads(opaque.data)
    if opaque.dialect == "openai_responses" and isinstance(data, dict):
        for place in ("sequence_number", "output_index", "item_id"):  # which are given anew
            data.pop(place, None)
    return f"{opaque.dialect} {opaque.name} {json.dumps(data, sort_keys=True)}"


def _normalized(message: Message, dialect: str, counted: bool) -> Message:
    """Return a message in canonical form, without minted values and defaults."""
    chat = dialect == "openai_chat"
    minted: dict[str, str] = {}
    usage, reason = message.usage, message.stop_reason
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    more = (usage.cache_write_tokens, usage.reasoning_tokens)
    known = Usage(*(count or 0 for count in (*counts, *more)))
    if message.tool_calls and (reason == "end_turn" or (chat and reason == "stop_sequence")):
        reason = "tool_use"  # calls say so, whatever the word
    if not message.tool_calls and reason == "tool_use":
        reason = "end_turn"
    refused = any(isinstance(block, Refusal) for block in message.blocks)
    if refused and (chat or (dialect == "openai_responses" and reason == "end_turn")):
        reason = "refusal"  # which says so itself
    return structs.replace(
        message,
        id=_response_id(message.id) if dialect == "openai_responses" else message.id,
        blocks=tuple(
            _normalized_block(block, dialect, minted)
            for block in _without_repeated_signatures(message, dialect)
        ),
        usage=known if counted and message.stop_reason is not None else Usage(),
        stop_reason=reason,
        raw_stop_reason=None,
        extra=None,
        stop_extra=None,
        block_extras=(),
    )


def _response_id(id: str) -> str:
    """Return a message id in the form of a response id, with its prefix."""
    if id.startswith("resp_"):
        return id
    return "resp_" + escape_id(re.sub("^(chatcmpl-|gen-|msg_)", "", id) or "0")


def _without_repeated_signatures(message: Message, dialect: str) -> list[Block]:
    """Return blocks without empty ones that only repeat a signature."""
    blocks: list[Block] = []
    for block in message.blocks:
        last = blocks[-1] if blocks else None
        if dialect == "gemini" and _seal(block) is not None and _seal(block) == _seal(last):
            assert isinstance(block, Text | Reasoning)
            if not block.text:
                continue
        blocks.append(block)
    return blocks


def _seal(block: Block | None) -> tuple[str, str | None] | None:
    """Return the signature of a text or thought, if it has one."""
    if not isinstance(block, Text | Reasoning) or block.signature is None:
        return None
    return block.signature, block.issuer


def _id_without_digest(id: str, minted: dict[str, str]) -> str:
    """Return an id; a minted id becomes its number."""
    if not re.fullmatch("call_[0-9a-f]{24}", id):
        return id
    return minted.setdefault(id, f"minted {len(minted)}")


def _on_one_line(arguments: str) -> str:
    """Return arguments with escaped line ends, as Gemini sends them; `{}` if empty."""
    ends = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return arguments.translate(str.maketrans(ends)) or "{}"


def _normalized_block(block: Block, dialect: str, minted: dict[str, str]) -> Block:
    """Return a block in canonical form, with minted ids numbered."""
    match block:
        case Text(text):
            return Text(text)
        case Reasoning(parts=parts):
            return structs.replace(block, parts=tuple(filter(None, ("".join(parts),))))
        case ServerToolCall(id=id, arguments=arguments) if dialect == "gemini":
            id = _id_without_digest(id, minted)  # which has no place on the wire
            return structs.replace(block, id=id, arguments=_on_one_line(arguments))
        case ToolCall(arguments=arguments) if dialect == "gemini":
            return structs.replace(block, arguments=_on_one_line(arguments))
        case ServerToolResult(tool_call_id=id) if dialect == "gemini":
            return structs.replace(block, tool_call_id=_id_without_digest(id, minted))
        case ServerToolCall(arguments=arguments) if dialect == "openai_responses":
            # Of xAI's searches only some events have a `call_id`, which is empty.
            told = arguments.replace('"call_id":"",', "")
            return structs.replace(block, arguments=told or "{}")
        case ToolCall(kind="custom") if dialect == "openai_chat":
            # Only the finish reason says that it was cut.
            return structs.replace(block, is_unfinished=False)
        case ToolCall(arguments="", kind="function") | ServerToolCall(arguments=""):
            return structs.replace(block, arguments="{}")
        case OpaqueBlock(data=data):
            return structs.replace(block, data=json.dumps(json.loads(data), sort_keys=True))
        case _:
            return block
