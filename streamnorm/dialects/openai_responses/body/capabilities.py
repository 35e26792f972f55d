"""Capabilities of Responses requests."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm.dialects.openai_responses.body.request import REQUEST
from streamnorm.dialects.openai_responses.wire import DIALECT

_TIERS = ("auto", "default", "fast", "flex", "priority", "scale", "ultrafast")
_TTLS = {"": "", "5m": "", "30m": "30m", "1h": "12h", "12h": "12h"}

CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    messages_field="input",
    fields=REQUEST.names,
    roles=frozenset({"user", "assistant", "system", "developer"}),
    system="text",
    inline_system="message",
    prefill=False,
    # heic: openai/codex#7214
    images=frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"low", "high", "original", "auto"}),
    file_issuer="openai",
    refusal=True,
    citations=frozenset({"container_file_citation", "file_citation", "file_path", "url_citation"}),
    split_results=True,
    result_media=frozenset({"image", "document"}),
    max_id_chars=64,
    unique_ids=True,
    # 64 is the bound of Chat Completions; the specification of Responses has this one.
    name_pattern="[a-zA-Z0-9_-]{1,128}",
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    server_tools={
        "web_search": frozenset({"allowed_domains", "search_context_size", "user_location"}),
        "code_execution": frozenset(),
        "image_generation": frozenset(),
        "tool_search": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "headers", "allowed_tools", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    reasoning_issuer="openai",
    reasoning_answered=True,
    stored_reasoning=True,  # vercel/ai#7543
    # continuedev/continue#8933, jlcodes99/cockpit-tools#2090, ranxianglei/billion-context#1052
    reasoning_id_pattern="rs[a-zA-Z0-9_-]{0,62}",
    marks=frozenset({"text", "image", "document"}),
    mark_ttls=_TTLS,
    request_ttls=_TTLS,
    service_tiers={tier: tier for tier in _TIERS},
    max_user_chars=128,
    max_cache_key_chars=64,
    min_answer_tokens=16,  # farion1231/cc-switch#7287
)
