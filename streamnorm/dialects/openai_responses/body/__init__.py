"""Whole bodies of OpenAI Responses: requests and responses.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23).
"""

from streamnorm._core.codec import BodyCodec
from streamnorm.dialects.openai_responses.body.content import executed_call
from streamnorm.dialects.openai_responses.body.fitting import fit_body
from streamnorm.dialects.openai_responses.body.request import (
    REQUEST_CAPABILITIES,
    read_request,
    write_request,
)
from streamnorm.dialects.openai_responses.body.response import (
    COUNT,
    MODELS,
    read_response,
    revise_response,
    write_response,
)
from streamnorm.dialects.openai_responses.body.tools import tools_from_wire
from streamnorm.dialects.openai_responses.encode import echoed_fields

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
    answer_fields={"item_id": "id"},
    executed_call=executed_call,
    echoed_fields=echoed_fields,
)
"""The codec of whole bodies."""
