"""The HTTP interface of Anthropic Messages.

https://docs.anthropic.com/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints, Route
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS

OVERLOADED_STATUS = 529

# The atomic group searches the path once, however often it repeats `/model/`.  Clients quote the
# slashes of an ARN (boto3, anthropic 2.12.0), but not all of them.
_INVOKED = r"\A(?>.*?/model/)(?P<model>.+)"
# botocore 1.44.5 requires it of the answer.
_CONTENT_TYPE = {"x-amzn-bedrock-content-type": "application/json"}

_VERTEX = r"publishers/anthropic/models/(?P<model>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/messages/count_tokens\Z"), "count"),
        # Threads of OpenAI's assistants have messages, too.
        Route("POST", re.compile(r"(?s)\A(?!.*/threads/).*/messages\Z"), "message"),
        # Vertex names the model in the path.
        Route("POST", re.compile(rf"{_VERTEX}:rawPredict\Z"), "message"),
        Route("POST", re.compile(rf"{_VERTEX}:streamRawPredict\Z"), "message"),
        # Amazon Bedrock's InvokeModel.
        Route(
            "POST",
            re.compile(rf"{_INVOKED}/invoke\Z"),
            "message",
            INVOKE_CHUNKS,
            BEDROCK,
            _CONTENT_TYPE,
        ),
        Route(
            "POST",
            re.compile(rf"{_INVOKED}/invoke-with-response-stream\Z"),
            "stream",
            INVOKE_CHUNKS,
            BEDROCK,
            _CONTENT_TYPE,
        ),
        # Amazon Bedrock's lists of inference profiles, under which its models are asked for.
        Route("GET", re.compile(r"/inference-profiles\Z"), "models", cloud=BEDROCK),
        Route(
            "GET",
            re.compile(r"\A(?>.*?/inference-profiles/)(?P<model>.+)\Z"),
            "model",
            cloud=BEDROCK,
        ),
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
