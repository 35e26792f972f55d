"""The contracts that every dialect fills in, and what is written once for all of them.

A room subclasses `Decoder` and `Encoder`.  Framing, limits, the judgement of a body
that is no stream, notes and the end of a stream stand here; the room reads one frame
(`read`), knows its terminal (`end`), and writes one event (`render`).
"""

from streamnorm.codec.checker import MAX_PROBLEMS, Checker
from streamnorm.codec.decoder import Decoder
from streamnorm.codec.delta import Delta, more_like, part_of
from streamnorm.codec.dialect import Dialect, Feed
from streamnorm.codec.encoder import EncodeOptions, Encoder
from streamnorm.codec.form import Form, FormReader, Opening
from streamnorm.codec.turns import Turns
from streamnorm.codec.writer import StreamWriter

__all__ = [
    "MAX_PROBLEMS",
    "Checker",
    "Decoder",
    "Delta",
    "Dialect",
    "EncodeOptions",
    "Encoder",
    "Feed",
    "Form",
    "FormReader",
    "Opening",
    "StreamWriter",
    "Turns",
    "more_like",
    "part_of",
]
