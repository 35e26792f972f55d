"""The HTTP interface of Gemini.

https://ai.google.dev/api/generate-content (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route

# The name of a model is everything after the first `models/`; a tuned model is named by its
# resource.  The atomic group searches the path once, however often it repeats `models/`.
_MODEL = r"\A(?>.*?(?:\bmodels/|/(?=tunedModels/)))(?P<model>.+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(rf"{_MODEL}:generateContent\Z"), "message"),
        Route("POST", re.compile(rf"{_MODEL}:streamGenerateContent\Z"), "stream"),
        Route("POST", re.compile(rf"{_MODEL}:countTokens\Z"), "count"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(rf"{_MODEL}\Z"), "model"),
    ),
    models_path="/v1beta/models",
    key_headers=("x-goog-api-key", "authorization"),
    vendor_headers=("x-goog-api-client", "x-goog-user-project"),
    account_headers=frozenset({"x-goog-user-project"}),
    forwarded_query=("alt",),
    servers={"generativelanguage.googleapis.com": "gemini"},
)
