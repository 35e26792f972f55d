"""Whole bodies of Chat Completions: requests and responses."""

from __future__ import annotations

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.openai_chat.body.fitting import fit_body
from streamnorm.dialects.openai_chat.body.request import (
    REASONING_FIELDS,
    REQUEST,
    REQUEST_CAPABILITIES,
    reasoning_from_wire,
    write_request,
)
from streamnorm.dialects.openai_chat.body.response import (
    MODELS,
    message_fields,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.openai_chat.body.tools import tools_from_wire

__all__ = ["CODEC"]

CODEC = BodyCodec(
    capabilities=REQUEST_CAPABILITIES,
    read_request=REQUEST.read_request,
    read_tools=tools_from_wire,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    revise_response=revise_response,
    message_fields=message_fields,
    models=MODELS,
    read_reasoning=lambda body: reasoning_from_wire(body, {}),
    reasoning_fields=frozenset(REASONING_FIELDS),
    fit_body=fit_body,
)
"""The reader and writer of whole bodies."""
