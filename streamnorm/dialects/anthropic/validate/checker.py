"""The letter of Anthropic Messages: which event may follow which, and what it must hold.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21), and
what the clients need: the official helpers append blocks as they start and look them
up by `index`; they, LangChain and others drop frames without an `event` line; Claude
Code forgets what a block starts with, and blocks that do not stop.

    stream  = ping* message_start (block | ping)* message_delta+ message_stop
            | ping* message_start, whole and with its stop_reason, message_stop
    block k = content_block_start(k) (delta(k) | ping)* content_block_stop(k)

An `error` may come anywhere, and is the last.  Types that the vendor does not document
are told, though it may add some: clients end the session at them.

Where the vendor leaves room, it is left here.  Thinking may be unsigned, since nobody
else can sign.  A tool without arguments may get no input.  Input that is no JSON object
is told unless the stop cut it short; tools that stream eagerly may end so too, but
nothing in a stream says that they do, and clients throw.  White space may be a block of
its own, which the vendor sends between cited texts, but not all the text of a message,
which the vendor refuses to read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import found, misnamed, parse_object, problems
from streamnorm.dialects.anthropic.validate.blocks import Blocks
from streamnorm.dialects.anthropic.validate.shapes import EVENTS
from streamnorm.sse import Frame

__all__ = ["AnthropicChecker"]

_ANYWHERE = frozenset({"ping", "error"})


class AnthropicChecker(Checker):
    """Check one stream."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._begun = False  # message_start came, or its lack was told
        self._started = False
        self._ending = False
        self._judged = False
        self._reason: str | None = None
        self._over = ""  # the event that ended the stream

    def read(self, frame: Frame) -> Iterator[str]:
        if self._over:
            yield f"frame after {self._over}, expected nothing"
            return
        event, wrong = parse_object(frame.data)
        yield from wrong
        kind = frame.event
        if event is not None:
            yield from misnamed(event, frame.event, EVENTS)
            if isinstance(event.get("type"), str):
                kind = event["type"]
            if kind in EVENTS:
                yield from problems(EVENTS[kind], event, "")
                yield from self._place(kind)
                yield from self._step(kind, event)
        self._begun = self._begun or kind == "message_start"
        if kind in ("message_stop", "error"):
            self._over = kind

    def missing(self) -> list[str]:
        if self._over:
            return []
        if not self._begun:
            return ["no message_start, expected it first"]
        lacking = list(self._blocks.left_open("the stream ends"))
        if self._reason is None:
            lacking.append("no stop_reason, expected a message_delta with one")
        return [*lacking, "no message_stop, expected it last"]

    def _place(self, kind: str) -> Iterator[str]:
        if not self._begun and kind != "message_start" and kind not in _ANYWHERE:
            self._begun = True
            yield f"{kind} comes first, expected message_start"
        if self._ending and kind.startswith("content_block"):
            yield f"{kind} after message_delta, expected message_stop"

    def _step(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
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
        if self._started:
            yield "second message_start, expected one"
            return
        self._started = True
        message = event.get("message")
        if not is_object(message):
            return
        content = message.get("content")
        blocks: list[object] = content if is_array(content) else []
        for number, block in enumerate(blocks):
            yield from self._blocks.whole(number, block)
        self._reason = _word(message.get("stop_reason"))
        if self._reason is not None and not blocks:
            yield "message.stop_reason without content, expected null"

    def _message_delta(self, event: dict[str, Any]) -> Iterator[str]:
        yield from self._blocks.left_open("message_delta")
        self._ending = True
        delta = event.get("delta")
        if not is_object(delta):
            self._reason = ""  # that there is none was told
            return
        reason, matched = delta.get("stop_reason"), delta.get("stop_sequence")
        self._reason = _word(reason)
        if self._reason is None:
            return
        if reason == "stop_sequence" and matched is None:
            yield "no delta.stop_sequence, expected the one that stop_reason says was met"
        if reason != "stop_sequence" and isinstance(matched, str):
            yield f"delta.stop_sequence is {found(matched)}, expected null by stop_reason"
        yield from self._judge()

    def _message_stop(self) -> Iterator[str]:
        yield from self._blocks.left_open("message_stop")
        if self._reason is None:
            yield "message_stop without a stop_reason, expected a message_delta with one"
        yield from self._judge()

    def _judge(self) -> Iterator[str]:
        """Check, once, what the reason of the stop decides."""
        if self._judged:
            return
        self._judged = True
        yield from self._blocks.judge(self._reason)
        if self._reason == "tool_use" and not self._blocks.client_tools:
            yield "stop_reason is tool_use without a tool_use block, expected another"
        if self._reason == "end_turn" and self._blocks.client_tools:
            yield "stop_reason is end_turn with a tool_use block, expected tool_use"


def _word(value: object) -> str | None:
    """Return a word; an empty one for a value of another kind, which was told already."""
    return value if value is None or isinstance(value, str) else ""
