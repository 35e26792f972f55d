"""Decoders of streams to events, and encoders of events to streams, without I/O.

All take bytes in any pieces, as `Feed` says.  A `Decoder` for a dialect that was not named, or that
has variants, finds out from the first frames.
"""

from __future__ import annotations

from streamnorm._core.codec import Decoder, Encoder, Feed
from streamnorm._core.codec.event_messages import EVENTSTREAM
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._registry import decoder, encoder

__all__ = [
    "EVENTSTREAM",
    "INVOKE_CHUNKS",
    "SSE",
    "WS_MESSAGE",
    "Decoder",
    "Encoder",
    "Feed",
    "Framing",
    "decoder",
    "encoder",
]
