"""Projection of files: images, documents, audio and video."""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from streamnorm._core.blocks import Audio, Document, Image, InputBlock, Text, Video
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.files import canonical_base64
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses

F = TypeVar("F", bound=Audio | Document | Image | Video)

_PDF = "application/pdf"  # some clients send a PDF as an image
# Many clients write this unregistered type (CherryHQ/cherry-studio#3088).
_ALIASES = {"image/jpg": "image/jpeg"}


def project_media(
    block: Image | Document | Audio | Video,
    target: BodyCapabilities,
    losses: Losses,
    *,
    same_dialect: bool,
    fills: bool,
) -> InputBlock | None:
    """Return a file in a form that the target accepts; None if there is none.

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
            raise EncodeError("file id of another vendor, expected its content or a URL", path="")
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
        EncodeError: The content is no Base64, for example in a percent-encoded `data:` URL.
    """
    if block.data is None:
        if (block.url or "")[:5].lower() == "data:":
            raise EncodeError("data URL without Base64, expected Base64 or an address", path="")
        return block
    if isinstance(block, Document) and (block.media_type or "").startswith("text/"):
        return block
    data = canonical_base64(block.data)
    if data is None:
        found = f"{len(block.data)} characters that are no Base64"
        raise EncodeError(f"{found}, expected the content of a file", path="")
    return block if data is block.data else structs.replace(block, data=data)


def _project_image(
    block: Image, target: BodyCapabilities, losses: Losses, *, same_dialect: bool
) -> Image | None:
    if block.data is None:
        carries = target.image_urls
    elif target.images is None:
        carries = True
    else:
        media_type = (block.media_type or "").lower()
        media_type = _ALIASES.get(media_type, media_type)
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
    is_text = (block.media_type or "").startswith("text/")
    # For a named server of the dialect, its profile decides.
    passes = same_dialect and not target.only_refusals
    if block.data is not None and is_text:
        return block if target.text_documents or passes else _write_as_text(block, losses)
    if target.documents if block.data is not None else target.document_urls or passes:
        return block
    losses.add("document_dropped", "messages", "dropped")
    return None


def _write_as_text(block: Document, losses: Losses) -> Text:
    losses.add("document_as_text", "messages", "written as text")
    title = "" if block.title is None else f' title="{block.title}"'
    text = f"<document{title}>\n{block.data}\n</document>"
    return Text(text, cache=block.cache, extra=block.extra)
