"""The unified events to which streams of all dialects are decoded.

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

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import Block, Citation

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause", "other"
]
"""Reason for the end of a message.  A message with a client tool call ends with `tool_use` and
not `end_turn`, even if the vendor's finish reason differs."""

CUT_SHORT: tuple[StopReason, ...] = ("max_tokens", "refusal")
"""Stop reasons that explain an unfinished call."""

ErrorKind: TypeAlias = Literal[
    "upstream", "malformed", "too_large", "truncated", "transport", "stalled"
]
"""Kind of a failure: the provider reported an error, the peer broke the protocol, a limit was
exceeded, the stream ended early, the connection broke, or no data came for too long."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Token counts of one message; None = not reported.

    Attributes:
        input_tokens: All input tokens, cached or not.
        output_tokens: All output tokens, reasoning included.
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


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Sum the token counts of several messages; a count is None if no message has it."""
    sums: dict[str, Any] = {}
    for usage in usages:
        for name in USAGE_COUNTS:
            if (count := getattr(usage, name)) is not None:
                sums[name] = sums.get(name, 0) + count
    return Usage(**sums)


USAGE_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "extra")
"""The fields of `Usage` that are counts."""


class _Event(Struct, frozen=True, omit_defaults=True, tag_field="event"):
    """Base of all events, which are immutable and have an `event` field in JSON."""


class MessageStart(_Event, frozen=True, tag="message_start"):
    """The start of the message.

    Attributes:
        id: The provider's id of the message; "" if it sent none.
        model: Name of the model; "" if the provider did not say.
        extra: Other fields of the vendor's first object.
    """

    id: str = ""
    model: str = ""
    extra: dict[str, Any] | None = None


class BlockStart(_Event, frozen=True, tag="block_start"):
    """The start of a block.

    Attributes:
        index: Number of the block, dense from 0 over the stream.
        block: The block: empty if deltas will fill it, else complete.
        choice: Number of the choice that the block belongs to.
        extra: Other fields of the vendor's block.
    """

    index: int
    block: Block
    choice: int = 0
    extra: dict[str, Any] | None = None


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """Text appended to a `Text` block."""

    index: int
    text: str


class ReasoningDelta(_Event, frozen=True, gc=False, tag="reasoning_delta"):
    """Text appended to a `Reasoning` block.

    Attributes:
        index: Number of the block.
        text: The text.
        part: Number of the summary that the text belongs to, from 0.
    """

    index: int
    text: str
    part: int = 0


class RefusalDelta(_Event, frozen=True, gc=False, tag="refusal_delta"):
    """Text appended to a `Refusal` block."""

    index: int
    text: str


class JSONDelta(_Event, frozen=True, gc=False, tag="json_delta"):
    """Arguments appended to a `ToolCall` or `ServerToolCall`.

    A fragment of JSON text, or of free text if the call is of kind `custom`.
    """

    index: int
    partial_json: str


class SignatureDelta(_Event, frozen=True, gc=False, tag="signature_delta"):
    """The signature of a block; no text or reasoning of the block follows it.

    Attributes:
        index: Number of the block.
        signature: The opaque value, byte for byte.
        issuer: Vendor that can verify it; None if unknown.
        id: Id of the item under which the issuer accepts it; None = any, or unknown.
    """

    index: int
    signature: str
    issuer: str | None = None
    id: str | None = None


class CitationDelta(_Event, frozen=True, tag="citation_delta"):
    """A citation of a `Text` block."""

    index: int
    citation: Citation


class BlockStop(_Event, frozen=True, gc=False, tag="block_stop"):
    """The end of a block.

    Attributes:
        index: Number of the block.
        is_unfinished: Whether a custom call ended before its text did.
    """

    index: int
    is_unfinished: bool = False


class UsageUpdate(_Event, frozen=True, tag="usage_update"):
    """The token counts so far: a complete snapshot that replaces the previous snapshot."""

    usage: Usage


class MessageStop(_Event, frozen=True, tag="message_stop"):
    """The end of a choice: its message is complete.

    Attributes:
        reason: Unified stop reason.
        raw_reason: The vendor's finish reason, as spelt on the wire.
        stop_sequence: The sequence that ended the message, if the vendor reports it.
        choice: Number of the choice.
        extra: Other fields of the vendor's last object.
    """

    reason: StopReason
    raw_reason: str | None = None
    stop_sequence: str | None = None
    choice: int = 0
    extra: dict[str, Any] | None = None


class StreamError(_Event, frozen=True, tag="stream_error"):
    """The failure of a stream; no event follows.

    Attributes:
        kind: Kind of the failure.
        message: Description of the failure: the provider's message for `upstream`, else ours.
        code: The provider's code or type, or the name of the exceeded limit.
        status_hint: HTTP status that corresponds to the error.
        retryable: Whether the same request may succeed later; None if unknown.
        extra: Other fields of the vendor's error; after a broken stream, the token from which
            the vendor can resume it.
        retry_after: Seconds after which the provider accepts the request again; None if it names
            no time.
    """

    kind: ErrorKind
    message: str
    code: str | None = None
    status_hint: int | None = None
    retryable: bool | None = None
    extra: dict[str, Any] | None = None
    retry_after: float | None = None


class Ping(_Event, frozen=True, gc=False, tag="ping"):
    """A keep-alive without content."""


class Opaque(_Event, frozen=True, gc=False, tag="opaque"):
    """Data that has a meaning in only one dialect.

    Attributes:
        dialect: Name of the dialect.
        name: Type of the event, or name of the field, in the dialect.
        data: JSON text.
        index: Number of the block that the data belongs to; None if it belongs to none.
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
"""The deltas that only append text to a block; nearly all events of a stream are of these."""


def delta_factory(delta: Delta) -> Callable[[str], Delta]:
    """Return a function that creates deltas of the type, block and part of `delta` from text."""
    if isinstance(delta, ReasoningDelta) and delta.part:
        return partial(ReasoningDelta, delta.index, part=delta.part)
    return partial(type(delta), delta.index)


class Completed(Struct, frozen=True, tag="completed"):
    """The stream ended with the terminal event by which its dialect reports success.

    Attributes:
        reason: Stop reason of choice 0.
        usage: The last usage snapshot.
        lenient: Deviations accepted at the end: `no_done` (no `[DONE]`), `no_finish` (no finish
            reason, or content after the last one), `unterminated` (no blank line after the
            last event).
    """

    reason: StopReason
    usage: Usage
    lenient: tuple[str, ...] = ()


class Failed(Struct, frozen=True, tag="failed"):
    """The provider reported an error, broke the protocol or exceeded a limit."""

    error: StreamError


class Truncated(Struct, frozen=True, tag="truncated"):
    """The stream ended, broke or stalled before the message was complete."""

    error: StreamError


class Abandoned(Struct, frozen=True, tag="abandoned"):
    """The consumer stopped reading before the end."""


Outcome: TypeAlias = Completed | Failed | Truncated | Abandoned
"""How a stream ended: exactly one of these."""
