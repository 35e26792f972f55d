"""Anthropic Messages."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.anthropic.content import SIGNING_SERVERS
from streamnorm.dialects.anthropic.traits import (
    CAPABILITIES,
    ENDPOINTS,
    OVERLOADED_STATUS,
    is_request,
    is_response,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="anthropic",
    aliases=("claude",),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.anthropic.decode", "AnthropicDecoder"),
    encoder=on_first_use("streamnorm.dialects.anthropic.encode", "AnthropicEncoder"),
    checker=on_first_use("streamnorm.dialects.anthropic.validate", "AnthropicChecker"),
    request_checks=on_first_use("streamnorm.dialects.anthropic.body.validate", "request_checks"),
    is_terminal=is_terminal,
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.anthropic.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    servers_with_quirks=SIGNING_SERVERS,
    endpoints=ENDPOINTS,
    overloaded_status=OVERLOADED_STATUS,
)
