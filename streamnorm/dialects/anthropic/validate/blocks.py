"""Strict validator of content blocks: their order, deltas, and assembled content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.json import is_object, string_of
from streamnorm._core.shapes import holds_object, is_count
from streamnorm.dialects.anthropic.validate.shapes import BLOCKS, DELTAS, TOOLS

__all__ = ["BlockChecker"]

_DELTAS_OF = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "compaction": frozenset({"compaction_delta"}),
    **dict.fromkeys(TOOLS, frozenset({"input_json_delta"})),
}
_EMPTY_AT_START = {"text": ("text",), "thinking": ("thinking", "signature")}
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class _CheckedBlock(Struct):
    kind: str
    position: int  # in the order of starts
    has_text: bool = False
    is_blank: bool = True
    input: list[str] = field(default_factory=list)
    is_signed: bool = False


class BlockChecker:
    """Strict validator of the blocks of one message.

    Attributes:
        client_tools: Number of `tool_use` blocks.
    """

    def __init__(self) -> None:
        self.client_tools = 0
        self._count = 0  # of starts
        self._next_index = 0
        self._started: set[int] = set()
        self._open: dict[int, _CheckedBlock] = {}
        # Open blocks whose missing stop has not been reported.
        self._unreported: dict[int, None] = {}
        self._ids: set[str] = set()
        self._blank_index: int | None = None  # of a block of white space
        self._has_text = False
        self._bad_inputs: dict[int, tuple[int, int]] = {}  # position and size, by index

    def whole(self, index: int, block: object) -> Iterator[str]:
        """Yield the problems of a block in `message_start`, which has no events."""
        self._started.add(index)
        self._next_index = index + 1
        if not is_object(block):
            return
        kind = string_of(block, "type")
        yield from self._check_call(index, kind, block)
        text = block.get("text")
        if kind == "text" and isinstance(text, str):
            yield from self._check_text(index, text != "", not text.strip())

    def start(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_start` beyond its fields."""
        index = event["index"] if is_count(event.get("index")) else self._next_index
        # A lower index that is unused fills a gap, which was reported at the gap.
        if index > self._next_index or index in self._started:
            yield f"block {index} starts, expected {self._next_index}"
        yield from self.left_open("content_block_start")
        block = event.get("content_block")
        kind = ""
        if is_object(block):
            kind = string_of(block, "type")
            yield from self._check_call(index, kind, block)
            yield from self._check_empty(index, kind, block)
        self._open[index] = _CheckedBlock(kind, self._count)
        self._unreported[index] = None
        self._count += 1
        self._started.add(index)
        self._next_index = max(self._next_index, index + 1)

    def delta(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_delta` beyond its fields."""
        index = event.get("index")
        if not is_count(index):
            return
        block = self._open.get(index)
        if block is None:
            yield f"content_block_delta of block {index}, expected an open block"
            return
        delta = event.get("delta")
        kind = string_of(delta, "type") if is_object(delta) else ""
        if not is_object(delta) or kind not in DELTAS:
            return
        if block.kind in BLOCKS and kind not in _DELTAS_OF.get(block.kind, ()):
            yield f"{kind} in block {index}, expected a delta of {block.kind}"
            return
        if block.is_signed:
            yield f"{kind} of block {index} after its signature, expected content_block_stop"
        block.is_signed = block.is_signed or kind == "signature_delta"
        text = delta.get("text")
        if isinstance(text, str) and text:
            block.has_text = True
            block.is_blank = block.is_blank and not text.strip()
        if isinstance(fragment := delta.get("partial_json"), str):
            block.input.append(fragment)

    def stop(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_stop`, and of the text of its block."""
        index = event.get("index")
        if not is_count(index):
            return
        block = self._open.pop(index, None)
        self._unreported.pop(index, None)
        if block is None:
            yield f"content_block_stop of block {index}, expected an open block"
            return
        if block.kind == "text":
            yield from self._check_text(index, block.has_text, block.is_blank)
        text = "".join(block.input)
        if text and not holds_object(text):
            self._bad_inputs[index] = (block.position, len(text))

    def left_open(self, event: str) -> Iterator[str]:
        """Yield, once each, the blocks that should have stopped before `event`."""
        for index in self._unreported:
            yield f"{event} while block {index} is open, expected content_block_stop"
        self._unreported.clear()

    def check_message(self, stop_reason: str | None) -> Iterator[str]:
        """Yield the problems of blocks that depend on the stop reason or on other blocks."""
        for index, (position, size) in self._bad_inputs.items():
            # A limit or a refusal can only cut short the last block.
            if stop_reason not in _CUT_SHORT or position != self._count - 1:
                yield f"input of block {index} in {size} characters is no JSON object, expected one"
        if self._blank_index is not None and not self._has_text:
            yield f"block {self._blank_index} is white space, all the text there is, expected none"

    def _check_call(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Count a call, whose id must be one that the API accepts as input."""
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

    def _check_empty(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Yield content of the start that belongs in deltas."""
        for name in _EMPTY_AT_START.get(kind, ()):
            if isinstance(text := block.get(name), str) and text:
                yield f"block {index} starts with {name} of {len(text)} characters, expected none"
        if kind in TOOLS and is_object(value := block.get("input")) and value:
            caller = block.get("caller")
            # A call made by code has its input in the start.
            if not is_object(caller) or caller.get("type") == "direct":
                yield f"block {index} starts with input of {len(value)} keys, expected none"

    def _check_text(self, index: int, has_text: bool, is_blank: bool) -> Iterator[str]:
        if not has_text:
            yield f"block {index} is an empty text, expected text or no block"
        elif is_blank:
            self._blank_index = index
        else:
            self._has_text = True
