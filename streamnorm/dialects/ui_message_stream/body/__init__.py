"""Request bodies that web pages post with `useChat`, and the messages in them.

Read `request.py` first, then `messages.py` (the steps of an answer) and `content.py` (its parts).
Nothing reads such a body but the server of a page, so none is written; its messages are, for a
page that loads a stored chat.
"""

from __future__ import annotations

from streamnorm._core.codec import PageCodec
from streamnorm.dialects.ui_message_stream.body.messages import messages_to_wire
from streamnorm.dialects.ui_message_stream.body.request import echoed_fields, read_request

__all__ = ["CODEC"]

CODEC = PageCodec(
    read_request=read_request,
    read_tools=lambda body: (),
    write_messages=messages_to_wire,
    echoed_fields=echoed_fields,
)
"""The codec of the messages of pages."""
