"""Positions of events in followed streams, for dialects that state them in the payload."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial

from streamnorm._core.codec import StoredAnswers
from streamnorm._core.codec.framing import list_events
from streamnorm._core.json import compact, object_in


def positions_of(
    form: StoredAnswers,
) -> Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]:
    """Return a function that adds event positions to a followed stream.

    Args:
        form: How answers of their dialect are stored.
    """
    return aiter if form.event_id is None else partial(_add_event_ids, field=form.event_id)


async def _add_event_ids(chunks: AsyncIterator[bytes], field: str) -> AsyncGenerator[bytes]:
    """Yield events with the cursor in their `id:` copied into the payload."""
    async for data in chunks:
        yield b"".join([_add_event_id(event, field) for event in list_events(data)])


def _add_event_id(event: bytes, field: str) -> bytes:
    # An event that nobody can read on from has no `id:`, and the last of all is no object.
    head, id_field, cursor = event.rstrip(b"\n").rpartition(b"\nid: ")
    if not (id_field and head.endswith(b"}")):
        return event
    # An event that no decoder knows is passed on as it came, with the id that its vendor gave it.
    if b'"%b"' % field.encode() in head:
        start, _, data = head.partition(b"\ndata: ")
        if field in (fields := object_in(data.decode())):
            stated = compact({**fields, field: cursor.decode()}).encode()
            return b"%b\ndata: %b%b%b\n\n" % (start, stated, id_field, cursor)
    return b'%b,"%b":"%b"}%b%b\n\n' % (head[:-1], field.encode(), cursor, id_field, cursor)
