"""Table of the request checks that Anthropic alone has, by the names that rules use.

A check states what the vendor or a compatible server refuses.  It shares no code with the
encoders and accepts any JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck
from streamnorm.dialects.anthropic.validate import request_fields, request_messages, request_options

_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        request_messages.blank_texts,
        request_messages.document_media_types,
        request_messages.empty_contents,
        request_messages.empty_results,
        request_messages.empty_texts,
        request_messages.growing_lifetimes,
        request_messages.image_media_types,
        request_messages.inputs,
        request_messages.marked_empty_texts,
        request_messages.max_marks,
        request_messages.nested_marks,
        request_messages.orphan_results,
        request_messages.redacted_data,
        request_messages.signatures,
        request_messages.tool_ids,
        request_messages.top_level_lifetime,
        request_messages.trailing_space,
        request_fields.beta_fields,
        request_fields.missing_fields,
        request_fields.unknown_fields,
        request_options.budget_below_max_tokens,
        request_options.choice_without_tools,
        request_options.deferred_tools,
        request_options.fields_of_old_versions,
        request_options.temperature_and_top_p,
        request_options.temperature_while_thinking,
        request_options.tool_references,
        request_options.top_k_while_thinking,
        request_options.top_p_while_thinking,
        request_options.unknown_choice,
        request_messages.duplicate_results,
        request_messages.duplicate_uses,
        request_messages.missing_results,
        request_messages.missing_server_results,
        request_messages.prefill,
        request_messages.system_after_user,
        request_messages.system_before_assistant,
        request_messages.text_after_result,
        request_messages.thinking_first,
        request_messages.unexpected_results,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
