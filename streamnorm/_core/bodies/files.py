"""Files within a body: `data:` URLs, Base64, and the names of files that came without one."""

from __future__ import annotations

import binascii

PDF = "application/pdf"

_UNTITLED = "untitled"
_SUFFIXES = {PDF: "pdf", "text/plain": "txt"}


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type, which may be empty, and the Base64 of a `data:` URL.

    None is returned for any other URL.
    """
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url.partition(",")
    media_type, *parameters = head[5:].split(";")
    if not comma or "base64" not in parameters:
        return None
    return media_type, data


_TO_STANDARD = str.maketrans("-_", "+/", "\r\n")


def canonical_base64(data: str) -> str | None:
    """Return Base64 in the standard alphabet, padded, without line breaks.

    Clients send the URL-safe alphabet, too, or lines as in mail.  Base64 in the standard form
    is returned as it is; None is returned for an empty text, and for anything else.
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
    """Return the name of a file, for a vendor that refuses files without a name."""
    return title or f"{_UNTITLED}.{_SUFFIXES.get(media_type, 'bin')}"


def title_of(name: str | None) -> str | None:
    """Return the title of a file; None if `file_name` made its name."""
    return None if name is None or name.partition(".")[0] == _UNTITLED else name
