"""Strict validator of Chat Completions streams: order of chunks and deltas, usage.

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

The fields are those of the types of the official SDKs (read 2026-11-21).  Other fields are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.codec import ANY, DONE, Checker, Order, OrderTable
from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import (
    COUNT,
    NAME,
    NULL_OR_TEXT,
    NUMBER,
    OBJECT,
    TEXT,
    Shape,
    array,
    changed_fields,
    found,
    is_count,
    nullable,
    object_of,
    parse_object,
    problems,
    token_problems,
    word,
)
from streamnorm.sse import Frame


def _counts(*names: str) -> Shape:
    """Return the shape of an object of optional token counts."""
    return object_of({}, dict.fromkeys(names, nullable(COUNT)))


_TOKEN = object_of(
    {"token": TEXT, "logprob": NUMBER},
    {"bytes": nullable(array(COUNT)), "top_logprobs": array(OBJECT)},
)
_LOGPROBS = object_of({}, {"content": nullable(array(_TOKEN)), "refusal": nullable(array(_TOKEN))})

# Tool calls are checked in `order`: their shape depends on earlier fragments.
_DELTA = object_of(
    {},
    {
        "content": NULL_OR_TEXT,
        "refusal": NULL_OR_TEXT,
        "tool_calls": array(OBJECT),
        "function_call": object_of({}, {"name": NAME, "arguments": TEXT}),
        "audio": object_of({}, {"id": TEXT, "data": TEXT, "transcript": TEXT, "expires_at": COUNT}),
    },
)

_CHOICE = object_of(
    {"index": COUNT, "delta": _DELTA},
    {
        "finish_reason": nullable(
            word("stop", "length", "tool_calls", "content_filter", "function_call")
        ),
        "logprobs": nullable(_LOGPROBS),
    },
)

_USAGE = object_of(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
    {
        "prompt_tokens_details": nullable(
            _counts(
                *("cached_tokens", "cache_write_tokens"),
                *("audio_tokens", "image_tokens", "text_tokens"),
            )
        ),
        "completion_tokens_details": nullable(
            _counts(
                *("reasoning_tokens", "audio_tokens", "text_tokens"),
                *("accepted_prediction_tokens", "rejected_prediction_tokens"),
            )
        ),
    },
)

CHUNK = object_of(
    {
        "id": TEXT,
        "object": word("chat.completion.chunk"),
        "created": COUNT,
        "model": TEXT,
        "choices": array(_CHOICE),
    },
    {
        "usage": nullable(_USAGE),
        "service_tier": NULL_OR_TEXT,
        "system_fingerprint": NULL_OR_TEXT,
        "obfuscation": NULL_OR_TEXT,
        "moderation": nullable(OBJECT),
    },
)
"""A chunk."""

FUNCTION_START = object_of(
    {
        "id": NAME,
        "type": word("function"),
        "function": object_of({"name": NAME, "arguments": TEXT}),
    }
)
"""The first fragment of a function call."""

CUSTOM_START = object_of({"id": NAME, "custom": object_of({"name": NAME, "input": TEXT})})
"""The first fragment of a custom tool call, which the vendor does not document."""

CALL_FRAGMENT = object_of(
    {},
    {
        "function": object_of({}, {"arguments": TEXT}),
        "custom": object_of({}, {"input": TEXT}),
    },
)
"""A further fragment of a tool call."""

ERROR = object_of(
    {
        "error": object_of(
            {"message": TEXT, "type": TEXT}, {"param": NULL_OR_TEXT, "code": NULL_OR_TEXT}
        )
    }
)
"""An error, sent instead of a chunk."""


_USAGE_IS_LAST = f"chunk after the usage chunk, expected {DONE}"
_STREAM: OrderTable = {
    "chunks": {"usage": "usage", "error": "failed", DONE: DONE},
    "usage": {"chunk": _USAGE_IS_LAST, "usage": _USAGE_IS_LAST, "error": "failed", DONE: DONE},
    "failed": {DONE: DONE, ANY: "frame after an error, expected nothing"},
    DONE: {DONE: f"second {DONE}, expected one", ANY: f"frame after {DONE}, expected nothing"},
}
_ENDED = ("failed", DONE)
_NO_ROLE = "first delta of choice {choice} without role, expected assistant"
_CHOICE_ORDER: OrderTable = {
    "begins": {"role": "open", "delta": ("open", _NO_ROLE), "finish_reason": "finished"},
    "open": {
        "role": "second role of choice {choice}, expected it in the first delta alone",
        "finish_reason": "finished",
    },
    "finished": {
        "finish_reason": "second finish_reason of choice {choice}, expected none",
        ANY: "delta after the finish_reason of choice {choice}, expected none",
    },
}

_CONSTANT = {"id": str, "created": int, "model": str}
# Fields of a delta that have rules here; clients merge the other fields.
_WITH_RULES = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
# Merged fields that a problem may name; names of other fields could hold a payload.
_NAMED = frozenset({"annotations", "audio", "reasoning_details"})
# Finish reasons at which calls have arguments; the others may cut them.
_COMPLETE = frozenset({"stop", "tool_calls", "function_call"})


class ChatChecker(Checker):
    """Strict validator of one Chat Completions stream."""

    rejects_id_and_retry = True

    def __init__(self) -> None:
        self._constants: dict[str, object] = {}  # fields with one value in all chunks
        self._choices: dict[int, ChoiceChecker] = {}
        self._next_choice = 0
        self._order = Order(_STREAM)

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data.startswith(DONE):
            yield from self._check_done(frame.data)
            return
        if self._order.state in _ENDED:
            yield from self._order.advance("frame")
            return
        chunk, wrong = parse_object(frame.data)
        yield from wrong
        if chunk is None:
            return
        if chunk.get("error"):
            yield from self._order.advance("error")
            yield from problems(ERROR, chunk, "")
            if "choices" in chunk:
                yield "error beside choices, expected it alone"
            return
        if frame.event != "message":
            yield "event line, expected data lines alone"
        yield from problems(CHUNK, chunk, "")
        yield from self._check_chunk(chunk)

    def missing(self) -> list[str]:
        if self._order.state in _ENDED:
            return []
        return [*self._check_unfinished("the stream ends"), f"no {DONE}, expected it last"]

    def _check_chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        choices = chunk.get("choices")
        entries: list[object] = choices if is_array(choices) else []
        is_usage = chunk.get("usage") is not None and not entries
        yield from self._order.advance("usage" if is_usage else "chunk")
        yield from changed_fields(self._constants, chunk, _CONSTANT)
        for number, entry in enumerate(entries):
            if is_object(entry) and is_count(entry.get("index")):
                yield from self._check_choice(entry["index"], entry, f"choices[{number}]")
        yield from self._check_usage(chunk, entries)

    def _check_choice(self, index: int, entry: dict[str, Any], path: str) -> Iterator[str]:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = ChoiceChecker(index)
            if index > self._next_choice:
                yield f"choice {index} begins, expected {self._next_choice}"
            self._next_choice = max(self._next_choice, index + 1)
        yield from choice.read(entry, path)

    def _check_usage(self, chunk: dict[str, Any], entries: list[object]) -> Iterator[str]:
        usage = chunk.get("usage")
        if usage is None:
            if chunk.get("choices") == [] and chunk.get("moderation") is None:
                yield "choices is empty without usage, expected a choice"
            return
        if entries:
            yield f"usage beside {len(entries)} choices, expected it in a last chunk without any"
        if is_object(usage):
            yield from token_problems(usage, "usage", "prompt", "completion")

    def _check_done(self, data: str) -> Iterator[str]:
        before = self._order.state
        yield from self._order.advance(DONE)
        if data != DONE and before != DONE:
            yield f"{len(data)} characters that begin with {DONE}, expected it alone"
        if before not in _ENDED:
            yield from self._check_unfinished(DONE)

    def _check_unfinished(self, end: str) -> Iterator[str]:
        if not self._choices:
            yield f"{end} before any choice, expected one"
        for index, choice in self._choices.items():
            if not choice.finished:
                yield f"{end} before the finish_reason of choice {index}, expected it after"


class _CheckedCall(Struct):
    is_custom: bool = False
    arguments: list[str] = field(default_factory=list)


class ChoiceChecker:
    """Strict validator of one choice of a stream.

    Args:
        index: Index of the choice.
    """

    def __init__(self, index: int) -> None:
        self._index = index
        self._order = Order(_CHOICE_ORDER, choice=index)
        self._calls: dict[int, _CheckedCall] = {}
        self._next_call = 0
        self._last_call = 0
        self._ids: set[str] = set()
        self._function: list[str] | None = None  # arguments of the legacy `function_call`
        self._seen: set[tuple[str | int, ...]] = set()  # paths of values that cannot be merged

    @property
    def finished(self) -> bool:
        """Whether the choice's `finish_reason` has arrived."""
        return self._order.state == "finished"

    def read(self, entry: dict[str, Any], path: str) -> Iterator[str]:
        """Yield the problems in a choice's next chunk, except wrong field names and types.

        Args:
            entry: The entry of `choices`.
            path: The path within the chunk.
        """
        delta, reason = entry.get("delta"), entry.get("finish_reason")
        finishes = reason not in (None, "")
        if self.finished:
            yield from self._order.advance("finish_reason" if finishes else "delta")
            return
        if is_object(delta):
            yield from self._check_role(delta)
            yield from self._check_function_call(delta.get("function_call"))
            if is_array(fragments := delta.get("tool_calls")):
                if finishes:
                    yield f"{path}.delta.tool_calls beside finish_reason, expected before it"
                for number, fragment in enumerate(fragments):
                    if is_object(fragment):
                        yield from self._check_fragment(
                            fragment, f"{path}.delta.tool_calls[{number}]"
                        )
            for name, value in delta.items():
                if name not in _WITH_RULES:
                    label = name if name in _NAMED else f"field of {len(name)} characters"
                    yield from self._check_merge(value, (name,), f"{label} in {path}.delta")
        if finishes:
            yield from self._order.advance("finish_reason")
            yield from self._check_finish(reason)

    def _check_role(self, delta: dict[str, Any]) -> Iterator[str]:
        is_first = self._order.state == "begins"
        yield from self._order.advance("role" if "role" in delta else "delta")
        if is_first and delta.get("role", "assistant") != "assistant":
            yield f"role of choice {self._index} is {found(delta['role'])}, expected assistant"

    def _check_fragment(self, fragment: dict[str, Any], path: str) -> Iterator[str]:
        index = fragment.get("index")
        if not is_count(index):
            value = found(index) if "index" in fragment else "missing"
            yield f"{path}.index is {value}, expected an integer from 0"
            # Go on with a guess, so that one mistake is one problem: an id begins a call.
            index = self._next_call if fragment.get("id") else self._last_call
        call = self._calls.get(index)
        self._last_call = index
        if call is None:
            yield from self._start_call(index, fragment, path)
            return
        body = fragment.get("custom" if call.is_custom else "function")
        repeated: list[str] = [name for name in ("id", "type") if name in fragment]
        if is_object(body) and "name" in body:
            repeated.append("name")
        for name in repeated:
            yield f"second {name} of tool call {index}, expected it in the first piece alone"
        yield from problems(CALL_FRAGMENT, fragment, path)
        _append(call, fragment)

    def _start_call(self, index: int, fragment: dict[str, Any], path: str) -> Iterator[str]:
        if index > self._next_call:
            yield f"tool call {index} begins, expected {self._next_call}"
        self._next_call = max(self._next_call, index + 1)
        is_custom = fragment.get("type") == "custom"
        call = self._calls[index] = _CheckedCall(is_custom)
        yield from problems(CUSTOM_START if is_custom else FUNCTION_START, fragment, path)
        id = fragment.get("id")
        if isinstance(id, str) and id:
            if id in self._ids:
                yield f"id of tool call {index} is that of another, expected its own"
            self._ids.add(id)
        _append(call, fragment)

    def _check_function_call(self, fragment: object) -> Iterator[str]:
        """Yield the problems of a fragment of the legacy `function_call`."""
        if not is_object(fragment):
            return
        if self._function is None:
            self._function = []
            for name in ("name", "arguments"):
                if name not in fragment:
                    yield f"function_call begins without {name}, expected a string"
        elif "name" in fragment:
            yield "second name of function_call, expected it in the first piece alone"
        if isinstance(text := fragment.get("arguments"), str):
            self._function.append(text)

    def _check_finish(self, reason: object) -> Iterator[str]:
        if reason == "tool_calls" and not self._calls:
            yield "finish_reason is tool_calls without a tool call, expected another"
        if reason == "function_call" and self._function is None:
            yield "finish_reason is function_call without one, expected another"
        if not isinstance(reason, str) or reason not in _COMPLETE:
            return
        calls = [(f"tool call {n}", c.arguments) for n, c in self._calls.items() if not c.is_custom]
        if self._function is not None:
            calls.append(("function_call", self._function))
        for name, arguments in calls:
            # The model wrote them, which are not always JSON (openai 3.57.0, documentation of
            # `Function.arguments`), and the SDK's helper parses those of strict tools alone.
            if not any(arguments):
                yield f"arguments of {name} in 0 characters are no JSON object, expected one"

    def _check_merge(self, value: object, path: tuple[str | int, ...], label: str) -> Iterator[str]:
        """Yield problems of values that the official SDK helpers cannot merge with earlier values.

        They join strings and merge objects; they add up numbers, and merge lists only if
        the entries have indexes.
        """
        if value is None or isinstance(value, str):
            return
        if is_object(value):
            for name, inner in value.items():
                if name not in ("index", "type"):
                    yield from self._check_merge(inner, (*path, name), label)
        elif is_array(value) and all(_has_index(entry) for entry in value):
            for entry in value:
                yield from self._check_merge(entry, (*path, entry["index"]), label)
        elif path in self._seen:
            yield f"{label} is {found(value)} again, expected strings or entries with an index"
        else:
            self._seen.add(path)


def _append(call: _CheckedCall, fragment: dict[str, Any]) -> None:
    function = fragment.get("function")
    if is_object(function) and isinstance(text := function.get("arguments"), str):
        call.arguments.append(text)


def _has_index(value: object) -> bool:
    return is_object(value) and is_count(value.get("index"))
