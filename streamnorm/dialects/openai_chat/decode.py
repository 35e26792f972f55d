"""Chat Completions bytes to events.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21) and the
deviations of some thirty compatible servers.  `answer` follows one choice, `content`
reads one delta; here is what belongs to the whole stream: frames, the first and the
last chunk, usage, errors and the end.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.codec import Decoder, DeltaRun
from streamnorm._core.events import (
    BlockStop,
    Completed,
    Event,
    MessageStart,
    Opaque,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    convert,
    decode_any,
    is_array,
    is_object,
    too_deep,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnNote
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import Answer
from streamnorm.dialects.openai_chat.content import read_delta
from streamnorm.dialects.openai_chat.delta_run import ChatRun
from streamnorm.dialects.openai_chat.quirks import quirks
from streamnorm.dialects.openai_chat.shared import Shared
from streamnorm.dialects.openai_chat.stop_reasons import failed_finish
from streamnorm.dialects.openai_chat.usage import UsageReader
from streamnorm.sse import Frame

__all__ = ["ChatDecoder"]

_DONE = "[DONE]"


class ChatDecoder(Decoder):
    """Read Chat Completions.

    Args:
        server: Who sends it, where that decides between two readings (see `quirks`).
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        limits: Bounds.
        on_note: Called with each note as it happens.
    """

    dialect = "openai_chat"

    def __init__(
        self,
        *,
        server: str | None = None,
        think_tags: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_note: OnNote | None = None,
    ) -> None:
        super().__init__(limits=limits, on_note=on_note)
        self._shared = Shared(limits, quirks(server), self.note, think_tags)
        self._usage = UsageReader()
        self._run = ChatRun(self._usage, limits.max_json_depth)
        self._answers: dict[int, Answer] = {}
        self._started = False
        self._first: dict[str, Any] = {}  # unknown fields up to the first chunk
        self._last: dict[str, Any] = {}  # and of the chunks at the end
        self._kept_chars = 0  # of the chunks that those came from
        self._sides: dict[str, Any] = {}

    def _delta_run(self) -> DeltaRun:
        return self._run

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            chunk = wire.decode_chunk(frame.data)
        except FAST_ERRORS:
            self._read_unusual(frame, events)
        else:
            self._read_chunk(frame, chunk, events)
        self._run.expect(self._answers)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        lenient: tuple[str, ...] = ()
        if rest is not None:
            # Half a frame is a cut; a whole one that only lacks its blank line is not.
            if not self._is_last(rest):
                return
            self.note("unterminated", "last frame")
            lenient = ("unterminated",)
            self.read(rest, events)
            if isinstance(self.outcome, Completed):
                self.outcome = Completed(
                    self.outcome.reason, self._usage.usage, ("unterminated", *self.outcome.lenient)
                )
                return
        if self._answers and all(answer.finish for answer in self._answers.values()):
            self._finish(events, ("no_done", *lenient))

    # Chunks

    def _read_unusual(self, frame: Frame, events: list[Event]) -> None:
        """Read what the typed decoder refuses: the terminal, odd types, odd JSON."""
        data = frame.data
        if data.startswith(_DONE):
            self._finish(events, ())
            return
        if not data.strip():
            return
        if frame.event == "error":
            raise Fatal(named_error(data, self.json_of(data)))
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
            if (error := find_error(value)) is not None and is_array(value):
                raise Fatal(error)
            chunk = convert(value, wire.Chunk)
        except InvalidJSON as exc:
            self._read_no_chunk(frame, exc, events)
            return
        self.note("unusual_json", "chunk")
        self._shared.surrogates = True
        self._read_chunk(frame, chunk, events)
        self._shared.surrogates = False

    def _read_no_chunk(self, frame: Frame, problem: InvalidJSON, events: list[Event]) -> None:
        if "\n" in frame.data and not problem.too_deep:  # two events without a blank line between
            self.read_joined(frame, frame.event, events)
        elif frame.event != "message":
            events.append(Opaque(self.dialect, clean(frame.event), compact(frame.data)))
        else:
            raise self.invalid(problem)

    def _read_chunk(self, frame: Frame, chunk: wire.Chunk, events: list[Event]) -> None:
        choices = chunk.choices or ()
        closing = not choices or any(choice.finish_reason for choice in choices)
        value: dict[str, Any] = {}
        if closing or not self._started or chunk.error or frame.event == "error":
            value = self._whole(frame.data)
        if not choices or frame.event == "error":
            error = find_error(value)
            if error is None and frame.event == "error":
                error = named_error(frame.data, value)
            if error is not None:
                raise Fatal(error)
        if chunk.choices is None and not chunk.usage:
            if wire.says_nothing(value):
                return
            name = frame.event if frame.event != "message" else value.get("object")
            events.append(Opaque(self.dialect, clean(str(name or "frame")), compact(value)))
            return
        if not self._started:
            self._keep(self._first, _unknown(value, wire.CHUNK_FIELDS), frame.data)
            self._start(chunk, events)
        elif closing:
            self._keep(self._last, _unknown(value, wire.CHUNK_FIELDS), frame.data)
        for number, choice in enumerate(choices):
            self._read_choice(choice, events)
            if choice.finish_reason:
                self._keep_last(choice, value["choices"][number], frame.data)
        self._read_usage(chunk, events)
        self._read_sides(chunk, events)
        self._check_failure(chunk, value, choices)

    def _whole(self, data: str) -> dict[str, Any]:
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth)
        except InvalidJSON as exc:
            raise self.invalid(exc) from exc
        return value if is_object(value) else {}

    def _keep(self, kept: dict[str, Any], fields: dict[str, Any], data: str) -> None:
        """Keep unknown fields, later ones in place of earlier ones of the same name."""
        if not fields.keys() <= kept.keys():
            self._kept_chars += len(data)
            if self._kept_chars > self._limits.max_accumulated_bytes:
                raise too_large("max_accumulated_bytes", self._limits.max_accumulated_bytes)
        kept.update(fields)

    def _start(self, chunk: wire.Chunk, events: list[Event]) -> None:
        if not (chunk.id or chunk.choices):  # Azure's empty first chunk
            for key in ("created", "system_fingerprint"):
                if not self._first.get(key):
                    self._first.pop(key, None)
            return
        id, model = clean(str(chunk.id or "")), clean(chunk.model or "")
        if max(len(id), len(model)) > self._limits.max_id_chars:
            raise too_large("max_id_chars", self._limits.max_id_chars)
        self._started = True
        self._shared.seed = (id, model, self._first.get("created"))
        events.append(MessageStart(id, model, self._first or None))
        if self._usage.usage != Usage():
            events.append(UsageUpdate(self._usage.usage))

    def _read_choice(self, choice: wire.Choice, events: list[Event]) -> None:
        number = choice.index or 0
        answer = self._answers.get(number)
        if answer is None:
            if len(self._answers) >= self._limits.max_choices:
                raise too_large("max_choices", self._limits.max_choices)
            answer = self._answers[number] = Answer(number, self._shared)
        delta = choice.delta
        if delta is None and choice.message is not None and not answer.begun:
            delta = self._message_as_delta(choice.message)
        if delta is not None:
            read_delta(delta, answer, events)
        if choice.logprobs is not None:
            self._check_depth(choice.logprobs)
            answer.opaque("logprobs", choice.logprobs, events)

    def _message_as_delta(self, message: Any) -> wire.Delta | None:
        """Return a whole message as its only delta; beside deltas it repeats them."""
        try:
            return convert(message, wire.Delta)
        except InvalidJSON as exc:
            raise self.invalid(exc) from exc

    def _keep_last(self, choice: wire.Choice, value: dict[str, Any], data: str) -> None:
        answer = self._answers[choice.index or 0]
        answer.finish = choice.finish_reason
        self._keep(answer.extra, _unknown(value, wire.CHOICE_FIELDS), data)
        if is_object(delta := value.get("delta")):  # where Vercel's gateway tells the cost
            self._keep(answer.extra, _unknown(delta, wire.DELTA_FIELDS), data)

    def _read_usage(self, chunk: wire.Chunk, events: list[Event]) -> None:
        before = self._usage.usage
        for usage in (
            chunk.usage,
            chunk.x_groq.get("usage") if chunk.x_groq else None,
            *(choice.usage for choice in chunk.choices or ()),
        ):
            if is_object(usage):
                self._check_depth(usage)
                self._usage.merge(usage)
        if self._usage.usage != before and self._started:
            events.append(UsageUpdate(self._usage.usage))

    def _read_sides(self, chunk: wire.Chunk, events: list[Event]) -> None:
        for name in wire.SIDE_FIELDS:
            value = getattr(chunk, name)
            if value and value != self._sides.get(name):
                self._check_depth(value)
                self._sides[name] = value
                events.append(Opaque(self.dialect, name, compact(value)))

    def _check_failure(self, chunk: wire.Chunk, value: dict[str, Any], choices: Any) -> None:
        """Raise the error that stands beside choices, or within one."""
        if chunk.error and (error := find_error(value)) is not None:
            raise Fatal(error)
        if chunk.x_groq and (told := chunk.x_groq.get("error")):
            self._check_depth(told)
            raise Fatal(find_error({"error": told}) or named_error("", {}))
        for choice in choices:
            if choice.error:
                self._check_depth(choice.error)
                raise Fatal(find_error({"error": choice.error}) or named_error("", {}))
            if choice.finish_reason and (error := failed_finish(choice.finish_reason)) is not None:
                raise Fatal(error)

    def _check_depth(self, value: Any) -> None:
        if too_deep(value, self._limits.max_json_depth):
            raise too_large("max_json_depth", self._limits.max_json_depth)

    # The end

    def _is_last(self, rest: Frame) -> bool:
        """Tell whether a frame without its blank line is whole, and ends the message."""
        if rest.data.startswith(_DONE):
            return True
        value = self.json_of(rest.data)
        if not is_object(value):
            return False
        if find_error(value) is not None or all(a.finish for a in self._answers.values()):
            return True
        choices = value.get("choices")
        return is_array(choices) and any(
            is_object(choice) and choice.get("finish_reason") for choice in choices
        )

    def _finish(self, events: list[Event], lenient: tuple[str, ...]) -> None:
        if not self._started:
            raise self.malformed(f"{_DONE} before the first chunk")
        if not self._answers:
            self._answers[0] = Answer(0, self._shared)
        if 0 not in self._answers:  # most targets write no other
            raise self.malformed(f"choice {min(self._answers)} alone, expected choice 0")
        answers = [answer for _, answer in sorted(self._answers.items())]
        open_blocks = [index for answer in answers for index in answer.flush(events)]
        events += [BlockStop(index) for index in sorted(open_blocks)]
        if self._last:
            new = {k: v for k, v in self._last.items() if k not in self._first}
            self._answers[0].extra.update(new)
        stops = {stop.choice: stop for stop in [answer.stop() for answer in answers]}
        events += stops.values()
        if not all(answer.finish for answer in answers):
            lenient = (*lenient, "no_finish")
        self.outcome = Completed(stops[0].reason, self._usage.usage, lenient)


def _unknown(value: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in known and item is not None}
