"""Signatures, citations, opaque chunks and tool calls, in both directions.

Signatures and redacted reasoning stand in `providerMetadata` under the keys that the AI SDK's own
providers read back (`@ai-sdk/anthropic` 4.0.105, `@ai-sdk/openai` 4.0.118, `@ai-sdk/google`
4.0.121); those of another issuer stand under our own key.

All clients read sources.  Only late releases of v7 read `citations` of a `text-end`, so what a
source has no field for stands in its `providerMetadata`.
"""

from __future__ import annotations

import base64
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import (
    Citation,
    Document,
    Image,
    RedactedReasoning,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    file_block,
)
from streamnorm._core.bodies.fields import as_object, get_object, get_str
from streamnorm._core.errors import DecodeError
from streamnorm._core.events import Opaque
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    compact,
    count_of,
    decode_any,
    dumps,
    encode_line,
    is_json,
    is_object,
    object_in,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.text import (
    Signed,
    unpack_item_id,
    unpack_redacted_reasoning,
    unpack_signature,
)
from streamnorm.dialects.ui_message_stream.wire import (
    DIALECT,
    OWN,
    Chunk,
    chunk,
    is_refused,
    with_metadata,
)

_ANTHROPIC, _OPENAI, _GEMINI = "anthropic", "openai", "google"
# Vertex AI's provider writes the same field under its own name.
_GOOGLE = ("google", "vertex", "googleVertex")
_PYDANTIC = "pydantic_ai"


CONTINUED = "isContinued"
"""Field of our own metadata: whether the next reasoning part belongs to the same block."""


REPEATED = "isRepeated"
"""Field of our own metadata: whether a call is of an earlier message, repeated for its result."""


def signature_to_wire(signed: Signed) -> dict[str, Any]:
    """Return a signature as `providerMetadata`."""
    signature, issuer, id = signed
    if issuer == _ANTHROPIC and id is None:
        return {"anthropic": {"signature": signature}}
    if issuer == _OPENAI:
        item = {"itemId": id} if id is not None else {}
        return {"openai": {**item, "reasoningEncryptedContent": signature}}
    if issuer == _GEMINI and id is None:
        return {"google": {"thoughtSignature": signature}}
    own = {"signature": signature, "issuer": issuer, "id": id}
    return {OWN: {name: item for name, item in own.items() if item is not None}}


def signature_from_wire(metadata: object) -> Signed | None:
    """Return the signature in a `providerMetadata`, or None."""
    if not is_object(metadata):
        return None
    for key, issuer, name in (
        ("anthropic", _ANTHROPIC, "signature"),
        ("openai", _OPENAI, "reasoningEncryptedContent"),
        *((key, _GEMINI, "thoughtSignature") for key in _GOOGLE),
    ):
        fields = metadata.get(key)
        if is_object(fields) and (signature := string_of(fields, name)):
            id = fields.get("itemId")
            return Signed(clean(signature), issuer, clean(id) if isinstance(id, str) else None)
    own, packed = metadata.get(OWN), metadata.get(_PYDANTIC)
    if is_object(own) and (signature := string_of(own, "signature")):
        named, id = (clean(string_of(own, name)) or None for name in ("issuer", "id"))
        return Signed(clean(signature), named, id)
    return unpack_signature(packed) if is_object(packed) else None


def reasoning_end_to_wire(signed: Signed) -> dict[str, Any]:
    """Return the signature of reasoning as `providerMetadata` of the last part of its block.

    The metadata of an item says that no further part follows.  Older versions wrote neither this
    nor anything at the parts before, which look like reasoning of another provider.
    """
    metadata = signature_to_wire(signed)
    return metadata if signed.id is None else add_mark(metadata, CONTINUED, False)


def add_mark(metadata: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    """Return a `providerMetadata` with a field added to our own metadata."""
    return {**metadata, OWN: {**metadata.get(OWN, {}), name: value}}


def split_mark(metadata: dict[str, Any] | None, name: str) -> tuple[object, dict[str, Any] | None]:
    """Return a field of our own metadata (None if absent), and the other metadata."""
    own = None if metadata is None else metadata.get(OWN)
    if metadata is None or not is_object(own) or name not in own:
        return None, metadata
    rest = {key: item for key, item in own.items() if key != name}
    others = {key: item for key, item in metadata.items() if key != OWN}
    return own[name], {**others, OWN: rest} if rest else others


def is_repeated(metadata: object) -> bool:
    """Return whether a call's metadata marks it as a call of an earlier message."""
    return is_object(metadata) and split_mark(metadata, REPEATED)[0] is True


def item_id_of(metadata: object) -> str | None:
    """Return the item id in a `providerMetadata`, or None.

    The summaries of an item share it, and a server that stores responses has no signature.
    """
    if not is_object(metadata):
        return None
    fields, packed = metadata.get(_OPENAI), metadata.get(_PYDANTIC)
    if is_object(fields):
        return string_of(fields, "itemId") or None
    return unpack_item_id(packed) if is_object(packed) else None


def redacted_to_wire(block: RedactedReasoning) -> dict[str, Any]:
    """Return redacted reasoning as `providerMetadata`."""
    if block.issuer == _ANTHROPIC and block.id is None:
        return {"anthropic": {"redactedData": block.data}}
    own = {"redactedData": block.data, "issuer": block.issuer, "id": block.id}
    ours = {OWN: {name: item for name, item in own.items() if item is not None}}
    if block.issuer != _OPENAI:
        return ours
    return {**signature_to_wire(Signed(block.data, block.issuer, block.id)), **ours}


def redacted_from_wire(metadata: object) -> RedactedReasoning | None:
    """Return the redacted reasoning in a `providerMetadata`, or None."""
    if not is_object(metadata):
        return None
    for key in ("anthropic", OWN):
        fields = metadata.get(key)
        if is_object(fields) and (data := string_of(fields, "redactedData")):
            issuer = "anthropic" if key == "anthropic" else clean(string_of(fields, "issuer"))
            id = clean(string_of(fields, "id"))
            return RedactedReasoning(clean(data), issuer or None, id or None)
    packed = metadata.get(_PYDANTIC)
    if is_object(packed) and (redacted := unpack_redacted_reasoning(packed)) is not None:
        return RedactedReasoning(*redacted)
    return None


URL = "source-url"
DOCUMENT = "source-document"

_SOURCES = {"url": URL, "document": DOCUMENT}

KINDS = frozenset(
    {URL, DOCUMENT}
    # Kinds of the vendors: of Anthropic, OpenAI, Gemini and Bedrock.
    | {"char_location", "page_location", "content_block_location", "search_result_location"}
    | {"web_search_result_location"}
    | {"url_citation", "file_citation", "container_file_citation", "file_path"}
    | {"citation", "image", "maps", "retrievedContext", "web"}
    | {"documentChar", "documentPage", "documentChunk", "searchResultLocation"}
    | {"citationsContent"}
)


def citation_to_wire(citation: Citation, source_id: str) -> Chunk:
    """Return a citation as a `source-url` if it has a URL, else as a `source-document`."""
    own: dict[str, Any] = {
        "kind": citation.kind,
        "citedText": citation.cited_text,
        "startIndex": citation.start,
        "endIndex": citation.end,
        "extra": None if is_refused(citation.extra) else citation.extra,
    }
    metadata = {name: value for name, value in own.items() if value is not None}
    fields: Chunk
    if citation.url is None:
        # The title is required here, and optional of a URL.
        own_title = citation.title is None
        title = citation.kind if citation.title is None else citation.title
        fields = {
            "type": DOCUMENT,
            "sourceId": source_id,
            "mediaType": "text/plain",
            "title": title,
        }
        if own_title:
            metadata["untitled"] = True
    else:
        fields = {"type": URL, "sourceId": source_id, "url": citation.url}
        if citation.title is not None:
            fields["title"] = citation.title
    if metadata in ({"kind": URL}, {"kind": DOCUMENT}):
        metadata = {}
    return with_metadata(fields, {OWN: metadata} if metadata else {})


def text_citation_to_wire(citation: Citation, source: Chunk) -> Chunk:
    """Return a citation as an entry of `citations` in a `text-end` (AI SDK v7).

    `src/ui-message-stream/ui-message-chunks.ts` of npm `ai` 7.0.173: a wrong one ends the answer.

    Args:
        citation: The citation.
        source: The source, from `citation_to_wire`.
    """
    kind = "url" if source["type"] == URL else "document"
    fields = {"type": "source", "sourceType": kind, "id": source["sourceId"]}
    names = ("url", "mediaType", "title")
    fields |= {name: source[name] for name in names if name in source}
    cited = {
        "startIndex": citation.start,
        "endIndex": citation.end,
        "citedText": citation.cited_text,
    }
    return {"source": fields, **{name: each for name, each in cited.items() if each is not None}}


def citation_from_wire(value: Chunk) -> Citation:
    """Return a `source-url` or `source-document` as a citation."""
    metadata = value.get("providerMetadata")
    metadata = metadata if is_object(metadata) else {}
    own = metadata.get(OWN)
    own = own if is_object(own) else {}
    extra = own.get("extra")
    foreign = {name: item for name, item in metadata.items() if name != OWN}
    if not is_object(extra):
        extra = {"providerMetadata": foreign} if foreign else None
    title = value.get("title")
    if own.get("untitled") is True or not isinstance(title, str):
        title = None
    url = value.get("url")
    cited = own.get("citedText")
    return Citation(
        clean(string_of(own, "kind")) or string_of(value, "type"),
        clean(url) if isinstance(url, str) else None,
        None if title is None else clean(title),
        clean(cited) if isinstance(cited, str) else None,
        count_of(own.get("startIndex")),
        count_of(own.get("endIndex")),
        extra,
    )


def text_citation_from_wire(entry: object) -> Citation:
    """Return an entry of a text part's `citations` (AI SDK v7) as a citation.

    Raises:
        DecodeError: It has no source of a known type.
    """
    value = as_object(entry)
    source = get_object(value, "source")
    if source is None:
        raise DecodeError("missing, expected an object", path="$.source")
    kind = _SOURCES.get(string_of(source, "sourceType"))
    if kind is None:
        raise DecodeError("another type, expected url or document", path="$.source.sourceType")
    citation = citation_from_wire({**source, "type": kind})
    start, end = (count_of(value.get(name)) for name in ("startIndex", "endIndex"))
    cited = get_str(value, "citedText") or citation.cited_text
    return structs.replace(citation, start=start, end=end, cited_text=cited)


METADATA = "providerMetadata"
"""Field of the metadata of a part, and name of the opaque event for those at its end."""


def metadata_from_wire(metadata: object, index: int) -> Opaque:
    """Return metadata at a block's end, other than a signature, as opaque data."""
    return Opaque(DIALECT, METADATA, compact(metadata), index)


def chunk_from_wire(value: Chunk) -> Opaque:
    """Return a chunk without a unified event as opaque data."""
    return Opaque(DIALECT, clean(string_of(value, "type")), compact(value))


def chunk_to_wire(event: Opaque) -> bytes:
    """Return the frame of an opaque chunk."""
    return b"data: %b\n\n" % encode_line(event.data)


BROKEN = "the arguments of the call are no JSON"
UNFINISHED = "the arguments of the call ended early"
REFUSED_INPUT = "the arguments of the call cannot be given to a page"
CUT = "the answer ended before the arguments of the call"
DENIED = "Tool call execution denied."

_MAX_DEPTH = Limits().max_json_depth


def input_to_wire(call: Chunk, arguments: str, *, is_unfinished: bool = False) -> bytes:
    """Return the chunk that ends a call: the input, or an error if the input is incomplete.

    The client executes a call at `tool-input-available`.  The text of the input is written as it
    is, so that no digit of a number is lost here.

    Args:
        call: The fields of the chunk, but for its type and the input.
        arguments: The text of the arguments.
        is_unfinished: Whether they ended before their text did.
    """
    text = arguments.strip() or "{}"
    error = UNFINISHED if is_unfinished else None if is_json(text) else BROKEN
    if error is None and _is_refused_text(text):
        error = REFUSED_INPUT
    if error is not None:
        return chunk({"type": "tool-input-error", **call, "input": arguments, "errorText": error})
    head = dumps({"type": "tool-input-available", **call})
    return b'data: %b,"input":%b}\n\n' % (head[:-1], encode_line(text))


def _is_refused_text(text: str) -> bool:
    # A key may be spelt with escapes.
    suspect = "__proto__" in text or "prototype" in text or "\\u" in text
    if not suspect:
        return False
    try:
        return is_refused(decode_any(text, max_depth=_MAX_DEPTH))
    except InvalidJSON:  # nests too deep
        return True


def repeated_call_to_wire(call: ToolCall) -> bytes:
    """Return the chunks of a call of an earlier message, before its result in this message.

    The client finds the call of a result in the current message alone
    (`src/ui/process-ui-message-stream.ts`), and a user who writes on instead of waiting for an
    approved call begins another message.  `tool-input-available` would have the client execute
    the call (`onToolCall`); the result ends the input as well.
    """
    text = call.arguments.strip() or "{}"
    if call.kind == "custom":
        text = dumps(call.arguments).decode()
    start = {"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name}
    delta = {"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": text}
    return chunk(with_metadata(start, add_mark({}, REPEATED, True))) + chunk(delta)


def cut_input_to_wire(call: Chunk) -> bytes:
    """Return the chunk that ends a call whose arguments never arrived."""
    return chunk({"type": "tool-input-error", **call, "input": "", "errorText": CUT})


def server_result_to_wire(result: ServerToolResult, fields: Chunk) -> Chunk:
    """Return the chunk of a server tool's result, which also has `fields`."""
    call = {**fields, "toolCallId": result.tool_call_id, "providerExecuted": True}
    if result.is_error:
        return {"type": "tool-output-error", **call, "errorText": server_error_to_wire(result)}
    return {"type": "tool-output-available", **call, "output": server_output_to_wire(result)}


def server_output_to_wire(result: ServerToolResult) -> Any:
    """Return the output of a server tool: its JSON text if the client refuses the value itself."""
    return compact(result.content) if is_refused(result.content) else result.content


def server_error_to_wire(result: ServerToolResult) -> str:
    """Return the text of a server tool's failed result.

    The AI SDK, too, writes an error of another type than a text as JSON
    (`src/ui-message-stream/to-ui-message-chunk.ts`).  A text that would be read as such JSON is
    written as a JSON string.
    """
    content = result.content
    if isinstance(content, str) and server_error_from_wire(content) == content:
        return content
    return compact(content)


def server_error_from_wire(text: str) -> Any:
    """Return the content of a server tool's failed result from its text.

    Compact JSON is the value that it was written from.
    """
    if text[:1] not in ("{", "[", '"') or not is_json(text):
        return text
    content = object_in(f'{{"value":{text}}}').get("value")
    if compact(content) != text:
        return text
    # A plain text in quotes is no JSON string: only one that would be read as another value is.
    is_plain = isinstance(content, str) and server_error_from_wire(content) == content
    return text if is_plain else content


def result_to_wire(result: ToolResult, fields: Chunk) -> bytes:
    """Return the frame of a client tool's result, whose chunk also has `fields`."""
    text = "".join(block.text for block in result.content if isinstance(block, Text))
    call = {**fields, "toolCallId": result.tool_call_id}
    if result.is_error:
        return chunk({"type": "tool-output-error", **call, "errorText": text})
    value = result.value
    if value is not None and is_json(value) and not _is_refused_text(value):
        head = dumps({"type": "tool-output-available", **call})
        return b'data: %b,"output":%b}\n\n' % (head[:-1], encode_line(value))
    return chunk({"type": "tool-output-available", **call, "output": text})


def result_from_wire(id: str, output: Any) -> ToolResult:
    """Return the result of a client tool: a text, or any JSON value."""
    if isinstance(output, str):
        return ToolResult(id, (Text(output),))
    text = compact(output)
    return ToolResult(id, (Text(text),), value=text if is_object(output) else None)


def file_to_wire(file: Image | Document) -> Chunk:
    """Return an image or document as a `file` chunk."""
    media_type, data = file.media_type or "application/octet-stream", file.data
    url = file.url
    if data is not None:
        if media_type.startswith("text/"):
            data = base64.b64encode(data.encode("utf-8", "replace")).decode()
        url = f"data:{media_type};base64,{data}"
    fields = {"type": "file", "url": url or "", "mediaType": media_type}
    if not isinstance(file, Image) or file.signature is None:
        return fields
    # `@ai-sdk/google` writes and reads the signature of an image here.
    return with_metadata(fields, signature_to_wire(Signed(file.signature, file.issuer)))


def file_from_wire(media_type: str, url: str) -> Image | Document | None:
    """Return a `file` chunk as an image or document; None for other media types."""
    kind = clean(media_type)
    if not url.startswith("data:"):
        return file_block(kind, None, clean(url))
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return file_block(kind, clean(data), None)
