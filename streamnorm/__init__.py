"""Every LLM provider's stream as one stream of events, and back.

    import streamnorm

    async with client.stream("POST", url, json=body) as response:
        async for event in streamnorm.events(response):
            ...

Importing the package loads nothing else: each name loads its module when it is first used.
The core does no I/O; `events`, `transcode`, `tap`, `connect` and `EventStreamResponse` load
anyio, and what opens connections an HTTP library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnorm import sse
    from streamnorm._registry import decoder, detect, encoder
    from streamnorm.accumulate import Accumulator, accumulate, message_events
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
    from streamnorm.recording import Recording
    from streamnorm.transcode import Transcoder
    from streamnorm.validation import validate


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

# Where each name is at home.
_NAMES = {
    "streamnorm._registry": "decoder detect encoder",
    "streamnorm.accumulate": "Accumulator accumulate message_events",
    "streamnorm.aio": "Stream SyncStream connect events iter_events iter_transcode tap transcode",
    "streamnorm.asgi": "EventStreamResponse",
    "streamnorm.blocks": (
        "Block Citation Document Image OpaqueBlock Reasoning RedactedReasoning Refusal "
        "ServerToolCall ServerToolResult Text ToolCall ToolResult"
    ),
    "streamnorm.codec": "Decoder Encoder Feed",
    "streamnorm.errors": (
        "ArgumentsError DecodeError LimitExceeded LocalProtocolError LossyEncoding "
        "NotAStream ProtocolError RecordingError RemoteProtocolError StreamnormError "
        "TruncatedStream UnknownDialect UnrecordedRequest UpstreamError"
    ),
    "streamnorm.events": (
        "Abandoned BlockStart BlockStop CitationDelta Completed Event Failed JSONDelta "
        "MessageStart MessageStop Opaque Outcome Ping ReasoningDelta RefusalDelta "
        "SignatureDelta StopReason StreamError TextDelta Truncated Usage UsageUpdate"
    ),
    "streamnorm.grammar": "Violation",
    "streamnorm.limits": "Limits",
    "streamnorm.losses": "Loss Note project",
    "streamnorm.messages": "Message",
    "streamnorm.partial_json": "PartialJSON ValueDelta",
    "streamnorm.recording": "Recording",
    "streamnorm.transcode": "Transcoder",
    "streamnorm.validation": "validate",
}

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "sse":
        return import_module("streamnorm.sse")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keep the names of functions from the modules that are called the same.

    Importing `streamnorm.events` puts the module into the package, under its last name,
    where the function `events` belongs.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
