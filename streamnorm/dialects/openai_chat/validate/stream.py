"""The letter of Chat Completions: which chunk may follow which, and what it must hold.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21), and
what the official helpers need: they join what comes twice, look choices and tool calls
up by `index`, throw without a role or a finish_reason, and keep the last usage.

    stream   = chunk* usage? "[DONE]" | chunk* error "[DONE]"?
    choice n = role delta* finish_reason, n dense from 0; choices may interleave
    call k   = id, type, name, arguments, then arguments*, k dense from 0; calls may interleave

Frames have `data` lines alone, but that an error may say `event: error`.  `[DONE]` may
follow an error, after which no client reads.  A stop by `stop` may have tool calls,
which the vendor sends where a tool was forced.  Pieces of a custom tool, which the
vendor does not document, may come as its types suggest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import is_count, parse_object, problems
from streamnorm.dialects.openai_chat.validate.choice import Choice
from streamnorm.dialects.openai_chat.validate.shapes import CHUNK, ERROR
from streamnorm.sse import Frame

__all__ = ["ChatChecker"]

_DONE = "[DONE]"
_CONSTANT = {"id": str, "created": int, "model": str}


class ChatChecker(Checker):
    """Check one stream."""

    bare = True

    def __init__(self) -> None:
        self._latest: dict[str, object] = {}  # what should be the same in all chunks
        self._choices: dict[int, Choice] = {}
        self._next = 0
        self._has_usage = False
        self._over = ""  # what ended the stream

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data.startswith(_DONE):
            yield from self._done(frame.data)
            return
        if self._over:
            yield f"frame after {self._over}, expected nothing"
            return
        chunk, wrong = parse_object(frame.data)
        yield from wrong
        if chunk is None:
            return
        if chunk.get("error"):
            self._over = "an error"
            yield from problems(ERROR, chunk, "")
            if "choices" in chunk:
                yield "error beside choices, expected it alone"
            return
        if frame.event != "message":
            yield "event line, expected data lines alone"
        yield from problems(CHUNK, chunk, "")
        yield from self._chunk(chunk)

    def missing(self) -> list[str]:
        if self._over:
            return []
        return [*self._unfinished("the stream ends"), f"no {_DONE}, expected it last"]

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        if self._has_usage:
            yield f"chunk after the usage chunk, expected {_DONE}"
        for name, kind in _CONSTANT.items():
            value = chunk.get(name)
            if type(value) is kind:
                if self._latest.get(name, value) != value:
                    yield f"{name} is not that of the chunk before, expected one throughout"
                self._latest[name] = value
        choices = chunk.get("choices")
        parts: list[object] = choices if is_array(choices) else []
        for number, part in enumerate(parts):
            if is_object(part) and is_count(part.get("index")):
                yield from self._choice(part["index"], part, f"choices[{number}]")
        yield from self._usage(chunk, parts)

    def _choice(self, index: int, part: dict[str, Any], where: str) -> Iterator[str]:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index)
            if index > self._next:
                yield f"choice {index} begins, expected {self._next}"
            self._next = max(self._next, index + 1)
        yield from choice.read(part, where)

    def _usage(self, chunk: dict[str, Any], parts: list[object]) -> Iterator[str]:
        usage = chunk.get("usage")
        if usage is None:
            if chunk.get("choices") == [] and chunk.get("moderation") is None:
                yield "choices is empty without usage, expected a choice"
            return
        if parts:
            yield f"usage beside {len(parts)} choices, expected it in a last chunk without any"
        else:
            self._has_usage = True
        if is_object(usage):
            yield from _check_counts(usage)

    def _done(self, data: str) -> Iterator[str]:
        if self._over == _DONE:
            yield f"second {_DONE}, expected one"
            return
        if data != _DONE:
            yield f"{len(data)} characters that begin with {_DONE}, expected it alone"
        if not self._over:
            yield from self._unfinished(_DONE)
        self._over = _DONE

    def _unfinished(self, what: str) -> Iterator[str]:
        if not self._choices:
            yield f"{what} before any choice, expected one"
        for index, choice in self._choices.items():
            if not choice.finished:
                yield f"{what} before the finish_reason of choice {index}, expected it after"


def _check_counts(usage: dict[str, Any]) -> Iterator[str]:
    """Yield which counts contradict each other."""
    prompt, completion, total = (
        usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total")
    )
    if is_count(prompt) and is_count(completion) and is_count(total):
        wanted = prompt + completion
        if total != wanted:
            yield f"usage.total_tokens is {total}, expected {wanted}"
    parts = [
        (prompt, "prompt", ("cached_tokens", "cache_write_tokens")),
        (completion, "completion", ("reasoning_tokens",)),
    ]
    for whole, name, fields in parts:
        details = usage.get(f"{name}_tokens_details")
        counts = [details.get(field) for field in fields] if is_object(details) else []
        part = sum(count for count in counts if is_count(count))
        if is_count(whole) and part > whole:
            yield f"usage.{name}_tokens_details has {part} tokens, expected at most {whole}"
