"""Script of a fake provider: its answers and their parsing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, get_args

import msgspec
from msgspec import Struct, structs

from streamnorm._core import grammar
from streamnorm._core.blocks import Block, Reasoning, Refusal, Text, ToolCall
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import (
    Event,
    JSONDelta,
    ReasoningDelta,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    Usage,
)
from streamnorm._core.messages import Message, message_events
from streamnorm.recording.faults import Fault
from streamnorm.recording.recording import Recording

_BLOCKS: tuple[type, ...] = get_args(Block)
_EVENTS: tuple[type, ...] = get_args(Event)

# A word with the space before it, as in the tokens of models; long words are split.
_WORD = re.compile(r"\s*\S{1,12}|\s+")
_ARGUMENTS_CHARS = 8
_CHARACTERS_PER_TOKEN = 4


class FakeRequest(Struct, frozen=True):
    """A request received by a fake provider.

    Attributes:
        method: HTTP method.
        path: Path of its URL, without the query.
        dialect: Name of the dialect of its path; None if unknown.
        headers: Headers by lower-case name, without credentials.
        body: The decoded JSON body; None if the body is no JSON.
    """

    method: str
    path: str
    dialect: str | None
    headers: Mapping[str, str]
    body: Any

    def __repr__(self) -> str:
        return f"FakeRequest({self.method!r}, {self.path!r})"


AnswerPart: TypeAlias = str | Block | StreamError | Fault
"""A part of an answer."""

CompleteAnswer: TypeAlias = Message | Recording | Path
"""An answer that is one value."""

# Each has one form of `Sequence` alone: mypy infers a list literal against no union of several.
Turn: TypeAlias = (
    AnswerPart
    | CompleteAnswer
    | Sequence[AnswerPart | CompleteAnswer | Event]
    | Callable[[FakeRequest], "Turn"]
)
"""One answer; `FakeProvider` describes each form."""

Script: TypeAlias = (
    AnswerPart | CompleteAnswer | Sequence[Turn | Event] | Callable[[FakeRequest], Turn]
)
"""Answers in the order of the requests, or one for all requests."""


class Answer(Struct, frozen=True):
    """A parsed answer of the script.

    Attributes:
        content: A message, the events of a whole stream (or a single error instead of a stream),
            or the recording to play.
        error: Error after the blocks of the message, or None.
        faults: Faults to inject.
    """

    content: Message | tuple[Event, ...] | Recording
    error: StreamError | None = None
    faults: tuple[Fault, ...] = ()

    def number_calls(self, call_numbers: Iterator[int]) -> Answer:
        """Return the answer with ids `call_1`, `call_2`, … for calls without an id."""
        if not isinstance(self.content, Message):
            return self
        blocks = tuple(
            structs.replace(block, id=f"call_{next(call_numbers)}")
            if isinstance(block, ToolCall) and not block.id
            else block
            for block in self.content.blocks
        )
        return structs.replace(self, content=structs.replace(self.content, blocks=blocks))


def split_message(message: Message, error: StreamError | None, input_tokens: int) -> list[Event]:
    """Return a message as events with small deltas.

    Args:
        message: The message.
        error: Error after its blocks, or None.
        input_tokens: Tokens of the request, used if the message has no usage.
    """
    if message.usage == Usage():
        output_tokens = estimate_tokens(sum(map(_count_characters, message.blocks)))
        message = structs.replace(message, usage=Usage(input_tokens, output_tokens))
    if error is None and message.stop_reason is None:
        message = structs.replace(message, stop_reason=_choose_stop_reason(message.blocks))
    events = [delta for event in message_events(message) for delta in _split_delta(event)]
    return events if error is None else [*events, error]


TurnFactory: TypeAlias = Callable[[FakeRequest], Turn]
"""A function that returns the turn for a request."""


def tool_call(
    name: str, arguments: Mapping[str, object] | None = None, /, **more: object
) -> ToolCall:
    """Return a tool call for a script.

        tool_call("get_weather", city="Oslo")

    Its id is empty: the provider numbers its calls `call_1`, `call_2`, ….

    Args:
        name: Name of the tool.
        arguments: Arguments whose names are no valid keywords of a call.
        more: Further arguments.

    Raises:
        TypeError: An argument has no JSON representation.
    """
    values = {**(arguments or {}), **more}
    return ToolCall("", name, msgspec.json.encode(values).decode())


def parse_script(script: object) -> tuple[list[Answer | TurnFactory], bool]:
    """Parse a script; return its answers, and whether its only answer is repeated.

    Raises:
        TypeError: An item is no turn.
        LocalProtocolError: Events break the grammar.
        RecordingError: A recording cannot be read.
    """
    if not _is_list(script) or _has_events(script):
        return [_parse_turn(script, "turn")], True
    turns: list[Answer | TurnFactory] = []
    for number, turn in enumerate(script):
        times = turn.times or 1 if isinstance(turn, Fault) else 1
        turns += [_parse_turn(turn, f"turn {number}")] * times
    return turns, False


def _parse_turn(turn: object, where: str) -> Answer | TurnFactory:
    return turn if _is_turn_factory(turn) else parse_answer(turn, where)


def parse_answer(turn: object, where: str) -> Answer:
    """Parse one answer of a script.

    Args:
        turn: The turn, which is not a function.
        where: Position of the turn, for errors.

    Raises:
        TypeError: The value is no turn.
        LocalProtocolError: The events break the grammar.
        RecordingError: The recording cannot be read.
    """
    items = list(turn) if _is_list(turn) else [turn]
    faults = tuple(item for item in items if isinstance(item, Fault))
    parts = [item for item in items if not isinstance(item, Fault)]
    if _has_events(parts):
        return Answer(_check_events(parts, where), None, faults)
    match parts:
        case [Message() as message]:
            return Answer(message, None, faults)
        case [Recording() as recording]:
            return Answer(recording, None, faults)
        case [Path() as path]:
            return Answer(Recording.load(path), None, faults)
        case [StreamError() as error]:
            return Answer((error,), None, faults)
        case [*blocks, StreamError() as error]:
            return Answer(_message_of(blocks, where), error, faults)
        case blocks:
            return Answer(_message_of(blocks, where), None, faults)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _is_turn_factory(value: object) -> TypeGuard[TurnFactory]:
    return callable(value) and not isinstance(value, Fault)


def _has_events(parts: Iterable[object]) -> bool:
    """Return whether an answer consists of events rather than blocks."""
    return any(isinstance(part, _EVENTS) and not isinstance(part, StreamError) for part in parts)


def _check_events(events: list[Any], where: str) -> tuple[Event, ...]:
    other = next((event for event in events if not isinstance(event, _EVENTS)), None)
    if other is not None:
        raise TypeError(f"{where}: {type(other).__name__} among events, expected none but events")
    for violation in grammar.validate(events):
        raise LocalProtocolError(f"{where}: event {violation.position}: {violation.message}")
    return tuple(events)


def _message_of(parts: list[object], where: str) -> Message:
    return Message(blocks=tuple(_block_of(part, where) for part in parts))


def _block_of(part: object, where: str) -> Any:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, _BLOCKS):
        return part
    raise TypeError(
        f"{where}: {type(part).__name__}, expected text, blocks, a Message, events, an error, "
        "a fault, a recording, its Path, or a function that returns one of these"
    )


def _choose_stop_reason(blocks: Sequence[Block]) -> StopReason:
    # A test that writes a refusal sets its own stop reason.
    return "tool_use" if any(isinstance(block, ToolCall) for block in blocks) else "end_turn"


def estimate_tokens(characters: int) -> int:
    """Return a text's estimated number of tokens: a quarter of its characters."""
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _count_characters(block: Block) -> int:
    match block:
        case Text(text) | Refusal(text):
            return len(text)
        case Reasoning(parts):
            return sum(map(len, parts))
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(arguments)
        case _:
            return 0


def _split_delta(event: Event) -> Iterator[Event]:
    """Yield a delta in small pieces; other events unchanged."""
    match event:
        case TextDelta(text=text) | ReasoningDelta(text=text) | RefusalDelta(text=text):
            for word in _WORD.findall(text):
                yield structs.replace(event, text=word)
        case JSONDelta(index, text):
            for start in range(0, len(text), _ARGUMENTS_CHARS):
                yield JSONDelta(index, text[start : start + _ARGUMENTS_CHARS])
        case _:
            yield event
