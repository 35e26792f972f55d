"""Files that every dialect with a place for files can carry."""

from __future__ import annotations

from streamnorm._core.blocks import Document, Image, ToolResult

__all__ = ["is_plain_file"]


def is_plain_file(block: Image | Document | ToolResult) -> bool:
    """Tell whether a block is a file of a known type, here or elsewhere, and no more."""
    match block:
        case Image(str(media_type), data, url):
            types: tuple[str, ...] = ("image/",)
        case Document(str(media_type), data, url, title=None):
            types = ("application/", "text/")
        case _:
            return False
    return media_type.startswith(types) and (data is None) is not (url is None)
