"""Parts of UI messages as blocks, in both directions: text, reasoning, files, calls.

npm `ai` 7.0.173, `src/ui/convert-to-model-messages.ts`, `src/ui/validate-ui-messages.ts` (read
2026-11-27).  A page sends back what it was sent; any of it may be forged.  What the AI SDK itself
never shows to a model is an `OpaqueBlock`, which other dialects count as a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct, field, structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.chats import AnswerBlocks, result_text
from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_object,
    get_str,
    prefix_path,
    read_array,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.files import Media, data_url, file_at_url, file_of_provider
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import compact, is_json, is_object, json_value, object_in, string_of
from streamnorm._core.losses import Losses
from streamnorm._core.losses.call_results import RESULT_KIND
from streamnorm._core.text import Signed
from streamnorm.dialects.ui_message_stream.content import (
    BROKEN,
    CONTINUED,
    DENIED,
    REPEATED,
    UNFINISHED,
    add_mark,
    citation_from_wire,
    citation_to_wire,
    is_repeated,
    item_id_of,
    reasoning_end_to_wire,
    redacted_from_wire,
    redacted_to_wire,
    result_from_wire,
    server_error_from_wire,
    server_error_to_wire,
    server_output_to_wire,
    signature_from_wire,
    signature_to_wire,
    split_mark,
    text_citation_from_wire,
)
from streamnorm.dialects.ui_message_stream.wire import DIALECT, is_refused, with_metadata

_PM, _CALL_PM, _RESULT_PM = "providerMetadata", "callProviderMetadata", "resultProviderMetadata"
_KIND = "kind"  # of our own metadata: the kind of a call or a result
_CALL, _DYNAMIC, _DATA = "tool-", "dynamic-tool", "data-"
_STREAMING, _REQUESTED, _RESPONDED = "input-streaming", "approval-requested", "approval-responded"
_AVAILABLE, _ERROR, _DENIED = "output-available", "output-error", "output-denied"
_STATES = (_STREAMING, "input-available", _REQUESTED, _RESPONDED, _AVAILABLE, _ERROR, _DENIED)
_UNSIGNED = None, None, None
_MAX_KIND_CHARS = 40
_UNTYPED = "application/octet-stream"


class Step(Struct):
    """The blocks and results of one step of an answer.

    Attributes:
        is_superseded: Whether a later message of the user exists: nobody answers a request for
            approval any more.
        blocks: The blocks of the assistant.
        results: The results of its calls.
        call_ids: Ids of its calls.
        repeated_ids: Ids of its calls that are marked as calls of an earlier message.
        source_ids: Ids of the sources that citations of a text name.
    """

    is_superseded: bool
    blocks: AnswerBlocks = field(default_factory=AnswerBlocks)
    results: list[ToolResult] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    repeated_ids: set[str] = field(default_factory=set)
    source_ids: set[str] = field(default_factory=set)

    def messages(self) -> list[InputMessage]:
        """Return the step's assistant message and its results, without empty messages."""
        messages: list[InputMessage] = []
        if blocks := self.blocks.finish():
            messages.append(InputMessage("assistant", blocks))
        if self.results:
            messages.append(InputMessage("user", tuple(self.results)))
        return messages


def read_part(kind: str, part: dict[str, Any], step: Step) -> None:
    """Add a part of an answer to `step`.

    Args:
        kind: Type of the part.
        part: The part.
        step: The step.

    Raises:
        DecodeError: Its type is unknown, or a field has another type than the protocol's.
    """
    if kind == _DYNAMIC or kind.startswith(_CALL):
        _read_call(kind, part, step)
    elif kind.startswith(_DATA):
        step.blocks.append(_opaque(kind, part))
    elif (read := _READERS.get(kind)) is not None:
        read(part, step)
    else:
        raise DecodeError("unknown, expected the type of a part", path="$.type")


def user_block_from_wire(role: str, item: object) -> InputBlock:
    """Return a part of a user or system message as a block.

    Raises:
        DecodeError: It is neither a text nor, of a user, a file or data of the application.
    """
    part = as_object(item)
    kind = require_str(part, "type")
    if kind == "text":
        return _text_from_wire(part)
    if role == "user" and kind == "file":
        return _file_from_wire(part)
    if role == "user" and (kind.startswith(_DATA) or kind in ("source-url", "source-document")):
        return _opaque(kind, part)
    expected = "text" if role == "system" else "text or file"
    raise DecodeError(f"another type of part for {role}, expected {expected}", path="$.type")


# Texts and reasoning


def _text_from_wire(part: dict[str, Any]) -> Text:
    metadata = _metadata_of(part)
    signed = signature_from_wire(metadata)
    entries = read_array(part.get("citations"), text_citation_from_wire, "$.citations")
    signature, issuer, _ = signed or _UNSIGNED
    extra = None if signed is not None else _extra(_PM, metadata)
    return Text(require_str(part, "text"), tuple(entries), signature, issuer, extra=extra)


def _read_text(part: dict[str, Any], step: Step) -> None:
    step.blocks.append(_text_from_wire(part))
    for entry in part.get("citations") or ():
        step.source_ids.add(string_of(entry["source"], "id"))


def _read_source(part: dict[str, Any], step: Step) -> None:
    """Add a source as a citation of the preceding text."""
    _metadata_of(part)
    if require_str(part, "sourceId") in step.source_ids:
        return
    if not step.blocks.cite(citation_from_wire(part)):
        step.blocks.append(_opaque(part["type"], part))


def _read_reasoning(part: dict[str, Any], step: Step) -> None:
    """Add a reasoning part; parts with one item id become summaries of one block."""
    metadata = _metadata_of(part)
    text = require_str(part, "text")
    redacted, signed = redacted_from_wire(metadata), signature_from_wire(metadata)
    if redacted is not None and not text:
        step.blocks.append(redacted)
        return
    mark, metadata = split_mark(metadata, CONTINUED)
    signature, issuer, id = signed or (None, None, item_id_of(metadata))
    parts = (text,) if text else ()
    extra = None if signed is not None or id is not None else _extra(_PM, metadata)
    block = Reasoning(parts, signature, issuer, id, extra=extra)
    # Older versions of the encoder wrote no mark, and the id of an item on its last part alone.  A
    # step is one answer of a provider, whose other reasoning would have an id of its own.
    may_join_unnamed = mark is None and signature is not None and id is not None
    step.blocks.append_reasoning(
        block, is_continued=mark is True, may_join_unnamed=may_join_unnamed
    )
    if redacted is not None:
        step.blocks.append(redacted)


# Files


def _read_file(part: dict[str, Any], step: Step) -> None:
    step.blocks.append(_file_from_wire(part))


def _file_from_wire(part: dict[str, Any]) -> InputBlock:
    """Return a file as a block.

    Raises:
        DecodeError: Its URL cannot be read by a server, or its content is not of its media type.
    """
    media_type, url = require_str(part, "mediaType"), require_str(part, "url")
    title = get_str(part, "filename")
    metadata = _metadata_of(part)
    extra = _extra(_PM, metadata)
    if references := get_object(part, "providerReference"):
        issuer, id = next(iter(references.items()))
        if not isinstance(id, str):
            raise unexpected(id, "a string", "$.providerReference")
        known = file_of_provider(id, issuer, media_type, title)
        return _opaque("file", part) if known is None else structs.replace(known, extra=extra)
    try:
        file = file_at_url(url, media_type, title)
    except DecodeError as exc:
        raise prefix_path(exc, "$.url") from None
    signed = signature_from_wire(metadata)
    if isinstance(file, Image) and signed is not None:
        return structs.replace(file, signature=signed.signature, issuer=signed.issuer)
    return structs.replace(file, extra=extra)


# Calls and their results


def _read_call(kind: str, part: dict[str, Any], step: Step) -> None:
    """Add a call, and the result if the part's state implies a result.

    Raises:
        DecodeError: Its state is unknown, or its id is that of another call of the step.
    """
    id, state = require_str(part, "toolCallId"), require_str(part, "state")
    name = require_str(part, "toolName") if kind == _DYNAMIC else kind[len(_CALL) :]
    if state not in _STATES:
        raise DecodeError(f"another state, expected one of {', '.join(_STATES)}", path="$.state")
    if not id or not name:
        what = "name" if id else "id"
        raise DecodeError(f"a call with an empty {what}, expected one", path="$")
    if state == _STREAMING or (state == _REQUESTED and step.is_superseded):
        # The client executes no call whose input was never available, and nobody has approved.
        step.blocks.append(_opaque(kind, part))
        return
    if id in step.call_ids:
        raise DecodeError("id of another call of the step, expected one of its own", path="$")
    step.call_ids.add(id)
    metadata, of_result = (_metadata_of(part, field) for field in (_CALL_PM, _RESULT_PM))
    if state == _ERROR and not metadata:
        metadata, of_result = of_result, None
    mark, metadata = split_mark(metadata, _KIND)
    result_mark, of_result = split_mark(of_result, _KIND)
    is_custom, arguments = _input_of(part, state, mark)
    outcome = _outcome_of(part, state)
    call_extra, result_extra = _extra(_CALL_PM, metadata), _extra(_RESULT_PM, of_result)
    if get_bool(part, "providerExecuted"):
        kind = mark if isinstance(mark, str) else name
        step.blocks.append(ServerToolCall(id, name, arguments, kind, extra=call_extra))
        if outcome is not None and result_mark != RESULT_KIND:  # else its call says it
            kind = result_mark if isinstance(result_mark, str) else name
            output, is_error = outcome
            content = server_error_from_wire(output) if is_error else output
            step.blocks.append(ServerToolResult(id, kind, content, is_error, extra=result_extra))
        return
    if is_repeated(metadata):
        step.repeated_ids.add(id)
        call_extra = _extra(_CALL_PM, split_mark(metadata, REPEATED)[1])
    signed = signature_from_wire(metadata)
    signature, issuer, _ = signed or _UNSIGNED
    extra = call_extra if signed is None else None
    form: Literal["function", "custom"] = "custom" if is_custom else "function"
    step.blocks.append(ToolCall(id, name, arguments, form, signature, issuer, extra=extra))
    if outcome is None:
        return
    output, is_error = outcome
    result = result_from_wire(id, output)
    if is_error:
        result = structs.replace(result, is_error=True, value=None)
    step.results.append(structs.replace(result, extra=result_extra))


def _input_of(part: dict[str, Any], state: str, kind: object) -> tuple[bool, str]:
    """Return whether a call's input is free text, and the input as text.

    Args:
        part: The call.
        state: The state.
        kind: What our own mark says of a call with a text.
    """
    value = part.get("input")
    if state == _ERROR and value is None:
        value = part.get("rawInput")
        if value is None:
            return False, ""
    if isinstance(value, str) and kind != "function":
        # Servers and clients report arguments that are no JSON as a failed call with a text, and
        # `useChat` so those with a `__proto__`, which it does not parse.
        is_object_text = value.lstrip().startswith("{") and is_json(value)
        return kind == "custom" or not (state == _ERROR or is_object_text), value
    return False, compact(value) if "input" in part or value is not None else ""


def _outcome_of(part: dict[str, Any], state: str) -> tuple[Any, bool] | None:
    """Return a call's output, and whether the output is an error; None before the final output."""
    is_approved, reason = _approval_of(part, state)
    if state == _DENIED or (state == _RESPONDED and not is_approved):
        return reason or DENIED, True
    if state == _ERROR:
        return require_str(part, "errorText"), True
    if state == _AVAILABLE and not get_bool(part, "preliminary"):
        return part.get("output"), False  # `undefined` in JavaScript leaves the field out
    return None


def _approval_of(part: dict[str, Any], state: str) -> tuple[bool, str | None]:
    """Return whether the user approved a call, and the reason that the user stated."""
    approval = get_object(part, "approval") or {}
    if state in (_REQUESTED, _RESPONDED) and not isinstance(approval.get("id"), str):
        raise DecodeError("no approval with an id, expected one", path="$.approval")
    try:
        return get_bool(approval, "approved") is True, get_str(approval, "reason")
    except DecodeError as exc:
        raise prefix_path(exc, "$.approval") from None


# All parts


def _read_opaque(part: dict[str, Any], step: Step) -> None:
    step.blocks.append(_opaque(part["type"], part))


def _opaque(kind: str, part: dict[str, Any]) -> OpaqueBlock:
    return OpaqueBlock(DIALECT, kind, compact(part))


def _metadata_of(part: dict[str, Any], name: str = _PM) -> dict[str, Any] | None:
    """Return a part's metadata: one object for each provider.

    Raises:
        DecodeError: It has another form.
    """
    metadata = get_object(part, name)
    for item in (metadata or {}).values():
        if not is_object(item):
            raise unexpected(item, "an object for each provider", f"$.{name}")
    return metadata


def _extra(name: str, value: dict[str, Any] | None) -> dict[str, dict[str, Any]] | None:
    return {DIALECT: {name: value}} if value else None


_READERS: dict[str, Callable[[dict[str, Any], Step], None]] = {
    "text": _read_text,
    "reasoning": _read_reasoning,
    "file": _read_file,
    "source-url": _read_source,
    "source-document": _read_source,
    # Of the provider that wrote them, in a form that only its package of the AI SDK knows.
    "reasoning-file": _read_opaque,
    "custom": _read_opaque,
}


# Written


def parts_to_wire(block: InputBlock, losses: Losses) -> list[dict[str, Any]]:
    """Return a block as parts: a text is followed by its sources.

    Args:
        block: A block but a result, which stands in the part of its call.
        losses: Counter of what a part has no place for.
    """
    match block:
        case Text():
            return _text_to_parts(block)
        case Reasoning():
            return _reasoning_to_parts(block)
        case RedactedReasoning():
            part = {"type": "reasoning", "text": "", "state": "done"}
            return [with_metadata(part, redacted_to_wire(block))]
        case ToolCall() | ServerToolCall():
            return [_call_to_part(block)]
        case Image() | Document() | Audio() | Video():
            return [_file_to_part(block, losses)]
        case OpaqueBlock(dialect, _, data) if dialect == DIALECT:
            part = object_in(data)
            return [part] if part else []
        case _:
            kind = block.kind if isinstance(block, OpaqueBlock) else ""
            losses.add("opaque_block", "messages", f"{kind[:_MAX_KIND_CHARS]} dropped")
            return []


def _text_to_parts(block: Text) -> list[dict[str, Any]]:
    metadata = _metadata_in(block, _PM)
    if block.signature is not None:
        metadata = signature_to_wire(Signed(block.signature, block.issuer))
    part = with_metadata({"type": "text", "text": block.text, "state": "done"}, metadata)
    return [part, *(citation_to_wire(citation, "") for citation in block.citations)]


def _reasoning_to_parts(block: Reasoning) -> list[dict[str, Any]]:
    """Return one part for each summary; the last part has the signature.

    `@ai-sdk/openai` finds the summaries of an item by its id, which each of them has.
    """
    named = {} if block.id is None else {"openai": {"itemId": block.id}}
    last = _metadata_in(block, _PM) or named
    if block.signature is not None:
        last = reasoning_end_to_wire(Signed(block.signature, block.issuer, block.id))
    parts = [{"type": "reasoning", "text": text, "state": "done"} for text in block.parts or ("",)]
    others = named if "openai" in last else {}
    others = others or add_mark({}, CONTINUED, True)
    written = [with_metadata(part, others) for part in parts[:-1]]
    return [*written, with_metadata(parts[-1], last)]


def _call_to_part(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return a call as a part without a result.

    A page executes a call whose input is available, so that one with broken arguments has failed.
    """
    part: dict[str, Any] = {"type": f"{_CALL}{call.name}", "toolCallId": call.id}
    fields = _input_to_wire(call)
    metadata = _metadata_in(call, _CALL_PM)
    if isinstance(call, ServerToolCall):
        part["providerExecuted"] = True
        if call.kind not in ("", call.name):
            metadata = add_mark(metadata, _KIND, call.kind)
    else:
        if call.signature is not None:
            metadata = signature_to_wire(Signed(call.signature, call.issuer))
        if isinstance(fields["input"], str) and fields["state"] != _ERROR:
            metadata = add_mark(metadata, _KIND, call.kind)
    if metadata:
        part[_CALL_PM] = metadata
    return {**part, **fields}


def _input_to_wire(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return the fields of a call part with its arguments and state."""
    is_unfinished = isinstance(call, ToolCall) and call.is_unfinished
    if isinstance(call, ToolCall) and call.kind == "custom" and not is_unfinished:
        return {"state": "input-available", "input": call.arguments}
    text = call.arguments.strip() or "{}"
    if is_unfinished or not is_json(text):
        error = UNFINISHED if is_unfinished else BROKEN
        return {"state": _ERROR, "input": call.arguments, "errorText": error}
    return {"state": "input-available", "input": json_value(text, "arguments")}


def has_failed(part: dict[str, Any]) -> bool:
    """Return whether a call part is in the error state."""
    return bool(part["state"] == _ERROR)


def add_result(part: dict[str, Any], result: ToolResult, losses: Losses) -> None:
    """Add a call's result to the call's part."""
    text = result_text(result, losses)
    if metadata := _metadata_in(result, _RESULT_PM):
        part[_RESULT_PM] = metadata
    if has_failed(part):  # the call itself, for which a part has one text
        if not result.is_error:
            losses.add("result_as_error", "messages", "read as an error")
        part["errorText"] = text
    elif result.is_error:
        part |= {"state": _ERROR, "errorText": text}
    elif result.value is not None and is_json(result.value):
        value = json_value(result.value, "value")
        part |= {"state": _AVAILABLE, "output": text if is_refused(value) else value}
    else:
        part |= {"state": _AVAILABLE, "output": text}


def server_result_to_part(
    result: ServerToolResult, call: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Merge a server tool's result into the call's part; without a call, return a new part."""
    added: list[dict[str, Any]] = []
    if call is None:
        empty = ServerToolCall(result.tool_call_id, result.kind or "tool")
        call = _call_to_part(empty)
        added.append(call)
    # Google executes some calls of functions itself, which only the result says.
    call["providerExecuted"] = True
    if result.is_error:
        call |= {"state": _ERROR, "errorText": server_error_to_wire(result)}
    else:
        call |= {"state": _AVAILABLE, "output": server_output_to_wire(result)}
    metadata = _metadata_in(result, _RESULT_PM)
    if result.kind not in ("", call["type"].removeprefix(_CALL)):
        metadata = add_mark(metadata, _KIND, result.kind)
    if metadata:
        call[_RESULT_PM] = metadata
    return added


def _file_to_part(block: Media, losses: Losses) -> dict[str, Any]:
    """Return a file as a part; clients before AI SDK v7 lose the id of an uploaded file."""
    part: dict[str, Any] = {"type": "file", "mediaType": block.media_type or _default_type(block)}
    part["url"] = data_url(block, _UNTYPED) if block.data is not None else block.url or ""
    if isinstance(block, Document) and block.title is not None:
        part["filename"] = block.title
    if isinstance(block, Image | Document) and block.file_id is not None:
        losses.add("file_id", "messages", "read by clients of v7 alone")
        part["providerReference"] = {block.issuer or "": block.file_id}
    if isinstance(block, Image) and block.detail is not None:
        losses.add("detail", "messages", "dropped")
    if block.data is not None and ";" in (block.media_type or ""):
        losses.add("media_type_parameters", "messages", "dropped")
    metadata = _metadata_in(block, _PM)
    if isinstance(block, Image) and block.signature is not None:
        metadata = signature_to_wire(Signed(block.signature, block.issuer))
    return with_metadata(part, metadata)


def _default_type(block: Media) -> str:
    return _UNTYPED if isinstance(block, Document) else f"{block.__struct_config__.tag}/*"


def _metadata_in(block: InputBlock, name: str) -> dict[str, Any]:
    """Return a metadata object that the page sent with a block; {} if it sent none."""
    metadata: dict[str, Any] = (block.extra or {}).get(DIALECT, {}).get(name, {})
    return metadata
