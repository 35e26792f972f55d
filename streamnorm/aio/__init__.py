"""Streams over asyncio and trio, and their synchronous twins.

    events, iter_events          a response's bytes in, events out
    transcode, iter_transcode    bytes of one dialect in, bytes of another out
    tap                          the bytes themselves, while their events are observed
    connect                      send a request, events out

Whoever closes a `Stream`, or iterates to its end, has closed what it reads.  There are
no tasks and no timeouts within, but for the last bytes of a connection that is done.
"""

from streamnorm.aio.connecting import connect
from streamnorm.aio.reading import events, iter_events
from streamnorm.aio.sources import AsyncSource, Source
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.aio.tapping import tap
from streamnorm.aio.transcoding import iter_transcode, transcode

__all__ = [
    "AsyncSource",
    "Source",
    "Stream",
    "SyncStream",
    "connect",
    "events",
    "iter_events",
    "iter_transcode",
    "tap",
    "transcode",
]
