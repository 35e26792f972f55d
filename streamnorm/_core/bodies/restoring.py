"""Restores the client's tool names and kinds in the events of a response.

`Reply` names the tools that the provider was given under another name or as another kind.  Only
events of tool calls change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from streamnorm._core.blocks import Block, ToolCall
from streamnorm._core.bodies.request import Reply
from streamnorm._core.bodies.tool_calls import CustomToolInputDecoder
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    JSONDelta,
    MessageStop,
    StreamError,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses

if TYPE_CHECKING:
    from streamnorm._core.codec.delta_run import TextSinks
    from streamnorm._core.codec.encoder import StreamWriter


_LIMIT = "max_accumulated_bytes"
_CUT_SHORT = ("max_tokens", "refusal")  # stop reasons that explain an unfinished call


class ToolCallRestorer:
    """Restore the tool calls of one response to the client's names and kinds.

    A call gets the name and the namespace that the client gave the tool.  A call of a custom
    tool that the provider has as a function becomes a custom call, whose deltas are the text
    in its arguments (see `CustomToolInputDecoder`).  If the text is not known to be complete,
    the block stops as unfinished; if the message then claims to be complete, the stream is
    malformed, since a client would execute the call.

    Plain text does not show whether it is complete: if the last block has it, the stop of the
    block is held until the finish reason says whether the message was cut.

    Args:
        reply: Response context of the translated request.
        losses: Counter of `custom_tool_members`: members besides the text.
        note: Function that counts a `Note` of a kind and a location: `not_wrapped`, for
            arguments that are plain text.
        limits: `max_accumulated_bytes` bounds the wrapped arguments of all calls, in characters.

    Attributes:
        has_failed: Whether the restorer has ended the stream with an error.
    """

    def __init__(
        self,
        reply: Reply,
        losses: Losses,
        *,
        note: Callable[[str, str], None],
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._tools = reply.tools
        self._note = note
        self._losses = losses
        self._limits = limits
        self._inputs: dict[int, CustomToolInputDecoder] = {}  # by block, of open wrapped calls
        self._choices: dict[int, int] = {}  # by block, of open wrapped calls
        self._chars = 0  # wrapped arguments so far
        self._problems: dict[int, str] = {}  # first problem, by choice
        self._last_blocks: dict[int, int] = {}  # block started last, by choice
        self._held_stops: dict[int, int] = {}  # block whose stop is held, by choice
        self.has_failed = False

    def take(self, events: list[Event]) -> list[Event]:
        """Return events with their tool calls restored.

        If a call exceeds a limit or is malformed, only the events before it are returned, with
        a `StreamError`.

        Args:
            events: All events of one frame: it may stop several choices at once.
        """
        restored: list[Event] = []
        if self.has_failed:
            return restored
        for event in events:
            try:
                self._push(event, restored)
            except LimitExceeded as exc:
                error = StreamError("too_large", str(exc), code=exc.limit)
            else:
                problem = self._problem_of(event)
                if problem is None:
                    continue
                error = StreamError("malformed", f"wrapped input of a custom call: {problem}")
            self.has_failed = True
            # The grammar allows no error after a `MessageStop`, of whatever choice.
            return [*(e for e in restored if not isinstance(e, MessageStop)), error]
        return restored

    def is_wrapped(self, index: int) -> bool:
        """Return whether the deltas of a block are wrapped custom input."""
        return index in self._inputs

    def unwrap(self, index: int, arguments: str) -> str:
        """Return the custom tool's text in the next fragment of a wrapped call's arguments.

        Raises:
            LimitExceeded: The arguments are larger than `max_accumulated_bytes`.
        """
        self._chars += len(arguments)
        bound = self._limits.max_accumulated_bytes
        if self._chars > bound:
            message = f"wrapped arguments of {self._chars} characters, expected at most {bound}"
            raise LimitExceeded(message, limit=_LIMIT)
        return self._inputs[index].feed(arguments)

    def _push(self, event: Event, restored: list[Event]) -> None:
        match event:
            case JSONDelta(index, arguments) if index in self._inputs:
                if text := self.unwrap(index, arguments):
                    restored.append(JSONDelta(index, text))
            case BlockStart(index, block, choice):
                self._release_stop(choice, restored)
                self._last_blocks[choice] = index
                restored.append(self._restore(event, block))
            case BlockStop(index) if index in self._inputs:
                self._stop(index, restored)
            case MessageStop(reason, choice=choice):
                self._release_stop(choice, restored, is_unfinished=reason in _CUT_SHORT)
                restored.append(event)
            case _:
                restored.append(event)

    def _restore(self, start: BlockStart, block: Block) -> BlockStart:
        if not isinstance(block, ToolCall):
            return start
        tool = self._tools.get(block.name)
        if tool is None or block.namespace not in (None, tool.namespace):
            return start
        kind = block.kind
        if tool.is_custom and kind == "function":
            depth = self._limits.max_json_depth
            self._inputs[start.index] = CustomToolInputDecoder(max_json_depth=depth)
            self._choices[start.index] = start.choice
            kind = "custom"
        call = structs.replace(block, name=tool.name, namespace=tool.namespace, kind=kind)
        return structs.replace(start, block=call)

    def _stop(self, index: int, restored: list[Event]) -> None:
        wrapped, choice = self._inputs.pop(index), self._choices.pop(index)
        if text := wrapped.close():
            restored.append(JSONDelta(index, text))
        if wrapped.is_plain:
            self._note("not_wrapped", "tool call")
            if index == self._last_blocks[choice]:
                self._held_stops[choice] = index
                return
        elif wrapped.has_other_members:
            self._losses.add("custom_tool_members", "tool call", "dropped")
        if wrapped.problem is not None:
            self._problems.setdefault(choice, wrapped.problem)
        restored.append(BlockStop(index, wrapped.problem is not None))

    def _release_stop(
        self, choice: int, restored: list[Event], *, is_unfinished: bool = False
    ) -> None:
        """Append the held stop of a choice: another block or the finish reason has arrived."""
        index = self._held_stops.pop(choice, None)
        if index is not None:
            restored.append(BlockStop(index, is_unfinished))

    def _problem_of(self, event: Event) -> str | None:
        """Return the problem of a choice that `event` declares complete; None if there is none."""
        if isinstance(event, MessageStop) and event.reason not in _CUT_SHORT:
            return self._problems.get(event.choice)
        return None


class RestoringSinks:
    """Sinks of a delta run for a response whose tool calls are restored.

    Args:
        restorer: Restorer of the calls.
        accumulator: Receiver of the texts.
        writer: Writer of the texts.
    """

    def __init__(
        self, restorer: ToolCallRestorer, accumulator: TextSinks, writer: StreamWriter
    ) -> None:
        self._restorer = restorer
        self._accumulator = accumulator
        self._writer = writer

    def text_sink(self, index: int, part: int = 0) -> Callable[[str], None]:
        """Return a function that appends text to an open block.

        The function for a wrapped call discards the arguments: `delta_sink` appends the text
        that they wrap.
        """
        if self._restorer.is_wrapped(index):
            return _drop
        return self._accumulator.text_sink(index, part)

    def delta_sink(self, delta: Delta) -> Callable[[str], bytes | None]:
        """Return a function that writes more text of a block."""
        index, writer = delta.index, self._writer
        if not self._restorer.is_wrapped(index):
            return writer.delta_sink(delta)
        append, unwrap = self._accumulator.text_sink(index), self._restorer.unwrap
        write: Callable[[str], bytes | None] | None = None

        def restore(arguments: str) -> bytes | None:
            nonlocal write
            text = unwrap(index, arguments)
            if not text:
                return None
            append(text)
            if write is not None:
                return write(text)
            written = b"".join(writer.write((JSONDelta(index, text),)))
            # `Encoder.delta_writer` needs some arguments written in full before it.
            write = writer.delta_sink(delta)
            return written

        return restore


def _drop(text: str) -> None:
    """Discard text."""
