"""Whole bodies of Anthropic Messages.

Read `request.py` first (a request field by field, its options and betas), then `messages.py` and
`content.py` (the conversation) and `tools.py`; `response.py` holds answers, token counts and model
lists.  `fitting.py` repairs bodies of Anthropic's own clients.
"""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.anthropic.body.fitting import fit_body
from streamnorm.dialects.anthropic.body.request import (
    REQUEST_CAPABILITIES,
    cloud_headers,
    read_request,
    write_request,
)
from streamnorm.dialects.anthropic.body.response import (
    COUNT,
    MODELS,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.anthropic.body.tools import tools_from_wire

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
    models=MODELS,
    fit_body=fit_body,
    cloud_headers=cloud_headers,
)
"""The codec of Anthropic's whole bodies."""
