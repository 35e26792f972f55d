"""The HTTP interface of Chat Completions.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/chat/completions\Z"), "message"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    # Base URLs of SDKs end in `/v1`, at compatible servers in other paths.
    versioned_base=True,
    key_headers=("authorization", "api-key"),  # the second is Azure's
    vendor_headers=("openai-beta", "openai-organization", "openai-project"),
    # They name the account that pays, which has to be that of the key.
    account_headers=frozenset({"openai-organization", "openai-project"}),
)
