"""The HTTP interface of Amazon Bedrock's Converse.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route

# Ids of models hold colons, and ARNs slashes.
_MODEL = r"(?s)/model/(?P<model>.+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(rf"{_MODEL}/converse\Z"), "message"),
        Route("POST", re.compile(rf"{_MODEL}/converse-stream\Z"), "stream"),
        Route("POST", re.compile(rf"{_MODEL}/count-tokens\Z"), "count"),
    ),
    key_headers=("authorization",),
    request_id_header="x-amzn-requestid",
)
