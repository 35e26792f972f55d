"""What each dialect has a place for, and how losses and notes are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from streamnorm._core.blocks import Document, Image, OpaqueBlock, Reasoning, Text, ToolCall
from streamnorm._core.errors import LossyEncoding, UnknownDialect

__all__ = [
    "CAPABILITIES",
    "Capabilities",
    "Loss",
    "Losses",
    "Note",
    "OnLoss",
    "OnNote",
    "ReasoningField",
    "capabilities",
]

# A peer may name things without end.
_MAX_KINDS = 256
_MAX_WHERE_CHARS = 100


class Loss(Struct, frozen=True):
    """Something the target dialect could not carry.

    Attributes:
        feature: What kind of thing: a row of the loss table.
        where: Where it stood: an event, a block or a field.
        count: How often.
        detail: What became of it.
    """

    feature: str
    where: str
    count: int = 1
    detail: str = ""


class Note(Struct, frozen=True):
    """Something a decoder forgave.

    Attributes:
        kind: What kind of thing, such as `minted_id` or `resent_arguments`.
        where: Where it stood.
        count: How often.
    """

    kind: str
    where: str
    count: int = 1


OnLoss: TypeAlias = Callable[[Loss], None]
OnNote: TypeAlias = Callable[[Note], None]

ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details"]
"""The fields that Chat Completions servers write reasoning to; the last holds signatures."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What one dialect's streams have a place for.

    Attributes:
        dialect: Its name.
        choices: More than one answer.
        boundaries: Where a block of text ends and the next begins.
        overlapping: The blocks that may be open beside others of their kind.
        blank_text: Text blocks of white space alone.
        refusal: A refusal that is not text.
        reasoning: What the model thought.
        reasoning_parts: Numbered summaries within one reasoning block.
        redacted_reasoning: Reasoning that only its issuer can read.
        bare_redacted: The vendor whose own such reasoning is but a signature here.
        signed: The blocks that can carry a signature.
        custom_tools: Tool calls with free text.
        null_arguments: Tool arguments that are the JSON text `null`.
        broken_arguments: Tool arguments that are no JSON object.
        server_tools: How the kinds of calls that the provider executed, and of their
            results, end in this dialect.
        media: Images and documents, and blocks of its own, which come whole.
        citations: The kinds of citations that it has itself.
        url_citation: Its kind for any source with an address; None if there is none.
        cited_text: The words of such a source.
        unplaced: Data of its own that has no place any more once it was decoded.
        stop_reasons: Unified stop reasons with a word of their own.
        raw_stops: Its own words for stops that are none of the unified ones.
        bare_stop_sequence: A stop by a sequence that is not told.
        service_tiers: Its words for the tiers of service, by the words of all vendors.
        usage: Whether the counts of tokens are written always, if they are known, or never.
        cache_write: The count of tokens that were written to a cache.
        excess_reasoning: More tokens of reasoning than of output, as some servers count.
    """

    dialect: str
    choices: bool
    boundaries: bool
    overlapping: tuple[type, ...]
    blank_text: bool
    refusal: bool
    reasoning: bool
    reasoning_parts: bool
    redacted_reasoning: bool
    bare_redacted: str | None
    signed: tuple[type, ...]
    custom_tools: bool
    null_arguments: bool
    broken_arguments: bool
    server_tools: tuple[str, ...]
    media: tuple[type, ...]
    citations: frozenset[str]
    url_citation: str | None
    cited_text: bool
    unplaced: frozenset[str]
    stop_reasons: frozenset[str]
    raw_stops: frozenset[str]
    bare_stop_sequence: bool
    service_tiers: dict[str, str]
    usage: Literal["always", "known", "never"]
    cache_write: bool
    excess_reasoning: bool


CAPABILITIES: dict[str, Capabilities] = {
    "anthropic": Capabilities(
        dialect="anthropic",
        choices=False,
        boundaries=True,
        overlapping=(),
        # The API refuses such a block when the client sends it back.
        blank_text=False,
        refusal=False,
        reasoning=True,
        reasoning_parts=False,
        redacted_reasoning=True,
        bare_redacted=None,
        signed=(Reasoning,),
        custom_tools=False,
        null_arguments=False,
        broken_arguments=True,
        server_tools=("server_tool_use", "mcp_tool_use", "_tool_result"),
        media=(OpaqueBlock,),
        # Others need a document index or an encrypted index that only Anthropic has.
        citations=frozenset(
            {"char_location", "page_location", "content_block_location"}
            | {"web_search_result_location", "search_result_location"}
        ),
        url_citation=None,
        cited_text=True,
        unplaced=frozenset(),
        stop_reasons=frozenset(
            {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"}
        ),
        raw_stops=frozenset(),
        bare_stop_sequence=True,
        service_tiers={
            "auto": "standard",
            "batch": "batch",
            "default": "standard",
            "priority": "priority",
            "standard": "standard",
        },
        usage="always",
        cache_write=True,
        excess_reasoning=True,
    ),
    "openai_chat": Capabilities(
        dialect="openai_chat",
        choices=True,
        boundaries=False,
        overlapping=(ToolCall,),
        blank_text=True,
        refusal=True,
        reasoning=True,
        reasoning_parts=False,
        redacted_reasoning=False,
        bare_redacted=None,
        signed=(ToolCall,),
        custom_tools=True,
        null_arguments=True,
        broken_arguments=True,
        server_tools=(),
        media=(),
        citations=frozenset({"url_citation"}),
        url_citation="url_citation",
        cited_text=True,
        unplaced=frozenset({"content_part", "extra_content", "reasoning_details"}),
        stop_reasons=frozenset({"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}),
        raw_stops=frozenset(),
        bare_stop_sequence=False,
        service_tiers={
            **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
            "standard": "default",
        },
        usage="known",
        cache_write=True,
        excess_reasoning=True,
    ),
    "openai_responses": Capabilities(
        dialect="openai_responses",
        choices=False,
        boundaries=True,
        overlapping=(),
        blank_text=True,
        refusal=True,
        reasoning=True,
        reasoning_parts=True,
        redacted_reasoning=True,
        bare_redacted="openai",
        signed=(Reasoning,),
        custom_tools=True,
        null_arguments=True,
        broken_arguments=True,
        server_tools=(
            *("_call", "_output", "compaction", "mcp_approval_request", "mcp_approval_response"),
            *("mcp_list_tools", "program"),
        ),
        media=(OpaqueBlock,),
        citations=frozenset(
            {"container_file_citation", "file_citation", "file_path", "url_citation"}
        ),
        url_citation="url_citation",
        cited_text=True,
        unplaced=frozenset(),
        stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal"}),
        raw_stops=frozenset({"max_messages", "steered"}),
        bare_stop_sequence=False,
        service_tiers={
            **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
            "standard": "default",
            "ultrafast": "ultrafast",
        },
        # Some clients ask again for ever where the end tells none.
        usage="always",
        cache_write=True,
        excess_reasoning=True,
    ),
    "gemini": Capabilities(
        dialect="gemini",
        choices=False,
        boundaries=False,
        overlapping=(),
        blank_text=True,
        refusal=False,
        reasoning=True,
        reasoning_parts=False,
        redacted_reasoning=True,
        bare_redacted="google",
        signed=(Text, Reasoning, ToolCall),
        custom_tools=False,
        null_arguments=False,
        broken_arguments=False,
        server_tools=(
            *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
            "functionResponse",
        ),
        media=(Image, Document, OpaqueBlock),
        citations=frozenset({"citation", "image", "maps", "retrievedContext", "web"}),
        url_citation="web",
        cited_text=False,
        unplaced=frozenset(),
        stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal", "pause", "other"}),
        raw_stops=frozenset(),
        bare_stop_sequence=False,
        service_tiers={},
        usage="known",
        cache_write=False,
        excess_reasoning=False,
    ),
}


def capabilities(
    dialect: str,
    *,
    reasoning: ReasoningField | None = "reasoning_content",
    include_usage: bool = True,
) -> Capabilities:
    """Return what a dialect has a place for, as it is written with these options.

    Raises:
        UnknownDialect: There is no table for it.
    """
    if dialect not in CAPABILITIES:
        known = ", ".join(CAPABILITIES)
        raise UnknownDialect(f"no capabilities of dialect {dialect!r}, expected one of {known}")
    can = CAPABILITIES[dialect]
    if reasoning is None:
        can = structs.replace(can, reasoning=False, redacted_reasoning=False)
    if dialect == "openai_chat":  # the only one with several ways
        if reasoning == "reasoning_details":
            can = structs.replace(can, redacted_reasoning=True, signed=(Reasoning, *can.signed))
        if not include_usage:
            can = structs.replace(can, usage="never")
    return can


class Losses:
    """Count losses of the same kind and place together.

    Args:
        strict: Whether to raise `LossyEncoding` at the first.
        on_loss: Called with each loss as it happens, with a count of 1.
    """

    def __init__(self, *, strict: bool = False, on_loss: OnLoss | None = None) -> None:
        self._strict = strict
        self._on_loss = on_loss
        self._counts: dict[Loss, int] = {}

    def add(self, feature: str, where: str, detail: str = "") -> None:
        """Count one more.

        Raises:
            LossyEncoding: Losses are not allowed.
        """
        loss = self.count(feature, where, detail)
        if self._strict:
            raise LossyEncoding(f"{feature} in {where} would be lost", losses=[loss])

    def count(self, feature: str, where: str, detail: str = "") -> Loss:
        """Count one more, allowed or not: of a stream that has failed anyway."""
        loss = Loss(feature, where[:_MAX_WHERE_CHARS], 1, detail)
        if loss not in self._counts and len(self._counts) >= _MAX_KINDS:
            loss = Loss(feature, "elsewhere", 1, detail)
        self._counts[loss] = self._counts.get(loss, 0) + 1
        if self._on_loss is not None:
            self._on_loss(loss)
        return loss

    def list(self) -> tuple[Loss, ...]:
        """Return what was counted, in order of first appearance."""
        return tuple(structs.replace(loss, count=count) for loss, count in self._counts.items())
