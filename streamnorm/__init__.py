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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnorm import sse as sse
    from streamnorm._bodies import Encoded as Encoded
    from streamnorm._bodies import decode_message as decode_message
    from streamnorm._bodies import decode_request as decode_request
    from streamnorm._bodies import encode_message as encode_message
    from streamnorm._bodies import encode_request as encode_request
    from streamnorm._bodies import translate_message as translate_message
    from streamnorm._bodies import translate_request as translate_request
    from streamnorm._conversation import Conversation as Conversation
    from streamnorm._conversation import StreamedAnswer as StreamedAnswer
    from streamnorm._core.accumulate import Accumulator as Accumulator
    from streamnorm._core.accumulate import accumulate as accumulate
    from streamnorm._core.accumulate import message_events as message_events
    from streamnorm._core.blocks import Audio as Audio
    from streamnorm._core.blocks import Block as Block
    from streamnorm._core.blocks import CacheMark as CacheMark
    from streamnorm._core.blocks import Citation as Citation
    from streamnorm._core.blocks import Document as Document
    from streamnorm._core.blocks import Image as Image
    from streamnorm._core.blocks import InputBlock as InputBlock
    from streamnorm._core.blocks import OpaqueBlock as OpaqueBlock
    from streamnorm._core.blocks import Reasoning as Reasoning
    from streamnorm._core.blocks import RedactedReasoning as RedactedReasoning
    from streamnorm._core.blocks import Refusal as Refusal
    from streamnorm._core.blocks import ServerToolCall as ServerToolCall
    from streamnorm._core.blocks import ServerToolResult as ServerToolResult
    from streamnorm._core.blocks import Text as Text
    from streamnorm._core.blocks import ToolCall as ToolCall
    from streamnorm._core.blocks import ToolResult as ToolResult
    from streamnorm._core.blocks import Video as Video
    from streamnorm._core.bodies.request import InputMessage as InputMessage
    from streamnorm._core.bodies.request import OutputFormat as OutputFormat
    from streamnorm._core.bodies.request import ReasoningOptions as ReasoningOptions
    from streamnorm._core.bodies.request import Reply as Reply
    from streamnorm._core.bodies.request import Request as Request
    from streamnorm._core.codec import Decoder as Decoder
    from streamnorm._core.codec import Encoder as Encoder
    from streamnorm._core.codec import Feed as Feed
    from streamnorm._core.codec import RequestViolation as RequestViolation
    from streamnorm._core.errors import ArgumentsError as ArgumentsError
    from streamnorm._core.errors import DecodeError as DecodeError
    from streamnorm._core.errors import EncodeError as EncodeError
    from streamnorm._core.errors import LimitExceeded as LimitExceeded
    from streamnorm._core.errors import LocalProtocolError as LocalProtocolError
    from streamnorm._core.errors import LossyEncoding as LossyEncoding
    from streamnorm._core.errors import NotAStream as NotAStream
    from streamnorm._core.errors import ProfileError as ProfileError
    from streamnorm._core.errors import ProtocolError as ProtocolError
    from streamnorm._core.errors import RecordingError as RecordingError
    from streamnorm._core.errors import RemoteProtocolError as RemoteProtocolError
    from streamnorm._core.errors import StateError as StateError
    from streamnorm._core.errors import StoreError as StoreError
    from streamnorm._core.errors import StreamnormError as StreamnormError
    from streamnorm._core.errors import TruncatedStream as TruncatedStream
    from streamnorm._core.errors import UnknownDialect as UnknownDialect
    from streamnorm._core.errors import UnrecordedRequest as UnrecordedRequest
    from streamnorm._core.errors import UpstreamError as UpstreamError
    from streamnorm._core.events import Abandoned as Abandoned
    from streamnorm._core.events import BlockStart as BlockStart
    from streamnorm._core.events import BlockStop as BlockStop
    from streamnorm._core.events import CitationDelta as CitationDelta
    from streamnorm._core.events import Completed as Completed
    from streamnorm._core.events import Event as Event
    from streamnorm._core.events import Failed as Failed
    from streamnorm._core.events import JSONDelta as JSONDelta
    from streamnorm._core.events import MessageStart as MessageStart
    from streamnorm._core.events import MessageStop as MessageStop
    from streamnorm._core.events import Opaque as Opaque
    from streamnorm._core.events import Outcome as Outcome
    from streamnorm._core.events import Ping as Ping
    from streamnorm._core.events import ReasoningDelta as ReasoningDelta
    from streamnorm._core.events import RefusalDelta as RefusalDelta
    from streamnorm._core.events import SignatureDelta as SignatureDelta
    from streamnorm._core.events import StopReason as StopReason
    from streamnorm._core.events import StreamError as StreamError
    from streamnorm._core.events import TextDelta as TextDelta
    from streamnorm._core.events import Truncated as Truncated
    from streamnorm._core.events import Usage as Usage
    from streamnorm._core.events import UsageUpdate as UsageUpdate
    from streamnorm._core.grammar import Violation as Violation
    from streamnorm._core.limits import Limits as Limits
    from streamnorm._core.losses import Loss as Loss
    from streamnorm._core.losses import Note as Note
    from streamnorm._core.messages import Message as Message
    from streamnorm._core.partial_json import PartialJSON as PartialJSON
    from streamnorm._core.partial_json import ValueDelta as ValueDelta
    from streamnorm._core.tools import CustomTool as CustomTool
    from streamnorm._core.tools import Grammar as Grammar
    from streamnorm._core.tools import MCPServer as MCPServer
    from streamnorm._core.tools import Namespace as Namespace
    from streamnorm._core.tools import ServerTool as ServerTool
    from streamnorm._core.tools import Tool as Tool
    from streamnorm._core.tools import ToolChoice as ToolChoice
    from streamnorm._decoding import decoder as decoder
    from streamnorm._projection import project as project
    from streamnorm._registry import detect as detect
    from streamnorm._registry import encoder as encoder
    from streamnorm._tools import SimplifiedSchema as SimplifiedSchema
    from streamnorm._tools import check_tools as check_tools
    from streamnorm._tools import decode_tools as decode_tools
    from streamnorm._tools import encode_tools as encode_tools
    from streamnorm._tools import simplify_schema as simplify_schema
    from streamnorm._transcoder import Transcoder as Transcoder
    from streamnorm._validation import validate as validate
    from streamnorm._validation import validate_request as validate_request
    from streamnorm.aio import Stream as Stream
    from streamnorm.aio import SyncStream as SyncStream
    from streamnorm.aio import connect as connect
    from streamnorm.aio import events as events
    from streamnorm.aio import iter_events as iter_events
    from streamnorm.aio import iter_transcode as iter_transcode
    from streamnorm.aio import run_tools as run_tools
    from streamnorm.aio import tap as tap
    from streamnorm.aio import transcode as transcode
    from streamnorm.asgi import EventStreamResponse as EventStreamResponse
    from streamnorm.asgi import MessageResponse as MessageResponse
    from streamnorm.profiles import Profiles as Profiles
    from streamnorm.recording import Recording as Recording

    __version__: str

# The module of each public name, and, under `TYPE_CHECKING`, the same for type checkers.
_MODULES = {
    "streamnorm._bodies": (
        "Encoded decode_message decode_request encode_message encode_request "
        "translate_message translate_request"
    ),
    "streamnorm._conversation": "Conversation StreamedAnswer",
    "streamnorm._core.accumulate": "Accumulator accumulate message_events",
    "streamnorm._core.blocks": (
        "Audio Block CacheMark Citation Document Image InputBlock OpaqueBlock Reasoning "
        "RedactedReasoning Refusal ServerToolCall ServerToolResult Text ToolCall ToolResult Video"
    ),
    "streamnorm._core.bodies.request": "InputMessage OutputFormat ReasoningOptions Reply Request",
    "streamnorm._core.codec": "Decoder Encoder Feed RequestViolation",
    "streamnorm._core.errors": (
        "ArgumentsError DecodeError EncodeError LimitExceeded LocalProtocolError LossyEncoding "
        "NotAStream ProfileError ProtocolError RecordingError RemoteProtocolError StateError "
        "StoreError StreamnormError TruncatedStream UnknownDialect UnrecordedRequest UpstreamError"
    ),
    "streamnorm._core.events": (
        "Abandoned BlockStart BlockStop CitationDelta Completed Event Failed JSONDelta "
        "MessageStart MessageStop Opaque Outcome Ping ReasoningDelta RefusalDelta "
        "SignatureDelta StopReason StreamError TextDelta Truncated Usage UsageUpdate"
    ),
    "streamnorm._core.grammar": "Violation",
    "streamnorm._core.limits": "Limits",
    "streamnorm._core.losses": "Loss Note",
    "streamnorm._core.messages": "Message",
    "streamnorm._core.partial_json": "PartialJSON ValueDelta",
    "streamnorm._core.tools": ("CustomTool Grammar MCPServer Namespace ServerTool Tool ToolChoice"),
    "streamnorm._decoding": "decoder",
    "streamnorm._projection": "project",
    "streamnorm._registry": "detect encoder",
    "streamnorm._tools": ("SimplifiedSchema check_tools decode_tools encode_tools simplify_schema"),
    "streamnorm._transcoder": "Transcoder",
    "streamnorm._validation": "validate validate_request",
    "streamnorm.aio": (
        "Stream SyncStream connect events iter_events iter_transcode run_tools tap transcode"
    ),
    "streamnorm.asgi": "EventStreamResponse MessageResponse",
    "streamnorm.profiles": "Profiles",
    "streamnorm.recording": "Recording",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # pragma: no branch
    __all__ = sorted([*_MODULE_OF, "sse"])


def __getattr__(name: str) -> Any:
    if name == "sse":
        return import_module("streamnorm.sse")
    if name == "__version__":
        # Costs more than the rest of the import.
        return import_module("importlib.metadata").version("streamnorm")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "sse"])
