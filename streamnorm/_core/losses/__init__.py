"""Projection: reduction of a stream to the capabilities of a dialect, with counted losses.

A `Projector` reduces a stream to the `Capabilities` of a dialect, event by event, and counts
what the dialect cannot carry.  Encoders write only what a projector returns, so the losses of
an encoder and of `project` are the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Block,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.errors import LossyEncoding

__all__ = [
    "Capabilities",
    "Loss",
    "Losses",
    "Note",
    "OnLoss",
    "OnNote",
    "ReasoningField",
    "drop_signature",
]

T = TypeVar("T")

# Names come from the peer, which may send any number of different ones.
_MAX_KINDS = 256
_MAX_NAME_CHARS = 100

ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details"]
"""The fields that Chat Completions servers write reasoning to; the last holds signatures."""


class Loss(Struct, frozen=True):
    """Something the target dialect could not carry.

    Attributes:
        feature: Name of what was lost, such as `signature`; the documentation lists all names.
        where: The event, block or field that had it.
        count: Number of occurrences.
        detail: The result, such as `dropped` or `written as text`.
    """

    feature: str
    where: str
    count: int = 1
    detail: str = ""


class Note(Struct, frozen=True):
    """A deviation from the protocol that a decoder accepted.

    Attributes:
        kind: Kind of the departure, such as `minted_id` or `resent_arguments`.
        where: The event, block or field that departs.
        count: Number of occurrences.
    """

    kind: str
    where: str
    count: int = 1


OnLoss: TypeAlias = Callable[[Loss], None]
OnNote: TypeAlias = Callable[[Note], None]


_Occurrence: TypeAlias = tuple[str, str, str]
"""The arguments of `Losses.add`: feature, position and result."""
_Record: TypeAlias = list[_Occurrence]


class Losses(Struct, eq=False, kw_only=True):
    """A counter of losses; equal losses are counted as one entry.

    Attributes:
        strict: Whether to raise `LossyEncoding` at the first.
        on_loss: Called with each loss as it happens, with a count of 1.
        counts: How often each loss was counted.
        kinds: The losses by the arguments of `add`.
        recorded: The arguments of `add` since `record` began; None outside it.
    """

    strict: bool = False
    on_loss: OnLoss | None = None
    counts: dict[Loss, int] = {}
    kinds: dict[_Occurrence, Loss] = {}
    recorded: _Record | None = None

    def add(self, feature: str, where: str, detail: str = "", *, expected: str = "") -> None:
        """Count one loss.

        Args:
            feature: Name of what is lost.
            where: The event, block or field that had it.
            detail: The result.
            expected: The lossless alternative, for the error text.

        Raises:
            LossyEncoding: Losses are not allowed.
        """
        loss = self.count(feature, where, detail)
        if self.strict:
            hint = f", expected {expected}" if expected else ""
            raise LossyEncoding(
                f"{loss.feature} in {loss.where} would be lost{hint}", losses=[loss]
            )

    def count(self, feature: str, where: str, detail: str = "") -> Loss:
        """Count and return one loss; never raises, even if `strict`."""
        if self.recorded is not None:
            self.recorded.append((feature, where, detail))
        loss = self.kinds.get((feature, where, detail))
        if loss is None:
            loss = self._kind(feature[:_MAX_NAME_CHARS], where[:_MAX_NAME_CHARS], detail)
        self.counts[loss] = self.counts.get(loss, 0) + 1
        if self.on_loss is not None:
            self.on_loss(loss)
        return loss

    def record(self, work: Callable[[], T]) -> tuple[T, tuple[_Occurrence, ...]]:
        """Return the result of `work`, and the losses that it counted."""
        record: _Record = []
        self.recorded = record
        try:
            return work(), tuple(record)
        finally:
            self.recorded = None

    def _kind(self, feature: str, where: str, detail: str) -> Loss:
        """Return the entry for a loss; a shared entry once there are too many entries."""
        loss = Loss(feature, where, 1, detail)
        if loss not in self.counts and len(self.counts) >= _MAX_KINDS:
            loss = Loss(feature, "elsewhere", 1, detail)
            # Unknown fields of a request are features, too, and a client may send any number.
            if loss not in self.counts and len(self.counts) >= 2 * _MAX_KINDS:
                loss = Loss("other", "elsewhere")
        if loss.where == where and loss.feature == feature:
            self.kinds[feature, where, detail] = loss
        return loss

    def list(self) -> tuple[Loss, ...]:
        """Return the losses with their counts, in order of first appearance."""
        return tuple(structs.replace(loss, count=count) for loss, count in self.counts.items())


def drop_signature(image: Image, losses: Losses) -> Image:
    """Return an image without its signature, which is lost."""
    if image.signature is None:
        return image
    losses.add("signature", "Image", "dropped")
    return structs.replace(image, signature=None, issuer=None)


class Capabilities(Struct, frozen=True, kw_only=True):
    """Features of a unified stream that one dialect can carry.

    Attributes:
        dialect: Name of the dialect.
        identity: Id and model of the message.
        choices: More than one choice.
        boundaries: The boundary between two blocks of text.
        joined: Types of blocks that readers join to a neighbour of their type, without boundaries.
        overlapping: Types of blocks that may be open beside others of their type.
        blank_text: Text blocks that hold only white space.
        refusal: Refusals that are not text.
        reasoning: Reasoning.
        reasoning_parts: Numbered summaries within one reasoning block.
        redacted_reasoning: Reasoning that only its issuer can read.
        redacted_as_signature_of: Issuer whose redacted reasoning is written as a
            signature without text, or None.
        signed: Types of blocks that can carry a signature.
        call_issuer: Issuer whose signature of reasoning is written on the call behind it, too, or
            None.
        custom_tools: Tool calls with free text.
        namespaces: Namespaces of tool calls.
        unfinished_calls: A mark of tool calls that ended before their text did.
        null_arguments: Tool arguments that are the JSON text `null`.
        broken_arguments: Tool arguments that are no JSON object.
        server_tools: Suffixes of the kinds of server tool calls, and of their results.
        media: Types of blocks that come whole: images, documents, results of the
            client's tools, the dialect's own.
        file_urls: Images and documents by their URL.
        citations: Kinds of citations.
        url_citation: Kind to write for any other citation with a URL, or None.
        cited_texts: Kinds of citations that are written with the cited text.
        citation_fields: Fields of citations that no attribute holds, whichever vendor's they are.
        not_round_tripped: Names of `Opaque` events of this dialect that the encoder
            cannot write back.
        block_events: Names of `Opaque` events of this dialect that are written within their
            block alone.
        stop_reasons: Unified stop reasons that have a finish reason.
        native_stop_reasons: Vendor finish reasons to write where the unified one is `other`.
        unnamed_stop_sequence: The stop reason `stop_sequence` without the sequence.
        service_tiers: This vendor's service tiers, by the tiers of all vendors.
        usage: Whether token counts are written always, if they are known, or never.
        cache_write: The count of tokens that were written to a cache.
        reasoning_tokens: The count of reasoning tokens.
        excess_reasoning: More reasoning tokens than output tokens, as some servers count.
    """

    dialect: str
    identity: bool
    choices: bool
    boundaries: bool
    overlapping: tuple[type, ...]
    blank_text: bool
    refusal: bool
    reasoning: bool
    reasoning_parts: bool
    redacted_reasoning: bool
    redacted_as_signature_of: str | None
    signed: tuple[type, ...]
    custom_tools: bool
    namespaces: bool
    unfinished_calls: bool
    null_arguments: bool
    broken_arguments: bool
    server_tools: tuple[str, ...]
    media: tuple[type, ...]
    file_urls: bool
    citations: frozenset[str]
    url_citation: str | None
    cited_texts: frozenset[str]
    not_round_tripped: frozenset[str]
    stop_reasons: frozenset[str]
    native_stop_reasons: frozenset[str]
    unnamed_stop_sequence: bool
    service_tiers: dict[str, str]
    usage: Literal["always", "known", "never"]
    cache_write: bool
    reasoning_tokens: bool
    excess_reasoning: bool
    call_issuer: str | None = None
    block_events: frozenset[str] = frozenset()
    citation_fields: bool = True
    joined: tuple[type, ...] = (Text, Reasoning, Refusal)

    def without_reasoning(self) -> Capabilities:
        """Return these capabilities without reasoning."""
        return structs.replace(self, reasoning=False, redacted_reasoning=False)

    def lacking_feature(self, block: Block) -> str | None:
        """Return the capability that a block needs and the target lacks; None if it lacks none."""
        if type(block) is Text or type(block) is ToolCall:  # as nearly all are
            return None
        match block:
            case Reasoning() if not self.reasoning:
                return "reasoning"
            case RedactedReasoning() if not self.redacted_reasoning:
                return "redacted_reasoning"
            case ServerToolCall(kind=kind) | ServerToolResult(kind=kind) if not kind.endswith(
                self.server_tools
            ):
                return "server_tool"
            case OpaqueBlock(dialect=dialect) if not (
                dialect == self.dialect and isinstance(block, self.media)
            ):
                return "opaque_block"
            case Image() | Document() if not self._carries_file(block):
                return "media"
            case ToolResult() if ToolResult not in self.media:
                return "executed_call"
            case _:
                return None

    def _carries_file(self, block: Image | Document) -> bool:
        """Return whether the target can carry a file block completely."""
        match block:
            case Image(str(media_type), data, url):
                types: tuple[str, ...] = ("image/",)
            case Document(str(media_type), data, url, title=None):
                types = ("application/", "text/")
            case _:
                return False
        return (
            isinstance(block, self.media)
            and media_type.startswith(types)
            and (data is None) is not (url is None)
            and (url is None or self.file_urls)
        )
