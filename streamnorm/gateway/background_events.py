"""Events of background responses, pings between them, and the end of a cancelled or unbegun one.

The vendors document no last event of a cancelled response.  Its stream ends as the response that a
client polls: with the status `cancelled`, and without an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from streamnorm._core.codec import Dialect, StoredAnswers
from streamnorm._core.codec.framing import add_id, list_events
from streamnorm._core.errors import NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Failed, MessageStart, Truncated
from streamnorm._core.json import compact
from streamnorm._exchange import last_event
from streamnorm._registry import encoder
from streamnorm.gateway.event_positions import positions_of
from streamnorm.gateway.producing import (
    BackgroundAnswer,
    first_event,
    require_stored_answers,
    response_in,
    unbegun_events,
)
from streamnorm.log import FollowedStream
from streamnorm.sse import SSEDecoder, encode_frame

FAILURES = (UpstreamError, NotAStream, ProtocolError)
"""How a stream fails that has not begun."""

_NUMBER = "sequence_number"


class BackgroundPings:
    """Pings in the stream of a background response.

    The first one is the response's first event if an upstream begins late: a client that loses its
    connection before needs the id in it, to ask for the rest.  Pings between events repeat the
    number of the event before: a client goes on behind the number that it has last, in the log,
    which has no pings.  Comments do not do there: OpenAI's SDK for Python (3.57.0) reads one behind
    an `id:` as an event without data.

    Args:
        client: The client's dialect.
        background: The response, if an upstream may not have begun it.
    """

    def __init__(self, client: Dialect, background: BackgroundAnswer | None = None) -> None:
        self._client = client
        self._background = background
        self._is_first_sent = False
        self._followed: FollowedStream[bytes] | None = None
        self._last = b""  # the events that were sent last

    def __call__(self) -> bytes:
        """Return the next ping; b"" once the stream has ended."""
        if self._followed is not None and self._followed.outcome is not None:
            return b""
        if self._last:
            return self._ping_behind(_number_of(list_events(self._last)[-1]))
        background = self._background
        if self._is_first_sent or background is None or not background.is_announced:
            return encoder(self._client.name).ping()
        self._is_first_sent = True
        return first_event(self._client, background.response)

    async def watch(
        self, followed: FollowedStream[bytes], chunks: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes]:
        """Yield the events of a stream, without the one that was sent as a ping."""
        self._followed = followed
        async for data in chunks:
            is_sent = self._is_first_sent and not self._last
            self._last = data
            if is_sent:
                data = b"".join(list_events(data)[1:])
            if data:
                yield data

    def _ping_behind(self, number: int) -> bytes:
        """Return a ping between two events.

        Args:
            number: Sequence number of the first one.
        """
        writer = encoder(self._client.name)
        writer.encode(MessageStart())  # none may precede it
        ping = writer.ping()
        fields = last_event(ping)
        if _NUMBER not in fields:
            return ping
        return encode_frame(compact({**fields, _NUMBER: number}), event=_frame_name(ping))


def background_events(
    followed: FollowedStream[bytes],
    client: Dialect,
    unbegun: dict[str, Any],
    pings: BackgroundPings,
    number: int = -1,
) -> AsyncIterator[bytes]:
    """Return the events of a background response that its client gets.

    Args:
        followed: The stream of the response.
        client: The client's dialect.
        unbegun: The response before it began.
        pings: Pings between the events.
        number: Sequence number of the client's last event; -1 for the start, and where events have
            no numbers.
    """
    form = require_stored_answers(client)
    events = _end(followed, client, form, unbegun)
    behind = events if number < 0 else _behind(events, number)
    return positions_of(form)(pings.watch(followed, behind))


async def _end(
    followed: FollowedStream[bytes], client: Dialect, form: StoredAnswers, unbegun: dict[str, Any]
) -> AsyncGenerator[bytes]:
    """Yield the events of a stream; of one that never began, those that say so."""
    answer: dict[str, Any] = {}
    try:
        async for data in followed:
            if not answer:
                first = b"".join(list_events(data)[:1])
                answer = {**unbegun, **response_in(first, form)}
            yield _mark_cancelled(data, form, answer) if followed.is_cancelled else data
    except FAILURES:
        match followed.outcome:
            case Failed(error) | Truncated(error) if not answer:
                data = unbegun_events(error, client, unbegun)
            case _:
                raise
        yield _mark_cancelled(data, form, unbegun) if followed.is_cancelled else data


def _mark_cancelled(data: bytes, form: StoredAnswers, answer: dict[str, Any]) -> bytes:
    """Return events whose error, if they end in one, is the end of a cancelled response.

    Args:
        data: The events.
        form: How answers of their dialect are stored.
        answer: The response, where the last event has the error alone.
    """
    events = list_events(data)
    ends = [number for number, event in enumerate(events) if _frame_name(event) == "error"]
    if not ends:
        return data
    before, error = events[: ends[0]], last_event(events[ends[0]])
    last = b"".join(events[ends[0] :])
    # The number of the error, so that none is missing.
    number = {_NUMBER: error[_NUMBER]} if _NUMBER in error else {}
    answer = {**(answer if form.errors else response_in(last, form)), **form.cancelled_fields}
    name = next(iter(form.cancelled_event.values()))
    fields = {**form.cancelled_event, **number, form.noun: answer}
    frame = encode_frame(compact(fields), event=name)
    if id := SSEDecoder().feed(last)[-1].id:
        frame = add_id(frame, id.encode())
    return b"".join([*before, frame])


def _frame_name(event: bytes) -> str:
    frames = SSEDecoder().feed(event)
    return frames[-1].event if frames else ""


async def _behind(chunks: AsyncGenerator[bytes], number: int) -> AsyncGenerator[bytes]:
    """Yield the events after a sequence number."""
    is_behind = False
    async for data in chunks:
        if not is_behind:
            events = list_events(data)
            known = [event for event in events if _number_of(event) <= number]
            is_behind = len(known) < len(events)
            data = b"".join(events[len(known) :])
        if data:
            yield data


def _number_of(event: bytes) -> int:
    number = last_event(event).get(_NUMBER)
    return number if isinstance(number, int) else -1
