"""Anthropic Messages bytes to events.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21) and the
deviations of compatible servers.  `content` follows the blocks, `starts` reads one; here
is what belongs to the whole stream: frames, the message's start and end, and usage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from streamnorm._core.codec import Decoder, DeltaRun
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    decode_any,
    is_array,
    is_object,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnNote
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.blocks import Content
from streamnorm.dialects.anthropic.delta_run import AnthropicRun
from streamnorm.dialects.anthropic.starts import DIALECT, Start, read_start
from streamnorm.dialects.anthropic.stop_reasons import stop_reason
from streamnorm.dialects.anthropic.usage import UsageReader
from streamnorm.sse import Frame

__all__ = ["AnthropicDecoder"]

_DONE = "[DONE]"
_TYPE = frozenset({"type"})
_COLD = frozenset(
    {"message_start", "content_block_start", "content_block_stop", "message_delta"}
    | {"message_stop", "ping", "error"}
)
"""Names of events that are no piece of a block, unless who sends names them wrongly."""
_TERMINALS = ("message_stop", "message_delta", "error")
_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")
_MESSAGE_FIELDS = frozenset({"id", "type", "role", "model", "content", "usage", *_STOP_FIELDS})

_Value: TypeAlias = dict[str, Any]


class AnthropicDecoder(Decoder):
    """Read Anthropic Messages.

    Args:
        server: Who sends it: who can verify a signature, where that is not Anthropic.
        think_tags: Nothing; text with tags is a matter of Chat Completions.
        limits: Bounds.
        on_note: Called with each note as it happens.
    """

    dialect = DIALECT

    def __init__(
        self,
        *,
        server: str | None = None,
        think_tags: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_note: OnNote | None = None,
    ) -> None:
        super().__init__(limits=limits, on_note=on_note)
        self._server = server
        self._content = Content(server, limits, self.note)
        self._run = AnthropicRun(self._content)
        self._usage = UsageReader()
        self._id: str | None = None  # None before message_start
        self._reason: str | None = None
        self._sequence: str | None = None
        self._stop_extra: _Value = {}
        self._kept_chars = 0  # of the payloads that it came from

    def _delta_run(self) -> DeltaRun:
        return self._run

    def read(self, frame: Frame, events: list[Event]) -> None:
        if frame.event in _COLD:
            self._read_any(frame, events)
            return
        try:
            piece = wire.decode_delta(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        if self._id is None or frame.event != "content_block_delta":
            self._look_around(frame)
        delta = piece.delta
        if isinstance(delta, wire.TextDelta):
            self._content.text(piece.index, delta.text, events)
        elif isinstance(delta, wire.InputJSONDelta):
            self._content.input(piece.index, delta.text, events)
        else:
            self._content.thinking(piece.index, delta.text, events)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        lenient: tuple[str, ...] = ()
        if rest is not None:
            # Half a frame is a cut; a whole one that only lacks its blank line is not.
            if not self._is_last(rest):
                return
            self.note("unterminated", "last frame")
            lenient = ("unterminated",)
            self.read(rest, events)
        if self.outcome is None and self._reason is not None and not self._content.is_open:
            lenient = ("no_message_stop", *lenient)
            self._finish(events)
        if isinstance(self.outcome, Completed):
            self.outcome = Completed(
                self.outcome.reason, self.outcome.usage, (*lenient, *self.outcome.lenient)
            )

    # Frames

    def _look_around(self, frame: Frame) -> None:
        """Judge what stands around a payload that could be read."""
        if self._id is None:
            raise self.malformed("block before message_start, expected that first")
        self.note("no_event_line" if frame.event == "message" else "wrong_event_line", "frame")

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read what is no plain piece of a block."""
        data = frame.data
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
        except InvalidJSON as exc:
            self._read_no_json(frame, exc, events)
            return
        kind = value.get("type") if is_object(value) else None
        if not isinstance(kind, str):
            kind = frame.event
        if frame.event != kind and kind in self._READS:
            self.note("no_event_line" if frame.event == "message" else "wrong_event_line", "frame")
        if kind == "error" or frame.event == "error":
            raise Fatal(named_error(data, self.json_of(data)))
        if kind == "ping":
            events.append(Ping())
            return
        read = self._READS.get(kind)
        if read is None or not is_object(value):
            self._read_unknown(kind, value, events)
            return
        if self._id is None and kind != "message_start":
            raise self.malformed(f"{kind} before message_start, expected that first")
        # The fast reader refuses lone surrogates, which the general one lets through.
        self._content.surrogates = True
        read(self, value, frame, events)
        self._content.surrogates = False

    def _read_no_json(self, frame: Frame, problem: InvalidJSON, events: list[Event]) -> None:
        data = frame.data
        if data.startswith(_DONE):
            self.note("stray_done", "frame")
        elif not data.strip():
            pass
        elif frame.event == "error":
            raise Fatal(named_error(data, None))
        elif "\n" in data and not problem.too_deep:  # events without a blank line between
            self.read_joined(frame, "message", events)
        elif frame.event not in self._READS and frame.event != "message":
            events.append(Opaque(DIALECT, clean(frame.event), compact(data)))
        else:
            raise self.invalid(problem)

    def _read_unknown(self, kind: str, value: Any, events: list[Event]) -> None:
        # One without a type of its own may be an error in another vendor's shape.
        named = is_object(value) and isinstance(value.get("type"), str) and not value.get("error")
        if not named and (error := find_error(value)) is not None:
            raise Fatal(error)
        number = value.get("index") if is_object(value) else None
        self._content.unknown(number, clean(kind), value, events)

    # The message

    def _message_start(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        message = value.get("message")
        if not is_object(message):
            raise self.malformed("message_start without a message, expected one")
        id, model = string_of(message, "id"), string_of(message, "model")
        if max(len(id), len(model)) > self._limits.max_id_chars:
            raise too_large("max_id_chars", self._limits.max_id_chars)
        if self._id is not None:
            if id != self._id:  # another answer, from a gateway that tries again
                raise self.malformed("second message_start with another id, expected one message")
            self.note("repeated_message_start", "message")
            return
        self._id = self._content.seed = id
        events.append(MessageStart(id, model, _rest(message, _MESSAGE_FIELDS) or None))
        self._take_usage(message.get("usage"), events)
        self.first_usage = self._usage.usage
        self._take_stop({key: message[key] for key in _STOP_FIELDS if key in message})
        if is_array(message.get("content")):
            inputs = _inputs(frame.data)
            for number, block in enumerate(message["content"]):
                if is_object(block):
                    start = self._start(block)
                    text = _input_text(block, inputs[number] if number < len(inputs) else None)
                    self._content.whole(start, text, events)

    def _block_start(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        block = value.get("content_block")
        if not is_object(block):
            raise self.malformed("content_block_start without a block, expected one")
        start = self._start(block)
        text = _input_text(block, _input(frame.data)) if start.input else ""
        self._content.start(_number(value), start, text, events)

    def _block_delta(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        content, number, delta = self._content, _number(value), value.get("delta")
        if not is_object(delta):
            delta = {}
        match delta.get("type"):
            case "text_delta":
                content.text(number, _piece(delta, "text"), events)
            case "thinking_delta":
                content.thinking(number, _piece(delta, "thinking"), events)
            case "input_json_delta":
                content.input(number, _piece(delta, "partial_json"), events)
            case "signature_delta":
                content.sign(number, _piece(delta, "signature"), events)
            case "citations_delta" if is_object(source := delta.get("citation")):
                content.cite(number, source, events)
            case "compaction_delta" if content.compact(number, _rest(delta, _TYPE), events):
                pass
            case _:
                content.unknown(number, "content_block_delta", value, events)

    def _block_stop(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        self._content.stop(_number(value), events)

    def _message_delta(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        delta = value.get("delta")
        self._keep(frame)
        self._take_stop(delta if is_object(delta) else {})
        self._stop_extra.update(_rest(value, frozenset({"type", "delta", "usage"})))
        self._take_usage(value.get("usage"), events)

    def _message_stop(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        self._stop_extra.update(_rest(value, _TYPE))
        self._finish(events)

    def _finish(self, events: list[Event]) -> None:
        self._content.finish(events)
        reason = stop_reason(
            self._reason, called=self._content.called, unfinished=self._content.unfinished
        )
        events.append(
            MessageStop(reason, self._reason, self._sequence, extra=self._stop_extra or None)
        )
        lenient = () if self._reason is not None else ("no_finish",)
        self.outcome = Completed(reason, self._usage.usage, lenient)

    # Parts of it

    def _start(self, block: _Value) -> Start:
        try:
            return read_start(block, self._server)
        except ValueError as exc:
            raise self.malformed(str(exc)) from exc

    def _take_usage(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage) and self._usage.merge(usage):
            events.append(UsageUpdate(self._usage.usage))

    def _take_stop(self, told: _Value) -> None:
        """Take why the message ended, and what else is told with it."""
        if word := string_of(told, "stop_reason"):
            self._reason = word
        if sequence := string_of(told, "stop_sequence"):
            self._sequence = sequence
        self._stop_extra.update(_rest(told, frozenset({"stop_reason", "stop_sequence"})))

    def _keep(self, frame: Frame) -> None:
        """Bound what fields nobody knows may add up to."""
        self._kept_chars += len(frame.data)
        if self._kept_chars > self._limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self._limits.max_accumulated_bytes)

    def _is_last(self, rest: Frame) -> bool:
        """Tell whether a frame without its blank line is whole, and ends the message."""
        value = self.json_of(rest.data)
        if not is_object(value):
            return False
        return value.get("type") in _TERMINALS or find_error(value) is not None

    _READS: ClassVar[dict[str, Callable[[AnthropicDecoder, _Value, Frame, list[Event]], None]]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
    }


def _number(value: _Value) -> int | None:
    number = value.get("index")
    return number if type(number) is int else None


def _piece(value: _Value, key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""


def _rest(value: _Value, known: frozenset[str]) -> _Value:
    return {key: item for key, item in value.items() if key not in known and item is not None}


def _input(data: str) -> str | None:
    """Return the input of a block's start as it stands on the wire."""
    try:
        return bytes(wire.decode_raw_start(data).content_block.input).decode()
    except FAST_ERRORS:
        return None


def _inputs(data: str) -> list[str]:
    try:
        blocks = wire.decode_raw_message(data).message.content
        return [bytes(block.input).decode() for block in blocks]
    except FAST_ERRORS:
        return []


def _input_text(block: _Value, raw: str | None) -> str:
    """Return the input of a block as text; dumped again where its own cannot be had."""
    value = block.get("input")
    if isinstance(value, str):
        return clean(value)
    return raw or compact(value)
