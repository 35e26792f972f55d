"""Requests of pages: `RunAgentInput`, read.

Read `request.py` first, then `messages.py` (the turns of a thread), `content.py` (parts of
messages) and `tools.py`.  Nothing reads such a body but an agent, so none is written.
"""

from __future__ import annotations

from streamnorm._core.codec import RequestReader
from streamnorm.dialects.ag_ui.body.request import read_request
from streamnorm.dialects.ag_ui.body.tools import tools_from_wire

__all__ = ["codec"]


def codec() -> RequestReader:
    """Return the reader of `RunAgentInput`."""
    return _CODEC


_CODEC = RequestReader(read_request=read_request, read_tools=tools_from_wire)
