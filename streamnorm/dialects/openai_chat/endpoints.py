"""The HTTP interface of Chat Completions.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints

__all__ = ["ENDPOINTS"]

ENDPOINTS = Endpoints(
    path=re.compile(r"/chat/completions\Z"),
    key_headers=("authorization", "api-key"),  # the second is Azure's
    vendor_headers=("openai-beta", "openai-organization", "openai-project"),
    version_in_base_url=True,
)
