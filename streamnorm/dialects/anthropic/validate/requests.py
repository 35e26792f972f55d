"""Checks of requests that only this dialect has, by the names that its rules use.

A check is written from what the vendor refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck
from streamnorm.dialects.anthropic.validate.request_checks import content, fields, options, turns
from streamnorm.dialects.anthropic.validate.server_requests import SERVER_CHECKS

__all__ = ["request_checks"]

_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        content.blank_texts,
        content.document_media_types,
        content.empty_contents,
        content.empty_results,
        content.empty_texts,
        content.growing_lifetimes,
        content.image_media_types,
        content.inputs,
        content.marked_empty_texts,
        content.max_marks,
        content.nested_marks,
        content.redacted_data,
        content.signatures,
        content.tool_ids,
        content.top_level_lifetime,
        content.trailing_space,
        fields.beta_fields,
        fields.missing_fields,
        fields.unknown_fields,
        options.budget_below_max_tokens,
        options.choice_without_tools,
        options.deferred_tools,
        options.fields_of_old_versions,
        options.temperature_and_top_p,
        options.temperature_while_thinking,
        options.tool_references,
        options.top_k_while_thinking,
        options.top_p_while_thinking,
        options.unknown_choice,
        turns.duplicate_results,
        turns.duplicate_uses,
        turns.missing_results,
        turns.missing_server_results,
        turns.prefill,
        turns.system_after_user,
        turns.system_before_assistant,
        turns.thinking_first,
        turns.unexpected_results,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return {**_CHECKS, **SERVER_CHECKS}
