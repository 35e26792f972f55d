"""The tool calls of the last turn, and which of them wait for a result."""

from __future__ import annotations

from collections.abc import Container, Set

from msgspec import structs

from streamnorm._core.blocks import ToolCall, ToolResult
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.errors import EncodeError

__all__ = ["OpenCalls"]

_MAX_ID_CHARS = 80  # of an id in the text of an error


class OpenCalls:
    """The calls of a growing history, matched with their results by id.

    A result belongs to a call of the last assistant message before it; assistant messages
    that follow each other are one.  A call without an id has the one that encoders give it.

    The provider was told that a call that a dump has filled in has no result, and may have gone
    on without: its result may come later, whatever was said since.

    Args:
        filled: Calls that dumps have filled in, as the positions of their messages and their
            ids; it may grow.
    """

    def __init__(self, filled: Set[tuple[int, str]]) -> None:
        self._filled = filled
        self._late: set[str] = set()  # ids of the calls before that were filled in
        self._turn: dict[str, int] = {}  # order of the calls of the last turn, by id
        self._messages: dict[str, int] = {}  # positions of their messages
        self._open: dict[str, ToolCall] = {}  # those without a result
        self._unnamed: set[str] = set()  # ids of those that have none of their own
        self._earlier: set[str] = set()  # ids of the calls before
        self._in_turn = False  # whether the last message is the assistant's

    def open(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait for a result, in order."""
        return tuple(self._open.values())

    def positions(self) -> tuple[tuple[int, str], ...]:
        """Return the open calls as the positions of their messages and their ids."""
        return tuple((self._messages[id], id) for id in self._open)

    def is_filled(self, id: str) -> bool:
        """Return whether a call that waits for a result was filled in."""
        return (self._messages[id], id) in self._filled if id in self._open else id in self._late

    def order(self) -> dict[str, int]:
        """Return the order of the calls of the last turn, by id."""
        return self._turn

    def add(self, message: InputMessage, position: int) -> None:
        """Note the calls and the results of the next message.

        Raises:
            EncodeError: A result has no call that waits for it, or two calls of one turn have
                one id; nothing is noted then.
        """
        if message.role == "assistant":
            self._add_calls(message, position)
        else:
            self._add_results(message, position)

    def check_open(self, id: str, path: str) -> None:
        """Check that a call waits for a result.

        Raises:
            EncodeError: It does not.
        """
        if id in self._open or id in self._late:
            return
        name = repr(id[:_MAX_ID_CHARS])
        if id in self._turn:
            problem = f"second result of tool call {name}, expected one"
        elif id in self._earlier:
            problem = (
                f"result of tool call {name} after the next assistant message, "
                "expected it before that"
            )
        else:
            count = len(self._open)
            problem = (
                f"result of tool call {name}, which no message before it has, "
                f"expected one of {count} open calls"
            )
        raise EncodeError(problem, path=path)

    def _add_calls(self, message: InputMessage, position: int) -> None:
        calls: dict[str, ToolCall] = {}
        unnamed: set[str] = set()
        before = self._turn if self._in_turn else {}
        for number, call in enumerate(message.tool_calls):
            id = call.id or f"call_{position}_{number}"
            if not call.id:
                unnamed.add(id)
                call = structs.replace(call, id=id)
            if id in calls or id in before:
                name = repr(id[:_MAX_ID_CHARS])
                raise EncodeError(
                    f"second tool call with the id {name}, expected an id for each",
                    path=f"messages[{position}].tool_calls[{number}]",
                )
            calls[id] = call
        if not self._in_turn:
            self._earlier.update(self._turn)
            self._late.update(filter(self.is_filled, self._open))
            self._turn, self._messages, self._open, self._unnamed = {}, {}, {}, set()
        self._late.difference_update(calls)
        for id in calls:
            self._turn[id], self._messages[id] = len(self._turn), position
        self._open |= calls
        self._unnamed |= unnamed
        self._in_turn = True

    def _add_results(self, message: InputMessage, position: int) -> None:
        answered: dict[str, None] = {}
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolResult):
                id = self._call_of(block, answered)
                path = f"messages[{position}].blocks[{number}]"
                if id in answered:
                    name = repr(id[:_MAX_ID_CHARS])
                    raise EncodeError(f"second result of tool call {name}, expected one", path=path)
                self.check_open(id, path)
                answered[id] = None
        for id in answered:
            if self._open.pop(id, None) is None:
                self._late.discard(id)
        self._in_turn = False

    def _call_of(self, result: ToolResult, answered: Container[str]) -> str:
        """Return the id of the call that a result names, or fits if one of the two has no id."""
        if result.tool_call_id in self._turn:
            return result.tool_call_id
        for id, call in self._open.items():
            is_unnamed = not result.tool_call_id or id in self._unnamed
            if is_unnamed and result.name in ("", call.name) and id not in answered:
                return id
        return result.tool_call_id
