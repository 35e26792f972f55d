"""The blocks of a message, and the citations within them.

A `Message` has complete blocks.  In a stream, the `BlockStart` of `Text`, `Reasoning`, `Refusal`,
`ToolCall` and `ServerToolCall` has an empty block, which deltas fill; every other block is
complete at its start.
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
