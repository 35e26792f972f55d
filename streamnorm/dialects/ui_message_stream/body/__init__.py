"""Requests of pages: the body that `useChat` posts, read.

Read `request.py` first, then `messages.py` (the steps of an answer) and `content.py` (its parts).
Nothing reads such a body but the server of a page, so none is written.
"""

from __future__ import annotations

from streamnorm._core.codec import RequestReader
from streamnorm.dialects.ui_message_stream.body.request import read_request

__all__ = ["codec"]


def codec() -> RequestReader:
    """Return the reader of the requests of pages."""
    return _CODEC


_CODEC = RequestReader(read_request=read_request, read_tools=lambda body: ())
