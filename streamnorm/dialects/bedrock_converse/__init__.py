"""The Converse API of Amazon Bedrock."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm._core.codec.event_messages import EVENTSTREAM
from streamnorm.dialects.bedrock_converse.traits import (
    CAPABILITIES,
    ENDPOINTS,
    is_request,
    is_response,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="bedrock_converse",
    aliases=("converse",),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.bedrock_converse.decode", "ConverseDecoder"),
    encoder=on_first_use("streamnorm.dialects.bedrock_converse.encode", "ConverseEncoder"),
    checker=on_first_use("streamnorm.dialects.bedrock_converse.validate", "ConverseChecker"),
    request_checks=on_first_use(
        "streamnorm.dialects.bedrock_converse.body.validate", "request_checks"
    ),
    is_terminal=is_terminal,
    framing=EVENTSTREAM,
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.bedrock_converse.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    endpoints=ENDPOINTS,
)
