"""Events in the messages of an AWS event stream."""

from __future__ import annotations

from botocore.eventstream import EventStreamBuffer
from support.operation_counts import peak

from streamnorm.codec import EVENTSTREAM


def test_event_is_written_as_a_message() -> None:
    """All events in recordings of Bedrock have these headers, in this order."""
    assert EVENTSTREAM.writer is not None
    written = EVENTSTREAM.writer().write(
        b'event: messageStart\ndata: {"role":"assistant"}\n\n', None
    )
    buffer = EventStreamBuffer()
    buffer.add_data(written)
    (message,) = buffer
    assert list(message.headers.items()) == [
        (":event-type", "messageStart"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ]
    assert message.payload == b'{"role":"assistant"}'


def test_names_that_a_peer_invents_are_not_stored() -> None:
    assert EVENTSTREAM.writer is not None
    writer = EVENTSTREAM.writer()

    def write() -> None:
        for number in range(5000):
            name = f"{number:05}{'x' * 1000}"
            assert writer.write(f"event: {name}\ndata: {{}}\n\n".encode(), None)

    assert peak(write) < 1_000_000
