"""Steps that call tools, and the results of tools that the provider executed.

https://ai.google.dev/api/interactions-api (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.events import BlockStop, Event, JSONDelta, SignatureDelta
from streamnorm._core.failures import malformed
from streamnorm._core.json import InvalidJSON, clean, decode_any, is_array, is_json, string_of
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.gemini_interactions.blocks import (
    GrowingBlock,
    InteractionBlocks,
    OpenStep,
    signature_from_wire,
)
from streamnorm.dialects.gemini_interactions.wire import (
    ArgumentsFragment,
    Delta,
    replace_half_characters,
    unknown_fields,
)

FUNCTION_CALL = "function_call"
CALL_SUFFIX, RESULT_SUFFIX = "_call", "_result"
_MAPPED = ("type", "id", "name", "arguments")

_MAX_DEPTH = 128  # of arguments that are compared

_KIND_SUFFIX = "_step"
"""Suffix of the `kind` of server tool calls and results.

Kinds of other vendors end in `_call` and `_result`, too; the suffix keeps them apart.
"""


class _CallStep(OpenStep):
    """A call whose arguments arrive complete or in fragments."""

    _complete = ""  # complete arguments of a delta
    _id = _name = ""

    def __init__(
        self, kind: str, fields: dict[str, Any], arguments: str, blocks: InteractionBlocks
    ) -> None:
        super().__init__(kind, fields, arguments, blocks)
        self._fragments = TextBuffer()  # the arguments that arrived in fragments

    def append(self, delta: Delta, events: list[Event]) -> bool:
        block = self._block
        if block is None or block.carry or type(delta) is not ArgumentsFragment:
            return False
        if self._complete:
            return False
        if delta.arguments:
            self._store(delta.arguments)
            events.append(JSONDelta(block.index, delta.arguments))
        return True

    def _store(self, text: str) -> None:
        self._blocks.store_text(text)
        self._fragments.append(text)

    def _open(
        self, call: ToolCall | ServerToolCall, extra: dict[str, Any], events: list[Event]
    ) -> GrowingBlock:
        self._blocks.count_call(call.id, call.name)
        self._id, self._name = call.id, call.name
        index = self._blocks.start(call, extra, events)
        self._block = GrowingBlock(index, lambda text: JSONDelta(index, text))
        return self._block

    def _append_fragment(self, block: GrowingBlock, text: object, events: list[Event]) -> None:
        """Append a fragment of the arguments; all fragments together repeat a start's arguments."""
        if isinstance(text, str) and text:
            # Fragments behind whole arguments would be a second text of one call.
            if self._complete:
                raise malformed(f"{self.kind} goes on behind its arguments")
            self._store(block.append(text, events))

    def _append_complete(self, block: GrowingBlock, text: str, events: list[Event]) -> None:
        """Append complete arguments, which may repeat the start's arguments."""
        if not text:
            return
        # Google's own tools send their arguments as one object, in the start, in a delta, or in
        # both.
        if text == self._complete:
            self._blocks.note("resent_arguments", self.kind)
            return
        if self._complete or self._fragments.size:
            raise malformed(f"{self.kind} with arguments twice")
        self._blocks.store_text(text)
        self._complete = text
        events.append(JSONDelta(block.index, text))

    def _finish(self, block: GrowingBlock, events: list[Event]) -> str:
        """Append the stop of the call and return its arguments.

        The arguments of the start are emitted here, if no delta has repeated them.
        """
        if text := block.flush(events):
            self._store(text)
        arguments, in_start = self._complete or self._fragments.text(), self._start_arguments
        if in_start and not arguments:
            self._blocks.store_text(in_start)
            arguments = in_start
            events.append(JSONDelta(block.index, arguments))
        if in_start and not is_same(arguments, in_start):
            found = f"{self.kind} with other arguments than its start"
            raise malformed(found)
        events.append(BlockStop(block.index))
        self._blocks.calls_by_id[self._id] = self._name, arguments
        return arguments


class ToolCallStep(_CallStep):
    """A call of a client tool."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._fields, "name"):
            self._begin(self._fields, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        block = self._block
        if kind not in ("arguments_delta", FUNCTION_CALL):
            if kind != "thought_signature" or block is None:
                return False
            self._sign(block, delta, events)
        elif block is None:  # a delta of the former revision holds the complete call
            block = self._begin({**self._fields, **delta}, events)
        elif kind == FUNCTION_CALL:
            self._sign(block, delta, events)
        if kind == "arguments_delta":
            self._append_fragment(block, delta.get("arguments"), events)
        elif kind == FUNCTION_CALL:
            self._append_complete(block, arguments, events)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        block = self._block or self._begin(self._fields, events)
        if not (explicit or self._complete or self._fragments.size or self._start_arguments):
            # Neither arguments nor the stop of the step arrived: the call is unfinished.
            self._append_fragment(block, "{", events)
        arguments = self._finish(block, events)
        self._blocks.unfinished += bool(arguments) and not is_json(arguments)

    def _begin(self, fields: dict[str, Any], events: list[Event]) -> GrowingBlock:
        id, name = string_of(fields, "id"), string_of(fields, "name")
        if not name:
            raise malformed("function call without a name, expected one")
        signature = string_of(fields, "signature")
        # Some recorded calls start with `signature: ""`.
        signed = signature_from_wire(signature) if signature else None
        id = id or self._blocks.mint_id("tool call")
        self._blocks.name_call(id, name)
        self._blocks.unanswered[id] = name
        call = ToolCall(id, name)
        if signed is not None:
            call = structs.replace(call, signature=signed.signature, issuer=signed.issuer)
        return self._open(call, unknown_fields(fields, *_MAPPED, "signature"), events)

    def _sign(self, block: GrowingBlock, fields: dict[str, Any], events: list[Event]) -> None:
        signature = string_of(fields, "signature")
        if signature:
            events.append(SignatureDelta(block.index, *signature_from_wire(signature)))


class ServerToolCallStep(_CallStep):
    """A call of a tool that the provider executes."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._fields, "id"):
            self._begin(self._fields, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        if kind not in ("arguments_delta", self.kind):
            return False
        block = self._block
        if block is None:
            block = self._begin({**self._fields, **delta}, events)
        elif kind == self.kind and (rest := unknown_fields(delta, *_MAPPED)):
            self._blocks.add_opaque(kind, rest, events, index=block.index)
        if kind == "arguments_delta":
            self._append_fragment(block, delta.get("arguments"), events)
        else:
            self._append_complete(block, arguments, events)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        self._finish(self._block or self._begin(self._fields, events), events)

    def _begin(self, fields: dict[str, Any], events: list[Event]) -> GrowingBlock:
        id = string_of(fields, "id") or self._blocks.mint_id("server tool call")
        name = string_of(fields, "name") or clean(self.kind.removesuffix(CALL_SUFFIX))
        self._blocks.name_call(id, name)
        self._blocks.running.append(id)
        call = ServerToolCall(id, name, kind=clean(self.kind) + _KIND_SUFFIX)
        return self._open(call, unknown_fields(fields, *_MAPPED), events)


class ResultStep(OpenStep):
    """The result of a tool that the provider executed: one block, when the step stops."""

    def start(self, events: list[Event]) -> None:
        # `google_search_result` starts without its result, which a delta brings
        # (interactions/search-with-sources).
        self._result: dict[str, Any] = {}
        self._merge(self._fields)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        if kind != self.kind:
            return False
        self._merge(delta)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        id = string_of(self._result, "call_id")
        if self.kind == "function_result":
            id = self._answer_call(id, string_of(self._result, "name"))
        else:
            id = self._answer_server_call(id)
        self._blocks.check_names(id)
        result = ServerToolResult(id, clean(self.kind) + _KIND_SUFFIX, self._result)
        events.append(BlockStop(self._blocks.start(result, None, events)))

    def _answer_call(self, id: str, name: str) -> str:
        """Return the id of the client tool call that a result answers, and end its wait."""
        unanswered = self._blocks.unanswered
        if not id:
            id = next((known for known, tool in unanswered.items() if tool == name), "")
        unanswered.pop(id, None)
        return id

    def _answer_server_call(self, id: str) -> str:
        """Return the id of the server tool call that a result answers."""
        running = self._blocks.running
        if not id and len(running) > 1:
            found = f"result without an id after {len(running)} calls, expected one"
            raise malformed(found)
        id = id or next(iter(running), "")
        if id in running:
            running.remove(id)
        return id

    def _merge(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key == "type" or value is None or (value == "" and self._result.get(key)):
                continue
            before = self._result.get(key)
            if is_array(before) and is_array(value):
                before += value
            else:
                self._result[key] = replace_half_characters(
                    key, list(value) if is_array(value) else value
                )


def is_same(arguments: str, others: str) -> bool:
    """Return whether two arguments texts have the same JSON value."""
    # Start and deltas may differ in white space and in the order of keys.
    if arguments == others:
        return True
    texts = (text or "{}" for text in (arguments, others))
    try:
        one, other = (decode_any(text, max_depth=_MAX_DEPTH) for text in texts)
    except InvalidJSON:
        return False
    return bool(one == other)
