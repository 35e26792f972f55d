"""The unified events: what every dialect's stream is made of.

    MessageStart                                         once, first
    BlockStart  deltas …  BlockStop                      blocks may overlap
    UsageUpdate                                          complete snapshots, any time before a stop
    MessageStop                                          once a choice, last
    StreamError                                          instead of MessageStop; nothing follows
    Ping, Opaque                                         anywhere

`grammar` holds the exact rules.  Frozen, positional, comparable; `msgspec.json`
writes each as an object with its snake-case name under `event`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import Block, Citation

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause", "other"
]
"""Why a message ended.  Whether it holds a client tool call decides between
`end_turn` and `tool_use`, never the vendor's word alone."""

ErrorKind: TypeAlias = Literal[
    "upstream", "malformed", "too_large", "truncated", "transport", "stalled"
]
"""Who failed: the provider said so, the peer broke the protocol, a limit was passed,
the stream ended early, the connection broke, or nothing came for too long."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one message; None where nobody said.

    Attributes:
        input_tokens: Everything that went in, cached or not.
        output_tokens: Everything that came out, reasoning included.
        cache_read_tokens: Part of `input_tokens` that was read from a cache.
        cache_write_tokens: Part of `input_tokens` that was written to a cache.
        reasoning_tokens: Part of `output_tokens` that was reasoning.
        extra: The vendor's other fields.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    extra: dict[str, Any] | None = None


class _Event(Struct, frozen=True, omit_defaults=True, tag_field="event"):
    """Base of all events: immutable values, told apart by `event` in JSON."""


class MessageStart(_Event, frozen=True, tag="message_start"):
    """The message begins.

    Attributes:
        id: The provider's id of the message; empty where it sent none.
        model: The model that answers; empty where the provider did not say.
        extra: Other fields of the vendor's first object.
    """

    id: str = ""
    model: str = ""
    extra: dict[str, Any] | None = None


class BlockStart(_Event, frozen=True, tag="block_start"):
    """A block begins.

    Attributes:
        index: Number of the block, dense from 0 over the stream.
        block: The block: empty if deltas will fill it, whole if not.
        choice: Number of the answer it belongs to, where several were asked for.
        extra: Fields of the vendor that have no place in the block.
    """

    index: int
    block: Block
    choice: int = 0
    extra: dict[str, Any] | None = None


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """More of a `Text` block."""

    index: int
    text: str


class ReasoningDelta(_Event, frozen=True, gc=False, tag="reasoning_delta"):
    """More of a `Reasoning` block.

    Attributes:
        index: Number of the block.
        text: The text.
        part: Number of the summary it belongs to, from 0.
    """

    index: int
    text: str
    part: int = 0


class RefusalDelta(_Event, frozen=True, gc=False, tag="refusal_delta"):
    """More of a `Refusal` block."""

    index: int
    text: str


class JSONDelta(_Event, frozen=True, gc=False, tag="json_delta"):
    """More arguments of a `ToolCall` or `ServerToolCall`: a piece of JSON text, or of
    free text where the call is of kind `custom`.
    """

    index: int
    partial_json: str


class SignatureDelta(_Event, frozen=True, gc=False, tag="signature_delta"):
    """The signature of a block; it ends the text or reasoning that it signs.

    Attributes:
        index: Number of the block.
        signature: The opaque value, byte for byte.
        issuer: Vendor that can verify it; None where nobody said.
        id: Id of the item under which the issuer accepts it; None = any, or unknown.
    """

    index: int
    signature: str
    issuer: str | None = None
    id: str | None = None


class CitationDelta(_Event, frozen=True, tag="citation_delta"):
    """A source of a `Text` block."""

    index: int
    citation: Citation


class BlockStop(_Event, frozen=True, gc=False, tag="block_stop"):
    """The block has ended.

    Attributes:
        index: Number of the block.
        is_unfinished: Whether a custom call ended before its text did.
    """

    index: int
    is_unfinished: bool = False


class UsageUpdate(_Event, frozen=True, tag="usage_update"):
    """The tokens so far: a complete snapshot that replaces the one before."""

    usage: Usage


class MessageStop(_Event, frozen=True, tag="message_stop"):
    """An answer is complete.

    Attributes:
        reason: Why it ended.
        raw_reason: The vendor's word for it.
        stop_sequence: The sequence that ended it, where the vendor says which.
        choice: Number of the answer, where several were asked for.
        extra: Other fields of the vendor's last object.
    """

    reason: StopReason
    raw_reason: str | None = None
    stop_sequence: str | None = None
    choice: int = 0
    extra: dict[str, Any] | None = None


class StreamError(_Event, frozen=True, tag="stream_error"):
    """The stream failed; nothing follows.

    Attributes:
        kind: Who failed.
        message: What happened: the provider's words for `upstream`, ours otherwise.
        code: The provider's code or type, or the name of the limit that was passed.
        status_hint: HTTP status that stands for this error.
        retryable: Whether the same request may succeed later; None if unknown.
        extra: Other fields of the vendor's error; of a stream that broke off, what the vendor
            can go on from.
    """

    kind: ErrorKind
    message: str
    code: str | None = None
    status_hint: int | None = None
    retryable: bool | None = None
    extra: dict[str, Any] | None = None


class Ping(_Event, frozen=True, gc=False, tag="ping"):
    """A sign of life without content."""


class Opaque(_Event, frozen=True, gc=False, tag="opaque"):
    """Data that only its own dialect knows.

    Attributes:
        dialect: Name of that dialect.
        name: What it is there: an event's type or a field's name.
        data: JSON text.
        index: Number of the block it belongs to.
    """

    dialect: str
    name: str
    data: str
    index: int | None = None


Event: TypeAlias = (
    MessageStart
    | BlockStart
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | JSONDelta
    | SignatureDelta
    | CitationDelta
    | BlockStop
    | UsageUpdate
    | MessageStop
    | StreamError
    | Ping
    | Opaque
)


Delta: TypeAlias = TextDelta | ReasoningDelta | JSONDelta
"""The deltas that do nothing but make a block longer, as nearly all events do."""


def part_of(delta: Delta) -> int:
    """Return the number of the reasoning summary that a delta belongs to; 0 for all others."""
    return delta.part if isinstance(delta, ReasoningDelta) else 0


def delta_factory(delta: Delta) -> Callable[[str], Delta]:
    """Return a function that creates deltas of the same type, block and part from texts."""
    if isinstance(delta, ReasoningDelta) and delta.part:
        return partial(ReasoningDelta, delta.index, part=delta.part)
    return partial(type(delta), delta.index)


class Completed(Struct, frozen=True, tag="completed"):
    """The dialect's own success terminal was read.

    Attributes:
        reason: Why choice 0 ended.
        usage: The last snapshot.
        lenient: What was forgiven at the end: `no_done` (no `[DONE]`), `no_finish` (no
            finish reason, or content after the last one), `unterminated` (no blank line after the
            last event).
    """

    reason: StopReason
    usage: Usage
    lenient: tuple[str, ...] = ()


class Failed(Struct, frozen=True, tag="failed"):
    """The provider reported an error, broke the protocol or passed a limit."""

    error: StreamError


class Truncated(Struct, frozen=True, tag="truncated"):
    """The stream ended, broke or stalled before the message was complete."""

    error: StreamError


class Abandoned(Struct, frozen=True, tag="abandoned"):
    """The consumer left before the end."""


Outcome: TypeAlias = Completed | Failed | Truncated | Abandoned
"""How a stream ended: exactly one of these."""
