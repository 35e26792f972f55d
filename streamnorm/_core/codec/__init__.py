"""The contracts that every dialect fills in, and what is written once for all of them.

A room subclasses `Decoder` and `Encoder`.  Framing, limits, the judgement of a body
that is no stream, notes and the end of a stream stand here; the room reads one frame
(`read`), knows its terminal (`end`), and writes one event (`render`).
"""

from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.codec.body_format import BodyFormat, FormatReader, FormatSniffer
from streamnorm._core.codec.checker import MAX_PROBLEMS, Checker
from streamnorm._core.codec.decoder import DecodeOptions, Decoder
from streamnorm._core.codec.delta_run import DeltaForwarder, DeltaRun
from streamnorm._core.codec.dialect import Dialect, DialectOptions, Endpoints, Feed, on_first_use
from streamnorm._core.codec.encoder import EncodeOptions, Encoder
from streamnorm._core.codec.passthrough import Passthrough
from streamnorm._core.codec.stream_writer import StreamWriter
from streamnorm._core.events import Delta

__all__ = [
    "MAX_PROBLEMS",
    "BlockOpener",
    "BodyFormat",
    "Checker",
    "DecodeOptions",
    "Decoder",
    "Delta",
    "DeltaForwarder",
    "DeltaRun",
    "Dialect",
    "DialectOptions",
    "EncodeOptions",
    "Encoder",
    "Endpoints",
    "Feed",
    "FormatReader",
    "FormatSniffer",
    "Passthrough",
    "StreamWriter",
    "on_first_use",
]
