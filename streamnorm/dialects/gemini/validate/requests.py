"""Checks of requests that only this dialect has, by the names that its rules use.

A check is written from what the vendor refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck
from streamnorm.dialects.gemini.validate.request_checks import options, payload, turns

__all__ = ["request_checks"]

_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        options.allowed_names,
        options.budget_and_level,
        options.cached_fields,
        options.duplicate_functions,
        options.function_names,
        options.functions_beside_tools,
        options.image_types,
        options.lone_config,
        options.max_functions,
        options.output_beside_functions,
        options.output_beside_tools,
        options.output_schemas,
        options.parameters_twice,
        options.tools_without_flag,
        payload.arguments,
        payload.call_ids,
        payload.encodings,
        payload.fields_of_gemini,
        payload.fields_of_vertex,
        payload.messages,
        payload.mode_words,
        payload.thinking_words,
        payload.unknown_fields,
        turns.call_turns,
        turns.empty_contents,
        turns.empty_parts,
        turns.last_turn,
        turns.missing_contents,
        turns.part_data,
        turns.placeholders,
        turns.response_counts,
        turns.response_media,
        turns.response_turns,
        turns.roles,
        turns.signatures,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
