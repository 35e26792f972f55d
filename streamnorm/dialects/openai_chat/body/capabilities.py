"""Capabilities of Chat Completions requests."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm.dialects.openai_chat.body.content import DIALECT
from streamnorm.dialects.openai_chat.body.request import REQUEST

_TIERS = ("auto", "default", "fast", "flex", "priority", "scale")

CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    # Compatible servers accept `top_k`, the vendor does not.
    fields=REQUEST.names - {"top_k"},
    roles=frozenset({"user", "assistant", "system", "developer"}),
    system="message",
    inline_system="message",
    names=True,
    prefill=False,
    # heic: openclaw/openclaw#102354
    images=frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"auto", "low", "high", "original"}),
    document_urls=False,
    audio=True,
    file_issuer="openai",
    refusal=True,
    ordered_blocks=False,
    split_results=True,
    max_id_chars=40,  # of most servers; OpenAI's own has been 64 since 2026
    name_pattern="[a-zA-Z0-9_-]{1,64}",
    custom_tools=True,
    restricted_choice=True,
    chooses_server_tools=False,  # a search model searches for each answer
    output_name_pattern="[a-zA-Z0-9_-]{1,64}",
    number_bounds={
        "top_p": (0, 1),
        "frequency_penalty": (-2, 2),
        "presence_penalty": (-2, 2),
        "top_logprobs": (0, 20),
        "choices": (1, 128),
    },
    dependent_fields={"top_logprobs": "logprobs"},
    min_answer_tokens=1,
    max_stops=4,
    shows_reasoning=False,
    marks=frozenset({"text", "image", "document", "audio", "tool_result"}),
    mark_ttls={"": "", "5m": "", "30m": "30m", "1h": "12h", "12h": "12h"},
    request_ttls={"": "", "30m": "30m"},
    counts_written_marks=True,  # OpenRouter's clients mark messages and tools, too
    service_tiers={tier: tier for tier in _TIERS},
    max_user_chars=128,
    max_cache_key_chars=64,
    label_bounds=(16, 64, 512),
)
