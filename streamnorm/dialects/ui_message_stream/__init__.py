"""The UI message stream of the AI SDK, which `useChat` reads.

A front end's dialect: no provider speaks it, so it has no endpoints, and its requests are only
read.
"""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.ui_message_stream.traits import (
    CAPABILITIES,
    PageOptions,
    is_request,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="ui_message_stream",
    aliases=("ai_sdk", "vercel"),
    recognises=recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.ui_message_stream.decode", "UIMessageDecoder"),
    encoder=on_first_use("streamnorm.dialects.ui_message_stream.encode", "UIMessageEncoder"),
    body=on_first_use("streamnorm.dialects.ui_message_stream.body", "CODEC").load,
    is_request=is_request,
    checker=on_first_use("streamnorm.dialects.ui_message_stream.validate", "UIMessageChecker"),
    capabilities=CAPABILITIES,
    options=PageOptions,
    page_path="/ui/chat",
)
