"""Projection of history: reasoning and signatures of other vendors, and media.

A client whose dialect can sign only reasoning receives the signatures of calls and texts on
empty reasoning blocks (see `SignatureCarriers`), and sends these carriers back.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from typing import TypeVar

from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Text,
    ToolCall,
    Video,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.files import canonical_base64, split_data_url, type_of_url
from streamnorm._core.bodies.request import InputMessage, Request, Source, same_parts
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import dumps
from streamnorm._core.losses import Losses
from streamnorm._core.text import SignatureCarrier, read_carrier

# A tagged signature as text, or in Base64: `c24x` encodes `sn1`.
_TAG = re.compile(rb'"(?:sn1[.-]|c24x)')

# Error texts never carry a payload: a kind that is no plain word is described by its length.
_KIND = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[A-Za-z0-9_.+-]{1,80}", re.ASCII)
_MAX_KINDS = 3

F = TypeVar("F", bound=Audio | Document | Image | Video)

_PDF = "application/pdf"  # some clients send a PDF as an image
# Formats of text that are registered under `application/`, or named so by clients.
_TEXTUAL = frozenset(
    f"application/{name}"
    for name in (
        *("graphql", "javascript", "json", "jsonl", "sql", "toml", "typescript", "x-httpd-php"),
        *("x-javascript", "x-ndjson", "x-python", "x-python-code", "x-sh", "x-typescript"),
        *("x-yaml", "xml", "yaml"),
    )
)
_TEXTUAL_SUFFIXES = ("+json", "+xml", "+yaml")
# Names for the model of files that were moved.
_KINDS: dict[type, str] = {Image: "image", Document: "file", Audio: "audio", Video: "video"}
# Many clients write this unregistered type (CherryHQ/cherry-studio#3088).
_ALIASES = {"image/jpg": "image/jpeg"}


def holds_tags(message: InputMessage) -> bool:
    """Return whether the JSON of a message has signatures with a tag of this library.

    They belong to another vendor; the vendor of the dialect would refuse them.
    """
    source = message.source
    if not isinstance(source, Source) or source.value is None:
        return False
    if not any(map(_is_signed, message.blocks)):
        return False
    return _TAG.search(dumps(source.value)) is not None


def is_signed_for(block: Reasoning | RedactedReasoning, target: BodyCapabilities) -> bool:
    """Return whether reasoning has a signature with the target's issuer and signature pattern."""
    signature = block.data if isinstance(block, RedactedReasoning) else block.signature
    if not signature or block.issuer is None or block.issuer != target.reasoning_issuer:
        return False
    return target.signature_pattern is None or bool(
        re.fullmatch(target.signature_pattern, signature)
    )


def is_verified(block: Reasoning | RedactedReasoning, target: BodyCapabilities) -> bool:
    """Return whether the target accepts the signature of reasoning in the target's dialect."""
    return target.signature_pattern is None or is_signed_for(block, target)


def restore_signatures(
    blocks: tuple[InputBlock, ...], target: BodyCapabilities
) -> tuple[InputBlock, ...]:
    """Move each signature from the reasoning block that carries it to the block that it signs."""
    carried = {
        number: found
        for number, block in enumerate(blocks)
        if isinstance(block, Reasoning | RedactedReasoning)
        and (found := _read_carrier(block)) is not None
        and found.issuer == target.reasoning_issuer
    }
    if not carried:
        return blocks
    by_call = {found.id: found for found in carried.values() if found.id}
    restored: list[InputBlock] = []
    for number, block in enumerate(blocks):
        found = carried.get(number)
        if found is not None:
            if not found.id:
                _sign_text(restored, found)
        elif isinstance(block, ToolCall) and block.id in by_call:
            signature, issuer, _ = by_call[block.id]
            restored.append(structs.replace(block, signature=signature, issuer=issuer))
        else:
            restored.append(block)
    return tuple(restored)


def drop_foreign_reasoning(
    blocks: tuple[InputBlock, ...], target: BodyCapabilities, losses: Losses, *, stored: bool
) -> tuple[InputBlock, ...]:
    """Return an answer's blocks without reasoning that the target cannot verify or look up.

    Servers with the target's dialect, such as Kimi with Anthropic's, have signatures of their
    own.

    Args:
        blocks: The blocks.
        target: Capabilities of the target.
        losses: Counter of dropped reasoning.
        stored: Whether the target stores responses, and so knows reasoning by its id.
    """
    kept: list[InputBlock] = []
    known = (None, target.reasoning_issuer)
    is_lost = target.stored_reasoning and not stored
    # OpenAI's Chat Completions has no field for reasoning; servers that have one have profiles.
    is_refused = target.reasoning_issuer is None and not target.reasoning_text
    for block in blocks:
        is_bare = isinstance(block, Reasoning) and block.signature is None
        if isinstance(block, Reasoning | RedactedReasoning) and (
            is_refused or block.issuer not in known or (is_bare and is_lost)
        ):
            losses.add("reasoning_dropped", "messages", "dropped")
        elif isinstance(block, Reasoning | RedactedReasoning):
            kept.append(drop_refused_id(block, target, losses))
        else:
            kept.append(block)
    return same_parts(blocks, tuple(kept))


def drop_refused_id(
    block: Reasoning | RedactedReasoning, target: BodyCapabilities, losses: Losses
) -> Reasoning | RedactedReasoning:
    """Return reasoning without its item id if the target refuses the id."""
    pattern = target.reasoning_id_pattern
    if block.id is None or pattern is None or re.fullmatch(pattern, block.id):
        return block
    losses.add("item_id", "messages", "dropped")
    return structs.replace(block, id=None)


def _is_signed(block: InputBlock) -> bool:
    if isinstance(block, Reasoning | Text | ToolCall):
        return block.signature is not None
    return isinstance(block, RedactedReasoning)


def _read_carrier(block: Reasoning | RedactedReasoning) -> SignatureCarrier | None:
    """Return the signature that a reasoning block carries for another block, or None."""
    if isinstance(block, RedactedReasoning):
        return read_carrier(block.data)
    return None if block.text or block.signature is None else read_carrier(block.signature)


def _sign_text(blocks: list[InputBlock], carried: SignatureCarrier) -> None:
    """Sign the last block if it is an unsigned text, else append an empty signed text."""
    signature, issuer, _ = carried
    if blocks and isinstance(blocks[-1], Text) and blocks[-1].signature is None:
        blocks[-1] = structs.replace(blocks[-1], signature=signature, issuer=issuer)
    else:
        blocks.append(Text(signature=signature, issuer=issuer))


def project_media(
    block: Image | Document | Audio | Video,
    target: BodyCapabilities,
    losses: Losses,
    *,
    same_dialect: bool,
    fills: bool,
) -> InputBlock | None:
    """Return a file in a form that the target accepts; None if there is no such form.

    Args:
        block: The file.
        target: Capabilities of the target.
        losses: Counter of dropped and changed files.
        same_dialect: Whether the message is in the target's dialect.
        fills: Whether a file that only another vendor has is dropped; else it is an error.

    Raises:
        EncodeError: Only another vendor has the file, or its content is no Base64.
    """
    if isinstance(block, Image | Document) and block.file_id is not None:
        issuer = target.file_issuer
        if issuer is not None and (same_dialect or block.issuer == issuer):
            return block
        if not fills:
            vendor = "another" if block.issuer is not None else "an unknown"
            problem = f"file id of {vendor} vendor, expected its content or a URL"
            raise EncodeError(problem, path="")
        losses.add("file_id_dropped", "messages", "dropped")
        return None
    if target.checks_files or not same_dialect:
        block = _normalize_base64(block)
    if (
        isinstance(block, Image)
        and block.media_type == _PDF
        and target.images is not None
        and _PDF not in target.images
    ):
        block = Document(_PDF, block.data, cache=block.cache, extra=block.extra)
    match block:
        case Image():
            return _project_image(block, target, losses, same_dialect=same_dialect)
        case Document():
            return _project_document(block, target, losses, same_dialect=same_dialect)
        case Audio():
            feature, carries = "audio_dropped", target.audio
        case _:
            feature, carries = "video_dropped", target.video
    if carries:
        return block
    losses.add(feature, "messages", "dropped")
    return None


def _normalize_base64(block: F) -> F:
    """Return a file with its content as Base64 in the standard alphabet.

    Raises:
        EncodeError: There is neither content nor an address, or the content is no Base64, for
            example in a percent-encoded `data:` URL.
    """
    data = block.data
    if data is None:
        if not block.url:
            raise EncodeError("file without content, expected data, a URL or an id", path="")
        if block.url[:5].lower() != "data:":
            return block
        inline = split_data_url(block.url)
        if inline is None:
            raise EncodeError("data URL without Base64, expected Base64 or an address", path="")
        # The dialects read such a URL as content; the block is one that a program has made.
        media_type, data = inline[0] or block.media_type, inline[1]
        if isinstance(block, Document) and (media_type or "").startswith("text/"):
            try:
                data = b64decode(data, validate=True).decode()
            except ValueError as exc:  # of Base64 and of UTF-8
                raise EncodeError("no text in Base64, expected the content", path="") from exc
        block = structs.replace(block, media_type=media_type, data=data, url=None)
    if isinstance(block, Document) and (block.media_type or "").startswith("text/"):
        return block
    standard = canonical_base64(data)
    if standard is None:
        found = f"{len(data)} characters that are no Base64"
        raise EncodeError(f"{found}, expected the content of a file", path="")
    return block if standard is block.data else structs.replace(block, data=standard)


def _project_image(
    block: Image, target: BodyCapabilities, losses: Losses, *, same_dialect: bool
) -> Image | None:
    media_type = (block.media_type or "").lower()
    media_type = _ALIASES.get(media_type, media_type)
    if block.data is None:
        url = block.url or ""
        known = media_type or type_of_url(url)
        carries = (
            target.image_urls is True
            or (target.image_urls == "https" and url[:6].lower() == "https:")
        ) and (not known or target.images is None or known in target.images)
    elif target.images is None:
        carries = True
    else:
        carries = media_type in target.images
        if carries and media_type != block.media_type:
            block = structs.replace(block, media_type=media_type)
    if not carries:
        losses.add("image_dropped", "messages", "dropped")
        return None
    is_known = same_dialect and target.only_refusals
    if block.detail is not None and block.detail not in target.image_details and not is_known:
        if block.detail != "auto":
            losses.add("detail", "messages", "dropped")
        return structs.replace(block, detail=None)
    return block


def _project_document(
    block: Document, target: BodyCapabilities, losses: Losses, *, same_dialect: bool
) -> Document | Text | None:
    # For a named server of the dialect, its profile decides.
    passes = same_dialect and not target.only_refusals
    is_known = passes or _has_known_type(block, target)
    if not is_known and (text := _plain_text(block)) is not None:
        losses.add("media_type", "messages", "written as text/plain")
        block = text
    if block.data is not None and (block.media_type or "").startswith("text/"):
        return block if target.text_documents or passes else write_as_text(block, losses)
    carries = target.document_urls or passes if block.data is None else target.documents
    if is_known and carries:
        return block
    losses.add("document_dropped", "messages", "dropped" if is_known else "a type it does not read")
    return None


def _plain_text(block: Document) -> Document | None:
    """Return a document of a format that is text, such as JSON, as plain text; None if it is not.

    Vertex AI refuses `application/json` (agno-agi/agno#3964).
    """
    media_type = _media_type(block)
    if block.data is None or not (media_type in _TEXTUAL or media_type.endswith(_TEXTUAL_SUFFIXES)):
        return None
    try:
        data = b64decode(block.data).decode()
    except ValueError:  # of Base64 and of UTF-8
        return None
    return structs.replace(block, media_type="text/plain", data=data) if data.strip() else None


def _has_known_type(block: Document, target: BodyCapabilities) -> bool:
    """Return whether the target reads documents of a media type; one without a type is a PDF."""
    types, media_type = target.document_types, _media_type(block)
    if block.data is None:
        media_type = media_type or type_of_url(block.url or "") or _PDF
        if target.document_urls == "pdf":
            return media_type == _PDF
    media_type = media_type or _PDF
    return types is None or media_type in types or media_type.startswith("text/")


def _media_type(block: Document) -> str:
    """Return the media type of a document without its parameters; "" if it has none."""
    return (block.media_type or "").partition(";")[0].strip().lower()


def media_title(blocks: Sequence[InputBlock], owner: str) -> Text:
    """Return the text before files that stand in a user message, but are not the user's."""
    kinds = dict.fromkeys(_KINDS.get(type(block), "content") for block in blocks)
    return Text(f"[{' and '.join(kinds)} of {owner}]")


def write_as_text(block: Document, losses: Losses) -> Text:
    """Return a document of plain text as a text in `<document>`; count it as a loss."""
    losses.add("document_as_text", "messages", "written as text")
    title = "" if block.title is None else f' title="{block.title}"'
    text = f"<document{title}>\n{block.data}\n</document>"
    return Text(text, cache=block.cache, extra=block.extra)


def _describe_file(block: Image | Document | Audio | Video) -> str:
    """Return the kind of a file, and its media type if that is one."""
    kind, media_type = _KINDS[type(block)], block.media_type or ""
    known = f" ({media_type})" if _MEDIA_TYPE.fullmatch(media_type) else ""
    return f"{kind}{' by URL' if block.data is None else ''}{known}"


def describe_lost(request: Request, target: BodyCapabilities) -> str:
    """Return an error text's suffix: what was dropped, or the number of empty messages."""
    blocks = [block for message in request.messages for block in message.blocks]
    opaque = dict.fromkeys(
        block.kind if _KIND.fullmatch(block.kind) else f"a type of {len(block.kind)} characters"
        for block in blocks
        if isinstance(block, OpaqueBlock)
    )
    if opaque:
        return f"; {target.dialect} has no block for {', '.join([*opaque][:_MAX_KINDS])}"
    media = dict.fromkeys(
        _describe_file(block)
        for block in blocks
        if isinstance(block, Image | Document | Audio | Video)
    )
    if media:
        return f"; {target.dialect} cannot have its {', '.join([*media][:_MAX_KINDS])}"
    texts = [message.text.strip() for message in request.messages if not message.tool_results]
    return f"; the request has {texts.count('')} without text" if "" in texts else ""
