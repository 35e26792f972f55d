"""Reducers of tool calls: ids, namespaces and unfinished text, and calls that await the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.errors import ArgumentsError
from streamnorm._core.events import BlockStart, BlockStop, MessageStop, StreamError
from streamnorm._core.json import is_object
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm._core.losses.capabilities import Capabilities
from streamnorm._core.losses.loss import Losses
from streamnorm._core.text import TextBuffer, mint_id
from streamnorm.partial_json import decode_arguments


class ToolCalls:
    """Reduce the starts and stops of calls to what the target can carry.

    Args:
        capabilities: Capabilities of the target.
        losses: Counter of `duplicate_id`, `namespace` and `unfinished_call`.
    """

    _ids: set[tuple[int, str]] | None = None  # by choice; most messages have no call

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._target = capabilities
        self._losses = losses

    def start(self, event: BlockStart, call: ToolCall) -> BlockStart:
        """Return the start of a call, with an id that is unique within its choice."""
        if self._ids is None:
            self._ids = set()
        key = (event.choice, call.id)
        is_new = key not in self._ids
        has_place = call.namespace is None or self._target.namespaces
        if is_new and has_place:
            self._ids.add(key)
            return event
        # Clients match results by id, and providers refuse a history with an id twice.
        if not is_new:
            self._losses.add("duplicate_id", "tool call", "written with an id of its own")
            call = structs.replace(call, id=mint_id(*key, event.index))
        self._ids.add(key)
        if not has_place:
            self._losses.add("namespace", "tool call", "dropped")
            call = structs.replace(call, namespace=None)
        return structs.replace(event, block=call)

    def stop(self, event: BlockStop, *, is_wrapped: bool) -> BlockStop:
        """Return the stop of a block.

        Args:
            event: The stop.
            is_wrapped: Whether the block is free text in a JSON object, whose missing end shows
                that the text is unfinished.
        """
        if not event.is_unfinished or self._target.unfinished_calls:
            return event
        if not is_wrapped:
            self._losses.add("unfinished_call", "tool call", "written as if it were complete")
        return BlockStop(event.index)


def _always(fields: dict[str, Any]) -> bool:
    return True


def _outside_a_container(fields: dict[str, Any]) -> bool:
    environment = fields.get("environment")
    return not (is_object(environment) and environment.get("type") == "container_reference")


# Kinds of items that the client may have to execute, with a function from the fields of the item
# to whether it has to.
# https://platform.openai.com/docs/guides/tools (read 2026-11-23).
CLIENT_KINDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "apply_patch_call": _always,
    "computer_call": _always,
    "local_shell_call": _always,
    "mcp_approval_request": _always,
    "shell_call": _outside_a_container,
    "tool_search_call": lambda fields: fields.get("execution") == "client",
}


class _DroppedCall(Struct):
    """A call that the target has no form for.

    Attributes:
        call: Block of the call's start.
        choice: Number of its choice.
        arguments: Fields of the item as JSON, if the client may have to execute the call.
    """

    call: ServerToolCall
    choice: int
    arguments: TextBuffer | None


class DroppedCalls:
    """Find dropped calls that the answer waits for: without them the client would wait, too.

    Args:
        capabilities: Capabilities of the target.
        stored: Counter of the bytes of dropped calls.
    """

    def __init__(self, capabilities: Capabilities, stored: StoredBytes) -> None:
        self._target = capabilities
        self._stored = stored
        self._calls: dict[int, _DroppedCall] = {}
        self._answered: set[str] = set()  # ids of calls with a result in the same answer

    def drop(self, start: BlockStart) -> None:
        """Add a block that the target drops."""
        match start.block:
            case ServerToolCall(kind=kind, arguments=text) as call:
                is_client = kind in CLIENT_KINDS
                arguments = TextBuffer(text, self._stored) if is_client else None
                self._calls[start.index] = _DroppedCall(call, start.choice, arguments)
            case ServerToolResult(id):  # the provider executed the call, for example in a container
                self._stored.add(text_bytes(id))
                self._answered.add(id)
            case _:
                pass

    def append(self, index: int, text: str) -> None:
        """Append arguments of a dropped block."""
        dropped = self._calls.get(index)
        if dropped is not None and dropped.arguments is not None:
            dropped.arguments.append(text)

    def error(
        self, stop: MessageStop, *, is_cut_short: bool, says_nothing: bool
    ) -> StreamError | None:
        """Return the error to end an answer with; None if it waits for no dropped call.

        Args:
            stop: The first `MessageStop` of the source.
            is_cut_short: Whether its reason explains unexecuted calls of its choice.
            says_nothing: Whether the target shows nothing of its choice to the client.
        """
        # A client sends a paused answer back, and the provider executes its calls.  Without the
        # calls, the client would take an empty answer for a complete one.
        is_paused = stop.reason == "pause" and stop.reason not in self._target.stop_reasons
        for dropped in self._calls.values():
            # The stop reason shows the client that the answer is cut: it expects no call.
            if is_cut_short and dropped.choice == stop.choice:
                continue
            is_empty = is_paused and says_nothing and dropped.choice == stop.choice
            if self._waits(dropped, is_paused=is_empty):
                return self._lacking(dropped.call.kind)
        return None

    def _waits(self, dropped: _DroppedCall, *, is_paused: bool) -> bool:
        if dropped.arguments is None:
            return is_paused and dropped.call.id not in self._answered
        try:
            fields = decode_arguments(dropped.arguments.text())
        except ArgumentsError:  # incomplete fields name no condition
            fields = {}
        return CLIENT_KINDS[dropped.call.kind](fields) and (
            fields.get("call_id") not in self._answered
        )

    def _lacking(self, kind: str) -> StreamError:
        message = f"{kind} waits for the client, expected a call that {self._target.dialect} has"
        # The same request leads to the same answer, so a retry is useless.
        return StreamError("malformed", message, kind, 400, retryable=False)
