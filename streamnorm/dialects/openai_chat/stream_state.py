"""State that the choices of one stream share: its quirks, options, bounds and chunk ids."""

from __future__ import annotations

from streamnorm._core.codec import BlockOpener
from streamnorm._core.failures import too_large
from streamnorm._core.json import too_deep
from streamnorm.dialects.openai_chat.quirks import Quirks
from streamnorm.dialects.openai_chat.tool_calls.call import ChunkId

__all__ = ["StreamState"]


class StreamState(BlockOpener):
    """Opener of the blocks of all choices, and the options that their chunks are read with.

    Attributes:
        quirks: Quirks of the server.
        think_tags: Whether `<think>` within text is reasoning.
        may_hold_surrogates: Whether the current chunk may hold lone surrogates.
        chunk_id: Id of the current chunk; None if it is empty.
        first_chunk_id: The first id that a chunk had.
        id_changes: Whether a later chunk had another id.
    """

    quirks: Quirks = Quirks()
    think_tags: bool = False
    may_hold_surrogates: bool = False
    chunk_id: ChunkId = None
    first_chunk_id: ChunkId = None
    id_changes: bool = False

    def read_chunk_id(self, id: ChunkId) -> None:
        """Set the id of the current chunk.

        Groq sends another one with every chunk, Avian and Perplexity with the last: no more
        than a note, but to the calls that such chunks continue.
        """
        self.chunk_id = id or None
        if self.first_chunk_id is None:
            self.first_chunk_id = self.chunk_id
        elif self.changes_id(id):
            self.id_changes = True
            self.note("id_changed", "chunk")

    def changes_id(self, id: ChunkId) -> bool:
        """Return whether an id is the first one that is not that of the first chunk."""
        return id != self.first_chunk_id and bool(id) and not self.id_changes

    def check_depth(self, value: object) -> None:
        """Raise `Fatal` if a value nests deeper than `max_json_depth`."""
        if too_deep(value, self.limits.max_json_depth):
            raise too_large("max_json_depth", self.limits.max_json_depth)
