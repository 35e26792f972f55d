"""Files within a body: `data:` URLs, Base64, and file names."""

from __future__ import annotations

import base64
import binascii
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

from streamnorm._core.blocks import Audio, Document, Image, Video
from streamnorm._core.errors import DecodeError

Media: TypeAlias = Image | Document | Audio | Video

PDF = "application/pdf"

_UNTITLED = "untitled"
_SUFFIXES = {PDF: "pdf", "text/plain": "txt"}

_OFFICE = "application/vnd.openxmlformats-officedocument"
# Formats that some vendors refuse to load; the suffix of a URL is often all that names one.
_TYPES_OF_URLS = {
    "gif": "image/gif",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}

_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}
_SCHEMES = ("http", "https", "gs")
_UNTYPED = "application/octet-stream"

_TO_STANDARD = str.maketrans("-_", "+/", "\r\n")


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type (may be empty) and data of a Base64 `data:` URL, or None."""
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url.partition(",")
    media_type, *parameters = head[5:].split(";")
    # RFC 2397 writes the parameter as a literal, which RFC 5234 compares without case.
    if not comma or "base64" not in (parameter.strip().lower() for parameter in parameters):
        return None
    return media_type, data


def file_at_url(url: str, media_type: str, title: str | None = None) -> Media:
    """Return the file block for a URL: with the content of a `data:` URL, else with the URL.

    Args:
        url: A `data:` URL, whose media type wins, or one that a provider can load.
        media_type: Media type, a pattern such as `image/*`, or "".
        title: Name of the file.

    Raises:
        DecodeError: Only the page or the server itself could load the file, or its content is
            not of its media type.
    """
    if url[:5].lower() != "data:":
        if url.partition("://")[0].lower() not in _SCHEMES:
            # `blob:` is known to the page alone, and `file:` would be one of the server.
            raise DecodeError("another scheme, expected data, http or https")
        return _media(media_type, _exact(media_type), None, url, title)
    head, comma, encoded = url.partition(",")
    if not comma:
        raise DecodeError("a data URL without a comma, expected its content behind one")
    media_type = head[5:].partition(";")[0] or media_type
    if split_data_url(url) is None:
        encoded = base64.b64encode(unquote_to_bytes(encoded)).decode()
    return file_of_content(encoded, media_type, title)


def file_of_content(data: str, media_type: str, title: str | None = None) -> Media:
    """Return the file block for Base64 content.

    Args:
        data: The content.
        media_type: Media type, or "".
        title: Name of the file.

    Raises:
        DecodeError: The media type is a pattern, or a text is no Base64.
    """
    media_type = media_type or _UNTYPED
    if media_type.endswith("/*"):
        raise DecodeError("a pattern of media types, expected the type of the file")
    if media_type.startswith("text/"):  # such a document holds the text itself
        try:
            data = base64.b64decode(data).decode("utf-8", "replace")
        except ValueError as exc:  # also of characters that are not ASCII
            raise DecodeError("a text that is no Base64, expected Base64") from exc
    return _media(media_type, media_type, data, None, title)


def _media(
    family: str, media_type: str | None, data: str | None, url: str | None, title: str | None
) -> Media:
    media = _MEDIA.get(family.partition("/")[0])
    if media is not None:
        return media(media_type, data, url)
    return Document(media_type, data, url, title)


def type_of_url(url: str) -> str | None:
    """Return the media type that the suffix of a URL names; None if any vendor may load it."""
    path = url.partition("?")[0].partition("#")[0].partition("://")[2].partition("/")[2]
    return _TYPES_OF_URLS.get(path.rpartition(".")[2].lower()) if "." in path else None


def file_of_provider(
    id: str, issuer: str | None, media_type: str, title: str | None = None
) -> Image | Document | None:
    """Return the file block for a provider's file id; None for audio and video."""
    family, known = media_type.partition("/")[0], _exact(media_type)
    if family == "image":
        return Image(known, file_id=id, issuer=issuer)
    return None if family in _MEDIA else Document(known, None, None, title, id, issuer)


def _exact(media_type: str) -> str | None:
    """Return a media type; None if it is a pattern such as `image/*`, or empty."""
    return None if not media_type or media_type.endswith("/*") else media_type


def base64_of(media_type: str, data: str) -> str:
    """Return a file's content as Base64; encode the content of a text document."""
    if media_type.startswith("text/"):
        return base64.b64encode(data.encode("utf-8", "replace")).decode()
    return data


def data_url(file: Media, default: str) -> str:
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
    """Return the title of a file, or a made-up name: some vendors require a name."""
    return title or f"{_UNTITLED}.{_SUFFIXES.get(media_type, 'bin')}"


def title_of(name: str | None) -> str | None:
    """Return the title in a file name; None if `file_name` made up the name."""
    return None if name is None or name.partition(".")[0] == _UNTITLED else name
