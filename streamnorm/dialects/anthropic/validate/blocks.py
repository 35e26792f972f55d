"""The letter of content blocks: their order, their deltas, and what they add up to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.json import is_object
from streamnorm._core.shapes import holds_object, is_count
from streamnorm.dialects.anthropic.validate.shapes import BLOCKS, DELTAS, TOOLS

__all__ = ["Blocks"]

_TAKES = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "compaction": frozenset({"compaction_delta"}),
    **dict.fromkeys(TOOLS, frozenset({"input_json_delta"})),
}
_EMPTY_AT_START = {"text": ("text",), "thinking": ("thinking", "signature")}
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class _Block(Struct):
    kind: str
    number: int  # in order of start
    has_text: bool = False
    is_blank: bool = True
    pieces: list[str] = field(default_factory=list)
    signed: bool = False


class Blocks:
    """The blocks of one message.

    Attributes:
        client_tools: How many calls there are that the client is to run.
    """

    def __init__(self) -> None:
        self.client_tools = 0
        self._count = 0  # of those that started
        self._next = 0
        self._started: set[int] = set()
        self._open: dict[int, _Block] = {}
        self._untold: dict[int, None] = {}  # open blocks, the lack of whose stop is not told
        self._ids: set[str] = set()
        self._blank: int | None = None  # a block of white space alone
        self._has_text = False
        self._bad_inputs: dict[int, tuple[int, int]] = {}  # number and size, by index

    def whole(self, number: int, block: object) -> Iterator[str]:
        """Yield what is wrong with a block of `message_start`, which has no events."""
        self._started.add(number)
        self._next = number + 1
        if not is_object(block):
            return
        kind = _type_of(block)
        yield from self._identify(number, kind, block)
        text = block.get("text")
        if kind == "text" and isinstance(text, str):
            yield from self._judge_text(number, text != "", not text.strip())

    def start(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the place of a block, and with what it starts with."""
        index = event["index"] if is_count(event.get("index")) else self._next
        if index > self._next or index in self._started:  # one below fills the gap that was told
            yield f"block {index} starts, expected {self._next}"
        yield from self.left_open("content_block_start")
        block = event.get("content_block")
        kind = ""
        if is_object(block):
            kind = _type_of(block)
            yield from self._identify(index, kind, block)
            yield from self._filled(index, kind, block)
        self._open[index] = _Block(kind, self._count)
        self._untold[index] = None
        self._count += 1
        self._started.add(index)
        self._next = max(self._next, index + 1)

    def delta(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the place of a delta."""
        index = event.get("index")
        if not is_count(index):
            return
        block = self._open.get(index)
        if block is None:
            yield f"content_block_delta of block {index}, expected an open block"
            return
        delta = event.get("delta")
        kind = _type_of(delta) if is_object(delta) else ""
        if not is_object(delta) or kind not in DELTAS:
            return
        if block.kind in BLOCKS and kind not in _TAKES.get(block.kind, ()):
            yield f"{kind} in block {index}, expected a delta of {block.kind}"
            return
        if block.signed:
            yield f"{kind} of block {index} after its signature, expected content_block_stop"
        block.signed = block.signed or kind == "signature_delta"
        text = delta.get("text")
        if isinstance(text, str) and text:
            block.has_text = True
            block.is_blank = block.is_blank and not text.strip()
        if isinstance(piece := delta.get("partial_json"), str):
            block.pieces.append(piece)

    def stop(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a block that stops."""
        index = event.get("index")
        if not is_count(index):
            return
        block = self._open.pop(index, None)
        self._untold.pop(index, None)
        if block is None:
            yield f"content_block_stop of block {index}, expected an open block"
            return
        if block.kind == "text":
            yield from self._judge_text(index, block.has_text, block.is_blank)
        text = "".join(block.pieces)
        if text and not holds_object(text):
            self._bad_inputs[index] = (block.number, len(text))

    def left_open(self, what: str) -> Iterator[str]:
        """Yield the blocks that should have stopped before something, each once."""
        for index in self._untold:
            yield f"{what} while block {index} is open, expected content_block_stop"
        self._untold.clear()

    def judge(self, reason: str | None) -> Iterator[str]:
        """Yield what only the reason of the stop shows to be wrong."""
        for index, (number, size) in self._bad_inputs.items():
            # Tokens run out, or the vendor steps in, within the last block.
            if reason not in _CUT_SHORT or number != self._count - 1:
                yield f"input of block {index} in {size} characters is no JSON object, expected one"
        if self._blank is not None and not self._has_text:
            yield f"block {self._blank} is white space, all the text there is, expected none"

    def _identify(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Note a call; its id must be one that the API takes back."""
        if kind not in TOOLS:
            return
        self.client_tools += kind == "tool_use"
        id = block.get("id")
        if not isinstance(id, str) or not id:
            return
        if not _TOOL_ID.fullmatch(id):
            yield f"id of block {index} in {len(id)} characters, expected letters, digits, _ and -"
        if id in self._ids:
            yield f"id of block {index} is that of another, expected its own"
        self._ids.add(id)

    def _filled(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Yield what a block should have left to its deltas."""
        for name in _EMPTY_AT_START.get(kind, ()):
            if isinstance(text := block.get(name), str) and text:
                yield f"block {index} starts with {name} of {len(text)} characters, expected none"
        if kind in TOOLS and is_object(value := block.get("input")) and value:
            caller = block.get("caller")
            # What code calls comes whole.
            if not is_object(caller) or caller.get("type") == "direct":
                yield f"block {index} starts with input of {len(value)} keys, expected none"

    def _judge_text(self, index: int, has_text: bool, is_blank: bool) -> Iterator[str]:
        if not has_text:
            yield f"block {index} is an empty text, expected text or no block"
        elif is_blank:
            self._blank = index
        else:
            self._has_text = True


def _type_of(value: dict[str, Any]) -> str:
    tag = value.get("type")
    return tag if isinstance(tag, str) else ""
