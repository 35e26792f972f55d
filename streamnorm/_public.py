"""The public names of `streamnorm`, each with the module that defines it.

A name stands here once.  Type checkers read `__all__`, and find what it names by the star
imports, which are never executed; at runtime `streamnorm` imports a name when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamnorm._answers import *
    from streamnorm._bodies import *
    from streamnorm._conversation import *
    from streamnorm._core.blocks import *
    from streamnorm._core.bodies.request import *
    from streamnorm._core.errors import *
    from streamnorm._core.events import *
    from streamnorm._core.limits import *
    from streamnorm._core.losses import *
    from streamnorm._core.messages import *
    from streamnorm._core.tools import *
    from streamnorm._projection import *
    from streamnorm._registry import *
    from streamnorm._transcoder import *
    from streamnorm.aio import *

# Type checkers understand lists that are added, and nothing that computes one.
__all__: list[str] = []
MODULE_OF: dict[str, str] = {}


def _home(module: str) -> None:
    """Record the module that defines the names added to `__all__` since the last call."""
    for name in __all__:
        MODULE_OF.setdefault(name, module)


__all__ += ["decode_message", "encode_message", "translate_message"]
_home("streamnorm._answers")
__all__ += ["Encoded", "decode_request", "encode_request", "translate_request"]
_home("streamnorm._bodies")
__all__ += ["Conversation", "StreamedAnswer"]
_home("streamnorm._conversation")
__all__ += [
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
    "ServerToolCall",
    "ServerToolResult",
    "Text",
    "ToolCall",
    "ToolResult",
    "Video",
]
_home("streamnorm._core.blocks")
__all__ += ["InputMessage", "OutputFormat", "ReasoningOptions", "Reply", "Request"]
_home("streamnorm._core.bodies.request")
__all__ += [
    "ArgumentsError",
    "DecodeError",
    "EncodeError",
    "LimitExceeded",
    "LocalProtocolError",
    "LossyEncoding",
    "NotAStream",
    "ProtocolError",
    "RemoteProtocolError",
    "StreamnormError",
    "TruncatedStream",
    "UnknownDialect",
    "UpstreamError",
]
_home("streamnorm._core.errors")
__all__ += [
    "Abandoned",
    "BlockStart",
    "BlockStop",
    "CitationDelta",
    "Completed",
    "Event",
    "Failed",
    "JSONDelta",
    "MessageStart",
    "MessageStop",
    "Opaque",
    "Outcome",
    "Ping",
    "ReasoningDelta",
    "RefusalDelta",
    "SignatureDelta",
    "StopReason",
    "StreamError",
    "TextDelta",
    "Truncated",
    "Usage",
    "UsageUpdate",
]
_home("streamnorm._core.events")
__all__ += ["Limits"]
_home("streamnorm._core.limits")
__all__ += ["Loss", "Note"]
_home("streamnorm._core.losses")
__all__ += ["Accumulator", "Message", "accumulate", "message_events"]
_home("streamnorm._core.messages")
__all__ += ["Tool", "ToolChoice"]
_home("streamnorm._core.tools")
__all__ += ["project"]
_home("streamnorm._projection")
__all__ += ["detect"]
_home("streamnorm._registry")
__all__ += ["Transcoder"]
_home("streamnorm._transcoder")
__all__ += [
    "Stream",
    "SyncStream",
    "connect",
    "events",
    "iter_events",
    "iter_transcode",
    "run_tools",
    "tap",
    "transcode",
]
_home("streamnorm.aio")
