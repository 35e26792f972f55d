"""Capabilities of Chat Completions requests."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.schemas.strict import EnforcedSchemas
from streamnorm.dialects.openai_chat.body.extra import DIALECT

__all__ = ["CAPABILITIES"]

_TIERS = ("auto", "default", "fast", "flex", "priority", "scale")

# developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-23); pydantic-ai 2.68.
_ENFORCED = EnforcedSchemas(
    refused=frozenset(
        {"allOf", "contains", "default", "dependentRequired", "dependentSchemas", "else", "if"}
        | {"maxContains", "maxLength", "maxProperties", "minContains", "minLength", "minProperties"}
        | {"not", "oneOf", "patternProperties", "propertyNames", "then", "unevaluatedItems"}
        | {"unevaluatedProperties", "uniqueItems"}
    ),
    removed=frozenset({"default", "oneOf"}),
    formats=frozenset(
        ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"]
    ),
    all_required=True,
    typed=True,
    bare_references=True,
    lookaround=False,
    most_properties=5000,
    most_levels=10,
    most_chars=120_000,
    most_values=1000,
)

CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    fields=frozenset(
        {
            *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens"),
            *("stop", "temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"),
            *("logit_bias", "logprobs", "top_logprobs", "choices", "output", "verbosity"),
            *("reasoning", "user", "safety_identifier", "metadata", "service_tier", "cache"),
            *("cache_key", "stream", "store"),
        }
    ),
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
    schema_needs=frozenset({"items", "object", "properties"}),
    schema_root_refused=frozenset({"allOf", "anyOf", "enum", "not", "oneOf"}),
    output_schema_needs=frozenset({"items", "object"}),
    enforced_schemas=_ENFORCED,
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
    service_tiers={tier: tier for tier in _TIERS},
    max_user_chars=128,
    max_cache_key_chars=64,
    label_bounds=(16, 64, 512),
)
