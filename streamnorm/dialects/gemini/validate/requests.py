"""Table of the request checks that Gemini alone has, by the names that rules use.

A check states what the vendor refuses.  It shares no code with the encoders and accepts any
JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck
from streamnorm.dialects.gemini.validate import request_fields, request_messages, request_options

_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        request_options.allowed_names,
        request_options.budget_and_level,
        request_options.cached_fields,
        request_options.duplicate_functions,
        request_options.function_names,
        request_options.functions_beside_tools,
        request_options.image_types,
        request_options.lone_config,
        request_options.max_functions,
        request_options.output_beside_functions,
        request_options.output_beside_tools,
        request_options.output_schemas,
        request_options.parameters_twice,
        request_options.tools_without_flag,
        request_fields.arguments,
        request_fields.call_ids,
        request_fields.encodings,
        request_fields.fields_of_gemini,
        request_fields.fields_of_vertex,
        request_fields.messages,
        request_fields.mode_words,
        request_fields.thinking_words,
        request_fields.unknown_fields,
        request_messages.call_turns,
        request_messages.empty_contents,
        request_messages.empty_parts,
        request_messages.last_turn,
        request_messages.missing_contents,
        request_messages.part_data,
        request_messages.placeholders,
        request_messages.response_counts,
        request_messages.response_media,
        request_messages.response_turns,
        request_messages.roles,
        request_messages.signatures,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
