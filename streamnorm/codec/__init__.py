"""The contracts that every dialect fills in, and what is written once for all of them.

A room subclasses `Decoder` and `Encoder`.  Framing, limits, the judgement of a body
that is no stream, notes and the end of a stream stand here; the room reads one frame
(`read`), knows its terminal (`end`), and writes one event (`render`).
"""

from streamnorm.codec.checker import MAX_PROBLEMS, Checker
from streamnorm.codec.decoder import Decoder
from streamnorm.codec.delta import Delta, delta_factory, part_of
from streamnorm.codec.delta_run import DeltaForwarder, DeltaRun
from streamnorm.codec.dialect import Dialect, Feed, on_first_use
from streamnorm.codec.encoder import EncodeOptions, Encoder
from streamnorm.codec.form import Form, FormReader, Opening
from streamnorm.codec.passthrough import Passthrough
from streamnorm.codec.writer import StreamWriter

__all__ = [
    "MAX_PROBLEMS",
    "Checker",
    "Decoder",
    "Delta",
    "DeltaForwarder",
    "DeltaRun",
    "Dialect",
    "EncodeOptions",
    "Encoder",
    "Feed",
    "Form",
    "FormReader",
    "Opening",
    "Passthrough",
    "StreamWriter",
    "delta_factory",
    "on_first_use",
    "part_of",
]
