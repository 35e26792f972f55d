"""Request bodies that web pages send: `RunAgentInput` and its messages.

Read `request.py` first, then `messages.py` (the turns of a thread), `content.py` (parts of
messages) and `tools.py`.  Nothing reads such a body but an agent, so none is written; its messages
are, for a page that loads a stored thread.
"""

from __future__ import annotations

from streamnorm._core.codec import PageCodec
from streamnorm.dialects.ag_ui.body.messages import messages_to_wire
from streamnorm.dialects.ag_ui.body.request import echoed_fields, read_request
from streamnorm.dialects.ag_ui.body.tools import tools_from_wire

__all__ = ["CODEC"]

CODEC = PageCodec(
    read_request=read_request,
    read_tools=tools_from_wire,
    write_messages=messages_to_wire,
    echoed_fields=echoed_fields,
)
"""The codec of the messages of pages."""
