"""The terminals and the errors of an answer, in its dialect."""

from __future__ import annotations

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.events import StreamError
from streamnorm._core.json import compact, object_in
from streamnorm._registry import DEFAULT_ERROR_DIALECT, DIALECTS, detect, encoder
from streamnorm.recording.exchange import Playback
from streamnorm.recording.faults.offsets import Located, find_line_end
from streamnorm.sse import Frame


def find_dialect(name: str | None, events: list[Located]) -> Dialect | None:
    """Return the dialect of an answer by its name, or else by its events; None if unknown.

    A variant goes by the name of its dialect, and is recognised by its first event.
    """
    if name is None or name not in DIALECTS:
        name = next((found for e in events if (found := _detect(e.frame)) is not None), None)
    if name is None:
        return None
    for variant in DIALECTS.values():
        if variant.variant_of == name and events and variant.recognises(events[0].frame):
            return variant
    return DIALECTS[name]


def _detect(frame: Frame) -> str | None:
    # Some recordings hold the type of an event only as its name.  Several dialects have `error`.
    if frame.event not in ("message", "error") and "type" not in (value := object_in(frame.data)):
        named = Frame(frame.event, compact({"type": frame.event, **value}))
        return detect(named) or detect(frame)
    return detect(frame)


def find_terminals(dialect: Dialect | None, events: list[Located]) -> list[int]:
    """Return the numbers of the events that report the end of the message."""
    if dialect is None:
        return []
    return [n for n, event in enumerate(events) if dialect.is_terminal(event.frame)]


def find_overloaded_status(dialect: Dialect | None, cloud: Cloud | None) -> int:
    """Return the HTTP status of an overloaded server."""
    if cloud is not None:
        return cloud.overloaded_status
    return 503 if dialect is None else dialect.overloaded_status


def make_error(status: int) -> StreamError:
    """Return the error of an error response."""
    # Of a request for an answer only the model can be missing.
    code = "model_not_found" if status == 404 else None
    return StreamError("upstream", f"status {status}, injected as a fault", code, status)


def encode_error(dialect: Dialect | None, status: int) -> bytes:
    """Return the body of an error response."""
    error = make_error(status)
    if dialect is None:
        return encoder(DEFAULT_ERROR_DIALECT).error_body(error)
    if dialect.error_body is not None:
        return dialect.error_body(error)
    name = dialect.name if dialect.encoder is not None else dialect.variant_of
    return encoder(name or DEFAULT_ERROR_DIALECT).error_body(error)


def encode_overload(
    dialect: Dialect, playback: Playback, events: list[Located], before: int
) -> bytes:
    """Return the events by which a server reports in a stream that it is overloaded.

    Args:
        dialect: Dialect of the stream.
        playback: The stream, whose framing and line ends the events get.
        events: The events of the stream.
        before: Number of events that precede the error.

    Raises:
        UnknownDialect: The dialect cannot be written.
    """
    message = "overloaded, injected as a fault"
    # Only in messages is the error the cloud's: in lines, it is an event of the vendor.
    cloud = playback.cloud if playback.framing.writer is not None else None
    status = find_overloaded_status(dialect, cloud)
    error = StreamError("upstream", message, status_hint=status)
    if dialect.overloaded_frames is not None:
        frames = [event.frame for event in events]
        data = dialect.overloaded_frames(message, frames, before)
    else:
        data = encoder(dialect.name).encode(error)
    if playback.framing.writer is not None:
        return playback.framing.writer().write(data, error)
    ends = find_line_end(playback.body, find_line_end(data, b"\n"))
    return data.replace(b"\r\n", b"\n").replace(b"\n", ends)
