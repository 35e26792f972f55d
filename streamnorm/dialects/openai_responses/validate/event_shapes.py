"""Required and optional fields of each event type.

https://platform.openai.com/docs/api-reference/responses-streaming and the types of the
official SDKs (read 2026-11-21).  Other fields are legal.  Types that the SDKs do not know
are problems, since the helper of openai-node throws at them, except `keepalive`, which the
API sends while an answer takes long.
"""

from __future__ import annotations

from streamnorm._core.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    NULL_OR_TEXT,
    NUMBER,
    TEXT,
    Shape,
    array,
    nullable,
    object_of,
    word,
)
from streamnorm.dialects.openai_responses.validate.item_shapes import (
    ANNOTATION,
    DONE,
    EMPTY_ARRAY,
    LOGPROBS,
    PART_DONE,
    PART_STARTED,
    STARTED,
    SUMMARY_DONE,
    SUMMARY_STARTED,
)

__all__ = ["ERROR", "ERROR_NESTED", "EVENTS", "PROGRESS"]

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
    """Return the shape of an event that holds the whole response.

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
    """Return the shape of an event of an item; some lack `item_id`."""
    id = {"item_id": NAME} if item_id else {}
    return object_of({**_NUMBERED, "output_index": COUNT, **id, **fields})


_OUTCOME = word("exit", "timeout")

_STATES = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed", "failed"),
    "mcp_list_tools": ("in_progress", "completed", "failed"),
    "compaction": ("compacting",),
}

PROGRESS = {
    f"response.{item}.{state}": item for item, states in _STATES.items() for state in states
}
"""Item type of each event that reports the progress of a server-side tool."""

_PROGRESS_SHAPE = _of_item()
_TEXT_DELTA = _of_item(content_index=COUNT, delta=TEXT)
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
    "response.output_item.added": _of_item(item_id=False, item=STARTED),
    "response.output_item.done": _of_item(item_id=False, item=DONE),
    "response.content_part.added": _of_item(content_index=COUNT, part=PART_STARTED),
    "response.content_part.done": _of_item(content_index=COUNT, part=PART_DONE),
    "response.output_text.delta": _of_item(content_index=COUNT, delta=TEXT, logprobs=LOGPROBS),
    "response.output_text.done": _of_item(content_index=COUNT, text=TEXT, logprobs=LOGPROBS),
    "response.output_text.annotation.added": _of_item(
        content_index=COUNT, annotation_index=COUNT, annotation=ANNOTATION
    ),
    "response.refusal.delta": _TEXT_DELTA,
    "response.refusal.done": _of_item(content_index=COUNT, refusal=TEXT),
    "response.reasoning_text.delta": _TEXT_DELTA,
    "response.reasoning_text.done": _of_item(content_index=COUNT, text=TEXT),
    "response.reasoning_summary_part.added": _of_item(summary_index=COUNT, part=SUMMARY_STARTED),
    "response.reasoning_summary_part.done": _of_item(summary_index=COUNT, part=SUMMARY_DONE),
    "response.reasoning_summary_text.delta": _of_item(summary_index=COUNT, delta=TEXT),
    "response.reasoning_summary_text.done": _of_item(summary_index=COUNT, text=TEXT),
    "response.function_call_arguments.delta": _of_item(delta=TEXT),
    "response.function_call_arguments.done": _of_item(arguments=TEXT),
    "response.custom_tool_call_input.delta": _of_item(delta=TEXT),
    "response.custom_tool_call_input.done": _of_item(input=TEXT),
    "response.mcp_call_arguments.delta": _of_item(delta=TEXT),
    "response.mcp_call_arguments.done": _of_item(arguments=TEXT),
    "response.code_interpreter_call_code.delta": _of_item(delta=TEXT),
    "response.code_interpreter_call_code.done": _of_item(code=TEXT),
    "response.image_generation_call.partial_image": _of_item(
        partial_image_index=COUNT, partial_image_b64=TEXT
    ),
    "response.shell_call_command.added": _of_item(item_id=False, command_index=COUNT, command=TEXT),
    "response.shell_call_command.delta": _of_item(item_id=False, command_index=COUNT, delta=TEXT),
    "response.shell_call_command.done": _of_item(item_id=False, command_index=COUNT, command=TEXT),
    "response.shell_call_output_content.delta": _of_item(
        command_index=COUNT, delta=object_of({}, {"stdout": NULL_OR_TEXT, "stderr": NULL_OR_TEXT})
    ),
    "response.shell_call_output_content.done": _of_item(
        command_index=COUNT,
        output=array(
            object_of({"stdout": TEXT, "stderr": TEXT, "outcome": object_of({"type": _OUTCOME})})
        ),
    ),
    **dict.fromkeys(PROGRESS, _PROGRESS_SHAPE),
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
