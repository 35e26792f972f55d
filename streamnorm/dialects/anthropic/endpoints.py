"""The HTTP interface of Anthropic Messages.

https://docs.anthropic.com/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route

OVERLOADED_STATUS = 529

_VERTEX = r"publishers/anthropic/models/(?P<model>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/messages/count_tokens\Z"), "count"),
        # Threads of OpenAI's assistants have messages, too.
        Route("POST", re.compile(r"(?s)\A(?!.*/threads/).*/messages\Z"), "message"),
        # Vertex names the model in the path.
        Route("POST", re.compile(rf"{_VERTEX}:rawPredict\Z"), "message"),
        Route("POST", re.compile(rf"{_VERTEX}:streamRawPredict\Z"), "message"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    key_headers=("x-api-key", "authorization"),
    vendor_headers=("anthropic-version", "anthropic-beta"),
    body_headers=frozenset({"anthropic-beta"}),
    forwarded_query=("beta",),
    request_id_header="request-id",
    # Claude Code's first system block, which holds a checksum of the conversation.
    volatile_system_prefix="x-anthropic-billing-header:",
)
