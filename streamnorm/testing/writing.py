"""Writer of a fake provider's HTTP responses."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from msgspec import Struct, structs

from streamnorm._answers import decode_message, encode_message
from streamnorm._core.blocks import Block, Reasoning, ToolCall
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec import Dialect, Encoder, RequestViolation, StreamWriter
from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.errors import DecodeError, EncodeError, UnrecordedRequest
from streamnorm._core.events import (
    Event,
    Failed,
    MessageStart,
    StreamError,
    Truncated,
    UsageUpdate,
)
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.json import compact, object_in
from streamnorm._core.losses import Loss
from streamnorm._core.messages import Message, accumulate, message_events
from streamnorm._registry import decoder, encoder, lookup
from streamnorm._transcoder import Transcoder
from streamnorm.recording.format import Playback, PlaybackEnd, Step
from streamnorm.recording.recording import Recording
from streamnorm.validation import validate_request

# Errors that a client detects by the end of the connection; no provider sends them.
_CONNECTION_ENDS: dict[str, PlaybackEnd] = {
    "truncated": "eof",
    "transport": "reset",
    "stalled": "timeout",
}

JSON = {"content-type": "application/json"}
# Strict rules refuse what is no Base64.
_SIGNATURE = b64encode(b"signature of a fake provider").decode()


class AnswerWriter(Struct, kw_only=True):
    """Writes one answer as an HTTP response.

    Attributes:
        spoken: The dialect to write, as it is spoken at the path of the request.
        encoder: Encoder of the dialect.
        model: Model to write; None for the answer's model.
        requested_model: Model of the request, written if the answer has none.
        include_usage: Whether the client asked for usage.
        streams: Whether the client asked for a stream, or else for a whole body.
        echoed: Fields of the request that a response repeats.
        losses: The losses of the answer in the dialect.
    """

    spoken: Dialect
    encoder: Encoder
    model: str | None
    requested_model: str
    include_usage: bool
    streams: bool
    echoed: dict[str, Any] = {}
    losses: tuple[Loss, ...] = ()

    @property
    def dialect(self) -> str:
        """Name of the dialect to write."""
        return self.encoder.dialect

    def sign(self, message: Message) -> Message:
        """Return a message with the signatures that its vendor demands back.

        Anthropic signs thinking, and Google the first call of a message.
        """
        codec = self.spoken.codec
        if codec is None or codec.capabilities.reasoning_issuer is None:
            return message
        can, blocks = codec.capabilities, list[Block](message.blocks)
        signs_calls = "tool_call" in can.signed
        if can.stored_reasoning and not signs_calls:  # which is sent back by its id
            return message
        for number, block in enumerate(blocks):
            if not isinstance(block, ToolCall if signs_calls else Reasoning):
                continue
            if block.signature is None:
                blocks[number] = structs.replace(
                    block, signature=_SIGNATURE, issuer=can.reasoning_issuer
                )
            if signs_calls:
                break
        return structs.replace(message, blocks=tuple(blocks))

    def write_events(self, events: list[Event], id: str) -> Playback:
        """Return events as a stream or a whole body, or an error as an error response.

        An error behind other events ends a stream, and is written instead of a whole body.

        Args:
            events: The events.
            id: Message id, written if the events have none.

        Raises:
            UnrecordedRequest: The events have no whole body in the dialect.
        """
        end: PlaybackEnd = "eof"
        match events:
            case [*before, StreamError(status_hint=int(status)) as error] if not _is_error(status):
                events = [*before, structs.replace(error, status_hint=None)]
            case _:
                pass
        match events:
            case [*before, StreamError(kind=kind)] if kind in _CONNECTION_ENDS:
                end = _CONNECTION_ENDS[kind]
                events = before if self.streams else []
            case [*before, StreamError() as error] if not (before and self.streams):
                return self.write_error(error)
            case _:
                pass
        if not self.streams:
            return self._write_body(events, id, end)
        steps = tuple(Step(0.0, data) for data in self._encode_events(events, id) if data)
        self.losses = self.encoder.losses
        return self._play(200, steps, end=end)

    def _encode_events(self, events: list[Event], id: str) -> Iterator[bytes]:
        """Yield the framed bytes of each event, then the bytes that end the stream."""
        framing = self.spoken.framing
        frame_writer = None if framing.writer is None else framing.writer()
        self.encoder.response_fields = self.echoed
        writer = StreamWriter(self.encoder, frame_writer=frame_writer)
        # Anthropic's first event says how many tokens the request has.
        usage = next((event.usage for event in events if isinstance(event, UsageUpdate)), None)
        if usage is not None:
            writer.count(UsageUpdate(structs.replace(usage, output_tokens=None)))
        for event in events:
            yield b"".join(writer.write((self._complete_start(event, id),)))
        yield b"".join(writer.write((), ends=True))

    def _play(
        self,
        status: int,
        steps: tuple[Step, ...],
        *,
        is_stream: bool = True,
        end: PlaybackEnd = "eof",
    ) -> Playback:
        """Return a playback with headers for its content."""
        spoken = self.spoken
        framing = spoken.framing
        headers = {"content-type": framing.media_type, **framing.headers} if is_stream else JSON
        return Playback(
            status,
            headers,
            steps,
            end,
            self.dialect,
            spoken.framing,
            spoken.cloud,
        )

    def _write_body(self, events: list[Event], id: str, end: PlaybackEnd) -> Playback:
        dialect = self.dialect
        if not events:  # a fault takes the place of the answer, or the connection ends before it
            return self._play(200, (), is_stream=False, end=end)
        message = accumulate(self._complete_start(event, id) for event in events)
        try:
            encoded = encode_message(
                message, dialect, model=self.model, reply=Reply(response=self.echoed)
            )
        except EncodeError as exc:
            raise UnrecordedRequest(f"no whole body of {dialect} for the answer: {exc}") from exc
        self.losses = encoded.losses
        body = compact(encoded.body).encode()
        return self._play(200, (Step(0.0, body),), is_stream=False)

    def write_error(self, error: StreamError, status: int | None = None) -> Playback:
        """Return an error response instead of a stream.

        Args:
            error: The error to write.
            status: HTTP status; None for the error's `status_hint`, or else 500.
        """
        status = status or error.status_hint or 500
        if self.spoken.cloud is not None:
            error = structs.replace(error, status_hint=status)
            return _make_cloud_response(error, self.dialect, self.spoken.cloud)
        body = self.encoder.error_body(error)
        refused = self._play(status, (Step(0.0, body),), is_stream=False)
        if error.retry_after is None:
            return refused
        return structs.replace(
            refused, headers={**JSON, "retry-after": str(ceil(error.retry_after))}
        )

    def write_recording(self, recording: Recording) -> Playback:
        """Return a recorded answer, translated if necessary.

        Raises:
            UnrecordedRequest: The recorded body is no answer that can be translated.
            UnknownDialect: The recorded dialect differs and cannot be read.
        """
        target, framing = self.dialect, self.spoken.framing
        same_form = not recording.is_stream or (self.streams and recording.framing is framing)
        if recording.dialect == target and same_form:
            return recording.playback()
        if not recording.is_stream:
            return self._write_recorded_body(recording)
        if not self.streams:
            return self._write_recorded_stream(recording)
        transcoder = Transcoder(
            recording.dialect,
            target,
            model=self.model,
            include_usage=self.include_usage,
            framing=recording.framing,
            to_framing=framing,
            reply=Reply(response=self.echoed),
        )
        playback = recording.playback()
        steps = tuple(_transcode_steps(playback, transcoder))
        if transcoder.dialect == target and recording.framing is framing:
            return structs.replace(playback, dialect=target)  # detected: the recording has none
        self.losses = transcoder.losses
        return self._play(playback.status, steps, end=playback.end)

    def _write_recorded_stream(self, recording: Recording) -> Playback:
        """Return a recorded stream as a whole body, sent when the stream would have ended."""
        playback = self.write_events(recording.events(), "")
        waited_s = sum(step.delay_s for step in recording.playback().steps)
        steps = tuple(structs.replace(step, delay_s=waited_s) for step in playback.steps)
        return structs.replace(playback, steps=steps)

    def _write_recorded_body(self, recording: Recording) -> Playback:
        """Return an answer that was recorded as a whole body or error."""
        outcome = recording.outcome
        if isinstance(outcome, Failed) and outcome.error.code != NOT_A_STREAM:
            status = recording.response.status
            return self.write_error(outcome.error, status if _is_error(status) else None)
        try:
            message = decode_message(recording.body, recording.dialect, server=recording.server)
        except DecodeError as exc:
            raise UnrecordedRequest(
                f"recording {recording.name} is no stream and no answer of dialect "
                f"{recording.dialect}, expected one of them or {self.dialect}"
            ) from exc
        return self.write_events(message_events(message), "")

    def _complete_start(self, event: Event, id: str) -> Event:
        if not isinstance(event, MessageStart):
            return event
        return structs.replace(event, id=event.id or id, model=event.model or self.requested_model)


def _is_error(status: int) -> bool:
    """Return whether a status is that of an error (RFC 9110, section 15)."""
    return 400 <= status <= 599


def _transcode_steps(playback: Playback, transcoder: Transcoder) -> Iterator[Step]:
    """Yield a playback's chunks in another dialect, with the original timing."""
    waited_s = 0.0
    for step in playback.steps:
        waited_s += step.delay_s
        if data := b"".join(transcoder.feed(step.data)):
            yield Step(waited_s, data)
            waited_s = 0.0
    rest = b"".join(transcoder.close())
    # A provider whose connection is cut sends no error event.
    if rest and not isinstance(transcoder.outcome, Truncated):
        yield Step(waited_s, rest)


def response_id_in(playback: Playback) -> str | None:
    """Return the id of the response in an answer; None if it has none."""
    if playback.headers.get("content-type") == JSON["content-type"]:
        id = object_in(playback.body.decode(errors="replace")).get("id")
        return id if isinstance(id, str) else None
    events = decoder(playback.dialect, framing=playback.framing).feed(playback.body)
    return next((event.id for event in events if isinstance(event, MessageStart)), None)


class Refusal(Struct, frozen=True):
    """The error response to a refused request.

    Attributes:
        answer: The error response, which reports the first violation.
        violations: All violations; none if the body is no JSON object.
    """

    answer: Playback
    violations: tuple[RequestViolation, ...] = ()


def refusal_of(
    content: bytes,
    dialect: str,
    *,
    cloud: Cloud | None = None,
    method: str,
    path: str,
    headers: Mapping[str, str],
    server: str | None = None,
) -> Refusal | None:
    """Return the refusal of a message request; None if it is accepted.

    Requests for anything but a message, such as a count of tokens, are not checked.

    Args:
        content: The body as it arrived.
        dialect: Dialect of the request.
        cloud: Cloud that has the path; None for the vendor.
        method: HTTP method.
        path: Path of the URL, without the query.
        headers: Headers by lower-case name.
        server: Name of the server; None is the cloud, or the dialect's vendor.
    """
    server = server or (None if cloud is None else cloud.name)
    known = lookup(dialect)
    asked = known.endpoints.match(method, path)
    if asked is not None and asked.operation not in ("message", "stream"):
        return None
    try:
        found = validate_request(content, dialect, server=server, path=path, headers=headers)
    except DecodeError as exc:
        error = StreamError("upstream", str(exc), status_hint=400)
        if cloud is not None:
            return Refusal(_make_cloud_response(error, dialect, cloud))
        return Refusal(_make_response(400, encoder(dialect).error_body(error), dialect))
    return refuse(found, known, cloud) if found else None


def refuse(
    found: Sequence[RequestViolation], known: Dialect, cloud: Cloud | None = None
) -> Refusal:
    """Return the refusal of a request with violations, in the words of the first.

    Args:
        found: The violations.
        known: Dialect of the request.
        cloud: Cloud that has the path; None for the vendor.
    """
    first, dialect = found[0], known.name
    if cloud is not None:
        error = StreamError("upstream", first.message, first.type, first.status)
        return Refusal(_make_cloud_response(error, dialect, cloud), tuple(found))
    if known.refusal_body is not None:
        body = known.refusal_body(first)
    else:
        word = first.type or first.code
        error = StreamError("upstream", first.message, word, first.status)
        body = encoder(dialect, extras=True).error_body(error)
    return Refusal(_make_response(first.status, body, dialect), tuple(found))


def _make_cloud_response(error: StreamError, dialect: str, cloud: Cloud) -> Playback:
    headers = {**JSON, **cloud.error_headers(error)}
    steps = (Step(0.0, cloud.error_body(error.message)),)
    return Playback(error.status_hint or 400, headers, steps, dialect=dialect, cloud=cloud)


def _make_response(status: int, body: bytes, dialect: str) -> Playback:
    return Playback(status, JSON, (Step(0.0, body),), dialect=dialect)
