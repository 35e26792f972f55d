"""Required and optional fields of each item type, at its start and when complete.

https://platform.openai.com/docs/api-reference/responses/object and the types of the
official SDKs (read 2026-11-21).  Other fields are legal.  At its start an item holds its
identity and no content: clients append the deltas to it.  Ids, and the status of function
calls, are optional in those types but needed by widely used clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    NULL_OR_TEXT,
    NUMBER,
    OBJECT,
    TEXT,
    Shape,
    array,
    either,
    nullable,
    object_of,
    tagged,
    word,
)

__all__ = [
    "ANNOTATION",
    "DONE",
    "EMPTY_ARRAY",
    "EMPTY_TEXT",
    "LOGPROBS",
    "PART_DONE",
    "PART_STARTED",
    "STARTED",
    "SUMMARY_DONE",
    "SUMMARY_STARTED",
]

EMPTY_ARRAY = Shape("an empty array", lambda value: value == [])
EMPTY_TEXT = Shape("an empty string", lambda value: value == "")
_NULL_OR_ARRAY = nullable(ARRAY)
_TEXT_OR_ARRAY = either(TEXT, ARRAY)

_SPAN = {"start_index": COUNT, "end_index": COUNT}
_FILE = {"file_id": TEXT, "filename": TEXT}

ANNOTATION = tagged(
    {
        "url_citation": object_of({"url": TEXT, "title": TEXT, **_SPAN}),
        "file_citation": object_of({**_FILE, "index": COUNT}),
        "container_file_citation": object_of({**_FILE, "container_id": TEXT, **_SPAN}),
        "file_path": object_of({"file_id": TEXT, "index": COUNT}),
    }
)
"""An annotation."""

LOGPROBS = array(object_of({"token": TEXT, "logprob": NUMBER}, {"top_logprobs": array(OBJECT)}))
"""Log probabilities."""

# The problems of an annotation are reported once, by the event that adds it.
_TEXT_PART = object_of(
    {"text": TEXT, "annotations": array(OBJECT)}, {"logprobs": nullable(LOGPROBS)}
)
_REFUSAL = object_of({"refusal": TEXT})
_TYPED_TEXT = object_of({"text": TEXT})

PART_STARTED = tagged(
    {
        "output_text": object_of({"text": EMPTY_TEXT, "annotations": EMPTY_ARRAY}),
        "refusal": object_of({"refusal": EMPTY_TEXT}),
        "reasoning_text": object_of({"text": EMPTY_TEXT}),
    }
)
PART_DONE = tagged({"output_text": _TEXT_PART, "refusal": _REFUSAL, "reasoning_text": _TYPED_TEXT})
SUMMARY_STARTED = tagged({"summary_text": object_of({"text": EMPTY_TEXT})})
SUMMARY_DONE = tagged({"summary_text": _TYPED_TEXT})

_STATUS_ADDED = word("in_progress", "completed", "incomplete")
_STATUS_DONE = word("completed", "incomplete")
_STATUS_TOOL_DONE = word("completed", "incomplete", "failed")

_ID = {"id": NAME}
_CALL_IDS = {"id": NAME, "call_id": NAME}
_CALL = {**_CALL_IDS, "name": NAME}
_SERVER_LABEL = {"server_label": TEXT}
_ASSISTANT = {"id": NAME, "role": word("assistant")}
_MESSAGE_PART = tagged({"output_text": _TEXT_PART, "refusal": _REFUSAL})
_ACTION = tagged(
    {
        "search": object_of({}, {"query": NULL_OR_TEXT, "queries": _NULL_OR_ARRAY}),
        "open_page": object_of({}, {"url": NULL_OR_TEXT}),
        "find_in_page": object_of({"url": TEXT, "pattern": TEXT}),
    }
)

# Required fields at the start, then when complete.
_ITEMS: dict[str, tuple[dict[str, Shape], dict[str, Shape]]] = {
    "message": (
        {**_ASSISTANT, "status": _STATUS_ADDED, "content": EMPTY_ARRAY},
        {**_ASSISTANT, "status": _STATUS_DONE, "content": array(_MESSAGE_PART)},
    ),
    "reasoning": (
        {**_ID, "summary": EMPTY_ARRAY},
        {**_ID, "summary": array(SUMMARY_DONE)},
    ),
    "function_call": (
        {**_CALL, "status": _STATUS_ADDED, "arguments": EMPTY_TEXT},
        {**_CALL, "status": _STATUS_DONE, "arguments": TEXT},
    ),
    "custom_tool_call": ({**_CALL, "input": EMPTY_TEXT}, {**_CALL, "input": TEXT}),
    "web_search_call": (
        {**_ID, "status": TEXT},
        {**_ID, "status": _STATUS_TOOL_DONE, "action": _ACTION},
    ),
    "file_search_call": (
        {**_ID, "status": TEXT, "queries": ARRAY},
        {**_ID, "status": _STATUS_TOOL_DONE, "queries": array(TEXT)},
    ),
    "code_interpreter_call": (
        {**_ID, "status": TEXT, "container_id": TEXT},
        {**_ID, "status": _STATUS_TOOL_DONE, "container_id": TEXT},
    ),
    "image_generation_call": (
        {**_ID, "status": TEXT},
        {**_ID, "status": word("completed", "generating", "failed")},
    ),
    "mcp_call": (
        {**_ID, **_SERVER_LABEL, "name": TEXT, "arguments": EMPTY_TEXT},
        {**_ID, **_SERVER_LABEL, "name": TEXT, "arguments": TEXT},
    ),
    "mcp_list_tools": (
        {**_ID, **_SERVER_LABEL, "tools": ARRAY},
        {**_ID, **_SERVER_LABEL, "tools": ARRAY},
    ),
    "mcp_approval_request": (
        {**_ID, **_SERVER_LABEL, "name": TEXT, "arguments": TEXT},
        {**_ID, **_SERVER_LABEL, "name": TEXT, "arguments": TEXT},
    ),
    "mcp_approval_response": (_ID, {**_ID, "approval_request_id": TEXT, "approve": BOOLEAN}),
    "computer_call": (
        {**_CALL_IDS, "status": TEXT},
        {**_CALL_IDS, "status": _STATUS_DONE, "pending_safety_checks": ARRAY},
    ),
    "computer_call_output": (_CALL_IDS, {**_CALL_IDS, "output": OBJECT}),
    "local_shell_call": (
        {**_CALL_IDS, "status": TEXT},
        {**_CALL_IDS, "status": _STATUS_DONE, "action": OBJECT},
    ),
    "local_shell_call_output": (_ID, {**_ID, "output": TEXT}),
    "shell_call": (
        {**_CALL_IDS, "status": TEXT},
        {**_CALL_IDS, "status": _STATUS_DONE, "action": object_of({"commands": array(TEXT)})},
    ),
    "shell_call_output": (_CALL_IDS, {**_CALL_IDS, "output": array(OBJECT)}),
    "apply_patch_call": (
        {**_CALL_IDS, "status": TEXT},
        {**_CALL_IDS, "status": word("completed"), "operation": OBJECT},
    ),
    "apply_patch_call_output": (
        _CALL_IDS,
        {**_CALL_IDS, "status": word("completed", "failed")},
    ),
    "tool_search_call": (
        {**_ID, "status": TEXT},
        {
            **_ID,
            "status": _STATUS_DONE,
            "arguments": ANYTHING,
            "execution": word("server", "client"),
        },
    ),
    "tool_search_output": (
        {**_ID, "status": TEXT},
        {**_ID, "status": _STATUS_DONE, "tools": ARRAY, "execution": word("server", "client")},
    ),
    "additional_tools": (_ID, {**_ID, "role": TEXT, "tools": ARRAY}),
    "program": (_CALL_IDS, {**_CALL_IDS, "code": TEXT, "fingerprint": TEXT}),
    "program_output": (_CALL_IDS, {**_CALL_IDS, "result": TEXT, "status": _STATUS_DONE}),
    "compaction": (_ID, {**_ID, "encrypted_content": TEXT}),
    "function_call_output": (_CALL_IDS, {**_CALL_IDS, "output": _TEXT_OR_ARRAY}),
    "custom_tool_call_output": (_CALL_IDS, {**_CALL_IDS, "output": _TEXT_OR_ARRAY}),
}

_CALLER = nullable(tagged({"direct": OBJECT, "program": object_of({"caller_id": TEXT})}))

# Fields that may be absent or null.
_OPTIONAL: Mapping[str, Mapping[str, Shape]] = {
    "message": {"phase": nullable(word("commentary", "final_answer"))},
    "reasoning": {
        "content": nullable(array(tagged({"reasoning_text": _TYPED_TEXT}))),
        "encrypted_content": NULL_OR_TEXT,
        "status": nullable(word("in_progress", "completed", "incomplete")),
    },
    "function_call": {"namespace": NULL_OR_TEXT, "caller": _CALLER, "async": nullable(BOOLEAN)},
    "custom_tool_call": {"namespace": NULL_OR_TEXT, "caller": _CALLER, "async": nullable(BOOLEAN)},
    "file_search_call": {"results": nullable(array(OBJECT))},
    "code_interpreter_call": {"code": NULL_OR_TEXT, "outputs": nullable(array(OBJECT))},
    "image_generation_call": {"result": NULL_OR_TEXT, "revised_prompt": NULL_OR_TEXT},
    "mcp_call": {"output": NULL_OR_TEXT, "approval_request_id": NULL_OR_TEXT},
    "tool_search_call": {"call_id": NULL_OR_TEXT},
    "tool_search_output": {"call_id": NULL_OR_TEXT},
}


STARTED = tagged(
    {name: object_of(fields[0], _OPTIONAL.get(name)) for name, fields in _ITEMS.items()}
)
"""An item at its start."""

DONE = tagged({name: object_of(fields[1], _OPTIONAL.get(name)) for name, fields in _ITEMS.items()})
"""A complete item."""
