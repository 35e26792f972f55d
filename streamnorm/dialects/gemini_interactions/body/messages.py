"""Steps of a request as messages, in both directions.

google-genai 3.6.1, `_gaos/types/interactions/step.py` (read 2026-11-27).  A message of the user
is a step; an answer is as many as it has blocks, up to the next step of the user.  The signature
of a call stands in a thought before it, which has no summary.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_bool,
    get_object,
    get_str,
    prefix_path,
    read_array,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage, Source, unchanged_source
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import compact, is_array, is_object, json_value, object_in, string_of
from streamnorm._core.text import Signed
from streamnorm.dialects.gemini_interactions.body.content import (
    CONTENTS,
    add_extra,
    block_from_wire,
    block_to_wire,
    extra_of,
)
from streamnorm.dialects.gemini_interactions.content import (
    ISSUER,
    redacted_from_wire,
    result_fields,
    signature_from_wire,
    signature_to_wire,
)
from streamnorm.dialects.gemini_interactions.wire import (
    CALL_SUFFIX,
    DIALECT,
    KIND_SUFFIX,
    RESULT_SUFFIX,
)

USER, OUTPUT, THOUGHT = "user_input", "model_output", "thought"
CALL, RESULT = "function_call", "function_result"

_CALL = frozenset({"type", "id", "name", "arguments"})
_RESULT = frozenset({"type", "call_id", "name", "result", "is_error"})
_STEP = frozenset({"type", "content"})


# Reading


def messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    """Return the messages of a request's `input`: a string, contents, or steps.

    Raises:
        DecodeError: The value has another form, or a field another type than the vendor's.
    """
    if isinstance(value, str):
        return (InputMessage("user", (Text(value),)),)
    items = _entries_of(value)
    if _are_contents(items):
        return (InputMessage("user", tuple(read_array(items, block_from_wire))),)
    reader = _StepReader()
    read_array(items, reader.read)
    return reader.messages()


def input_items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a request's `input` as a list of steps; [] without an input.

    Raises:
        DecodeError: The input is neither a text nor a list of objects.
    """
    value = body.get("input")
    if isinstance(value, str):
        value = {"type": "text", "text": value}
    try:
        items = [] if value is None else _entries_of(value)
        steps = [as_object(item, f"$[{number}]") for number, item in enumerate(items)]
    except DecodeError as exc:
        raise prefix_path(exc, "$.input") from None
    return [{"type": USER, "content": steps}] if _are_contents(steps) else steps


def _entries_of(value: object) -> list[Any]:
    items: object = [value] if is_object(value) else value
    if not is_array(items):
        raise unexpected(value, "a string or an array", "$")
    return items


def _are_contents(items: list[Any]) -> bool:
    """Return whether the entries of `input` are contents of one message instead of steps."""
    return bool(items) and all(
        is_object(item) and string_of(item, "type") in CONTENTS for item in items
    )


class _StepReader:
    """Decoder of the steps of one request, which collects messages."""

    def __init__(self) -> None:
        self._messages: list[InputMessage] = []
        self._steps: list[dict[str, Any]] = []  # of the answer that is being read
        self._blocks: list[InputBlock] = []
        self._unknown: dict[str, Any] = {}  # fields of its texts

    def messages(self) -> tuple[InputMessage, ...]:
        """Return the messages of all steps that were read."""
        self._end_answer()
        return tuple(self._messages)

    def read(self, value: object) -> None:
        """Decode the next step."""
        step = as_object(value)
        kind = require_str(step, "type")
        if kind in (USER, RESULT):
            self._end_answer()
            self._read_user_step(kind, step)
            return
        self._steps.append(step)
        if kind == CALL:
            self._blocks.append(self._sign(_call_from_wire(step)))
        elif kind == OUTPUT:
            self._blocks += read_array(step.get("content"), _output_from_wire, "$.content")
            self._unknown |= unknown_fields(step, _STEP)
        else:
            self._blocks.append(_block_of(kind, step))

    def _read_user_step(self, kind: str, step: dict[str, Any]) -> None:
        if kind == RESULT:
            part = InputMessage("user", (_result_from_wire(step),))
        else:
            blocks = tuple(read_array(step.get("content"), block_from_wire, "$.content"))
            part = InputMessage("user", blocks, extra=extra_of(unknown_fields(step, _STEP)))
        source = Source(DIALECT, [step], part)
        self._messages.append(structs.replace(part, source=source))

    def _sign(self, call: ToolCall) -> ToolCall:
        """Return a call with the signature of the preceding empty thought; remove this thought."""
        last = self._blocks[-1] if self._blocks else None
        is_bare = isinstance(last, Reasoning) and not last.parts and last.extra is None
        if not (is_bare and isinstance(last, Reasoning) and last.issuer == ISSUER):
            return call
        self._blocks.pop()
        return structs.replace(call, signature=last.signature, issuer=last.issuer)

    def _end_answer(self) -> None:
        if self._steps:
            extra = extra_of(self._unknown)
            part = InputMessage("assistant", tuple(self._blocks), extra=extra)
            source = Source(DIALECT, self._steps, part)
            self._messages.append(structs.replace(part, source=source))
            self._steps, self._blocks, self._unknown = [], [], {}


def _output_from_wire(value: object) -> InputBlock:
    """Return a content of a `model_output` step as a block; unknown content as an opaque step."""
    block = block_from_wire(value)
    if isinstance(block, OpaqueBlock) and block.kind not in CONTENTS:
        return OpaqueBlock(DIALECT, OUTPUT, compact({"type": OUTPUT, "content": [value]}))
    return block


def _block_of(kind: str, step: dict[str, Any]) -> InputBlock:
    """Return a thought, server tool call, server tool result or unknown step as a block."""
    if kind == THOUGHT:
        return _thought_from_wire(step)
    if kind.endswith(CALL_SUFFIX):
        return _server_call_from_wire(kind, step)
    if kind.endswith(RESULT_SUFFIX):
        fields = {name: item for name, item in step.items() if name != "type"}
        is_error = fields.get("is_error") is True
        id = get_str(step, "call_id") or ""
        return ServerToolResult(id, kind + KIND_SUFFIX, fields, is_error)
    return OpaqueBlock(DIALECT, kind, compact(step))


def _thought_from_wire(step: dict[str, Any]) -> InputBlock:
    signature = get_str(step, "signature") or ""
    contents = get_array(step, "summary") or []
    redacted = None if contents else redacted_from_wire(signature)
    if redacted is not None:
        return redacted
    texts = [string_of(content, "text") for content in contents if is_object(content)]
    # An image in a summary, or a field of the text, has no unified form.
    if [{"type": "text", "text": text} for text in texts] != contents:
        return OpaqueBlock(DIALECT, THOUGHT, compact(step))
    unknown = extra_of(unknown_fields(step, {"type", "summary", "signature"}))
    signed = signature_from_wire(signature) if signature else ()
    return Reasoning(tuple(texts), *signed, extra=unknown)


def _server_call_from_wire(kind: str, step: dict[str, Any]) -> ServerToolCall:
    arguments = get_object(step, "arguments")
    name = get_str(step, "name") or kind.removesuffix(CALL_SUFFIX)
    text = compact(arguments) if arguments else ""
    extra = extra_of(unknown_fields(step, _CALL))
    return ServerToolCall(get_str(step, "id") or "", name, text, kind + KIND_SUFFIX, extra=extra)


def _call_from_wire(step: dict[str, Any]) -> ToolCall:
    arguments = get_object(step, "arguments")
    text = "" if arguments is None else compact(arguments)
    extra = extra_of(unknown_fields(step, _CALL))
    return ToolCall(get_str(step, "id") or "", require_str(step, "name"), text, extra=extra)


def _result_from_wire(step: dict[str, Any]) -> ToolResult:
    result = step.get("result")
    content: tuple[Any, ...]
    value: str | None = None
    if isinstance(result, str):
        content = (Text(result),) if result else ()
    elif is_object(result):
        value = compact(result)
        content = (Text(value),)
    elif is_array(result) or result is None:
        content = tuple(read_array(result, block_from_wire, "$.result"))
    else:
        raise unexpected(result, "a string, an object or an array", "$.result")
    id, name = get_str(step, "call_id") or "", get_str(step, "name") or ""
    is_error = get_bool(step, "is_error") or False
    extra = extra_of(unknown_fields(step, _RESULT))
    return ToolResult(id, content, is_error, name, value, extra=extra)


# Writing


def messages_to_wire(
    messages: tuple[InputMessage, ...], context: WriteContext
) -> list[dict[str, Any]]:
    """Return the messages of a projected request as steps.

    Raises:
        EncodeError: A message has no legal form.
    """
    steps: list[dict[str, Any]] = []
    write = context.memoize(partial(_message_to_wire, context))
    for number, message in enumerate(messages):
        written: list[dict[str, Any]] | None = unchanged_source(message, DIALECT)
        steps += write(message, number) if written is None else written
    return steps


def _message_to_wire(
    context: WriteContext, message: InputMessage, number: int
) -> list[dict[str, Any]]:
    if message.role not in ("user", "assistant"):
        found = f"{message.role} message, expected one of user or assistant"
        raise EncodeError(found, path=f"messages[{number}]")
    contents = OUTPUT if message.role == "assistant" else USER
    steps: list[dict[str, Any]] = []
    open_step: dict[str, Any] | None = None  # which the next content may extend
    for position, block in enumerate(message.blocks):
        try:
            # A step of an unknown type is the model's; the user has one of contents alone.
            is_content = message.role == "user" and isinstance(block, OpaqueBlock)
            others = None if is_content else _steps_of(block, context)
            if others is not None:
                # A client that signs calls got the thought's signature on the call, too.
                if steps and others[0] == _bare_thought(steps[-1]):
                    del others[0]
                steps += others
                open_step = None
                continue
            if open_step is None:
                open_step = add_extra({"type": contents, "content": []}, message.extra)
                steps.append(open_step)
            open_step["content"].append(block_to_wire(block, context))
        except EncodeError as exc:
            path = f"messages[{number}].blocks[{position}]"
            raise EncodeError(exc.args[0], path=path) from exc
    return steps


def _steps_of(block: InputBlock, context: WriteContext) -> list[dict[str, Any]] | None:
    """Return a block as steps; None if the block must be a content within a step."""
    match block:
        case Reasoning():
            return [_thought_to_wire(block, block.parts, block.signature, context)]
        case RedactedReasoning():
            return [_thought_to_wire(block, (), block.data, context)]
        case ToolCall():
            return _call_to_wire(block, context)
        case ToolResult():
            return [result_to_wire(block, context)]
        case ServerToolCall(id, name, arguments, kind):
            step = server_call_fields(kind, name) | {"id": id}
            step["arguments"] = json_value(arguments or "{}", "arguments")
            return [add_extra(step, block.extra)]
        case ServerToolResult(id, kind):
            step = {"type": kind.removesuffix(KIND_SUFFIX), "call_id": id}
            return [step | result_fields(block, context.losses)]
        case OpaqueBlock(kind=kind, data=data) if kind not in CONTENTS:
            return [object_in(data)]
        case _:
            return None


def server_call_fields(kind: str, name: str) -> dict[str, Any]:
    """Return a server tool call's `type` and, unless the type implies the tool, `name`."""
    step = kind.removesuffix(KIND_SUFFIX)
    is_implied = step == name + CALL_SUFFIX and step != CALL
    return {"type": step} if is_implied else {"type": step, "name": name}


def executed_call(call: ToolCall, result: ServerToolResult) -> ServerToolCall:
    """Return a function call that the server has executed as a server tool call.

    Only the step of its result shows that the client is not asked.
    """
    return ServerToolCall(call.id, call.name, call.arguments, CALL + KIND_SUFFIX, extra=call.extra)


def _thought_to_wire(
    block: Reasoning | RedactedReasoning,
    parts: tuple[str, ...],
    signature: str | None,
    context: WriteContext,
) -> dict[str, Any]:
    step: dict[str, Any] = {"type": THOUGHT}
    if parts:
        step["summary"] = [{"type": "text", "text": text} for text in parts]
    if signature is not None and block.issuer == ISSUER:
        step["signature"] = signature_to_wire(Signed(signature, block.issuer, block.id))
    elif signature is not None:  # which the API would refuse
        context.losses.add("signature_dropped", "messages", "dropped")
    return add_extra(step, block.extra)


def _bare_thought(step: dict[str, Any]) -> dict[str, Any]:
    """Return a thought without its summary."""
    return {name: value for name, value in step.items() if name != "summary"}


def _call_to_wire(call: ToolCall, context: WriteContext) -> list[dict[str, Any]]:
    step: dict[str, Any] = {"type": CALL, "id": call.id, "name": call.name}
    step["arguments"] = context.arguments_of(call, "")
    step = add_extra(step, call.extra)
    if call.signature is None:
        return [step]
    return [{"type": THOUGHT, "signature": call.signature}, step]


def result_to_wire(result: ToolResult, context: WriteContext) -> dict[str, Any]:
    """Return a tool result as a step.

    Raises:
        EncodeError: The value of the result, or the data of an opaque block, are no JSON.
    """
    step: dict[str, Any] = {"type": RESULT, "call_id": result.tool_call_id}
    if result.name:
        step["name"] = result.name
    # An object has no place for files; the text beside them is the object's JSON.
    if result.value is not None and all(isinstance(block, Text) for block in result.content):
        step["result"] = json_value(result.value, "value")
    else:
        step["result"] = _contents_of(result, context)
    if result.is_error:
        step["is_error"] = True
    return add_extra(step, result.extra)


def _contents_of(result: ToolResult, context: WriteContext) -> str | list[dict[str, Any]]:
    """Return a tool result's content: a string for a single plain text, else a list of contents."""
    first = result.content[0] if result.content else Text()
    is_text = isinstance(first, Text) and not (first.citations or first.extra)
    if len(result.content) < 2 and isinstance(first, Text) and is_text:
        return first.text
    return [block_to_wire(block, context) for block in result.content]
