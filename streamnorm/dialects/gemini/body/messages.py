"""Contents of a request as messages, in both directions.

https://ai.google.dev/api/caching#Content (read 2026-11-23).  Clients send the parts of a stream
back as they received them, each a fragment of a text or a thought: adjacent parts of one kind
are one block.  The chats of google-genai send each chunk back as a content of its own: adjacent
contents of the model are one message.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    InputBlock,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.fields import (
    get_array,
    read_array,
    read_objects,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage, Role, Source, unchanged_source
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object, string_of
from streamnorm.dialects.gemini.body.content import (
    ISSUER,
    block_to_wire,
    call_to_wire,
    read_part,
    result_to_wire,
)
from streamnorm.dialects.gemini.body.fitting import sign_content
from streamnorm.dialects.gemini.tool_calls import server_result_from_wire
from streamnorm.dialects.gemini.wire import DIALECT, add_extra, extra_of, to_camel, wrap_singles

_MAPPED = frozenset({"role", "parts"})
# Results had the role `function` in former revisions; SDKs of third parties still send it.
_ROLES: dict[str | None, Role] = {
    None: "user",
    "": "user",
    "user": "user",
    "model": "assistant",
    "function": "user",
    "tool": "user",
}
_FORMER_ROLES = frozenset({"function", "tool"})


class _Content(Struct, frozen=True):
    """A decoded content.

    Attributes:
        role: Role of its message.
        parts: The parts on the wire.
        blocks: The parts as blocks.
        unknown: Fields without a unified one.
        wire: The content as it arrived.
    """

    role: Role
    parts: list[Any]
    blocks: list[InputBlock]
    unknown: dict[str, Any]
    wire: dict[str, Any]

    @property
    def may_be_chunk(self) -> bool:
        """Whether the content may be one chunk of a streamed answer."""
        return self.role == "assistant" and not self.unknown


def messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    """Decode contents to messages; adjacent contents of the model are one answer.

    `send_message_stream` of google-genai stores a content for each chunk, and sends all of them
    with the next message (Python 3.6.1, `chats.py`; so does the SDK for JavaScript).

    Raises:
        DecodeError: A role is unknown, or a field has another type than the vendor's.
    """
    messages: list[list[_Content]] = []
    for content in read_objects(value, _content_from_wire):
        if messages and content.may_be_chunk and messages[-1][-1].may_be_chunk:
            messages[-1].append(content)
        else:
            messages.append([content])
    return tuple(map(_message_of, messages))


def _content_from_wire(content: dict[str, Any]) -> _Content:
    name, parts = content.get("role"), content.get("parts")
    unknown: dict[str, Any] = {}
    if len(content) != 2 or not isinstance(name, str) or not is_array(parts):
        wire = wrap_singles(to_camel(content), "parts")
        name, parts = wire.get("role"), get_array(wire, "parts") or []
        unknown = unknown_fields(wire, _MAPPED, with_nulls=True)
    role = _ROLES.get(name) if isinstance(name, str | None) else None
    if role is None:
        raise unexpected(name, "user or model", "$.role")
    blocks: list[InputBlock] = []
    read_array(parts, lambda part: read_part(part, blocks), "$.parts")
    if name in _FORMER_ROLES:
        unknown["role"] = name
    return _Content(role, parts, blocks, unknown, content)


def _message_of(contents: list[_Content]) -> InputMessage:
    """Return the message of one content, or of the chunks of one answer."""
    role, parts, blocks = contents[0].role, contents[0].parts, contents[0].blocks
    if len(contents) > 1:
        parts = [part for content in contents for part in content.parts]
        blocks = [block for content in contents for block in content.blocks]
    if role == "assistant" and len(blocks) > 1:
        kinds = set(map(type, blocks))
        if ToolResult in kinds:
            blocks = _mark_server_calls(blocks, parts)
        if len(kinds) < len(blocks):
            blocks = _join_fragments(blocks)
    message = InputMessage(role, tuple(blocks), extra=extra_of(contents[0].unknown))
    source = Source(DIALECT, [content.wire for content in contents], message)
    return InputMessage(role, message.blocks, None, message.extra, source)


def _mark_server_calls(blocks: list[InputBlock], parts: list[Any]) -> list[InputBlock]:
    """Return a model's blocks; calls with a result in the same answer become server calls.

    With `mcpServers` the provider itself calls functions and reports call and result in one
    answer; a call of the client has its result in a content of the user.
    """
    answered = {
        block.tool_call_id or block.name for block in blocks if isinstance(block, ToolResult)
    }
    found: list[InputBlock] = []
    for part in parts:
        part = to_camel(part)
        value = part.get("functionCall") or part.get("functionResponse")
        if not is_object(value):
            read_part(part, found)
            continue
        id, name = string_of(value, "id"), string_of(value, "name")
        extra = extra_of({key: item for key, item in part.items() if item is not value})
        if "functionResponse" in part:
            result = server_result_from_wire("functionResponse", value, id)
            found.append(structs.replace(result, extra=extra))
        elif (id or name) in answered:
            found.append(ServerToolCall(id, name, compact(value), "functionCall", extra=extra))
        else:
            read_part(part, found)
    return found


def _join_fragments(blocks: list[InputBlock]) -> list[InputBlock]:
    """Return a model's blocks with adjacent fragments joined."""
    joined: list[InputBlock] = []
    run: list[InputBlock] = []
    for block in blocks:
        if run and not _continues(run[-1], block):
            joined.append(_join_run(run))
            run = []
        run.append(block)
    return [*joined, _join_run(run)]


def _join_run(fragments: list[InputBlock]) -> InputBlock:
    """Return consecutive fragments joined to one block with the last fragment's signature."""
    last = fragments[-1]
    if len(fragments) == 1:
        return last
    text = "".join([block.text for block in fragments if isinstance(block, Text | Reasoning)])
    if isinstance(last, Reasoning):
        parts = (text,) if text else ()
        return Reasoning(parts, last.signature, last.issuer, last.id, extra=last.extra)
    return Text(text)


def _continues(last: InputBlock, block: InputBlock) -> bool:
    """Return whether a model's block is a fragment that continues the previous block.

    A signature ends its block: a signed part must not be merged with unsigned parts when it is
    sent back (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    match last, block:
        case (Text(), Text()):
            is_fragment = block.signature is None and block.extra is None
        case (Reasoning(), Reasoning()):
            # The encoder writes another issuer's signature on an empty part behind the thought.
            is_fragment = block.signature is None or block.issuer != ISSUER
        case _:
            return False
    return is_fragment and last.signature is None and last.extra is None


class ContentsWriter:
    """Encoder of the messages of one request.

    Args:
        context: Capabilities of the target, and its losses.
    """

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._tool_names: dict[str, str] = {}  # by call id; a result must name its tool

    def write(self, messages: tuple[InputMessage, ...]) -> list[dict[str, Any]]:
        """Return messages as Gemini's `contents`.

        Raises:
            EncodeError: A message has no legal form.
        """
        contents: list[dict[str, Any]] = []
        write = self._context.memoize(self._content)
        for number, message in enumerate(messages):
            if message.role == "assistant":
                for block in message.blocks:
                    if isinstance(block, ToolCall) and block.id:
                        self._tool_names[block.id] = block.name
            unchanged: list[dict[str, Any]] | None = unchanged_source(message, DIALECT)
            if unchanged is not None:
                contents += unchanged
            elif message.role == "assistant" and not message.blocks:
                # The API refuses a content without parts.
                losses = self._context.losses
                losses.add("empty_message_dropped", "messages", "nothing in it was written")
            else:
                contents.append(write(message, number))
        return contents

    def _content(self, message: InputMessage, number: int) -> dict[str, Any]:
        if message.role not in ("user", "assistant"):
            raise EncodeError(
                f"{message.role} message, expected one of user or assistant",
                path=f"messages[{number}]",
            )
        parts: list[dict[str, Any]] = []
        try:
            parts.extend(map(self._part, message.blocks))
        except EncodeError as exc:
            path = f"messages[{number}].blocks[{len(parts)}]"
            raise EncodeError(exc.args[0], path=path) from exc
        if message.role == "assistant":
            for last, block in pairwise(message.blocks):
                if _continues(last, block):
                    self._context.losses.add("boundaries", "messages", "adjacent blocks joined")
            content = sign_content({"role": "model", "parts": parts}, self._context)
            return add_extra(content, message.extra)
        former = (message.extra or {}).get(DIALECT, {}).get("role")
        return add_extra({"role": former or "user", "parts": parts}, message.extra)

    def _part(self, block: InputBlock) -> dict[str, Any]:
        match block:
            case ToolCall():
                return call_to_wire(block, self._context)
            case ToolResult():
                name = self._tool_names.get(block.tool_call_id) or block.name
                if not name:
                    raise EncodeError("result of no call, expected the name of its tool", path="")
                return result_to_wire(block, name, self._context)
            case _:
                return block_to_wire(block, self._context)
