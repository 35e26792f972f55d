"""Tool calls that an agent executes, left out for targets without a place for their results.

The stream of a page goes on after a tool was executed, with its result and the next answer, or
ends where a person is asked at the page whether a tool may be executed.  The client of a
provider's dialect executes every call that it reads: a second time, or without asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    Block,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    ToolResult,
)
from streamnorm._core.events import (
    BlockStart,
    Delta,
    Event,
    JSONDelta,
    MessageStop,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
)
from streamnorm._core.grammar import HeldDeltas, TextualDelta, event_bytes
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm._core.open_calls import provider_results

_Items: TypeAlias = list[Event | HeldDeltas]

# A message that asks its client to execute calls ends with `tool_use`, or is cut short.
_ASKS_NO_CLIENT = ("end_turn", "pause")


class ExecutedCalls:
    """Leave out executed calls and their results, and calls that await approval at the page.

    A page shows calls that a provider has executed as the provider's: it would execute any other.

    Only the result shows that a call was executed, and only the stop reason that the client of
    an agent is not asked to execute the others.  A call is held until its result or the end of
    the message, and so are all blocks that start while a call is held.  Deltas are held joined.

    Args:
        of_agent: Whether the message is that of an agent, some of whose calls may await
            approval; not so where a provider executes functions itself.
        to_page: Whether the target is a page, which has a place for calls of the provider.
        losses: Counter of `executed_call` and `unapproved_call`, and of `held` in a stream that
            fails.
        stored: Counter of the bytes of held events.
    """

    def __init__(
        self, of_agent: bool, losses: Losses, stored: StoredBytes, *, to_page: bool = False
    ) -> None:
        self._of_agent = of_agent
        self._to_page = to_page
        self._losses = losses
        self._stored = stored
        self._waiting: dict[str, list[int]] = {}  # held calls without a result, by id
        self._held: dict[int, _Items] = {}  # by block
        self._event_bytes = 0  # of held events without the text of deltas
        self._left_out: set[int] = set()  # blocks
        self._results: set[str] = set()  # ids of the results so far

    def push(self, event: Event) -> list[Event]:
        """Return the events that are known to be for the client, one block after the other.

        Raises:
            LimitExceeded: The held events exceed the bound of `stored`.
            LossyEncoding: A call was executed or awaits approval, and losses are not allowed.
        """
        match event:
            case BlockStart(index, ToolCall(id=id)) if id in self._results:
                return self._leave_out(index, "ToolCall")
            case BlockStart(index, ToolCall(id=id)):
                self._waiting.setdefault(id, []).append(index)
                self._held[index] = []
            # A run of answers has the results of its agent behind the answer that called.
            case BlockStart(index, ToolResult(id)) if not self._to_page:
                return self._end_calls(index, id, "ToolResult")
            case BlockStart(index, ServerToolResult(id)) if id and id in self._waiting:
                if not self._to_page:
                    return self._end_calls(index, id, "ServerToolResult")
                for call in self._waiting.pop(id):
                    self._held[call] = self._as_server_call(self._held[call])
                if not self._waiting:
                    return [*self._release(), event]
                self._held[index] = []
            case BlockStart(index) if self._waiting:
                self._held[index] = []
            case MessageStop(reason):  # the client is asked to execute what no agent has
                if self._of_agent and reason in _ASKS_NO_CLIENT:
                    for calls in self._waiting.values():
                        for call in calls:
                            self._left_out.add(call)
                            self._losses.add("unapproved_call", "ToolCall", "dropped")
                return [*self._release(), event]
            case _:
                pass
        block: int | None = getattr(event, "index", None)
        if block is None:
            return [event]
        if block in self._left_out:
            return []
        items = self._held.get(block)
        if items is None:
            return [event]
        match event:
            case TextDelta(_, text) | JSONDelta(_, text) | RefusalDelta(_, text):
                self._joinable(items, event).text.append(text)
            case ReasoningDelta(_, text):
                self._joinable(items, event).text.append(text)
            case _:
                self._hold(items, event, event_bytes(event))
        return []

    def held_sink(self, delta: Delta) -> Callable[[str], None] | None:
        """Return a function that holds further text of the block and part of a delta.

        None if the block is not held.  Valid until `push` receives another event than a delta of
        text or JSON.
        """
        if delta.index in self._left_out or (items := self._held.get(delta.index)) is None:
            return None
        return self._joinable(items, delta).text.append

    def discard(self) -> None:
        """Forget what is held when the stream fails."""
        size = sum(
            text_bytes(item.text.text()) if isinstance(item, HeldDeltas) else event_bytes(item)
            for items in self._held.values()
            for item in items
        )
        self._forget()
        if size:
            self._losses.add("held", "failed stream", f"{size} bytes dropped")

    def _joinable(self, items: _Items, delta: TextualDelta) -> HeldDeltas:
        """Return the last held deltas of a block if `delta` can join them, else new ones."""
        last = items[-1]
        if not isinstance(last, HeldDeltas) or not last.takes(delta):
            last = HeldDeltas(delta, self._stored)
            self._hold(items, last)
        return last

    def _hold(self, items: _Items, item: Event | HeldDeltas, size: int = 0) -> None:
        size += OBJECT_BYTES
        self._stored.add(size)
        self._event_bytes += size
        items.append(item)

    def _end_calls(self, result: int, id: str, kind: str) -> list[Event]:
        """Leave out a result and the calls of its id; return what has waited for it alone."""
        if id not in self._results:
            self._stored.add(text_bytes(id) + OBJECT_BYTES)
            self._results.add(id)
        calls = self._waiting.pop(id, ())
        for call in calls:
            self._leave_out(call, "ToolCall")
        self._leave_out(result, kind)
        return self._release() if calls and not self._waiting else []

    def _as_server_call(self, items: _Items) -> _Items:
        """Return the held events of a client tool call as those of a server tool call."""
        found: _Items = []
        for item in items:
            match item:
                case BlockStart(index, ToolCall(id, name, signature=signature), choice, extra):
                    found.append(BlockStart(index, ServerToolCall(id, name), choice, extra))
                    if signature is not None:
                        self._losses.add("signature", "ServerToolCall", "dropped")
                case SignatureDelta():
                    self._losses.add("signature", "ServerToolCall", "dropped")
                case _:
                    found.append(item)
        return found

    def _leave_out(self, block: int, kind: str) -> list[Event]:
        self._left_out.add(block)
        self._losses.add("executed_call", kind, "dropped")
        return []

    def _release(self) -> list[Event]:
        released = [
            item.event() if isinstance(item, HeldDeltas) else item
            for index, items in self._held.items()
            if index not in self._left_out
            for item in items
        ]
        self._forget()
        return released

    def _forget(self) -> None:
        self._stored.release(self._event_bytes)
        self._event_bytes = 0
        for items in self._held.values():
            for item in items:
                if isinstance(item, HeldDeltas):
                    item.text.release()
        self._held.clear()
        self._waiting.clear()


def executed_calls(blocks: Iterable[Block]) -> tuple[set[str], bool]:
    """Return the ids of the calls that have a result, and whether an agent has executed some."""
    known = [*blocks]
    results = {block.tool_call_id for block in known if isinstance(block, ToolResult)}
    calls = {block.id for block in known if isinstance(block, ToolCall)}
    return calls & (results | provider_results(known).keys()), bool(results)


def without_executed_calls(message: Message, losses: Losses) -> Message:
    """Return a whole message without the calls that have a result in it, and their results.

    Of the message of an agent, calls without a result are left out, too, if it ends without
    asking its client to execute them.
    """
    executed, is_of_agent = executed_calls(message.blocks)
    if not (executed or is_of_agent):
        return message
    kept: list[int] = []
    for number, block in enumerate(message.blocks):
        match block:
            case ToolCall(id=id) | ToolResult(id) | ServerToolResult(id) if id in executed:
                losses.add("executed_call", type(block).__name__, "dropped")
            case ToolCall() if is_of_agent and message.stop_reason in _ASKS_NO_CLIENT:
                losses.add("unapproved_call", "ToolCall", "dropped")
            case _:
                kept.append(number)
    numbers: dict[int | None, int | None] = {old: new for new, old in enumerate(kept)}
    numbers[None] = None  # opaque data of no block
    return structs.replace(
        message,
        blocks=tuple(message.blocks[number] for number in kept),
        block_extras=tuple(message.block_extras[number] for number in kept)
        if message.block_extras
        else message.block_extras,
        opaque=tuple(
            structs.replace(event, index=numbers[event.index])
            for event in message.opaque
            if event.index in numbers
        ),
    )
