"""Assertions about events and messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import msgspec
from msgspec import structs

from streamnorm._core.blocks import Block, ServerToolCall, Text, ToolCall
from streamnorm._core.events import Event, Usage
from streamnorm._core.messages import Message
from streamnorm.validation import validate

# The format of `ids.mint_id`.
_MINTED = re.compile(r"call_[0-9a-f]{24}")


def assert_grammatical(events: Iterable[Event]) -> None:
    """Assert that the events of a whole stream follow the event grammar.

    Raises:
        AssertionError: They do not; it lists every violation.
    """
    __tracebackhide__ = True
    violations = validate(list(events))
    if violations:
        listed = "\n".join(f"  event {v.position}: {v.message}" for v in violations)
        raise AssertionError(f"events against the grammar:\n{listed}")


def assert_same_message(got: Message, expected: Message) -> None:
    """Assert that two messages are equal in content.

    Compared are blocks and stop reason, and usage and stop sequence where both messages have
    them.  An id minted by streamnorm equals any id; empty arguments equal an empty object.
    Not compared are the message's id and model, the vendor's stop reason and the vendor's
    other fields.

    Raises:
        AssertionError: They differ; it shows a diff from `expected` to `got`.
    """
    __tracebackhide__ = True
    ours, theirs = _reduce(got, expected), _reduce(expected, got)
    if ours == theirs:
        return
    diff = difflib.unified_diff(
        _write_lines(theirs), _write_lines(ours), fromfile="expected", tofile="got", lineterm=""
    )
    raise AssertionError("messages differ:\n" + "\n".join(diff))


def _reduce(message: Message, other: Message) -> Message:
    """Return the part of a message that is compared with another."""
    both = message.stop_sequence is not None and other.stop_sequence is not None
    counterparts = [*other.blocks, *[None] * len(message.blocks)]
    return Message(
        blocks=tuple(map(_reduce_block, message.blocks, counterparts)),
        stop_reason=message.stop_reason,
        stop_sequence=message.stop_sequence if both else None,
        usage=_reduce_usage(message.usage, other.usage),
    )


def _reduce_block(block: Block, other: Block | None) -> Block:
    match block:
        case Text(citations=citations):
            plain = tuple(structs.replace(source, extra=None) for source in citations)
            return structs.replace(block, citations=plain)
        case ToolCall(id, arguments=arguments, kind=kind):
            if isinstance(other, ToolCall) and any(map(_MINTED.fullmatch, (id, other.id))):
                id = "(minted)"
            if kind == "function":
                arguments = arguments or "{}"
            return structs.replace(block, id=id, arguments=arguments)
        case ServerToolCall(arguments=""):
            return structs.replace(block, arguments="{}")
        case _:
            return block


def _reduce_usage(usage: Usage, other: Usage) -> Usage:
    unknown = [name for name, count in structs.asdict(other).items() if count is None]
    return structs.replace(usage, **dict.fromkeys([*unknown, "extra"]))


def _write_lines(message: Message) -> list[str]:
    """Return a message as lines of JSON, strings broken at their line ends."""
    text = msgspec.json.format(msgspec.json.encode(message), indent=2).decode()
    return [
        part
        for line in text.split("\n")
        for part in re.sub(r"(?<!\\)((?:\\\\)*\\n)", r"\1\n    ", line).split("\n")
    ]
