"""Strict validator of Chat Completions streams: the order of chunks, and usage.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21), and the
needs of the official helpers: they join repeated fields, find choices and tool calls by
`index`, throw without a role or a finish_reason, and use the last usage.

    stream   = chunk* usage? "[DONE]" | chunk* error "[DONE]"?
    choice n = role delta* finish_reason, n dense from 0; choices may interleave
    call k   = id, type, name, arguments, then arguments*, k dense from 0; calls may interleave

Frames have `data` lines alone; an error may also have `event: error`.  `[DONE]` may follow
an error, after which no client reads.  The finish reason `stop` may follow tool calls: the
vendor sends it for a forced tool.  Fragments of a custom tool, which the vendor does not
document, may come as the types of its SDKs suggest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import changed_fields, is_count, parse_object, problems, token_problems
from streamnorm.dialects.openai_chat.detect import DONE
from streamnorm.dialects.openai_chat.validate.choice import ChoiceChecker
from streamnorm.dialects.openai_chat.validate.shapes import CHUNK, ERROR
from streamnorm.sse import Frame

__all__ = ["ChatChecker"]

_CONSTANT = {"id": str, "created": int, "model": str}


class ChatChecker(Checker):
    """Strict validator of one Chat Completions stream."""

    rejects_id_and_retry = True

    def __init__(self) -> None:
        self._constants: dict[str, object] = {}  # fields with one value in all chunks
        self._choices: dict[int, ChoiceChecker] = {}
        self._next_choice = 0
        self._has_usage = False
        self._ended_by = ""  # `[DONE]` or an error

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data.startswith(DONE):
            yield from self._done(frame.data)
            return
        if self._ended_by:
            yield f"frame after {self._ended_by}, expected nothing"
            return
        chunk, wrong = parse_object(frame.data)
        yield from wrong
        if chunk is None:
            return
        if chunk.get("error"):
            self._ended_by = "an error"
            yield from problems(ERROR, chunk, "")
            if "choices" in chunk:
                yield "error beside choices, expected it alone"
            return
        if frame.event != "message":
            yield "event line, expected data lines alone"
        yield from problems(CHUNK, chunk, "")
        yield from self._chunk(chunk)

    def missing(self) -> list[str]:
        if self._ended_by:
            return []
        return [*self._unfinished("the stream ends"), f"no {DONE}, expected it last"]

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        if self._has_usage:
            yield f"chunk after the usage chunk, expected {DONE}"
        yield from changed_fields(self._constants, chunk, _CONSTANT)
        choices = chunk.get("choices")
        entries: list[object] = choices if is_array(choices) else []
        for number, entry in enumerate(entries):
            if is_object(entry) and is_count(entry.get("index")):
                yield from self._choice(entry["index"], entry, f"choices[{number}]")
        yield from self._usage(chunk, entries)

    def _choice(self, index: int, entry: dict[str, Any], path: str) -> Iterator[str]:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = ChoiceChecker(index)
            if index > self._next_choice:
                yield f"choice {index} begins, expected {self._next_choice}"
            self._next_choice = max(self._next_choice, index + 1)
        yield from choice.read(entry, path)

    def _usage(self, chunk: dict[str, Any], entries: list[object]) -> Iterator[str]:
        usage = chunk.get("usage")
        if usage is None:
            if chunk.get("choices") == [] and chunk.get("moderation") is None:
                yield "choices is empty without usage, expected a choice"
            return
        if entries:
            yield f"usage beside {len(entries)} choices, expected it in a last chunk without any"
        else:
            self._has_usage = True
        if is_object(usage):
            yield from token_problems(usage, "usage", "prompt", "completion")

    def _done(self, data: str) -> Iterator[str]:
        if self._ended_by == DONE:
            yield f"second {DONE}, expected one"
            return
        if data != DONE:
            yield f"{len(data)} characters that begin with {DONE}, expected it alone"
        if not self._ended_by:
            yield from self._unfinished(DONE)
        self._ended_by = DONE

    def _unfinished(self, end: str) -> Iterator[str]:
        if not self._choices:
            yield f"{end} before any choice, expected one"
        for index, choice in self._choices.items():
            if not choice.finished:
                yield f"{end} before the finish_reason of choice {index}, expected it after"
