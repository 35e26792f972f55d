"""The dialect of OpenAI Responses and compatible servers."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.openai_responses.outcome import (
    error_body,
    overloaded_frames,
    refusal_body,
)
from streamnorm.dialects.openai_responses.traits import (
    CAPABILITIES,
    ENDPOINTS,
    STORED,
    is_request,
    is_response,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="openai_responses",
    aliases=("responses",),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.openai_responses.decode", "ResponsesDecoder"),
    encoder=on_first_use("streamnorm.dialects.openai_responses.encode", "ResponsesEncoder"),
    checker=on_first_use("streamnorm.dialects.openai_responses.validate", "ResponsesChecker"),
    request_checks=on_first_use(
        "streamnorm.dialects.openai_responses.body.validate", "request_checks"
    ),
    is_terminal=is_terminal,
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.openai_responses.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    endpoints=ENDPOINTS,
    stored=STORED,
    error_body=error_body,
    refusal_body=refusal_body,
    overloaded_frames=overloaded_frames,
)
