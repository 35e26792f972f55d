"""Strict validator of Anthropic Messages streams: the order of events, and their fields.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21), and the
needs of clients: the official helpers append blocks as they start and look them up by
`index`; they, LangChain and others drop frames without an `event` line; Claude Code ignores
text and input in the start of a block, and blocks that do not stop.

    stream  = ping* message_start (block | ping)* message_delta+ message_stop
            | ping* message_start, whole and with its stop_reason, message_stop
    block k = content_block_start(k) (delta(k) | ping)* content_block_stop(k)

An `error` may come anywhere and ends the stream.  Undocumented types are violations, even
though the vendor may add types: clients end the session at them.

Four things that the vendor leaves open are legal.  Thinking may be unsigned, since only
the vendor can sign.  A tool without arguments may have no input.  Input may be incomplete
JSON if the stop reason explains it; tools that stream eagerly may end so as well, but
nothing in the stream marks them, and clients raise.  White space may be a block of its own,
as between cited texts, unless it is all the text of a message, which the API rejects as input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import found, misnamed, parse_object, problems
from streamnorm.dialects.anthropic.validate.blocks import BlockChecker
from streamnorm.dialects.anthropic.validate.shapes import EVENTS
from streamnorm.sse import Frame

__all__ = ["AnthropicChecker"]

_ANYWHERE = frozenset({"ping", "error"})


class AnthropicChecker(Checker):
    """Strict validator of one Messages stream."""

    def __init__(self) -> None:
        self._blocks = BlockChecker()
        self._has_begun = False  # message_start has arrived, or its absence was reported
        self._has_message = False
        self._is_ending = False  # message_delta has arrived
        self._stop_is_checked = False
        self._stop_reason: str | None = None  # "" if it is of the wrong type
        self._terminal = ""  # type of the event that ended the stream

    def read(self, frame: Frame) -> Iterator[str]:
        if self._terminal:
            yield f"frame after {self._terminal}, expected nothing"
            return
        event, parse_problems = parse_object(frame.data)
        yield from parse_problems
        kind = frame.event
        if event is not None:
            yield from misnamed(event, frame.event, EVENTS)
            if isinstance(event.get("type"), str):
                kind = event["type"]
            if kind in EVENTS:
                yield from problems(EVENTS[kind], event, "")
                yield from self._check_order(kind)
                yield from self._check_event(kind, event)
        self._has_begun = self._has_begun or kind == "message_start"
        if kind in ("message_stop", "error"):
            self._terminal = kind

    def missing(self) -> list[str]:
        if self._terminal:
            return []
        if not self._has_begun:
            return ["no message_start, expected it first"]
        missing = list(self._blocks.left_open("the stream ends"))
        if self._stop_reason is None:
            missing.append("no stop_reason, expected a message_delta with one")
        return [*missing, "no message_stop, expected it last"]

    def _check_order(self, kind: str) -> Iterator[str]:
        if not self._has_begun and kind != "message_start" and kind not in _ANYWHERE:
            self._has_begun = True
            yield f"{kind} comes first, expected message_start"
        if self._is_ending and kind.startswith("content_block"):
            yield f"{kind} after message_delta, expected message_stop"

    def _check_event(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
        match kind:
            case "content_block_delta":
                yield from self._blocks.delta(event)
            case "content_block_start":
                yield from self._blocks.start(event)
            case "content_block_stop":
                yield from self._blocks.stop(event)
            case "message_start":
                yield from self._message_start(event)
            case "message_delta":
                yield from self._message_delta(event)
            case "message_stop":
                yield from self._message_stop()
            case _:
                return

    def _message_start(self, event: dict[str, Any]) -> Iterator[str]:
        if self._has_message:
            yield "second message_start, expected one"
            return
        self._has_message = True
        message = event.get("message")
        if not is_object(message):
            return
        content = message.get("content")
        blocks: list[object] = content if is_array(content) else []
        for index, block in enumerate(blocks):
            yield from self._blocks.whole(index, block)
        self._stop_reason = _string_or_none(message.get("stop_reason"))
        if self._stop_reason is not None and not blocks:
            yield "message.stop_reason without content, expected null"

    def _message_delta(self, event: dict[str, Any]) -> Iterator[str]:
        yield from self._blocks.left_open("message_delta")
        self._is_ending = True
        delta = event.get("delta")
        if not is_object(delta):
            self._stop_reason = ""  # reported by `problems`
            return
        reason, matched = delta.get("stop_reason"), delta.get("stop_sequence")
        self._stop_reason = _string_or_none(reason)
        if self._stop_reason is None:
            return
        if reason == "stop_sequence" and matched is None:
            yield "no delta.stop_sequence, expected the one that stop_reason says was met"
        if reason != "stop_sequence" and isinstance(matched, str):
            yield f"delta.stop_sequence is {found(matched)}, expected null by stop_reason"
        yield from self._check_stop()

    def _message_stop(self) -> Iterator[str]:
        yield from self._blocks.left_open("message_stop")
        if self._stop_reason is None:
            yield "message_stop without a stop_reason, expected a message_delta with one"
        yield from self._check_stop()

    def _check_stop(self) -> Iterator[str]:
        """Yield, once, the conflicts between the stop reason and the blocks."""
        if self._stop_is_checked:
            return
        self._stop_is_checked = True
        yield from self._blocks.check_message(self._stop_reason)
        if self._stop_reason == "tool_use" and not self._blocks.client_tools:
            yield "stop_reason is tool_use without a tool_use block, expected another"
        if self._stop_reason == "end_turn" and self._blocks.client_tools:
            yield "stop_reason is end_turn with a tool_use block, expected tool_use"


def _string_or_none(value: object) -> str | None:
    """Return a string or None as it is; "" for another type, which `problems` reports."""
    return value if value is None or isinstance(value, str) else ""
