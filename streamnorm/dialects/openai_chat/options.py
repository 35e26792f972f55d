"""Options of the decoder and the encoder, quirks of servers, and the state of a stream."""

from __future__ import annotations

from msgspec import Struct, structs

from streamnorm._core.blocks import Reasoning
from streamnorm._core.codec import BlockOpener, DialectOptions
from streamnorm._core.failures import too_large
from streamnorm._core.json import too_deep
from streamnorm._core.losses import Capabilities, ReasoningField
from streamnorm.dialects.openai_chat.tool_calls import ChunkId


class ChatOptions(DialectOptions, frozen=True, kw_only=True):
    """Options of the decoder and of the encoder.

    Attributes:
        think_tags: Whether `<think>…</think>` at the start of a choice is read as reasoning.
        include_usage: Whether the usage chunk is written, which clients request with
            `stream_options`.
        reasoning: Field that reasoning is written to; `reasoning_details` alone holds
            signatures and redacted reasoning.  None leaves reasoning out.
    """

    think_tags: bool = False
    include_usage: bool = True
    reasoning: ReasoningField | None = "reasoning_content"

    def limit(self, capabilities: Capabilities) -> Capabilities:
        target = capabilities
        # Only the field of OpenRouter holds signatures and encrypted data.
        if self.reasoning == "reasoning_details":
            target = structs.replace(
                target, redacted_reasoning=True, signed=(Reasoning, *target.signed)
            )
        return target if self.include_usage else structs.replace(target, usage="never")


class Quirks(Struct, frozen=True, kw_only=True):
    """How the bytes of one server are read.

    Attributes:
        cumulative_arguments: Each fragment of a call repeats all before it.  Elsewhere a
            fragment that begins like the arguments so far is simply the next one.
    """

    cumulative_arguments: bool = False


QUIRKS = {
    # NousResearch/hermes-agent#35718
    "qianfan": Quirks(cumulative_arguments=True),
}
"""Quirks by name of the server."""


class StreamState(BlockOpener):
    """Opener of the blocks of all choices, and the decoding state that the choices share.

    Attributes:
        quirks: Quirks of the server.
        think_tags: Whether `<think>` within text is reasoning.
        may_hold_surrogates: Whether the current chunk may hold lone surrogates.
        chunk_id: Id of the current chunk; None if it is empty.
        first_chunk_id: The first id that a chunk had.
        id_changes: Whether a later chunk had a different id.
    """

    quirks: Quirks = Quirks()
    think_tags: bool = False
    may_hold_surrogates: bool = False
    chunk_id: ChunkId = None
    first_chunk_id: ChunkId = None
    id_changes: bool = False

    def read_chunk_id(self, id: ChunkId) -> None:
        """Set the id of the current chunk.

        Groq changes the id with every chunk, Avian and Perplexity with the last.  That is a
        note, and an error only for a tool call that continues under the new id.
        """
        self.chunk_id = id or None
        if self.first_chunk_id is None:
            self.first_chunk_id = self.chunk_id
        elif self.changes_id(id):
            self.id_changes = True
            self.note("id_changed", "chunk")

    def changes_id(self, id: ChunkId) -> bool:
        """Return whether `id` is the first that differs from the first chunk's."""
        return id != self.first_chunk_id and bool(id) and not self.id_changes

    def check_depth(self, value: object) -> None:
        """Raise `Fatal` if a value nests deeper than `max_json_depth`."""
        if too_deep(value, self.limits.max_json_depth):
            raise too_large("max_json_depth", self.limits.max_json_depth)
