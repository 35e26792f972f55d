"""Parts of a content as blocks, in both directions.

https://ai.google.dev/api/caching#Part (read 2026-11-23).  A part has one data field and any
number of modifiers, such as `thought` and `thoughtSignature`.  First parts of any kind, then
files, calls (`functionCall`) and results (`functionResponse`).  Modifiers and unknown fields
stand in `extra`; mapped fields win when both are written.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from decimal import Decimal
from typing import Any, TypeAlias

from msgspec import structs

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
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_object,
    get_str,
    prefix_path,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.files import base64_of
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import compact, is_object, json_value, objects_of, string_of
from streamnorm._core.limits import Limits, StoredBytes
from streamnorm._core.text import Signed
from streamnorm.dialects.gemini.content import (
    is_decodable,
    redacted_from_wire,
    redacted_to_wire,
    signature_from_wire,
)
from streamnorm.dialects.gemini.tool_calls import (
    PartialArguments,
    server_call_from_wire,
    server_result_from_wire,
    server_result_to_wire,
)
from streamnorm.dialects.gemini.wire import (
    DIALECT,
    RawPart,
    add_extra,
    data_field,
    extra_of,
    to_camel,
)

_NO_RAW = RawPart()
_THOUGHT_FIELDS = frozenset({"thought", "thoughtSignature"})
_FREQUENT = ("functionCall", "functionResponse")
_PLACEHOLDERS = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""Values that Google documents for parts without a signature."""
File: TypeAlias = Image | Document | Audio | Video

ISSUER = "google"

_MAPPED_OF_FILES = frozenset({"mimeType", "data", "fileUri"})
_OWN_FILES = ("gs://", "https://generativelanguage.googleapis.com/")
_URL_SAFE = str.maketrans("-_", "+/")
_LEVELS = {
    "low": "MEDIA_RESOLUTION_LOW",
    "high": "MEDIA_RESOLUTION_HIGH",
    "original": "MEDIA_RESOLUTION_ULTRA_HIGH",
}
_DETAILS = {level: detail for detail, level in _LEVELS.items()}
_VIDEO_HOSTS = frozenset({"youtube.com", "www.youtube.com", "youtu.be"})
_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "mp4": "video/mp4",
    "mov": "video/mov",
    "webm": "video/webm",
}
_KINDS: dict[str, type[File]] = {"image": Image, "audio": Audio, "video": Video}
_DEFAULT_TYPES: dict[type, str] = {
    Image: "image/jpeg",
    Document: "application/pdf",
    Audio: "audio/mp3",
    Video: "video/mp4",
}
_MAPPED_OF_CALLS = frozenset({"id", "name", "args", "partialArgs"})
# A double holds any number of fifteen digits exactly.  Bytes are first mapped to digit, exponent
# sign or other: searching the result for a fixed pattern costs a tenth of the expression below.
_CHARACTER_KINDS = bytes(
    ord("0") if chr(byte) in "0123456789." else ord("e") if chr(byte) in "eE" else ord(" ")
    for byte in range(256)
)
_MANY_DIGITS = b"0" * 16
_EXPONENT = b"0e"
_SUSPECT = re.compile(r"[0-9.]{16}|[0-9][eE][+-]?[0-9]{3}")
_MAX_DIGITS = 400
_MAPPED_OF_RESULTS = frozenset({"id", "name", "response", "parts"})
_OUTPUT, _ERROR = "output", "error"
_FILES = ("inlineData", "fileData")


def read_part(part: Any, blocks: list[InputBlock]) -> None:
    """Append the blocks of one part: two if text carries another vendor's redacted reasoning.

    Raises:
        DecodeError: The part is no object, has several data fields, or a field of another type
            than the vendor's.
    """
    if not is_object(part):
        raise unexpected(part, "an object", "$")
    text = part.get("text")
    if type(text) is str and len(part) == 1:
        blocks.append(Text(text))
        return
    field, value, others = _split_part(to_camel(part))
    if field == "text":
        blocks += _texts(value, others)
        return
    try:
        blocks.append(_block_from_wire(field, value, others))
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{field}") from None


def _split_part(part: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """Return a part's data field, that field's value, and the other fields."""
    for field in _FREQUENT:
        value = part.get(field)
        if value is None:
            continue
        if len(part) == 1:
            return field, value, {}
        if len(part) == 2 and "thoughtSignature" in part:
            return field, value, {"thoughtSignature": part["thoughtSignature"]}
    try:
        field = data_field(part)
    except Fatal as fatal:
        raise DecodeError(fatal.error.message, path="$") from None
    others = {
        key: item
        for key, item in part.items()
        if key != field and (key, item) not in (("text", ""), ("thought", False))
    }
    return field, part.get(field), others


def _block_from_wire(field: str, value: Any, modifiers: dict[str, Any]) -> InputBlock:
    match field:
        case "functionCall" if is_object(value):
            signed = _signature_of(modifiers.pop("thoughtSignature", None))
            return _call_from_wire(value, signed, modifiers)
        case "functionResponse" if is_object(value):
            return _result_from_wire(value, modifiers)
        case "inlineData" | "fileData" if is_object(value) and not modifiers.get("thought"):
            return _file_from_wire(field, value, modifiers)
        case "executableCode" | "toolCall" if is_object(value):
            call, text = server_call_from_wire(field, value, _NO_RAW)
            return ServerToolCall(call.id, call.name, text, kind=field, extra=extra_of(modifiers))
        case "codeExecutionResult" | "toolResponse" if is_object(value):
            result = server_result_from_wire(field, value, string_of(value, "id"))
            return structs.replace(result, extra=extra_of(modifiers))
        case _:
            return OpaqueBlock(DIALECT, field, compact(value), extra=extra_of(modifiers))


def _signature_of(value: object) -> Signed | None:
    """Return a signature with its issuer; None if it is missing or a placeholder."""
    if not isinstance(value, str) or not value or value in _PLACEHOLDERS:
        return None
    return signature_from_wire(value)


def _texts(value: Any, others: dict[str, Any]) -> list[InputBlock]:
    """Return the blocks of a text part, which may be a thought."""
    text = get_str({"text": value}, "text") or ""
    thought, wire = others.get("thought") is True, others.get("thoughtSignature")
    redacted = redacted_from_wire(wire) if isinstance(wire, str) else None
    if redacted is not None:
        plain = Reasoning((text,)) if thought else Text(text)
        return [plain, redacted] if text else [redacted]
    signed = _signature_of(wire)
    extra = extra_of(
        {key: item for key, item in others.items() if key not in _THOUGHT_FIELDS or item is None}
    )
    if thought:
        return [Reasoning((text,) if text else (), *(signed or ()), extra=extra)]
    signature, issuer, _ = signed or (None, None, None)
    return [Text(text, signature=signature, issuer=issuer, extra=extra)]


def block_to_wire(block: InputBlock, context: WriteContext) -> dict[str, Any]:
    """Return a block as a part; client tool calls and results are refused.

    Raises:
        EncodeError: The dialect has no part for the block.
    """
    match block:
        case Text(text):
            part: dict[str, Any] = {"text": text}
            if block.signature is not None:
                _sign(part, block, context)
        case Reasoning():
            part = {"text": block.text, "thought": True}
            if len(block.parts) > 1:
                context.losses.add("reasoning_parts", "messages", "joined by a blank line")
            if block.signature is not None:
                _sign(part, block, context)
        case RedactedReasoning():
            part = {"text": "", "thought": True, "thoughtSignature": redacted_to_wire(block)}
        case Image() | Document() | Audio() | Video():
            return _file_to_wire(block, context)
        case ServerToolCall(_, _, arguments, kind):
            part = {kind: json_value(arguments, "arguments")}
        case ServerToolResult():
            part = server_result_to_wire(block)
        case OpaqueBlock(_, kind, data):
            part = {kind: json_value(data, "data")}
        case _:
            raise EncodeError(f"{type(block).__name__}, expected a block with a part", path="")
    return part if block.extra is None else add_extra(part, block.extra)


def _sign(
    part: dict[str, Any], block: Text | Reasoning | ToolCall | Image, context: WriteContext
) -> None:
    """Add a block's signature to its part, if Google can use the signature."""
    if block.issuer == ISSUER and is_decodable(block.signature or ""):
        part["thoughtSignature"] = block.signature
    else:
        context.losses.add("signature_dropped", "messages", "dropped")


def _file_from_wire(
    field: str, value: dict[str, Any], modifiers: dict[str, Any]
) -> File | OpaqueBlock:
    """Return a file part as a file; as an opaque block if it has no usable data or URI.

    Args:
        field: `inlineData` or `fileData`.
        value: Value of the field.
        modifiers: The other fields of the part.
    """
    wire = to_camel(value)
    media_type, data, uri = wire.get("mimeType"), wire.get("data"), wire.get("fileUri")
    fields = dict(modifiers)
    for name, item in wire.items():
        if name not in _MAPPED_OF_FILES:
            fields[f"{field}.{name}"] = item
    block: File | None = None
    if field == "fileData" and isinstance(uri, str) and isinstance(media_type, str | None):
        block = _file_by_uri(media_type, uri, fields)
    elif field == "inlineData" and isinstance(data, str) and isinstance(media_type, str):
        block = _inline_file(media_type, data.translate(_URL_SAFE), fields)
    if block is not None:
        return block
    return OpaqueBlock(DIALECT, field, compact(value), extra=extra_of(dict(modifiers)))


def _file_by_uri(media_type: str | None, uri: str, fields: dict[str, Any]) -> File:
    kind = _kind_of(media_type or _guess_media_type(uri) or "")
    if kind is Audio or kind is Video:
        return kind(media_type, url=uri, extra=extra_of(fields))
    detail = _take_detail(fields) if kind is Image else None
    own = uri.startswith(_OWN_FILES)
    url, id, issuer = (None, uri, ISSUER) if own else (uri, None, None)
    if kind is Image:
        image = Image(media_type, url=url, file_id=id, detail=detail, issuer=issuer)
        return _complete_image(image, fields)
    return Document(media_type, url=url, file_id=id, issuer=issuer, extra=extra_of(fields))


def _inline_file(media_type: str, data: str, fields: dict[str, Any]) -> File | None:
    data += "=" * (-len(data) % 4)  # Google reads Base64 without padding, too
    kind = _kind_of(media_type)
    if kind is Image:
        return _complete_image(Image(media_type, data, detail=_take_detail(fields)), fields)
    if media_type.startswith("text/"):
        try:
            data = base64.b64decode(data, validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return kind(media_type, data, extra=extra_of(fields))


def _complete_image(image: Image, fields: dict[str, Any]) -> Image:
    """Return an image with the signature and the unknown fields of its part."""
    wire = fields.get("thoughtSignature")
    signed = _signature_of(wire)
    if image.data is not None and isinstance(wire, str) and wire in _PLACEHOLDERS:
        del fields["thoughtSignature"]  # which the encoder writes again
    # The issuer of an uploaded file is Google, which signs its images itself.
    if signed is not None and image.issuer in (None, signed.issuer):
        del fields["thoughtSignature"]
        image = structs.replace(image, signature=signed.signature, issuer=signed.issuer)
    extra = extra_of(fields)
    return image if extra is None else structs.replace(image, extra=extra)


def _kind_of(media_type: str) -> type[File]:
    return _KINDS.get(media_type.partition("/")[0], Document)


def _take_detail(fields: dict[str, Any]) -> str | None:
    """Remove `mediaResolution` and return the equal image detail; None if no detail matches."""
    resolution = fields.get("mediaResolution")
    if not is_object(resolution) or len(resolution) != 1:
        return None
    level = resolution.get("level")
    detail = _DETAILS.get(level) if isinstance(level, str) else None
    if detail is not None:
        del fields["mediaResolution"]
    return detail


def _guess_media_type(uri: str) -> str | None:
    """Return the media type implied by a URI's suffix, or None."""
    address = uri.partition("?")[0].partition("#")[0]
    host, _, path = address.partition("://")[2].partition("/")
    if host in _VIDEO_HOSTS:
        return _TYPES["mp4"]
    return _TYPES.get(path.rpartition(".")[2].lower()) if "." in path else None


def _file_to_wire(block: File, context: WriteContext) -> dict[str, Any]:
    """Return a file as the fields of its part."""
    uri = block.url
    if isinstance(block, Image | Document) and block.file_id is not None:
        uri = block.file_id
    if isinstance(block, Document) and block.title is not None:
        context.losses.add("title", "messages", "dropped")
    if uri is not None:
        part = {"fileData": _uri_to_wire(block, uri, context)}
    else:
        media_type = block.media_type or _DEFAULT_TYPES[type(block)]
        data = base64_of(media_type, block.data or "")
        part = {"inlineData": {"mimeType": media_type, "data": data}}
    if isinstance(block, Image) and block.detail in _LEVELS:
        part["mediaResolution"] = {"level": _LEVELS[block.detail]}
    if isinstance(block, Image) and block.signature is not None:
        _sign(part, block, context)
    return add_extra(part, block.extra)


def _uri_to_wire(block: File, uri: str, context: WriteContext) -> dict[str, str]:
    if block.media_type is not None:
        return {"mimeType": block.media_type, "fileUri": uri}
    guessed = _guess_media_type(uri)
    if uri.partition("://")[2].partition("/")[0] in _VIDEO_HOSTS:
        return {"fileUri": uri}  # the API knows the type of videos on YouTube
    if guessed is None or _kind_of(guessed) is not type(block):
        guessed = _DEFAULT_TYPES[type(block)]
    context.losses.add("media_type_guessed", "messages", f"written as {guessed}")
    return {"mimeType": guessed, "fileUri": uri}


def _call_from_wire(
    value: dict[str, Any], signed: Signed | None, modifiers: dict[str, Any]
) -> InputBlock:
    """Return a `functionCall` as a tool call; a fragment of a call as an opaque block.

    Args:
        value: The `functionCall`.
        signed: Signature of the part; None if it has none.
        modifiers: The other fields of the part.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    is_plain = len(value) == 3 and "id" in value and "name" in value and "args" in value
    wire = value if is_plain else to_camel(value)
    id, name = get_str(wire, "id") or "", get_str(wire, "name")
    if not name or wire.get("willContinue"):
        return OpaqueBlock(DIALECT, "functionCall", compact(value), extra=extra_of(modifiers))
    args = get_object(wire, "args")
    arguments = "" if args is None else compact(args)
    if args is None and wire.get("partialArgs"):  # Vertex streams arguments; clients echo them
        arguments = _join_arguments(objects_of(wire["partialArgs"]))
    unknown = {} if is_plain else unknown_fields(wire, _MAPPED_OF_CALLS, with_nulls=True)
    if unknown:
        modifiers = {f"functionCall.{key}": item for key, item in unknown.items()} | modifiers
    signature, issuer, _ = signed or (None, None, None)
    extra = extra_of(modifiers)
    return ToolCall(id, name, arguments, signature=signature, issuer=issuer, extra=extra)


def _join_arguments(entries: list[dict[str, Any]]) -> str:
    """Return the arguments in `partialArgs` as JSON text."""
    arguments = PartialArguments(Limits(), StoredBytes())
    try:
        text = "".join([arguments.write(entry) for entry in entries]) + arguments.finish()
    except Fatal as fatal:
        raise DecodeError(
            f"{fatal.error.message}, expected arguments", path="$.partialArgs"
        ) from None
    if not arguments.is_whole:
        raise DecodeError("arguments that were cut, expected whole ones", path="$.partialArgs")
    return text


def call_to_wire(call: ToolCall, context: WriteContext) -> dict[str, Any]:
    """Return a tool call as a part.

    Args:
        call: The tool call.
        context: Capabilities of the target, and its losses.

    Raises:
        EncodeError: The arguments are no JSON object.
    """
    args = context.arguments_of(call, "")
    _count_inexact_numbers(call.arguments, context)
    wire: dict[str, Any] = {"id": call.id} if call.id and context.capabilities.call_ids else {}
    wire |= {"name": call.name, "args": args}
    part: dict[str, Any] = {"functionCall": wire}
    if call.signature is not None:
        _sign(part, call, context)
    return part if call.extra is None else add_extra(part, call.extra)


def _count_inexact_numbers(arguments: str, context: WriteContext) -> None:
    """Count as losses the numbers in JSON text that a double cannot represent exactly.

    Google stores arguments in a protocol buffer whose only number is the double.
    """
    kinds = arguments.encode("utf-8", "replace").translate(_CHARACTER_KINDS)
    if _MANY_DIGITS not in kinds and _EXPONENT not in kinds:
        return
    if _SUSPECT.search(arguments) is None:
        return

    inexact: list[str] = []

    def check(text: str) -> None:
        if not _is_exact(text):
            inexact.append(text[:1])

    try:
        json.loads(arguments, parse_int=check, parse_float=check)
    except (ValueError, RecursionError):
        return  # `context.arguments_of` has refused or repaired broken arguments
    for _ in inexact:
        context.losses.add("number_precision", "messages", "stored as a double")


def _is_exact(text: str) -> bool:
    if len(text) > _MAX_DIGITS:
        return False
    exact, double = Decimal(text), float(text)
    is_integer = text.lstrip("-").isdecimal()
    return exact == (Decimal(double) if is_integer else Decimal(repr(double)))


def _result_from_wire(value: dict[str, Any], modifiers: dict[str, Any]) -> ToolResult:
    """Return a `functionResponse` as a tool result.

    Args:
        value: The `functionResponse`.
        modifiers: The other fields of the part.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    is_plain = len(value) == 3 and "id" in value and "name" in value and "response" in value
    wire = value if is_plain else to_camel(value)
    id, name = get_str(wire, "id") or "", get_str(wire, "name") or ""
    response = get_object(wire, "response")
    is_error, text, original = (False, "", None) if response is None else _read_response(response)
    content: tuple[Any, ...] = (Text(text),) if text else ()
    if is_plain:
        return ToolResult(id, content, is_error, name, original, extra=extra_of(modifiers))
    parts = get_array(wire, "parts") or ()
    content += tuple([_file_of_result(part, f"$.parts[{at}]") for at, part in enumerate(parts)])
    unknown = {
        f"functionResponse.{key}": item
        for key, item in unknown_fields(wire, _MAPPED_OF_RESULTS, with_nulls=True).items()
    }
    extra = extra_of({**unknown, **modifiers})
    return ToolResult(id, content, is_error, name, original, extra=extra)


def _read_response(response: dict[str, Any]) -> tuple[bool, str, str | None]:
    """Return a tool response's error flag, text and JSON; None as JSON if the text restores it.

    By convention a response holds its value under `output` or `error` alone.
    """
    key, value = next(iter(response.items()), ("", None))
    if len(response) != 1 or key not in (_OUTPUT, _ERROR):
        text = compact(response)
        return False, text, text
    if isinstance(value, str):
        return key == _ERROR, value, None
    return key == _ERROR, compact(value), compact(response)


def _file_of_result(part: object, path: str) -> Any:
    """Return an entry of a tool result's `parts` as a file, else as an opaque block."""
    try:
        wire = to_camel(as_object(part, "$"))
    except DecodeError as exc:
        raise prefix_path(exc, path) from None
    for field in _FILES:
        value = wire.get(field)
        if is_object(value):
            modifiers = {key: item for key, item in wire.items() if key != field}
            return _file_from_wire(field, value, modifiers)
    kind = next(iter(wire), "")
    return OpaqueBlock(DIALECT, kind, compact(wire.get(kind)))


def result_to_wire(result: ToolResult, name: str, context: WriteContext) -> dict[str, Any]:
    """Return a tool result as a part.

    Args:
        result: The tool result.
        name: Name of the tool.
        context: Capabilities of the target, and its losses.

    Raises:
        EncodeError: The value of the result, or the data of an opaque block, are no JSON.
    """
    texts: list[str] = []
    files: list[dict[str, Any]] = []
    for block in result.content:
        match block:
            case Text(text):
                if files:
                    context.losses.add("order_lost", "messages", "text written before the files")
                texts.append(text)
            case OpaqueBlock(_, kind, data):
                files.append({kind: json_value(data, "data")})
            case file:
                files.append(_file_to_wire(file, context))
    if len(texts) > 1:
        context.losses.add("boundaries", "messages", "texts of a result joined")
    wire: dict[str, Any] = {}
    if result.tool_call_id and context.capabilities.call_ids:
        wire["id"] = result.tool_call_id
    wire["name"] = name
    if result.value is not None:
        response = json_value(result.value, "value")
        is_stated = is_object(response) and _read_response(response)[0]
        wire["response"] = {_ERROR: response} if result.is_error and not is_stated else response
    else:
        wire["response"] = {_ERROR if result.is_error else _OUTPUT: "".join(texts)}
    if files:
        wire["parts"] = files
    part = {"functionResponse": wire}
    return part if result.extra is None else add_extra(part, result.extra)
