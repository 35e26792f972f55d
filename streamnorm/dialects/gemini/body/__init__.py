"""Whole bodies of Gemini's `generateContent`.

Read `fields.py` first (the two spellings of a field, unknown fields), then `request.py` (a
request field by field), `messages.py` and `content.py` (the conversation) and `tools.py`;
`response.py` is the answer, `auxiliary.py` token counts and model lists.  `fitting.py` signs
calls in bodies of Gemini's own clients.
"""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.gemini.body.auxiliary import COUNT, MODELS
from streamnorm.dialects.gemini.body.capabilities import CAPABILITIES
from streamnorm.dialects.gemini.body.fitting import fit_body
from streamnorm.dialects.gemini.body.request import (
    read_request,
    read_tools,
    write_request,
)
from streamnorm.dialects.gemini.body.response import read_response, revise_response, write_response

__all__ = ["codec"]


def codec() -> BodyCodec:
    """Return the codec of the dialect's requests and responses."""
    return BodyCodec(
        capabilities=CAPABILITIES,
        read_request=read_request,
        read_tools=read_tools,
        write_request=write_request,
        read_response=read_response,
        write_response=write_response,
        revise_response=revise_response,
        count=COUNT,
        models=MODELS,
        fit_body=fit_body,
    )
