"""Responses bytes to events.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21) and
the deviations of compatible servers.  `output` finds the item that an event means, the
items follow what comes of them; here is what belongs to the whole stream: frames, their
numbers, the response's start and end, and usage.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from streamnorm._core.codec import Decoder, DeltaRun
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, too_large, upstream_error
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    decode_any,
    is_object,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnNote
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.delta_run import OpenText, ResponsesRun
from streamnorm.dialects.openai_responses.items.block_opener import DIALECT, Blocks
from streamnorm.dialects.openai_responses.items.item_events import ItemEvents
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.output import Output
from streamnorm.dialects.openai_responses.items.reasoning import CONTENT, SUMMARY, ReasoningItem
from streamnorm.dialects.openai_responses.items.tool_calls import CallItem
from streamnorm.dialects.openai_responses.sequence_numbers import Numbers
from streamnorm.dialects.openai_responses.stop_reasons import stop_reason
from streamnorm.dialects.openai_responses.usage import merge_usage
from streamnorm.sse import Frame

__all__ = ["ResponsesDecoder"]

_DONE = "[DONE]"
_HOT = frozenset(
    {*wire.NAMES.values(), "message"}  # which is that of servers that do not name them
)
_PINGS = ("keepalive", "ping", "response.keep_alive")
_TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_RESPONSES = frozenset({"response.created", "response.queued", "response.in_progress", *_TERMINALS})
"""The events that hold the whole response."""
_RESPONSE_FIELDS = frozenset(
    {"id", "model", "output", "usage", "status", "error", "incomplete_details"}
)
_EVENT_FIELDS = frozenset({"type", "sequence_number", "response", "obfuscation"})
_ERROR_HEAD = ("type", "sequence_number", "event_id", "stream_id")

_Value: TypeAlias = dict[str, Any]


class ResponsesDecoder(Decoder):
    """Read OpenAI Responses.

    Args:
        server: Who sends it: who can verify what seals reasoning, where that is not OpenAI.
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
        self._numbers = Numbers(self.note)
        self._run = ResponsesRun(self._numbers)
        self._blocks = Blocks(limits, self.note, server)
        self._output = Output(self._blocks)
        self._items = ItemEvents(self._output)
        self._usage = Usage()
        self._id: str | None = None  # None before the response has begun
        self._is_created = False
        self._said: _Value = {}  # of the response, at its start

    def _delta_run(self) -> DeltaRun:
        return self._run

    @property
    def next_sequence_number(self) -> int:
        return self._numbers.next or 0

    def read(self, frame: Frame, events: list[Event]) -> None:
        before = len(events)
        if frame.event not in _HOT:
            self._read_any(frame, events)
            return
        try:
            piece = wire.decode_piece(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        kind = wire.NAMES[type(piece)]
        self._look_around(frame, kind, events)
        if self._numbers.is_resent(piece.sequence_number, frame.data):
            return
        number, id, output = piece.output_index, piece.item_id, self._output
        if isinstance(piece, wire.TextDelta):
            message = output.of(MessageItem, "message", number, id, events)
            message.text(piece.part, piece.delta, events)
        elif isinstance(piece, wire.ArgumentsDelta):
            call = output.of(CallItem, "function_call", number, id, events)
            call.more(piece.delta, events)
        elif isinstance(piece, wire.SummaryTextDelta):
            thought = output.of(ReasoningItem, "reasoning", number, id, events)
            thought.more(SUMMARY, piece.part, piece.delta, events)
        else:
            thought = output.of(ReasoningItem, "reasoning", number, id, events)
            thought.more(CONTENT, piece.part, piece.delta, events)
        if len(events) != before + 1 or frame.event != kind:
            self._run.forget()  # more may have changed than one text
        if frame.event == kind and (text := self._open_text(piece)) is not None:
            self._run.expect(piece, text)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        # Half a frame is a cut; a whole one that only lacks its blank line is not.
        if rest is None or not self._is_last(rest):
            return
        self.note("unterminated", "last frame")
        self.read(rest, events)
        if isinstance(self.outcome, Completed):
            self.outcome = Completed(self.outcome.reason, self.outcome.usage, ("unterminated",))

    # Frames

    def _look_around(self, frame: Frame, kind: str, events: list[Event]) -> None:
        """Judge the name of an event, and begin the response if that was left out."""
        if frame.event != kind:
            self.note("no_event_line" if frame.event == "message" else "wrong_event_line", "frame")
        if self._id is None and kind not in _RESPONSES:
            self.note("missing_start", "response")
            self._begin({}, events)

    def _open_text(self, piece: wire.Piece) -> OpenText | None:
        """Return the text that deltas like `piece` extend, if there is one."""
        item = self._output.find(piece.output_index, piece.item_id)
        if item is None or (piece.item_id and piece.item_id != item.id):
            return None  # Copilot names an item anew with each piece
        if isinstance(piece, wire.TextDelta):
            return item.open_text(piece) if isinstance(item, MessageItem) else None
        if isinstance(piece, wire.ArgumentsDelta):
            return item.open_text(piece) if isinstance(item, CallItem) else None
        field = SUMMARY if isinstance(piece, wire.SummaryTextDelta) else CONTENT
        return item.open_text(field, piece) if isinstance(item, ReasoningItem) else None

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read what is no plain piece of an item."""
        self._run.forget()
        data = frame.data
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
        except InvalidJSON as exc:
            self._read_no_json(frame, exc, events)
            return
        if not is_object(value):
            if frame.event == "error":
                raise Fatal(named_error(data, value))
            events.append(Opaque(DIALECT, clean(frame.event), compact(value)))
            return
        kind = string_of(value, "type") or frame.event
        is_known = kind in _RESPONSES or kind in ItemEvents.READS
        if kind == "error" or frame.event == "error" or value.get("error"):
            raise Fatal(_error(value, data))
        if is_known:
            self._look_around(frame, kind, events)
        if self._numbers.is_resent(value.get("sequence_number"), data):
            return
        if kind in _PINGS:
            events.append(Ping())
        elif is_known:
            value["type"] = kind
            if kind == "response.output_item.added":
                self._blocks.keep(len(data))
            self._read_known(kind, value, events)
        elif "type" not in value and (error := find_error(value)) is not None:
            raise Fatal(error)
        else:
            self._items.unknown(kind, value, events)

    def _read_known(self, kind: str, value: _Value, events: list[Event]) -> None:
        if kind in _TERMINALS:
            self._terminal(value, events)
        elif kind in _RESPONSES:
            self._lifecycle(value, events)
        else:
            self._items.read(kind, value, events)

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
        elif frame.event not in (*_RESPONSES, *ItemEvents.READS, "message"):
            events.append(Opaque(DIALECT, clean(frame.event), compact(data)))
        else:
            raise self.invalid(problem)

    # The response

    def _lifecycle(self, value: _Value, events: list[Event]) -> None:
        response = self._response(value)
        is_created, is_first = value["type"] == "response.created", self._id is None
        if is_first:
            self._begin(response, events)
        elif is_created and self._is_created:
            if string_of(response, "id") != self._id:  # another answer, from a gateway
                raise self.malformed("second response.created with another id, expected one")
            self.note("repeated_start", "response")
        self._is_created = self._is_created or is_created
        self._take_usage(response.get("usage"), events)
        if is_first and is_object(response.get("usage")):
            self.first_usage = self._usage

    def _begin(self, response: _Value, events: list[Event]) -> None:
        id, model = string_of(response, "id"), string_of(response, "model")
        if max(len(id), len(model)) > self._limits.max_id_chars:
            raise too_large("max_id_chars", self._limits.max_id_chars)
        self._id = self._blocks.seed = id
        self._said = _rest(response)
        events.append(MessageStart(id, model, self._said or None))
        self._output.know_tools(response.get("tools"))

    def _terminal(self, value: _Value, events: list[Event]) -> None:
        response = self._response(value)
        status = string_of(response, "status")
        if status not in _TERMINALS.values():
            status = _TERMINALS[value["type"]]
        if status in ("failed", "cancelled"):
            if self._id is not None:  # of one that has not begun there is only the error
                self._take_usage(response.get("usage"), events)
            error = find_error({"error": response.get("error")})
            raise Fatal(error or upstream_error(f"response {status}", code=status))
        if self._id is None:
            self._begin(response, events)
        self._output.settle(response.get("output"), events)
        self._take_usage(response.get("usage"), events)
        details = response.get("incomplete_details")
        word = string_of(details, "reason") if is_object(details) else ""
        reason = stop_reason(status, word, called=self._blocks.called, refused=self._blocks.refused)
        raw = word if word and status == "incomplete" else status
        extra = {k: v for k, v in _rest(response).items() if self._said.get(k) != v}
        more = {k: v for k, v in value.items() if k not in _EVENT_FIELDS and v is not None}
        events.append(MessageStop(reason, raw, extra={**more, **extra} or None))
        self.outcome = Completed(reason, self._usage)

    def _response(self, value: _Value) -> _Value:
        response = value.get("response")
        if is_object(response):
            return response
        self.note("missing_response", value["type"])
        return {}

    def _take_usage(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage):
            before, self._usage = self._usage, merge_usage(self._usage, usage)
            if self._usage != before:
                events.append(UsageUpdate(self._usage))

    def _is_last(self, rest: Frame) -> bool:
        """Tell whether a frame without its blank line is whole, and ends the response."""
        value = self.json_of(rest.data)
        if not is_object(value):
            return False
        return value.get("type") in (*_TERMINALS, "error") or find_error(value) is not None


def _error(value: _Value, data: str) -> StreamError:
    """Return the error of an event that is one, nested or flat."""
    if value.get("error"):
        return named_error(data, value)
    flat = {key: item for key, item in value.items() if key not in _ERROR_HEAD}
    return named_error(data, {"error": flat})


def _rest(response: _Value) -> _Value:
    return {
        key: item
        for key, item in response.items()
        if key not in _RESPONSE_FIELDS and item is not None
    }
