"""Results that stand within calls of the provider, as results of their own for pages.

OpenAI's `mcp_call` holds the output of the tool, or its error, beside the arguments
(https://platform.openai.com/docs/api-reference/responses/object, read 2026-12-01).  A page shows a
call without a result as one that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamnorm._core.blocks import InputBlock, ServerToolCall, ServerToolResult
from streamnorm._core.events import BlockStart, BlockStop, Event, JSONDelta
from streamnorm._core.json import object_in
from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import TextBuffer

_CALL_KIND = "mcp_call"
RESULT_KIND = "mcp_call_result"
"""Kind of these results, which no provider has: its call goes back with what it holds."""


def result_in(call: ServerToolCall) -> ServerToolResult | None:
    """Return the result that a call of the provider holds; None if it holds none."""
    if call.kind != _CALL_KIND:
        return None
    fields = object_in(call.arguments)
    if error := fields.get("error"):
        return ServerToolResult(call.id, RESULT_KIND, error, is_error=True)
    output = fields.get("output")
    return None if output is None else ServerToolResult(call.id, RESULT_KIND, output)


def add_results(blocks: Iterable[InputBlock]) -> Iterator[InputBlock]:
    """Yield blocks, and behind each call of the provider the result that it holds."""
    for block in blocks:
        yield block
        if isinstance(block, ServerToolCall) and (result := result_in(block)) is not None:
            yield result


class CallResults:
    """Add the results that calls of the provider hold, behind their calls.

    Args:
        stored: Counter of the bytes of open calls.
    """

    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._open: dict[int, tuple[BlockStart, ServerToolCall, TextBuffer]] = {}  # by block

    def push(self, event: Event) -> list[Event]:
        """Return an event, and at the stop of a call the block of the result that it holds."""
        match event:
            case BlockStart(index, ServerToolCall(kind=kind) as call) if kind == _CALL_KIND:
                self._open[index] = event, call, TextBuffer(call.arguments, self._stored)
            case JSONDelta(index, text) if index in self._open:
                self._open[index][2].append(text)
            case BlockStop(index) if index in self._open:
                start, call, arguments = self._open.pop(index)
                held = ServerToolCall(call.id, call.name, arguments.text(), call.kind)
                arguments.release()
                if (result := result_in(held)) is not None:
                    added = -1 - index  # no block of the stream has it
                    return [event, BlockStart(added, result, start.choice), BlockStop(added)]
            case _:
                pass
        return [event]
