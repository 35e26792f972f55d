"""Adaptation of an encoded request body to its server: items, item ids and tool choice.

They apply to items that were encoded and to items that stay spelt as the client sent them.
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.codec import WriteContext
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.openai_responses.body.tools import type_in_tools

# Item ids that streamnorm mints.
_MINTED_ID = re.compile(r"[a-z]+_sn_")


def fit_body(body: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a request body with the items, item ids and tool choice that its server accepts."""
    target = context.capabilities
    items = body.get("input")
    # vLLM and Azure refuse output messages without the fields that the schema requires.
    if is_array(items) and target.complete_answers:
        items = [_complete_answer(item, number) for number, item in enumerate(items)]
        body = {**body, "input": items}
    # The API matches a result with its call by type, and calls are those of functions here.
    if is_array(items) and not target.custom_tools:
        items = [_as_function_result(item) for item in items]
        body = {**body, "input": items}
    # Copilot binds item ids to the connection and refuses ids of another form.
    if is_array(items) and not target.new_item_ids:
        body = {**body, "input": [_drop_minted_id(item) for item in items]}
    # ChatGPT refuses a choice by another type than the tool's (raine/claude-code-proxy#26).
    kind = type_in_tools(body) if target.exact_choices else None
    if kind is not None:
        body = {**body, "tool_choice": {**body["tool_choice"], "type": kind}}
    return body


def _as_function_result(item: dict[str, Any]) -> dict[str, Any]:
    """Return a `custom_tool_call_output` as a `function_call_output`, which has no name."""
    if item.get("type") != "custom_tool_call_output":
        return item
    known = {name: value for name, value in item.items() if name != "name"}
    return {**known, "type": "function_call_output"}


def _drop_minted_id(item: dict[str, Any]) -> dict[str, Any]:
    id = item.get("id")
    if not isinstance(id, str) or _MINTED_ID.match(id) is None:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _complete_answer(item: dict[str, Any], number: int) -> dict[str, Any]:
    """Return an item with the fields that strict servers require in assistant messages.

    A message with a single text without annotations is written as a string, which has no
    required fields.

    Args:
        item: An item of any type.
        number: The position, used for a minted id.
    """
    parts = item.get("content")
    if item.get("role") != "assistant" or not is_array(parts):
        return item
    texts = [part for part in parts if is_object(part) and part.get("type") == "output_text"]
    has_annotations = all(part.get("annotations") is not None for part in texts)
    if not texts or (item.get("id") and item.get("status") and has_annotations):
        return item
    if len(parts) == 1 and not (item.get("id") or texts[0].get("annotations")):
        return {**item, "content": texts[0].get("text")}
    id, status = item.get("id") or f"msg_sn_{number}", item.get("status") or "completed"
    known = {**item, "type": "message", "id": id, "status": status}
    return {**known, "content": [_add_annotations(part) for part in parts]}


def _add_annotations(part: Any) -> Any:
    is_text = is_object(part) and part.get("type") == "output_text"
    return {**part, "annotations": part.get("annotations") or []} if is_text else part
