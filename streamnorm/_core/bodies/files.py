"""Files within a body: `data:` URLs, Base64, and file names."""

from __future__ import annotations

import base64
import binascii

from streamnorm._core.blocks import Audio, Document, Image

PDF = "application/pdf"

_UNTITLED = "untitled"
_SUFFIXES = {PDF: "pdf", "text/plain": "txt"}

_TO_STANDARD = str.maketrans("-_", "+/", "\r\n")


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type, which may be empty, and the Base64 of a `data:` URL; else None."""
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url.partition(",")
    media_type, *parameters = head[5:].split(";")
    if not comma or "base64" not in parameters:
        return None
    return media_type, data


def base64_of(media_type: str, data: str) -> str:
    """Return the content of a file in Base64, which text files of blocks are not."""
    if media_type.startswith("text/"):
        return base64.b64encode(data.encode("utf-8", "replace")).decode()
    return data


def data_url(file: Image | Document | Audio, default: str) -> str:
    """Return the `data:` URL of a file with content.

    Args:
        file: The file.
        default: Media type of a file that has none.
    """
    media_type = file.media_type or default
    return f"data:{media_type};base64,{base64_of(media_type, file.data or '')}"


def canonical_base64(data: str) -> str | None:
    """Return Base64 in the standard alphabet, padded, without line breaks; None if it is invalid.

    Clients also send the URL-safe alphabet, or lines as in mail.  Text that is in the standard
    form already is returned as it is.  An empty text is invalid.
    """
    if _is_base64(data):
        return data
    standard = data.translate(_TO_STANDARD).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    return standard if _is_base64(standard) else None


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return False


def file_name(title: str | None, media_type: str) -> str:
    """Return the title of a file, or a made-up name: some vendors refuse files without one."""
    return title or f"{_UNTITLED}.{_SUFFIXES.get(media_type, 'bin')}"


def title_of(name: str | None) -> str | None:
    """Return the title of a file; None if `file_name` made up its name."""
    return None if name is None or name.partition(".")[0] == _UNTITLED else name
