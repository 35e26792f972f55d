"""Streams for asyncio, trio and synchronous code.

    events, iter_events          a response's bytes in, events out
    transcode, iter_transcode    bytes of one dialect in, bytes of another out
    tap                          the bytes unchanged, while their events are observed
    connect                      send a request; events out, or bytes of another dialect
    run_tools                    execute the tool calls of a message

A `Stream` owns its source: closing the stream, or iterating to its end, closes the source.
It starts no task and sets no timeout, except for closing and draining a connection.
"""

from streamnorm.aio.executing import run_tools
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.aio.transcoding import connect, events, iter_events, iter_transcode, tap, transcode

__all__ = [
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
