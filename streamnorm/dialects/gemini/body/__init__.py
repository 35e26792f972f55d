"""Whole bodies of Gemini's `generateContent`.

Read `request.py` first (a request field by field), then `messages.py` and `content.py` (the
conversation) and `tools.py`; `response.py` holds answers, token counts and model lists.
`fitting.py` signs calls in bodies of Gemini's own clients.
"""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.gemini.body.fitting import fit_body
from streamnorm.dialects.gemini.body.request import (
    REQUEST_CAPABILITIES,
    read_request,
    read_tools,
    write_request,
)
from streamnorm.dialects.gemini.body.response import (
    COUNT,
    MODELS,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.gemini.tool_calls import executed_call

__all__ = ["CODEC"]

CODEC = BodyCodec(
    capabilities=REQUEST_CAPABILITIES,
    read_request=read_request,
    read_tools=read_tools,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    revise_response=revise_response,
    count=COUNT,
    models=MODELS,
    fit_body=fit_body,
    executed_call=executed_call,
)
"""The codec of the dialect's requests and responses."""
