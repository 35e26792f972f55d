"""Tool calls that dialects write differently: arguments, custom tools, tool errors.

Some dialects have the arguments of a call as a JSON object, have no custom tools, or have no
field for the failure of a tool.  These gaps are bridged here.

`Reply` names the tools that the provider was given under another name or as another kind.  Only
events of tool calls change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import structs

from streamnorm._core.blocks import Block, ResultBlock, Text, ToolCall, ToolResult
from streamnorm._core.bodies.request import Reply
from streamnorm._core.errors import EncodeError, LimitExceeded
from streamnorm._core.events import (
    CUT_SHORT,
    BlockStart,
    BlockStop,
    Delta,
    Event,
    JSONDelta,
    MessageStop,
    StreamError,
)
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    decode_any,
    is_json,
    is_object,
    lone_surrogate_path,
)
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.properties import ArgumentsRenamer
from streamnorm._core.text import FULL_LIST
from streamnorm.partial_json import PartialJSON

if TYPE_CHECKING:
    from streamnorm._core.codec.delta_run import TextSinks
    from streamnorm._core.codec.encoder import StreamWriter

ArgumentsPolicy: TypeAlias = Literal["error", "raw", "repair"]
"""Policy for arguments that are no JSON object: an error, `{"_raw": text}`, or the object that
json-repair finds in the text (extra `repair`)."""

_decode = msgspec.json.Decoder[Any]().decode

INPUT = "input"
"""Property that holds the text of a custom tool that a provider has as a function."""
_Content: TypeAlias = tuple[ResultBlock, ...]

_LIMIT = "max_accumulated_bytes"


def arguments_object(call: ToolCall, policy: ArgumentsPolicy, losses: Losses, path: str) -> Any:
    """Return the arguments of a call as an object.

    Raises:
        EncodeError: The arguments are no JSON object, and the policy is `error`; or json-repair
            is missing or finds no object.
    """
    text = call.arguments
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except FAST_ERRORS:
        value = _decode_leniently(text, losses)
    if is_object(value):
        return value
    if policy == "error":
        problem = "are no JSON object, expected one"
        if value is None and text.lstrip()[:1] == "{" and is_json(text):
            problem = "have a number that no double is near to, expected none"
        raise EncodeError(f"arguments of {len(text)} characters {problem}", path=path)
    if policy == "raw":
        losses.add("arguments_raw", "tool call", 'written as {"_raw": text}')
        return {"_raw": clean(text)}
    losses.add("arguments_repaired", "tool call", "written as the object that repair found")
    return _repair(text, path)


def _decode_leniently(text: str, losses: Losses) -> Any:
    """Decode JSON with a lone surrogate, which msgspec refuses; None for any other error."""
    try:
        uncleaned = _STANDARD.decode(text)
        value = decode_any(text, max_depth=Limits().max_json_depth)
    except (InvalidJSON, ValueError, RecursionError):
        return None
    if lone_surrogate_path(uncleaned) is not None:
        losses.add("half_character", "tool call", "written as U+FFFD")
    return value


def _refuse_number(number: str) -> float:
    raise ValueError(f"number of {len(number)} characters that no double is near to")


def _parse_float(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse_number(number)


# `decode_any` reads NaN and numbers beyond a double as null, which would change the arguments.
_STANDARD = JSONDecoder(parse_constant=_refuse_number, parse_float=_parse_float)


_UNUSUAL_NUMBER = re.compile(r"NaN|Infinity|[eE]\+?\d{3}|\d{300}")


def has_inexact_number(text: str) -> bool:
    """Return whether JSON text has NaN, an infinity or a number that no double is near to."""
    if _UNUSUAL_NUMBER.search(text) is None:
        return False
    try:
        _STANDARD.decode(text)
    except (JSONDecodeError, RecursionError):
        return False
    except ValueError:
        return True
    return False


def _repair(text: str, path: str) -> dict[str, object]:
    try:
        from json_repair import repair_json
    except ImportError as exc:
        raise EncodeError(
            "no json-repair, expected the extra `repair`: pip install '.[repair]' in a clone",
            path=path,
        ) from exc
    value = repair_json(text, return_objects=True)
    if not is_object(value):
        raise EncodeError(
            f"arguments of {len(text)} characters cannot be repaired, expected a JSON object",
            path=path,
        )
    return value


class CustomToolInputDecoder:
    """Decode a custom tool's text from the arguments of the function that wraps the tool.

    Wrapped arguments are a JSON object with a string member `input`, at any position among
    other members.  Arguments of another form (plain text, another JSON value, an object without
    that string) are returned unchanged as the text: a model that sends its patch without the
    object must not lose it.  The form is known at the first character of the string, or where
    the arguments can no longer be such an object; no text is returned before.

    Once text of the string was returned, the form is fixed: if the arguments then turn out to
    be no JSON, name `input` again, or end too early, the text is unfinished.

    Args:
        max_json_depth: Bound on the nesting of other members; deeper arguments are plain text.

    Attributes:
        is_plain: Whether the arguments are not wrapped, and are themselves the text.
        has_other_members: Whether the object has members besides `input`.
        problem: Why the text is unfinished; None if it is complete or the call is open.
    """

    def __init__(self, *, max_json_depth: int) -> None:
        self.is_plain = False
        self.has_other_members = False
        self.problem: str | None = None
        self._parser = PartialJSON(max_depth=max_json_depth)
        self._parser.deltas()  # the first call starts the parser's log
        self._is_object = False
        self._is_found = False  # whether the string has begun
        self._held: list[str] = []  # the arguments before the string

    def feed(self, arguments: str) -> str:
        """Return the custom tool's text in the next fragment of the call's arguments."""
        if self.is_plain:
            return arguments
        if not self._is_found:
            self._held.append(arguments)
        if self.problem is not None:
            return ""
        parser, text = self._parser, ""
        parser.feed(arguments)
        for delta in parser.deltas():
            if not delta.path:
                self._is_object = delta.value == {}
                if not self._is_object:
                    return self._read_as_plain()
            elif delta.path[0] != INPUT:
                self.has_other_members = True
            elif delta.appends:
                text += str(delta.value)
            elif self._is_found:
                self.problem = f"second member `{INPUT}`, expected one"
                return text
            elif isinstance(delta.value, str):
                self._is_found = True
                self._held.clear()
                text = delta.value
            else:
                return self._read_as_plain()
        if parser.error is not None:
            if not self._is_found:
                return self._read_as_plain()
            self.problem = str(parser.error)
        return text

    def close(self) -> str:
        """Return the remaining text at the end of the arguments."""
        if self.is_plain or self.problem is not None:
            return ""
        parser = self._parser
        parser.close()
        if not parser.complete and (self._is_object or self._is_found):
            self.problem = str(parser.error)
            return self._take_held()
        if self._is_found or not (self.has_other_members or self._has_scalar):
            return ""  # no arguments and an empty object mean no text
        return self._read_as_plain()

    @property
    def _has_scalar(self) -> bool:
        """Whether the arguments are a JSON value that is no object."""
        return not self._is_object and any(map(str.strip, self._held))

    def _read_as_plain(self) -> str:
        self.is_plain = True
        return self._take_held()

    def _take_held(self) -> str:
        held = "".join(self._held)
        self._held.clear()
        return held


_START, _END = "<tool_error>", "</tool_error>"


def mark_error(result: ToolResult) -> _Content:
    """Return a result's content, with the text of an error in `<tool_error>` tags.

    For dialects that have no field for the failure of a tool.
    """
    if not result.is_error:
        return result.content
    texts = [item for item in result.content if isinstance(item, Text)]
    marked = Text(f"{_START}{''.join(item.text for item in texts)}{_END}")
    if len(texts) == 1:
        marked = structs.replace(texts[0], text=marked.text)
    return (marked, *(item for item in result.content if not isinstance(item, Text)))


_NO_CONTENT = "The tool failed and returned no content."


def fill_error(losses: Losses) -> str:
    """Return the text of a result that is an error and has no content; count it as a loss.

    Anthropic and Bedrock refuse such a result without one, and its file may have been dropped.
    """
    losses.add("error_text_added", "messages", "a text says so")
    return _NO_CONTENT


def unmark_error(content: _Content) -> tuple[bool, _Content]:
    """Undo `mark_error`: return whether the content was marked, and the unmarked content."""
    first = content[0] if content else None
    if not isinstance(first, Text) or any(isinstance(item, Text) for item in content[1:]):
        return False, content
    text = first.text
    if not (text.startswith(_START) and text.endswith(_END)):
        return False, content
    return True, (structs.replace(first, text=text[len(_START) : -len(_END)]), *content[1:])


def wrap_call(call: ToolCall, dialect: str) -> ToolCall:
    """Return a custom call as a call of the function that wraps the tool in a request.

    Args:
        call: The call.
        dialect: Dialect of the request.
    """
    extra = call.extra
    if extra and dialect in extra:
        fields = _without_item_id(extra[dialect], "id")
        others = {name: extra[name] for name in extra if name != dialect}
        extra = (others | {dialect: fields} if fields else others) or None
    arguments = compact({INPUT: call.arguments})
    return structs.replace(call, kind="function", arguments=arguments, extra=extra)


def _without_item_id(fields: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return the unknown fields of a call whose kind changes, without the id of its item.

    The prefix of the id names the type of the item, and OpenAI refuses the id of a function call
    (`fc_…`) for a custom call (`ctc_…`), and the other way round (nodetool-ai/nodetool#4252).

    Args:
        fields: The fields; None if there are none.
        name: Name of the id among them.
    """
    if not fields or name not in fields:
        return fields
    return {key: value for key, value in fields.items() if key != name} or None


class ToolCallRestorer:
    """Restore the tool calls of one response to the client's names and kinds.

    A call gets the name and the namespace that the client gave the tool.  Where properties had to
    be renamed, the arguments are held until they are complete, and get the client's names.  A call
    of a custom tool that the provider has as a function becomes a custom call, whose deltas are the
    text in its arguments (see `CustomToolInputDecoder`).  If the text is not known to be complete,
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
        # By block, of open calls whose arguments change.
        self._inputs: dict[int, CustomToolInputDecoder | ArgumentsRenamer] = {}
        self._choices: dict[int, int] = {}  # of the same
        self._chars = 0  # wrapped arguments so far
        self._problems: dict[int, str] = {}  # first problem, by choice
        self._last_blocks: dict[int, int] = {}  # block started last, by choice
        self._held_stops: dict[int, int] = {}  # block whose stop is held, by choice
        self.has_failed = False

    def take(self, events: list[Event]) -> list[Event]:
        """Return events with their tool calls restored to the client's names and kinds.

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
        """Return whether a block's deltas are arguments that change: wrapped or renamed."""
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
                self._stop(event, restored)
            case MessageStop(reason, choice=choice):
                self._release_stop(choice, restored, is_unfinished=reason in CUT_SHORT)
                restored.append(event)
            case _:
                restored.append(event)

    def _restore(self, start: BlockStart, block: Block) -> BlockStart:
        if not isinstance(block, ToolCall):
            return start
        tool = self._tools.get(block.name)
        if tool is None or block.namespace not in (None, tool.namespace):
            return start
        kind, extra = block.kind, start.extra
        if tool.properties is not None and kind == "function":
            self._inputs[start.index] = ArgumentsRenamer(tool.properties)
            self._choices[start.index] = start.choice
        if tool.is_custom and kind == "function":
            depth = self._limits.max_json_depth
            self._inputs[start.index] = CustomToolInputDecoder(max_json_depth=depth)
            self._choices[start.index] = start.choice
            kind, extra = "custom", _without_item_id(extra, "item_id")
        call = structs.replace(block, name=tool.name, namespace=tool.namespace, kind=kind)
        return structs.replace(start, block=call, extra=extra)

    def _stop(self, stop: BlockStop, restored: list[Event]) -> None:
        index = stop.index
        wrapped, choice = self._inputs.pop(index), self._choices.pop(index)
        if text := wrapped.close():
            restored.append(JSONDelta(index, text))
        if isinstance(wrapped, ArgumentsRenamer):
            restored.append(stop)
            return
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
        """Append the block stop that was held until the next block or the finish reason."""
        index = self._held_stops.pop(choice, None)
        if index is not None:
            restored.append(BlockStop(index, is_unfinished))

    def _problem_of(self, event: Event) -> str | None:
        """Return the problem of a call in the choice that `event` ends; None without a problem."""
        if isinstance(event, MessageStop) and event.reason not in CUT_SHORT:
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

    def text_sinks(self, index: int, part: int = 0) -> tuple[Callable[[str], None], list[str]]:
        """Return a function that appends text to an open block, and a list that takes short texts.

        Those for a wrapped call take none of its arguments: `delta_sink` appends the text that
        they wrap.
        """
        if self._restorer.is_wrapped(index):
            return _drop, FULL_LIST
        return self._accumulator.text_sinks(index, part)

    def delta_sink(self, delta: Delta) -> Callable[[str], bytes | None]:
        """Return a function that writes further text of the block of `delta`."""
        index, writer = delta.index, self._writer
        if not self._restorer.is_wrapped(index):
            return writer.delta_sink(delta)
        append, _ = self._accumulator.text_sinks(index)
        unwrap = self._restorer.unwrap
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
