"""Images, documents, sound and videos, as the target has them."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import Audio, Document, Image, InputBlock, Text, Video
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses

__all__ = ["project_media"]


def project_media(
    block: Image | Document | Audio | Video,
    can: BodyCapabilities,
    losses: Losses,
    *,
    own: bool,
    fills: bool,
) -> InputBlock | None:
    """Return a file as the target can carry it; None if it cannot.

    Args:
        block: The file.
        can: Capabilities of the target.
        losses: Counts what is dropped or changed.
        own: Whether the message is in the target's dialect.
        fills: Whether a file of another vendor is dropped, not an error.

    Raises:
        EncodeError: Another vendor has the file.
    """
    if isinstance(block, Image | Document) and block.file_id is not None:
        if own or (block.issuer is not None and block.issuer == can.file_issuer):
            return block
        if not fills:
            raise EncodeError("file id of another vendor, expected its content or a URL", path="")
        losses.add("file_id_dropped", "messages", "dropped")
        return None
    match block:
        case Image():
            return _image(block, can, losses, own=own)
        case Document():
            return _document(block, can, losses, own=own)
        case Audio():
            feature, carries = "audio_dropped", can.audio
        case _:
            feature, carries = "video_dropped", can.video
    if carries:
        return block
    losses.add(feature, "messages", "dropped")
    return None


def _image(block: Image, can: BodyCapabilities, losses: Losses, *, own: bool) -> Image | None:
    if block.data is None:
        carries = can.image_urls
    else:
        carries = can.images is None or block.media_type in can.images
    if not carries:
        losses.add("image_dropped", "messages", "dropped")
        return None
    is_known = own and can.only_refusals
    if block.detail is not None and block.detail not in can.image_details and not is_known:
        if block.detail != "auto":
            losses.add("detail", "messages", "dropped")
        return structs.replace(block, detail=None)
    return block


def _document(
    block: Document, can: BodyCapabilities, losses: Losses, *, own: bool
) -> Document | Text | None:
    is_text = (block.media_type or "").startswith("text/")
    # To a named server of the dialect goes what its profile has.
    passes = own and not can.only_refusals
    if block.data is not None and is_text:
        return block if can.text_documents or passes else _as_text(block, losses)
    if can.documents if block.data is not None else can.document_urls or passes:
        return block
    losses.add("document_dropped", "messages", "dropped")
    return None


def _as_text(block: Document, losses: Losses) -> Text:
    losses.add("document_as_text", "messages", "written as text")
    title = "" if block.title is None else f' title="{block.title}"'
    text = f"<document{title}>\n{block.data}\n</document>"
    return Text(text, cache=block.cache, extra=block.extra)
