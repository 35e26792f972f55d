"""The dialect of OpenAI Chat Completions and compatible servers."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.openai_chat.options import QUIRKS, ChatOptions
from streamnorm.dialects.openai_chat.traits import (
    CAPABILITIES,
    ENDPOINTS,
    is_request,
    is_response,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="openai_chat",
    aliases=("openai", "chat"),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.openai_chat.decode", "ChatDecoder"),
    encoder=on_first_use("streamnorm.dialects.openai_chat.encode", "ChatEncoder"),
    checker=on_first_use("streamnorm.dialects.openai_chat.validate", "ChatChecker"),
    request_checks=on_first_use("streamnorm.dialects.openai_chat.body.validate", "request_checks"),
    is_terminal=is_terminal,
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.openai_chat.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    options=ChatOptions,
    servers_with_quirks=frozenset(QUIRKS),
    endpoints=ENDPOINTS,
    refusal_body=on_first_use("streamnorm.dialects.openai_chat.outcome", "refusal_body"),
)
