"""Strict validator of `streamGenerateContent` with `alt=sse`: chunks, and the whole stream.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22), and the rules of google-genai: it accepts `data: ` lines alone, raises at Base64
without padding and at arguments that are no object, and finds an error only in a payload
without other fields.

    stream      = chunk+ | chunk* error
    candidate n = part* finishReason, n dense from 0; candidates may interleave
    part        = one data field, and fields that modify it
    call        = {name, args} | {name, …, willContinue} {partialArgs, willContinue}* end

Older models repeat the finishReason in every chunk, and any model may send token counts after
it; content after a finishReason needs a new one.  A blocked prompt has no candidates.  In the
JSON array that the API sends without `alt=sse` every line is a violation, and so is every event
of the Interactions API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm._core.shapes import changed_fields, is_count, parse_object, problems
from streamnorm.dialects.gemini.outcome import finish_reason_of
from streamnorm.dialects.gemini.validate.shapes import CHUNK, DATA, ERROR, MODIFIERS, VALUES
from streamnorm.sse import Frame

_CONSTANT = {"responseId": str, "modelVersion": str}
_REQUIRED_ONE_OF = ("candidates", "promptFeedback", "usageMetadata")
_SUMMED = (
    "promptTokenCount",
    "candidatesTokenCount",
    "toolUsePromptTokenCount",
    "thoughtsTokenCount",
)


class GeminiChecker(Checker):
    """Strict validator of one Gemini stream."""

    rejects_id_and_retry = True
    rejects_comments = True

    def __init__(self) -> None:
        self._constants: dict[str, object] = {}  # fields that are equal in all chunks
        self._candidates: dict[int, CandidateChecker] = {}
        self._next = 0
        self._blocked = False
        self._failed = False  # an error was sent

    def read(self, frame: Frame) -> Iterator[str]:
        if self._failed:
            yield "frame after an error, expected nothing"
            return
        if frame.event != "message":
            yield "event line, expected data lines alone"
        chunk, wrong = parse_object(frame.data)
        yield from wrong
        if chunk is None:
            return
        if "error" in chunk:
            self._failed = True
            yield from problems(ERROR, chunk, "")
            if len(chunk) > 1:
                yield f"error beside {len(chunk) - 1} fields, expected it alone"
            return
        yield from problems(CHUNK, chunk, "")
        yield from self._check_chunk(chunk)

    def missing(self) -> list[str]:
        if self._failed or self._blocked:
            return []
        if not self._candidates:
            return ["no candidate, expected one"]
        lacking: list[str] = []
        for index, candidate in self._candidates.items():
            lacking += candidate.report_open("the stream ends")
            if not candidate.finished:
                lacking.append(f"no finishReason of candidate {index}, expected one")
        return lacking

    def _check_chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        if not any(name in chunk for name in _REQUIRED_ONE_OF):
            yield f"chunk without {', '.join(_REQUIRED_ONE_OF)}, expected one of them"
        yield from changed_fields(self._constants, chunk, _CONSTANT)
        feedback = chunk.get("promptFeedback")
        if is_object(feedback) and finish_reason_of(feedback.get("blockReason")):
            self._blocked = True
        found = chunk.get("candidates")
        candidates: list[object] = found if is_array(found) else []
        if candidates and self._blocked:
            yield f"{len(candidates)} candidates with a blockReason, expected none"
        seen: set[int] = set()
        for number, candidate in enumerate(candidates):
            if is_object(candidate) and is_count(index := candidate.get("index", 0)):
                if index in seen:
                    yield f"candidates[{number}].index is {index} again, expected another"
                seen.add(index)
                yield from self._check_candidate(index, candidate, f"candidates[{number}]")
        if is_object(usage := chunk.get("usageMetadata")):
            yield from _check_counts(usage)

    def _check_candidate(self, index: int, candidate: dict[str, Any], where: str) -> Iterator[str]:
        known = self._candidates.get(index)
        if known is None:
            known = self._candidates[index] = CandidateChecker(index)
            if index > self._next:
                yield f"candidate {index} begins, expected candidate {self._next}"
            self._next = max(self._next, index + 1)
        yield from known.read(candidate, where)


def _check_counts(usage: dict[str, Any]) -> Iterator[str]:
    """Yield token counts that contradict each other."""
    counts = [usage.get(name, 0) for name in _SUMMED]
    total = usage.get("totalTokenCount", 0)
    if is_count(total) and all(is_count(count) for count in counts) and total != sum(counts):
        yield f"usageMetadata.totalTokenCount is {total}, expected {sum(counts)}"
    prompt, cached = counts[0], usage.get("cachedContentTokenCount", 0)
    if is_count(prompt) and is_count(cached) and cached > prompt:
        yield f"usageMetadata.cachedContentTokenCount is {cached}, expected at most {prompt}"


class CandidateChecker:
    """Strict validator of one candidate of a stream.

    Args:
        index: Index of the candidate.

    Attributes:
        finished: Whether a finishReason was sent, and no content since.
    """

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._call_is_open = False

    def read(self, candidate: dict[str, Any], where: str) -> Iterator[str]:
        """Yield the violations of a candidate in the next chunk; its shape is checked elsewhere.

        Args:
            candidate: An entry of `candidates`.
            where: Path of the entry.
        """
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for number, part in enumerate(parts if is_array(parts) else ()):
            if is_object(part):
                yield from self._check_part(part, f"{where}.content.parts[{number}]")
        grounding = candidate.get("groundingMetadata")
        if is_object(grounding):
            yield from _check_sources(grounding, f"{where}.groundingMetadata")
        content_fields = [_content_of(part) for part in objects_of(parts)]
        last = next((field for field in reversed(content_fields) if field), "")
        if last:
            self.finished = False
        if finish_reason_of(candidate.get("finishReason")):
            self.finished = last != "executableCode"  # its result follows
            yield from self.report_open("finishReason")

    def report_open(self, what: str) -> Iterator[str]:
        """Yield a violation, once, if a call has not ended before `what`."""
        if self._call_is_open:
            self._call_is_open = False
            yield f"{what} while a call of candidate {self._index} goes on, expected its end"

    def _check_part(self, part: dict[str, Any], where: str) -> Iterator[str]:
        data = [name for name in DATA if name in part]
        if len(data) > 1:
            yield f"{where} holds {' and '.join(data)}, expected one of them"
        elif part.keys() <= MODIFIERS.keys():
            yield f"{where} holds no data, expected one field of it"
        if is_object(call := part.get("functionCall")):
            yield from self._check_call(call, f"{where}.functionCall")

    def _check_call(self, call: dict[str, Any], where: str) -> Iterator[str]:
        if "name" in call:
            yield from self.report_open("another call")
        elif not self._call_is_open:
            yield f"{where}.name is missing, expected one, since no call goes on"
        entries = call.get("partialArgs")
        continues = call.get("willContinue") is True
        for number, entry in enumerate(entries if is_array(entries) else ()):
            if not is_object(entry):
                continue
            continues = continues or entry.get("willContinue") is True
            values = [name for name in VALUES if name in entry]
            if len(values) > 1:
                found = f"{where}.partialArgs[{number}] holds {' and '.join(values)}"
                yield f"{found}, expected one of them"
        self._call_is_open = continues


def _content_of(part: dict[str, Any]) -> str:
    """Return the data field of a part; empty for empty text, which may be signed."""
    return next((name for name in DATA if name in part and part[name] != ""), "")


def _check_sources(grounding: dict[str, Any], where: str) -> Iterator[str]:
    """Yield supports that name a missing source."""
    chunks, supports = grounding.get("groundingChunks", []), grounding.get("groundingSupports")
    if not is_array(chunks) or not is_array(supports):
        return
    for number, support in enumerate(supports):
        indices = support.get("groundingChunkIndices") if is_object(support) else None
        for index in indices if is_array(indices) else ():
            if is_count(index) and index >= len(chunks):
                found = f"{where}.groundingSupports[{number}] names groundingChunks[{index}]"
                yield f"{found}, expected one of {len(chunks)}"
