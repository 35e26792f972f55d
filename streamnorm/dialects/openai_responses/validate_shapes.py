"""Shapes of Responses items, at start and when complete, and of all events.

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
from streamnorm.dialects.openai_responses.items import types

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


_NULL = Shape("null", lambda value: value is None)
_ERROR_FIELDS = {"code": NULL_OR_TEXT, "param": NULL_OR_TEXT}
_NUMBERED = {"sequence_number": COUNT}

_USAGE = object_of(
    {
        "input_tokens": COUNT,
        "input_tokens_details": object_of({"cached_tokens": COUNT, "cache_write_tokens": COUNT}),
        "output_tokens": COUNT,
        "output_tokens_details": object_of({"reasoning_tokens": COUNT}),
        "total_tokens": COUNT,
    }
)


def _response(
    status: Shape,
    *,
    output: Shape = ARRAY,
    usage: Shape | None = None,
    error: Shape = _NULL,
    details: Shape = _NULL,
) -> Shape:
    """Return the shape of an event that holds a response object.

    Args:
        status: Shape of its status.
        output: Shape of its items.
        usage: Shape of its token counts; None where they are null or absent.
        error: Shape of `error`.
        details: Shape of `incomplete_details`.
    """
    required: dict[str, Shape] = {
        "id": NAME,
        "object": word("response"),
        "created_at": NUMBER,
        "model": TEXT,
        "status": status,
        "output": output,
        "parallel_tool_calls": BOOLEAN,
        "tool_choice": ANYTHING,
        "tools": ARRAY,
    }
    # A field that may be null may also be absent.
    nullables = {"usage": usage or _NULL, "error": error, "incomplete_details": details}
    required |= {name: shape for name, shape in nullables.items() if not shape.fits(None)}
    optional = {name: shape for name, shape in nullables.items() if shape.fits(None)}
    return object_of({**_NUMBERED, "response": object_of(required, optional)})


def _of_item(*, item_id: bool = True, **fields: Shape) -> Shape:
    """Return the shape of an item event."""
    id = {"item_id": NAME} if item_id else {}
    return object_of({**_NUMBERED, "output_index": COUNT, **id, **fields})


_OUTCOME = word("exit", "timeout")


def _item_events() -> dict[str, Shape]:
    """Return the shapes of the events of a text, or of a server tool call's progress."""
    events: dict[str, Shape] = {}
    for row in types.ITEM_TYPES.values():
        events |= dict.fromkeys(row.progress_events, _of_item())
        for text in row.texts:
            index = {text.index_key: COUNT} if text.index_key else {}
            has_id = text is not types.COMMAND
            events[text.delta] = _of_item(item_id=has_id, **index, delta=TEXT)
            events[text.done] = _of_item(item_id=has_id, **index, **{text.key: TEXT})
    return events


_NO_FIELDS = object_of(_NUMBERED)

EVENTS: dict[str, Shape] = {
    "response.created": _response(word("in_progress", "queued"), output=EMPTY_ARRAY),
    "response.queued": _response(word("queued"), output=EMPTY_ARRAY),
    "response.in_progress": _response(word("in_progress"), output=EMPTY_ARRAY),
    "response.completed": _response(word("completed"), usage=_USAGE),
    "response.incomplete": _response(
        word("incomplete"),
        usage=_USAGE,
        details=object_of(
            {"reason": word("max_output_tokens", "content_filter", "max_messages", "steered")}
        ),
    ),
    "response.failed": _response(
        word("failed"), usage=nullable(_USAGE), error=object_of({"code": TEXT, "message": TEXT})
    ),
    types.ITEM_ADDED: _of_item(item_id=False, item=STARTED),
    types.ITEM_DONE: _of_item(item_id=False, item=DONE),
    **_item_events(),
    types.OUTPUT_TEXT.part_added: _of_item(content_index=COUNT, part=PART_STARTED),
    types.OUTPUT_TEXT.part_done: _of_item(content_index=COUNT, part=PART_DONE),
    types.OUTPUT_TEXT.delta: _of_item(content_index=COUNT, delta=TEXT, logprobs=LOGPROBS),
    types.OUTPUT_TEXT.done: _of_item(content_index=COUNT, text=TEXT, logprobs=LOGPROBS),
    types.ANNOTATION_ADDED: _of_item(
        content_index=COUNT, annotation_index=COUNT, annotation=ANNOTATION
    ),
    types.SUMMARY_TEXT.part_added: _of_item(summary_index=COUNT, part=SUMMARY_STARTED),
    types.SUMMARY_TEXT.part_done: _of_item(summary_index=COUNT, part=SUMMARY_DONE),
    "response.image_generation_call.partial_image": _of_item(
        partial_image_index=COUNT, partial_image_b64=TEXT
    ),
    types.COMMAND.part_added: _of_item(item_id=False, command_index=COUNT, command=TEXT),
    "response.shell_call_output_content.delta": _of_item(
        command_index=COUNT, delta=object_of({}, {"stdout": NULL_OR_TEXT, "stderr": NULL_OR_TEXT})
    ),
    "response.shell_call_output_content.done": _of_item(
        command_index=COUNT,
        output=array(
            object_of({"stdout": TEXT, "stderr": TEXT, "outcome": object_of({"type": _OUTCOME})})
        ),
    ),
    "response.audio.delta": object_of({**_NUMBERED, "delta": TEXT}),
    "response.audio.done": _NO_FIELDS,
    "response.audio.transcript.delta": object_of({**_NUMBERED, "delta": TEXT}),
    "response.audio.transcript.done": _NO_FIELDS,
    "keepalive": _NO_FIELDS,
    "error": _NO_FIELDS,
}
"""Shapes by event type."""

ERROR = object_of({"message": TEXT}, _ERROR_FIELDS)
"""An `error` event as documented."""

ERROR_NESTED = object_of({"error": object_of({"message": TEXT, "type": TEXT}, _ERROR_FIELDS)})
"""An `error` event as sent by the API."""
