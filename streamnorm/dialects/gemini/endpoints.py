"""The HTTP interface of Gemini.

https://ai.google.dev/api/generate-content (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints

__all__ = ["ENDPOINTS"]

ENDPOINTS = Endpoints(
    path=re.compile(r"models/[^/]+:(?:(?:streamG|g)enerateContent|countTokens)$"),
    stream_path=re.compile(r":streamGenerateContent\Z"),
    model_path=re.compile(r"/models/([^/:]+):"),
    count_path=re.compile(r":countTokens\Z"),
    key_headers=("x-goog-api-key", "authorization"),
    vendor_headers=("x-goog-api-client", "x-goog-user-project"),
    servers={"generativelanguage.googleapis.com": "gemini"},
)
