"""Whole bodies of the Interactions API.

Read `request.py` first (a request field by field), then `messages.py` and `content.py` (the
steps) and `tools.py`; `response.py` holds whole interactions.
"""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.gemini_interactions.body.content import opaque_content
from streamnorm.dialects.gemini_interactions.body.messages import executed_call
from streamnorm.dialects.gemini_interactions.body.request import (
    REQUEST_CAPABILITIES,
    read_request,
    write_request,
)
from streamnorm.dialects.gemini_interactions.body.response import (
    MODELS,
    echoed_fields,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.gemini_interactions.body.tools import tools_from_wire

__all__ = ["CODEC"]

CODEC = BodyCodec(
    capabilities=REQUEST_CAPABILITIES,
    read_request=read_request,
    read_tools=tools_from_wire,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    revise_response=revise_response,
    opaque_content=opaque_content,
    executed_call=executed_call,
    models=MODELS,
    echoed_fields=echoed_fields,
    agent_field="agent",
)
"""The codec of the dialect's requests and responses."""
