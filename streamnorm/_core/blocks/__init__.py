"""The blocks a message is made of, and the citations within them.

A block stands in two places: empty or whole in the `BlockStart` of a stream, and
complete in a `Message`.  Those that grow by deltas are `Text`, `Reasoning`,
`Refusal`, `ToolCall` and `ServerToolCall`; every other block is whole at its start.
"""

from __future__ import annotations

from typing import TypeAlias

from streamnorm._core.blocks.calls import ServerToolCall, ServerToolResult, ToolCall, ToolResult
from streamnorm._core.blocks.content import (
    Audio,
    CacheMark,
    Citation,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ResultBlock,
    Text,
    Video,
    file_block,
)

__all__ = [
    "Audio",
    "Block",
    "CacheMark",
    "Citation",
    "Document",
    "Image",
    "InputBlock",
    "OpaqueBlock",
    "Reasoning",
    "RedactedReasoning",
    "Refusal",
    "ResultBlock",
    "ServerToolCall",
    "ServerToolResult",
    "Text",
    "ToolCall",
    "ToolResult",
    "Video",
    "file_block",
]

Block: TypeAlias = (
    Text
    | Reasoning
    | RedactedReasoning
    | Refusal
    | ToolCall
    | ServerToolCall
    | ServerToolResult
    | Image
    | Document
    | ToolResult
    | OpaqueBlock
)

InputBlock: TypeAlias = Block | Audio | Video
"""A block of a message in a request."""
