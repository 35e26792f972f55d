"""Base classes and protocols that each dialect implements, and code that all dialects share.

Each dialect's package subclasses `Decoder` and `Encoder`.  The base classes do framing, limits,
error bodies, frames without JSON, notes and the end of a stream; a subclass reads one frame
(`read`), knows which frame may be the last (`may_end_with`), and renders one event (`render`).
"""

from streamnorm._core.bodies.table import ReadContext, WriteContext
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.codec.decoder import ALL_EVENTS, DONE, Decoder, read_no_json
from streamnorm._core.codec.delta_run import DeltaEvents, DeltaForwarder, DeltaRun
from streamnorm._core.codec.dialect import (
    ANY,
    MAX_PROBLEMS,
    BodyCodec,
    Checker,
    CountCodec,
    DecodeOptions,
    Dialect,
    DialectOptions,
    EncodeOptions,
    Feed,
    Finding,
    Order,
    OrderTable,
    PageCodec,
    RequestCheck,
    RequestFacts,
    RequestReader,
    RequestViolation,
    Written,
    on_first_use,
)
from streamnorm._core.codec.encoder import Encoder, RunEncoder, StreamWriter
from streamnorm._core.codec.endpoints import Endpoints, Operation, RequestedOperation, Route
from streamnorm._core.codec.framing import (
    BodyFormat,
    FormatReader,
    FormatSniffer,
    Passthrough,
    as_utf8,
)
from streamnorm._core.codec.stored_answers import StoredAnswers
from streamnorm._core.events import Delta

__all__ = [
    "ALL_EVENTS",
    "ANY",
    "DONE",
    "MAX_PROBLEMS",
    "BlockOpener",
    "BodyCodec",
    "BodyFormat",
    "Checker",
    "CountCodec",
    "DecodeOptions",
    "Decoder",
    "Delta",
    "DeltaEvents",
    "DeltaForwarder",
    "DeltaRun",
    "Dialect",
    "DialectOptions",
    "EncodeOptions",
    "Encoder",
    "Endpoints",
    "Feed",
    "Finding",
    "FormatReader",
    "FormatSniffer",
    "Operation",
    "Order",
    "OrderTable",
    "PageCodec",
    "Passthrough",
    "ReadContext",
    "RequestCheck",
    "RequestFacts",
    "RequestReader",
    "RequestViolation",
    "RequestedOperation",
    "Route",
    "RunEncoder",
    "StoredAnswers",
    "StreamWriter",
    "WriteContext",
    "Written",
    "as_utf8",
    "on_first_use",
    "read_no_json",
]
