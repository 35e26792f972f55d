"""UI messages as messages of a request, in both directions.

npm `ai` 7.0.173, `src/ui/convert-to-model-messages.ts` (read 2026-11-27).  A UI message has no
role for results: they stand in the parts of their calls.  Each step of an answer, which
`step-start` begins, is a message of the assistant and a message with the results of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.chats import ChatMessage, HistoryItem, read_history
from streamnorm._core.bodies.fields import (
    as_object,
    read_array,
    read_objects,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm.dialects.ui_message_stream.body.content import (
    Step,
    add_result,
    has_failed,
    parts_to_wire,
    read_part,
    server_result_to_part,
    user_block_from_wire,
)
from streamnorm.dialects.ui_message_stream.outcome import usage_to_wire
from streamnorm.dialects.ui_message_stream.wire import DIALECT


def messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    """Return the messages of a request.

    Raises:
        DecodeError: There are none, or an entry is no UI message.
    """
    if value is None:
        raise DecodeError("missing, expected an array", path="$.messages")
    if not is_array(value):
        raise unexpected(value, "an array", "$.messages")
    if not value:
        raise DecodeError("no messages, expected at least one", path="$.messages")
    users = [at for at, item in enumerate(value) if is_object(item) and item.get("role") == "user"]
    last_user = users[-1] if users else -1
    read = partial(_message_from_wire, last_user)
    chat = _ChatReader()
    for steps in read_array(list(enumerate(value)), read, "$.messages"):
        for step in steps:
            chat.add(step)
    return tuple(chat.messages())


class _ChatReader:
    """Collector of a chat's messages, each result behind the message with its call."""

    def __init__(self) -> None:
        self._messages: list[InputMessage] = []
        self._open: dict[str, int] = {}  # position of the message with each unanswered call
        self._late: dict[int, list[ToolResult]] = {}  # results of later messages, by position

    def add(self, step: InputMessage | Step) -> None:
        """Add a message, or the messages of a step.

        A call of an earlier message that the step repeats for its result is left out.
        """
        if isinstance(step, InputMessage):
            self._messages.append(step)
            return
        joined = {id: self._open[id] for id in step.repeated_ids if id in self._open}
        for message in step.messages():
            blocks: list[InputBlock] = []
            for block in message.blocks:
                if isinstance(block, ToolCall):
                    if block.id in joined:
                        continue
                    self._open[block.id] = len(self._messages)
                elif isinstance(block, ToolResult):
                    position = self._open.pop(block.tool_call_id)
                    if block.tool_call_id in joined:
                        self._late.setdefault(position, []).append(block)
                        continue
                blocks.append(block)
            if blocks:
                self._messages.append(structs.replace(message, blocks=tuple(blocks)))

    def messages(self) -> Iterator[InputMessage]:
        """Yield the messages, oldest first."""
        late: tuple[ToolResult, ...] = ()
        for position, message in enumerate(self._messages):
            if late and _is_of_results(message):
                yield structs.replace(message, blocks=(*message.blocks, *late))
                late = ()
                continue
            if late:
                yield InputMessage("user", late)
            yield message
            late = tuple(self._late.get(position, ()))
        if late:
            yield InputMessage("user", late)


def _is_of_results(message: InputMessage) -> bool:
    return message.role == "user" and isinstance(message.blocks[0], ToolResult)


def _message_from_wire(last_user: int, entry: tuple[int, object]) -> list[InputMessage | Step]:
    position, item = entry
    value = as_object(item)
    role = require_str(value, "role")
    if "parts" not in value:  # the `content` of v4
        raise DecodeError("missing, expected an array", path="$.parts")
    parts = value["parts"]
    if not is_array(parts):
        raise unexpected(parts, "an array", "$.parts")
    if role == "assistant":
        return _answer_from_wire(parts, is_superseded=position < last_user)
    if role not in ("user", "system"):
        raise DecodeError("another role, expected user, assistant or system", path="$.role")
    if not parts:
        raise DecodeError("no parts, expected at least one", path="$.parts")
    blocks = read_array(parts, partial(user_block_from_wire, role), "$.parts")
    if role == "user":
        return [InputMessage("user", tuple(blocks))]
    # The client joins the texts without a separator.
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    return [InputMessage("system", (Text(text),))]


def _answer_from_wire(parts: list[Any], *, is_superseded: bool) -> list[InputMessage | Step]:
    """Return the steps of an assistant message, and what the user said between them.

    Args:
        parts: The parts of the UI message.
        is_superseded: Whether a later message of the user exists.
    """
    steps: list[InputMessage | Step] = []
    step = Step(is_superseded)

    def end_step() -> None:
        nonlocal step
        steps.append(step)
        step = Step(is_superseded)

    def read(part: dict[str, Any]) -> None:
        kind = require_str(part, "type")
        if kind == "step-start":
            end_step()
        elif kind == "steering-message":  # what the user said between two steps
            end_step()
            steps.append(InputMessage("user", _steering_blocks(part)))
        else:
            read_part(kind, part, step)

    read_objects(parts, read, "$.parts")
    end_step()
    return steps


def _steering_blocks(part: dict[str, Any]) -> tuple[InputBlock, ...]:
    if part.get("parts") is None:
        raise DecodeError("missing, expected an array", path="$.parts")
    blocks = read_array(part["parts"], partial(user_block_from_wire, "user"), "$.parts")
    if not blocks:
        raise DecodeError("no parts, expected at least one", path="$.parts")
    return tuple(blocks)


def messages_to_wire(history: Iterable[HistoryItem], losses: Losses) -> list[dict[str, Any]]:
    """Return the messages of a conversation as UI messages.

    Args:
        history: The messages, oldest first.
        losses: Counter of what UI messages have no place for.
    """
    chat = _Chat(losses)
    for message in read_history(history, DIALECT, losses):
        chat.add(message)
    chat.count_failed_calls()
    return chat.messages


class _Chat:
    """Encoder of a conversation to UI messages.

    Args:
        losses: Counter of what they have no place for.

    Attributes:
        messages: The messages so far.
    """

    def __init__(self, losses: Losses) -> None:
        self.messages: list[dict[str, Any]] = []
        self._losses = losses
        self._ids: set[str] = set()
        self._call_ids: set[str] = set()
        self._calls: dict[str, dict[str, Any]] = {}  # parts of calls without a result, by id
        self._answer: dict[str, Any] | None = None  # the answer that the next step continues
        self._sources = 0

    def add(self, message: ChatMessage) -> None:
        """Add the next message of the conversation."""
        if message.name is not None:
            self._losses.add("name", "messages", "dropped")
        if message.role == "assistant":
            self._add_step(message)
            return
        others = [block for block in message.blocks if not isinstance(block, ToolResult)]
        for block in message.blocks:
            if isinstance(block, ToolResult):
                self._add_result(block)
        if others or not message.blocks:
            self._add_message(message, tuple(others))

    def count_failed_calls(self) -> None:
        """Count as losses the incomplete calls without a result, which were written as errors."""
        for part in self._calls.values():
            if has_failed(part):
                self._losses.add("result_filled", "messages", "written as an error")

    def _add_message(self, message: ChatMessage, blocks: tuple[InputBlock, ...]) -> None:
        self._answer = None
        parts: list[dict[str, Any]] = []
        for block in blocks:
            parts += self._parts_of(block)
        if not parts:  # which the client refuses
            self._losses.add("empty_message_dropped", "messages", "dropped")
            return
        if message.role == "developer":
            self._losses.add("developer_role", "messages", "written as system")
        role = "user" if message.role == "user" else "system"
        self.messages.append({"id": self._new_id(""), "role": role, "parts": parts})

    def _add_step(self, message: ChatMessage) -> None:
        """Add a step to the open answer; start an answer if none is open."""
        answer, received = self._answer, message.answer
        if answer is None:
            id = self._new_id("" if received is None else received.id)
            answer = self._answer = {"id": id, "role": "assistant", "parts": []}
            if metadata := _metadata_of(received):
                answer["metadata"] = metadata
            self.messages.append(answer)
        elif "metadata" in answer:  # of a single step: usage is that of the whole answer
            del answer["metadata"]
        parts: list[dict[str, Any]] = answer["parts"]
        parts.append({"type": "step-start"})
        for block in message.blocks:
            if isinstance(block, ToolResult):
                self._add_result(block)
            elif isinstance(block, ServerToolResult):
                parts += self._add_server_result(block)
            else:
                parts += self._parts_of(block)

    def _parts_of(self, block: InputBlock) -> list[dict[str, Any]]:
        parts = parts_to_wire(block, self._losses)
        for part in parts:
            if "sourceId" in part:
                part["sourceId"] = f"source-{self._sources}"
                self._sources += 1
        if isinstance(block, ToolCall | ServerToolCall):
            self._call_ids.add(block.id)
            self._calls[block.id] = parts[0]
        return parts

    def _add_server_result(self, result: ServerToolResult) -> list[dict[str, Any]]:
        """Merge a server tool's result into the call's part; without a call, return a new part."""
        call = self._calls.pop(result.tool_call_id, None)
        if call is None and result.tool_call_id in self._call_ids:
            self._losses.add("duplicate_result", "messages", "dropped")
            return []
        self._call_ids.add(result.tool_call_id)
        return server_result_to_part(result, call)

    def _add_result(self, result: ToolResult) -> None:
        part = self._calls.pop(result.tool_call_id, None)
        if part is None:
            self._losses.add("orphan_result", "messages", "dropped")
        else:
            add_result(part, result, self._losses)

    def _new_id(self, id: str) -> str:
        """Return the answer's id if no other message has it, else a new id."""
        if not id or id in self._ids:
            id = f"message-{len(self.messages)}"
            while id in self._ids:
                id += "-"
        self._ids.add(id)
        return id


def _metadata_of(answer: Message | None) -> dict[str, Any]:
    """Return the message metadata of an answer: model and usage."""
    if answer is None:
        return {}
    usage = usage_to_wire(answer.usage)
    return ({"model": answer.model} if answer.model else {}) | ({"usage": usage} if usage else {})
