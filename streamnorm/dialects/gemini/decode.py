"""Gemini bytes to events.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22).  `answer` follows one candidate, `parts` reads one part; here is what belongs
to the whole stream: frames, the JSON array, the first and the last chunk, counts, errors
and the end.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from streamnorm._core.codec import Decoder, DeltaRun
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.events import Completed, Event, MessageStart, Opaque, Usage, UsageUpdate
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    decode_any,
    is_array,
    is_object,
    objects_of,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnNote
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.dialects.gemini import wire
from streamnorm.dialects.gemini.answer import Answer
from streamnorm.dialects.gemini.array import ARRAY
from streamnorm.dialects.gemini.delta_run import GeminiRun
from streamnorm.dialects.gemini.grounding import recited, supported
from streamnorm.dialects.gemini.parts import cleaned, read_part
from streamnorm.dialects.gemini.stops import UNSPECIFIED, failed_finish
from streamnorm.dialects.gemini.usage import UsageReader
from streamnorm.dialects.gemini.wire import DIALECT
from streamnorm.sse import Frame

__all__ = ["GeminiDecoder"]

_DONE = "[DONE]"
_CHUNK = frozenset({"candidates", "usageMetadata", "promptFeedback", "responseId", "modelVersion"})
"""The fields of which a chunk has at least one."""
_CHUNK_FIELDS = frozenset(
    {"candidates", "usageMetadata", "responseId", "modelVersion", "response", "error"}
)
_CANDIDATE_FIELDS = frozenset(
    {"index", "content", "finishReason", "citationMetadata", "groundingMetadata"}
    | {"logprobsResult"}
)

_Value: TypeAlias = dict[str, Any]


class GeminiDecoder(Decoder):
    """Read Gemini's `streamGenerateContent`, with `alt=sse` or as a JSON array.

    Args:
        server: Who sends it; nothing depends on it.
        think_tags: Nothing; text with tags is a matter of Chat Completions.
        limits: Bounds.
        on_note: Called with each note as it happens.
    """

    dialect = DIALECT
    forms = (ARRAY,)

    def __init__(
        self,
        *,
        server: str | None = None,
        think_tags: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_note: OnNote | None = None,
    ) -> None:
        super().__init__(limits=limits, on_note=on_note)
        self._opener = BlockOpener(limits, self.note)
        self._started = False
        self._said: _Value = {}  # fields of the chunks that have no place in the events
        self._late: _Value = {}  # of them those that came after the start
        self._blocked: str | None = None
        self._usage = UsageReader()
        self._answers: dict[int, Answer] = {}
        self._run = GeminiRun(self._answers, self._usage, self._said)

    def _delta_run(self) -> DeltaRun:
        return self._run

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._read_any(frame, events)
        self._run.expect_tokens()

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        self._judge_strays()
        lenient: tuple[str, ...] = ()
        if self._form is not None and not self._form.ended:
            return
        if rest is not None:
            # Half a frame is a cut; a whole one that only lacks its blank line is not.
            if not self._is_last(rest):
                return
            self.note("unterminated", "last frame")
            lenient = ("unterminated",)
            self.read(rest, events)
        if self.outcome is None and self._is_finished():
            self._finish(events, lenient)

    # Frames

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        data = frame.data
        if frame.event == "error":
            raise Fatal(named_error(data, self.json_of(data)))
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
        except InvalidJSON as exc:
            self._read_no_json(frame, exc, events)
            return
        for chunk in value if is_array(value) else (value,):
            if is_object(chunk):
                self._read_object(chunk, frame, events)
            else:
                events.append(Opaque(DIALECT, "frame", compact(chunk)))

    def _read_no_json(self, frame: Frame, problem: InvalidJSON, events: list[Event]) -> None:
        data = frame.data
        if data.startswith(_DONE):
            self.note("stray_done", "frame")
            if self._is_finished():
                self._finish(events, ())
        elif not data.strip():
            pass
        elif "\n" in data and not problem.too_deep:  # events without a blank line between
            self.read_joined(frame, frame.event, events)
        elif frame.event != "message":
            events.append(Opaque(DIALECT, clean(frame.event), compact(data)))
        else:
            raise self.invalid(problem)

    def _read_object(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        inner = value.get("response")
        if is_object(inner) and "candidates" not in value:  # Code Assist
            value = {**value, **inner}
        if _CHUNK.isdisjoint(value):
            error = find_error(value)
            if error is not None:
                raise Fatal(error)
            if value:
                events.append(Opaque(DIALECT, "frame", compact(value)))
            return
        self._read_chunk(value, frame.data, events)
        if value.get("error") and (error := find_error({"error": value["error"]})) is not None:
            raise Fatal(error)

    def _read_chunk(self, value: _Value, data: str, events: list[Event]) -> None:
        self._keep(value, data)
        first = not self._started
        if first:
            self._start(value, events)
            self._take_usage(value.get("usageMetadata"), events)
            if self._usage.usage != Usage():
                self.first_usage = self._usage.usage
        failed: Fatal | None = None
        raw: list[list[wire.RawPart]] | None = None
        for number, candidate in enumerate(objects_of(value.get("candidates"))):
            if raw is None:
                raw = _raw_parts(data)
            parts = raw[number] if number < len(raw) else []
            failed = self._read_candidate(candidate, parts, len(data), events) or failed
        if not first:
            self._take_usage(value.get("usageMetadata"), events)
        feedback = value.get("promptFeedback")
        if is_object(feedback) and (word := _word(feedback.get("blockReason"))):
            self._blocked = word
        if failed is not None:
            raise failed

    # The message

    def _start(self, value: _Value, events: list[Event]) -> None:
        id, model = string_of(value, "responseId"), string_of(value, "modelVersion")
        self._opener.check_names(id, model)
        self._started = True
        self._opener.seed = (id, model, string_of(value, "createTime"))
        events.append(MessageStart(id, model, dict(self._said) or None))

    def _keep(self, value: _Value, data: str) -> None:
        """Keep unknown fields, later ones in place of earlier ones of the same name."""
        for key, item in value.items():
            if key in _CHUNK_FIELDS or item is None or self._said.get(key) == item:
                continue
            self._opener.keep(len(data))
            self._said[key] = cleaned(key, item)
            if self._started:
                self._late[key] = self._said[key]

    def _take_usage(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage) and self._usage.merge(usage):
            events.append(UsageUpdate(self._usage.usage))

    # An answer

    def _answer(self, number: int) -> Answer:
        answer = self._answers.get(number)
        if answer is None:
            if len(self._answers) >= self._limits.max_choices:
                raise too_large("max_choices", self._limits.max_choices)
            answer = self._answers[number] = Answer(number, self._opener)
        return answer

    def _read_candidate(
        self, candidate: _Value, raw: list[wire.RawPart], size: int, events: list[Event]
    ) -> Fatal | None:
        """Read one answer's part of a chunk, and return how it failed, if it did."""
        number = candidate.get("index")
        answer = self._answer(max(number, 0) if type(number) is int else 0)
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for position, part in enumerate(parts if is_array(parts) else ()):
            if is_object(part):
                text = raw[position] if position < len(raw) else wire.RawPart()
                read_part(part, text, answer, events)
        for name, read in (("citationMetadata", recited), ("groundingMetadata", supported)):
            metadata = candidate.get(name)
            if metadata and is_object(metadata):
                self._opener.keep(size)
                citations, rest = read(metadata, answer.text_place)
                answer.cite(citations, events)
                answer.metadata(name, rest, events)
        if candidate.get("logprobsResult"):
            answer.opaque("logprobsResult", candidate["logprobsResult"], events)
        for key, item in candidate.items():
            if key not in _CANDIDATE_FIELDS and item is not None and answer.extra.get(key) != item:
                self._opener.keep(size)
                answer.extra[key] = cleaned(key, item)
        word = _word(candidate.get("finishReason"))
        if not word or (word in UNSPECIFIED and answer.finish):
            return None
        answer.finish = word
        error = failed_finish(word, string_of(candidate, "finishMessage"))
        return None if error is None else Fatal(error)

    # The end

    def _is_finished(self) -> bool:
        finished = all(answer.finish for answer in self._answers.values())
        return self._blocked is not None or (bool(self._answers) and finished)

    def _is_last(self, rest: Frame) -> bool:
        """Tell whether a frame without its blank line is whole, and ends the message."""
        if rest.data.startswith(_DONE):
            return True
        value = self.json_of(rest.data)
        if not is_object(value):
            return False
        inner = value.get("response")
        chunk = {**value, **inner} if is_object(inner) else value
        candidates = objects_of(chunk.get("candidates"))
        feedback = chunk.get("promptFeedback")
        return (
            any(_word(candidate.get("finishReason")) for candidate in candidates)
            or (is_object(feedback) and bool(feedback.get("blockReason")))
            or find_error(value) is not None
            or (_CHUNK.isdisjoint(chunk) is False and self._is_finished())
        )

    def _finish(self, events: list[Event], lenient: tuple[str, ...]) -> None:
        if not self._answers:
            self._answers[0] = Answer(0, self._opener)
        if 0 not in self._answers:  # most targets write no other
            raise self.malformed(f"candidate {min(self._answers)} alone, expected candidate 0")
        self._answers[0].extra.update(self._late)
        answers = [answer for _, answer in sorted(self._answers.items())]
        stops = [answer.stop(self._blocked, events) for answer in answers]
        events += stops
        self.outcome = Completed(stops[0].reason, self._usage.usage, lenient)


def _word(value: Any) -> str:
    """Return a word of an enumeration, which may be sent by its number."""
    if type(value) is int:
        return str(value)
    return clean(value) if isinstance(value, str) else ""


def _raw_parts(data: str) -> list[list[wire.RawPart]]:
    try:
        return wire.raw_parts(data)
    except FAST_ERRORS:
        return []
