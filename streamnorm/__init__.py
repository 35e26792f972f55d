"""Every LLM provider's stream as one stream of events, and back.

    import streamnorm

    async with client.stream("POST", url, json=body) as response:
        async for event in streamnorm.events(response):
            ...

The core does no I/O and loads no HTTP library; `events`, `transcode`, `tap`,
`connect` and `EventStreamResponse` load theirs on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamnorm import sse
from streamnorm._registry import decoder, detect, encoder
from streamnorm.accumulate import Accumulator, accumulate, message_events
from streamnorm.blocks import (
    Block,
    Citation,
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
from streamnorm.codec import Decoder, Encoder, Feed
from streamnorm.errors import (
    ArgumentsError,
    DecodeError,
    LimitExceeded,
    LocalProtocolError,
    LossyEncoding,
    NotAStream,
    ProtocolError,
    RecordingError,
    RemoteProtocolError,
    StreamnormError,
    TruncatedStream,
    UnknownDialect,
    UnrecordedRequest,
    UpstreamError,
)
from streamnorm.events import (
    Abandoned,
    BlockStart,
    BlockStop,
    CitationDelta,
    Completed,
    Event,
    Failed,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Outcome,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StopReason,
    StreamError,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.grammar import Violation
from streamnorm.limits import Limits
from streamnorm.losses import Loss, Note, project
from streamnorm.messages import Message
from streamnorm.partial_json import PartialJSON, ValueDelta
from streamnorm.transcode import Transcoder
from streamnorm.validation import validate

if TYPE_CHECKING:
    from streamnorm.aio import (
        Stream,
        SyncStream,
        connect,
        events,
        iter_events,
        iter_transcode,
        tap,
        transcode,
    )
    from streamnorm.asgi import EventStreamResponse
    from streamnorm.recording import Recording

__all__ = [
    "Abandoned",
    "Accumulator",
    "ArgumentsError",
    "Block",
    "BlockStart",
    "BlockStop",
    "Citation",
    "CitationDelta",
    "Completed",
    "DecodeError",
    "Decoder",
    "Document",
    "Encoder",
    "Event",
    "EventStreamResponse",
    "Failed",
    "Feed",
    "Image",
    "JSONDelta",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Loss",
    "LossyEncoding",
    "Message",
    "MessageStart",
    "MessageStop",
    "NotAStream",
    "Note",
    "Opaque",
    "OpaqueBlock",
    "Outcome",
    "PartialJSON",
    "Ping",
    "ProtocolError",
    "Reasoning",
    "ReasoningDelta",
    "Recording",
    "RecordingError",
    "RedactedReasoning",
    "Refusal",
    "RefusalDelta",
    "RemoteProtocolError",
    "ServerToolCall",
    "ServerToolResult",
    "SignatureDelta",
    "StopReason",
    "Stream",
    "StreamError",
    "StreamnormError",
    "SyncStream",
    "Text",
    "TextDelta",
    "ToolCall",
    "ToolResult",
    "Transcoder",
    "Truncated",
    "TruncatedStream",
    "UnknownDialect",
    "UnrecordedRequest",
    "UpstreamError",
    "Usage",
    "UsageUpdate",
    "ValueDelta",
    "Violation",
    "accumulate",
    "connect",
    "decoder",
    "detect",
    "encoder",
    "events",
    "iter_events",
    "iter_transcode",
    "message_events",
    "project",
    "sse",
    "tap",
    "transcode",
    "validate",
]

_LAZY = {
    "EventStreamResponse": "streamnorm.asgi",
    "Recording": "streamnorm.recording",
    "Stream": "streamnorm.aio",
    "SyncStream": "streamnorm.aio",
    "connect": "streamnorm.aio",
    "events": "streamnorm.aio",
    "iter_events": "streamnorm.aio",
    "iter_transcode": "streamnorm.aio",
    "tap": "streamnorm.aio",
    "transcode": "streamnorm.aio",
}

# The imports above left the modules of these names where the functions belong.
for _name in _LAZY.keys() & globals().keys():
    del globals()[_name]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
