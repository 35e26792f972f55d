"""The HTTP interface of Amazon Bedrock's Converse.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route
from streamnorm._core.codec.endpoints import BEDROCK

# Ids of models hold colons, and ARNs slashes.  The atomic group searches the path once, however
# often it repeats `/model/`.
_MODEL = r"(?s)\A(?>.*?/model/)(?P<model>.+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(rf"{_MODEL}/converse\Z"), "message", cloud=BEDROCK),
        Route("POST", re.compile(rf"{_MODEL}/converse-stream\Z"), "stream", cloud=BEDROCK),
        Route("POST", re.compile(rf"{_MODEL}/count-tokens\Z"), "count", cloud=BEDROCK),
    ),
    key_headers=BEDROCK.key_headers,
    request_id_header=BEDROCK.request_id_header,
)
