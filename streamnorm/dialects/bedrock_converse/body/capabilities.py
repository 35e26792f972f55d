"""Capabilities of requests to Converse."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm.dialects.bedrock_converse.body.files import S3_ISSUER
from streamnorm.dialects.bedrock_converse.body.request import REQUEST
from streamnorm.dialects.bedrock_converse.capabilities import CAPABILITIES
from streamnorm.dialects.bedrock_converse.wire import DIALECT

_MARKED_BLOCKS = "text image document video tool_call tool_result opaque"

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    fields=REQUEST.names | {"stream"},
    inline_system="text",
    images=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    image_urls=False,
    document_urls=False,
    text_documents=True,
    audio=True,
    video=True,
    file_issuer=S3_ISSUER,
    citations=CAPABILITIES.citations,
    mixed_results=True,
    result_media=frozenset({"text", "image", "document", "video", "opaque"}),
    orphan_results=False,
    error_results=True,
    id_pattern=r"[a-zA-Z0-9_.:-]{1,64}",
    unique_ids=True,
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    server_history=True,
    enforces_outputs=True,
    output_kinds=frozenset({"text", "json_schema"}),
    lone_choice=False,
    min_answer_tokens=1,
    number_bounds={"top_p": (0.0, 1.0)},
    max_temperature=1.0,
    max_stops=2500,
    thinking="adaptive",
    bounded_budgets=True,
    signed_budgets=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_issuer="anthropic",
    marks=frozenset(["system", "tool", "assistant", *_MARKED_BLOCKS.split()]),
    marks_in_results=False,
    mark_ttls={"": "", "5m": "5m", "1h": "1h", "30m": "", "12h": "1h"},
    falling_ttls=True,
    service_tiers={"default": "default", "flex": "flex", "priority": "priority"},
)
