"""Strict validator of Anthropic Messages streams: order and fields of events.

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

The fields are those of the types of the official SDKs, including beta types (read 2026-11-21).
Additional fields are legal: the vendor adds some from time to time, and all clients ignore them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.codec import ANY, Checker, Order, OrderTable
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm._core.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    NULL_OR_TEXT,
    OBJECT,
    TEXT,
    Shape,
    array,
    either,
    found,
    holds_object,
    is_count,
    misnamed,
    nullable,
    object_of,
    parse_object,
    problems,
    tagged,
    word,
)
from streamnorm.sse import Frame

_NULL_OR_COUNT = nullable(COUNT)
_NULL_OR_OBJECT = nullable(OBJECT)

STOP_REASON = word(
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
)

_USAGE_PARTS = {
    "cache_creation_input_tokens": _NULL_OR_COUNT,
    "cache_read_input_tokens": _NULL_OR_COUNT,
    "cache_creation": nullable(
        object_of({"ephemeral_5m_input_tokens": COUNT, "ephemeral_1h_input_tokens": COUNT})
    ),
    "server_tool_use": nullable(
        object_of({}, {"web_search_requests": COUNT, "web_fetch_requests": COUNT})
    ),
    "output_tokens_details": nullable(object_of({"thinking_tokens": COUNT})),
    "iterations": nullable(array(OBJECT)),
    "service_tier": NULL_OR_TEXT,
    "inference_geo": NULL_OR_TEXT,
    "speed": NULL_OR_TEXT,
}

_FROM_CODE = object_of({"tool_id": TEXT})
_CALLER = nullable(
    tagged(
        {
            "direct": OBJECT,
            "code_execution_20250825": _FROM_CODE,
            "code_execution_20260120": _FROM_CODE,
            "code_execution_20260521": _FROM_CODE,
        }
    )
)

_CITED = {"cited_text": TEXT}
_DOCUMENT = {"document_title": NULL_OR_TEXT, "file_id": NULL_OR_TEXT}


def _in_document(start: str, end: str) -> Shape:
    return object_of({**_CITED, "document_index": COUNT, start: COUNT, end: COUNT}, _DOCUMENT)


CITATION = tagged(
    {
        "char_location": _in_document("start_char_index", "end_char_index"),
        "page_location": _in_document("start_page_number", "end_page_number"),
        "content_block_location": _in_document("start_block_index", "end_block_index"),
        "web_search_result_location": object_of(
            {**_CITED, "url": TEXT, "encrypted_index": TEXT}, {"title": NULL_OR_TEXT}
        ),
        "search_result_location": object_of(
            {
                **_CITED,
                "source": TEXT,
                "search_result_index": COUNT,
                "start_block_index": COUNT,
                "end_block_index": COUNT,
            },
            {"title": NULL_OR_TEXT},
        ),
    }
)

TOOLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that have an input."""


def _result(content: Shape = OBJECT) -> Shape:
    return object_of({"tool_use_id": NAME, "content": content}, {"caller": _CALLER})


def _tool(**fields: Shape) -> Shape:
    return object_of({"id": NAME, "name": NAME, "input": OBJECT, **fields}, {"caller": _CALLER})


_TEXT_BLOCK = object_of({"text": TEXT}, {"citations": nullable(array(CITATION))})

BLOCKS = {
    "text": _TEXT_BLOCK,
    "thinking": object_of({"thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": object_of({"data": TEXT}),
    "tool_use": _tool(),
    "server_tool_use": _tool(),
    "web_search_tool_result": _result(either(ARRAY, OBJECT)),
    "web_fetch_tool_result": _result(),
    "code_execution_tool_result": _result(),
    "bash_code_execution_tool_result": _result(),
    "text_editor_code_execution_tool_result": _result(),
    "tool_search_tool_result": _result(),
    "container_upload": object_of({"file_id": TEXT}),
    "mcp_tool_use": _tool(server_name=TEXT),
    "mcp_tool_result": object_of(
        {"tool_use_id": NAME, "is_error": BOOLEAN, "content": either(TEXT, ARRAY)}
    ),
    "mcp_tool_listing": object_of({"mcp_server_name": TEXT, "tools": ARRAY}),
    "compaction": object_of(
        {},
        {
            "content": NULL_OR_TEXT,
            "encrypted_content": NULL_OR_TEXT,
            "signature": NULL_OR_TEXT,
            "tool_changes": nullable(ARRAY),
        },
    ),
    "advisor_tool_result": _result(),
    "fallback": object_of(
        {"from": object_of({"model": TEXT}), "to": object_of({"model": TEXT}), "trigger": OBJECT}
    ),
}
"""Blocks by type."""

BLOCK = tagged(BLOCKS)

DELTAS = {
    "text_delta": object_of({"text": TEXT}),
    "input_json_delta": object_of({"partial_json": TEXT}),
    "thinking_delta": object_of({"thinking": TEXT}, {"estimated_tokens": _NULL_OR_COUNT}),
    "signature_delta": object_of({"signature": TEXT}),
    "citations_delta": object_of({"citation": CITATION}),
    "compaction_delta": object_of({}, {"content": NULL_OR_TEXT, "encrypted_content": NULL_OR_TEXT}),
}
"""Deltas by type."""

_CONTAINER = nullable(object_of({"id": TEXT, "expires_at": TEXT}))

_MESSAGE = object_of(
    {
        "id": TEXT,
        "type": word("message"),
        "role": word("assistant"),
        "model": TEXT,
        "content": array(BLOCK),
        "usage": object_of({"input_tokens": COUNT, "output_tokens": COUNT}, _USAGE_PARTS),
    },
    {
        "stop_reason": nullable(STOP_REASON),
        "stop_sequence": NULL_OR_TEXT,
        "stop_details": _NULL_OR_OBJECT,
        "container": _CONTAINER,
        "diagnostics": _NULL_OR_OBJECT,
        "context_management": _NULL_OR_OBJECT,
    },
)

_ENDING = object_of(
    {},
    {
        "stop_reason": nullable(STOP_REASON),
        "stop_sequence": NULL_OR_TEXT,
        "stop_details": _NULL_OR_OBJECT,
        "container": _CONTAINER,
    },
)

_ERROR = object_of(
    {
        "type": word(
            "invalid_request_error",
            "authentication_error",
            "billing_error",
            "permission_error",
            "not_found_error",
            "conflict_error",
            "request_too_large",
            "rate_limit_error",
            "timeout_error",
            "api_error",
            "overloaded_error",
        ),
        "message": TEXT,
    },
    {"details": _NULL_OR_OBJECT},
)

EVENTS = {
    "message_start": object_of({"message": _MESSAGE}),
    "content_block_start": object_of({"index": COUNT, "content_block": BLOCK}),
    "content_block_delta": object_of({"index": COUNT, "delta": tagged(DELTAS)}),
    "content_block_stop": object_of({"index": COUNT}),
    "message_delta": object_of(
        {
            "delta": _ENDING,
            "usage": object_of(
                {"output_tokens": COUNT}, {"input_tokens": _NULL_OR_COUNT, **_USAGE_PARTS}
            ),
        },
        {"context_management": _NULL_OR_OBJECT},
    ),
    "message_stop": ANYTHING,
    "ping": ANYTHING,
    "error": object_of({"error": _ERROR}, {"request_id": NULL_OR_TEXT}),
}
"""Events by type."""


_BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
_FIRST = "{event} comes first, expected message_start"
_SECOND = "second message_start, expected one"
_LATE = "{event} after message_delta, expected message_stop"
_ENDS = {"message_stop": "message_stop", "error": "error"}
_ORDER: OrderTable = {
    "nothing": {
        "message_start": "message",
        "unreadable message_start": "headless",
        **dict.fromkeys(_BLOCK_EVENTS, ("headless", _FIRST)),
        "message_delta": ("headless end", _FIRST),
        "message_stop": ("message_stop", _FIRST),
        "error": "error",
    },
    # The absence of the start was reported: it may still come.
    "headless": {"message_start": "message", "message_delta": "headless end", **_ENDS},
    "headless end": {"message_start": "end", **_ENDS, **dict.fromkeys(_BLOCK_EVENTS, _LATE)},
    "message": {"message_start": _SECOND, "message_delta": "end", **_ENDS},
    "end": {"message_start": _SECOND, **_ENDS, **dict.fromkeys(_BLOCK_EVENTS, _LATE)},
    "message_stop": {ANY: "frame after message_stop, expected nothing"},
    "error": {ANY: "frame after error, expected nothing"},
}
_DELTAS_OF = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "compaction": frozenset({"compaction_delta"}),
    **dict.fromkeys(TOOLS, frozenset({"input_json_delta"})),
}
_EMPTY_AT_START = {"text": ("text",), "thinking": ("thinking", "signature")}
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class AnthropicChecker(Checker):
    """Strict validator of one Messages stream."""

    def __init__(self) -> None:
        self._blocks = BlockChecker()
        self._order = Order(_ORDER)
        self._stop_is_checked = False
        self._stop_reason: str | None = None  # "" if it is of the wrong type

    def read(self, frame: Frame) -> Iterator[str]:
        if self._order.state in _ENDS:
            yield from self._order.advance(frame.event)
            return
        event, parse_problems = parse_object(frame.data)
        yield from parse_problems
        kind = frame.event
        if event is None:  # one problem is enough, whatever the order
            list(self._order.advance(kind if kind in _ENDS else f"unreadable {kind}"))
            return
        yield from misnamed(event, kind, EVENTS)
        if isinstance(event.get("type"), str):
            kind = event["type"]
        if kind in EVENTS:
            yield from problems(EVENTS[kind], event, "")
            out_of_order = list(self._order.advance(kind))
            yield from out_of_order
            if _SECOND not in out_of_order:
                yield from self._check_event(kind, event)

    def missing(self) -> list[str]:
        if self._order.state in _ENDS:
            return []
        if self._order.state == "nothing":
            return ["no message_start, expected it first"]
        missing = list(self._blocks.report_open("the stream ends"))
        if self._stop_reason is None:
            missing.append("no stop_reason, expected a message_delta with one")
        return [*missing, "no message_stop, expected it last"]

    def _check_event(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
        match kind:
            case "content_block_delta":
                yield from self._blocks.check_delta(event)
            case "content_block_start":
                yield from self._blocks.check_start(event)
            case "content_block_stop":
                yield from self._blocks.check_stop(event)
            case "message_start":
                yield from self._check_message_start(event)
            case "message_delta":
                yield from self._check_message_delta(event)
            case "message_stop":
                yield from self._check_message_stop()
            case _:
                return

    def _check_message_start(self, event: dict[str, Any]) -> Iterator[str]:
        message = event.get("message")
        if not is_object(message):
            return
        content = message.get("content")
        blocks: list[object] = content if is_array(content) else []
        for index, block in enumerate(blocks):
            yield from self._blocks.check_complete(index, block)
        self._stop_reason = _string_or_none(message.get("stop_reason"))
        if self._stop_reason is not None and not blocks:
            yield "message.stop_reason without content, expected null"

    def _check_message_delta(self, event: dict[str, Any]) -> Iterator[str]:
        yield from self._blocks.report_open("message_delta")
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

    def _check_message_stop(self) -> Iterator[str]:
        yield from self._blocks.report_open("message_stop")
        if self._stop_reason is None:
            yield "message_stop without a stop_reason, expected a message_delta with one"
        yield from self._check_stop()

    def _check_stop(self) -> Iterator[str]:
        """Yield the conflicts between stop reason and blocks, once."""
        if self._stop_is_checked:
            return
        self._stop_is_checked = True
        yield from self._blocks.check_message(self._stop_reason)
        if self._stop_reason == "tool_use" and not self._blocks.client_tools:
            yield "stop_reason is tool_use without a tool_use block, expected another"
        if self._stop_reason == "end_turn" and self._blocks.client_tools:
            yield "stop_reason is end_turn with a tool_use block, expected tool_use"


def _string_or_none(value: object) -> str | None:
    """Return a string or None unchanged; "" for other types."""
    return value if value is None or isinstance(value, str) else ""


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
        self._count = 0  # number of starts
        self._next_index = 0
        self._started: set[int] = set()
        self._open: dict[int, _CheckedBlock] = {}
        # Open blocks whose missing stop has not been reported.
        self._unreported: dict[int, None] = {}
        self._ids_of: set[str] = set()
        self._blank_index: int | None = None  # index of a block of white space
        self._has_text = False
        self._bad_inputs: dict[int, tuple[int, int]] = {}  # position and size, by index

    def check_complete(self, index: int, block: object) -> Iterator[str]:
        """Yield the problems of a complete block in `message_start`."""
        self._started.add(index)
        self._next_index = index + 1
        if not is_object(block):
            return
        kind = string_of(block, "type")
        yield from self._check_call(index, kind, block)
        text = block.get("text")
        if kind == "text" and isinstance(text, str):
            yield from self._check_text(index, text != "", not text.strip())

    def check_start(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_start` that a check of fields does not find."""
        index = event["index"] if is_count(event.get("index")) else self._next_index
        # A lower, unused index fills a gap, which has been reported.
        if index > self._next_index or index in self._started:
            yield f"block {index} starts, expected {self._next_index}"
        yield from self.report_open("content_block_start")
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

    def check_delta(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_delta` that a check of fields does not find."""
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

    def check_stop(self, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `content_block_stop` and of its block's text."""
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

    def report_open(self, event: str) -> Iterator[str]:
        """Yield each block that should have stopped before `event`, once."""
        for index in self._unreported:
            yield f"{event} while block {index} is open, expected content_block_stop"
        self._unreported.clear()

    def check_message(self, stop_reason: str | None) -> Iterator[str]:
        """Yield the block problems that can be judged only at the end of the message."""
        for index, (position, size) in self._bad_inputs.items():
            # A limit or a refusal can only cut short the last block.
            if stop_reason not in _CUT_SHORT or position != self._count - 1:
                yield f"input of block {index} in {size} characters is no JSON object, expected one"
        if self._blank_index is not None and not self._has_text:
            yield f"block {self._blank_index} is white space, all the text there is, expected none"

    def _check_call(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Count a tool call, and yield the problems of its id."""
        if kind not in TOOLS:
            return
        self.client_tools += kind == "tool_use"
        id = block.get("id")
        if not isinstance(id, str) or not id:
            return
        if not _TOOL_ID.fullmatch(id):
            yield f"id of block {index} in {len(id)} characters, expected letters, digits, _ and -"
        if id in self._ids_of:
            yield f"id of block {index} is that of another, expected its own"
        self._ids_of.add(id)

    def _check_empty(self, index: int, kind: str, block: dict[str, Any]) -> Iterator[str]:
        """Yield a problem for each non-empty text or input in a block's start."""
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
