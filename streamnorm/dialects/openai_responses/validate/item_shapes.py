"""What each output item of OpenAI Responses must hold, at its start and done.

https://platform.openai.com/docs/api-reference/responses/object and the types of the
official SDKs (read 2026-11-21).  Fields that are not named here may be there.  At its
start an item holds what identifies it, and nothing yet of what its events bring: clients
add those to it.  Ids and the status of function calls, which the types leave out, are
needed by clients of note.
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
_TEXT_OR_ARRAY = Shape("a string or an array", lambda value: TEXT.fits(value) or ARRAY.fits(value))

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
"""A source of a text."""

LOGPROBS = array(object_of({"token": TEXT, "logprob": NUMBER}, {"top_logprobs": array(OBJECT)}))
"""The log probabilities of tokens."""

# Of the annotations it is told elsewhere what is wrong with them: where each was added.
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

_BEGUN = word("in_progress", "completed", "incomplete")
_ENDED = word("completed", "incomplete")
_FAILED = word("completed", "incomplete", "failed")

_ID = {"id": NAME}
_ASKED = {"id": NAME, "call_id": NAME}
_CALL = {**_ASKED, "name": NAME}
_SERVED = {"server_label": TEXT}
_ASSISTANT = {"id": NAME, "role": word("assistant")}
_MESSAGE = tagged({"output_text": _TEXT_PART, "refusal": _REFUSAL})
_ACTION = tagged(
    {
        "search": object_of({}, {"query": NULL_OR_TEXT, "queries": _NULL_OR_ARRAY}),
        "open_page": object_of({}, {"url": NULL_OR_TEXT}),
        "find_in_page": object_of({"url": TEXT, "pattern": TEXT}),
    }
)

# The fields that must be there at the start, then those that must be there when it is done.
_ITEMS: dict[str, tuple[dict[str, Shape], dict[str, Shape]]] = {
    "message": (
        {**_ASSISTANT, "status": _BEGUN, "content": EMPTY_ARRAY},
        {**_ASSISTANT, "status": _ENDED, "content": array(_MESSAGE)},
    ),
    "reasoning": (
        {**_ID, "summary": EMPTY_ARRAY},
        {**_ID, "summary": array(SUMMARY_DONE)},
    ),
    "function_call": (
        {**_CALL, "status": _BEGUN, "arguments": EMPTY_TEXT},
        {**_CALL, "status": _ENDED, "arguments": TEXT},
    ),
    "custom_tool_call": ({**_CALL, "input": EMPTY_TEXT}, {**_CALL, "input": TEXT}),
    "web_search_call": (
        {**_ID, "status": TEXT},
        {**_ID, "status": _FAILED, "action": _ACTION},
    ),
    "file_search_call": (
        {**_ID, "status": TEXT, "queries": ARRAY},
        {**_ID, "status": _FAILED, "queries": array(TEXT)},
    ),
    "code_interpreter_call": (
        {**_ID, "status": TEXT, "container_id": TEXT},
        {**_ID, "status": _FAILED, "container_id": TEXT},
    ),
    "image_generation_call": (
        {**_ID, "status": TEXT},
        {**_ID, "status": word("completed", "generating", "failed")},
    ),
    "mcp_call": (
        {**_ID, **_SERVED, "name": TEXT, "arguments": EMPTY_TEXT},
        {**_ID, **_SERVED, "name": TEXT, "arguments": TEXT},
    ),
    "mcp_list_tools": ({**_ID, **_SERVED, "tools": ARRAY}, {**_ID, **_SERVED, "tools": ARRAY}),
    "mcp_approval_request": (
        {**_ID, **_SERVED, "name": TEXT, "arguments": TEXT},
        {**_ID, **_SERVED, "name": TEXT, "arguments": TEXT},
    ),
    "mcp_approval_response": (_ID, {**_ID, "approval_request_id": TEXT, "approve": BOOLEAN}),
    "computer_call": (
        {**_ASKED, "status": TEXT},
        {**_ASKED, "status": _ENDED, "pending_safety_checks": ARRAY},
    ),
    "computer_call_output": (_ASKED, {**_ASKED, "output": OBJECT}),
    "local_shell_call": (
        {**_ASKED, "status": TEXT},
        {**_ASKED, "status": _ENDED, "action": OBJECT},
    ),
    "local_shell_call_output": (_ID, {**_ID, "output": TEXT}),
    "shell_call": (
        {**_ASKED, "status": TEXT},
        {**_ASKED, "status": _ENDED, "action": object_of({"commands": array(TEXT)})},
    ),
    "shell_call_output": (_ASKED, {**_ASKED, "output": array(OBJECT)}),
    "apply_patch_call": (
        {**_ASKED, "status": TEXT},
        {**_ASKED, "status": word("completed"), "operation": OBJECT},
    ),
    "apply_patch_call_output": (
        _ASKED,
        {**_ASKED, "status": word("completed", "failed")},
    ),
    "tool_search_call": (
        {**_ID, "status": TEXT},
        {**_ID, "status": _ENDED, "arguments": ANYTHING, "execution": word("server", "client")},
    ),
    "tool_search_output": (
        {**_ID, "status": TEXT},
        {**_ID, "status": _ENDED, "tools": ARRAY, "execution": word("server", "client")},
    ),
    "additional_tools": (_ID, {**_ID, "role": TEXT, "tools": ARRAY}),
    "program": (_ASKED, {**_ASKED, "code": TEXT, "fingerprint": TEXT}),
    "program_output": (_ASKED, {**_ASKED, "result": TEXT, "status": _ENDED}),
    "compaction": (_ID, {**_ID, "encrypted_content": TEXT}),
    "function_call_output": (_ASKED, {**_ASKED, "output": _TEXT_OR_ARRAY}),
    "custom_tool_call_output": (_ASKED, {**_ASKED, "output": _TEXT_OR_ARRAY}),
}

_CALLER = nullable(tagged({"direct": OBJECT, "program": object_of({"caller_id": TEXT})}))

# Fields that may be absent, and null where they are of no use.
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


def _shapes(moment: int) -> dict[str, Shape]:
    return {
        kind: object_of(moments[moment], _OPTIONAL.get(kind)) for kind, moments in _ITEMS.items()
    }


STARTED = tagged(_shapes(0))
"""An item at its start."""

DONE = tagged(_shapes(1))
"""An item that is done."""
