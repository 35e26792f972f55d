"""Table of the request checks that Converse alone has, by the names that rules use.

A check states what the vendor refuses.  It shares no code with the encoders and accepts any
JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck
from streamnorm.dialects.bedrock_converse.validate import request_fields, request_messages

_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        request_fields.choice_of_unknown,
        request_fields.document_names,
        request_fields.duplicate_documents,
        request_fields.duplicate_tools,
        request_fields.json_results,
        request_fields.lone_members,
        request_fields.rising_ttls,
        request_fields.tool_inputs,
        request_messages.alternation,
        request_messages.blank_texts,
        request_messages.empty_contents,
        request_messages.excess_results,
        request_messages.first_message,
        request_messages.lone_documents,
        request_messages.missing_config,
        request_messages.missing_messages,
        request_messages.missing_results,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
