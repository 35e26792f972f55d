"""Checks of requests that only this dialect has, by the names that its rules use.

A check is written from what the vendor refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.anthropic.validate import request_fields, request_messages, request_options


def _blocks_by_message(facts: RequestFacts) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Yield the blocks of each message, each with its path."""
    messages = facts.body.get("messages")
    for number, message in enumerate(messages if is_array(messages) else []):
        content = message.get("content") if is_object(message) else None
        yield [
            (f"messages[{number}].content[{place}]", block)
            for place, block in enumerate(content if is_array(content) else [])
            if is_object(block)
        ]


def orphan_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results of uses that no message before them has."""
    known: set[object] = set()
    for blocks in _blocks_by_message(facts):
        for path, block in blocks:
            id = block.get("tool_use_id")
            if block.get("type") == "tool_result" and isinstance(id, str) and id not in known:
                yield Finding(f"{path}.tool_use_id", id, name=id)
        known.update(
            id
            for _, block in blocks
            if block.get("type") == "tool_use" and isinstance(id := block.get("id"), str)
        )


def text_after_result(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts that follow the result of a tool in one message."""
    for blocks in _blocks_by_message(facts):
        has_result = False
        for path, block in blocks:
            if block.get("type") == "tool_result":
                has_result = True
            elif has_result and block.get("type") == "text":
                yield Finding(path)


SERVER_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check for check in (orphan_results, text_after_result)
}


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
        request_messages.thinking_first,
        request_messages.unexpected_results,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return {**_CHECKS, **SERVER_CHECKS}
