"""The HTTP interface of Anthropic Messages.

https://docs.anthropic.com/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints

__all__ = ["ENDPOINTS", "OVERLOADED_STATUS"]

OVERLOADED_STATUS = 529

ENDPOINTS = Endpoints(
    # Threads of OpenAI's assistants have messages, too.  Vertex names the model in the path.
    path=re.compile(
        r"(?s)\A(?!.*/threads/).*/messages(?:/count_tokens)?$"
        r"|publishers/anthropic/models/[^/]+:(?:streamR|r)awPredict$"
    ),
    model_path=re.compile(r"/models/([^/:]+):"),
    count_path=re.compile(r"/count_tokens\Z"),
    key_headers=("x-api-key", "authorization"),
    vendor_headers=("anthropic-version", "anthropic-beta"),
    request_id_header="request-id",
    # Claude Code's first system block, which holds a checksum of the conversation.
    volatile_system_prefix="x-anthropic-billing-header:",
)
