"""Every bound on the memory that a peer can make us use, in one place."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Limits"]


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one stream.  Exceeding one ends it with `StreamError("too_large")`.

    Attributes:
        max_event_bytes: Bytes of one SSE event, comments included, up to its blank line.
        max_json_depth: Nesting of stored JSON values (unknown fields, usage, logprobs).
        max_blocks: Blocks of one stream, all choices together.
        max_tool_calls: Tool calls of one stream, all choices together.
        max_choices: Choices (`n`) of one stream.
        max_id_chars: Characters of a message id, model name, tool id or tool name.
        max_held_bytes: UTF-8 bytes of text and JSON held for an earlier block.
        max_accumulated_bytes: UTF-8 bytes of one accumulated message.
        max_error_body_bytes: Bytes read of a body that is no stream.
        max_recording_bytes: Bytes of a recording's body that are loaded or stored.
        max_companion_bytes: Bytes of another file of a recording.
    """

    # openai-python's own suite demands that an event above 64 MiB passes.
    max_event_bytes: int = 128 * 1024 * 1024
    max_json_depth: int = 128
    max_blocks: int = 4096
    max_tool_calls: int = 1024
    max_choices: int = 128
    max_id_chars: int = 512
    max_held_bytes: int = 64 * 1024 * 1024
    max_accumulated_bytes: int = 256 * 1024 * 1024
    max_error_body_bytes: int = 64 * 1024
    max_recording_bytes: int = 1024 * 1024 * 1024
    max_companion_bytes: int = 256 * 1024 * 1024
