"""Whole bodies of Bedrock's Converse API.

Read `request.py` first (a request field by field, and what only some models have), then
`messages.py`, `content.py` and `files.py` (the conversation) and `tools.py`; `response.py` holds
answers and token counts.
"""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.bedrock_converse.body.request import (
    REQUEST_CAPABILITIES,
    read_request,
    write_request,
)
from streamnorm.dialects.bedrock_converse.body.response import (
    COUNT,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.bedrock_converse.body.tools import tools_from_wire

__all__ = ["CODEC"]

CODEC = BodyCodec(
    capabilities=REQUEST_CAPABILITIES,
    read_request=read_request,
    read_tools=tools_from_wire,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    revise_response=revise_response,
    count=COUNT,
)
"""The codec of Converse's requests and responses."""
