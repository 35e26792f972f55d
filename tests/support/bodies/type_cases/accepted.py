"""Accepted silent losses and same-dialect changes, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

from support.bodies.type_cases.case import Case

__all__ = ["CHANGED", "SILENT", "Row", "accepted_difference", "accepted_silence"]


class Row(NamedTuple):
    """A class of accepted cases.

    Attributes:
        kinds: Kinds of bodies.
        dialects: Dialects that have it.
        path: Pattern of its position; it need not match the end.
        reason: Why nothing is reported, or why the dialect changes it.
        targets: Dialects that it goes to; () for all.
    """

    kinds: tuple[str, ...]
    dialects: tuple[str, ...]
    path: str
    reason: str
    targets: tuple[str, ...] = ()


_ALL = ("openai_chat", "openai_responses", "anthropic", "gemini")
_CHAT, _RESPONSES, _ANTHROPIC, _GEMINI = ((name,) for name in _ALL)
_OPENAI = (*_CHAT, *_RESPONSES)
_INTERACTIONS = ("gemini_interactions",)
_EVERY = (*_ALL, *_INTERACTIONS)
_GOOGLE = (*_GEMINI, *_INTERACTIONS)
_REQUESTS, _ANSWERS, _STREAMS = ("requests",), ("answers", "streams"), ("streams",)

_DEFAULT = "what is done without it, too"
_NOTHING = "a step without contents"
_BOOKKEEPING = "a name, number or time of the provider's, which says nothing of the answer"
_ECHO = "what the response repeats of its request"
_SUPERSEDED = "message_delta says it again, and how it was in the end"

SILENT: tuple[Row, ...] = (
    # Requests
    Row(_REQUESTS, _EVERY, r".*\.(defer_loading|strict|is_error)=false$", _DEFAULT),
    Row(_REQUESTS, _ALL, r".*\bdisable_parallel_tool_use=false$", _DEFAULT),
    Row(_REQUESTS, _ALL, r".*\bdetail=auto$", _DEFAULT),
    Row(_REQUESTS, _EVERY, r"(parallel_tool_calls|stream=false)$", _DEFAULT, _GOOGLE),
    Row(_REQUESTS, _EVERY, r"(logprobs|store)=false$", _DEFAULT, (*_RESPONSES, *_INTERACTIONS)),
    Row(_REQUESTS, _OPENAI, r"prompt_cache_options\.mode=implicit$", _DEFAULT, _GOOGLE),
    Row(_REQUESTS, _OPENAI, r"(response_format|text\.format)\[text\]$", _DEFAULT, _ANTHROPIC),
    Row(_REQUESTS, _OPENAI, r".*\.format\[text\]$", _DEFAULT, _OPENAI),
    Row(_REQUESTS, _RESPONSES, r"tool_choice=auto$", _DEFAULT, _GEMINI),
    Row(_REQUESTS, _RESPONSES, r"input\[message \w+\]\.type=message$", "the only type"),
    Row(
        *(_REQUESTS, _RESPONSES, r"input\[message \w+\]\.role=developer$"),
        "the name of the system's messages for models that reason",
    ),
    Row(_REQUESTS, _RESPONSES, r".*\.user_location\.type=approximate$", "the only type"),
    Row(_REQUESTS, _RESPONSES, r".*\[WebSearch\w*\](\.type=|$)", "another name of the tool"),
    Row(_REQUESTS, _OPENAI, r"tool_choice\[(function|custom)\]$", "its name chooses the tool"),
    Row(_REQUESTS, _RESPONSES, r"input\[\w+( \w+)?\]\.id$", _BOOKKEEPING),
    Row(_REQUESTS, _RESPONSES, r"input\[function_call_output\]\.name$", "its call has the name"),
    Row(_REQUESTS, _CHAT, r"stream_options\.include_usage$", "the others always count tokens"),
    Row(_REQUESTS, _ANTHROPIC, r"cache_control$", _DEFAULT, _GOOGLE),
    Row(
        *(_REQUESTS, _ANTHROPIC, r"thinking\[adaptive\]$"),
        *("models with levels always think", _GEMINI),
    ),
    Row(_REQUESTS, _ANTHROPIC, r"thinking\[\w+\]\.display=omitted$", _DEFAULT, _RESPONSES),
    Row(_REQUESTS, _ANTHROPIC, r"tools\[\]\[\w+\]\.type=custom$", _DEFAULT),
    Row(
        *(_REQUESTS, _ANTHROPIC, r"tools\[\]\[\w*ToolSearchTool\w+\](\.type=|$)"),
        *("the others search in their own way", _RESPONSES),
    ),
    Row(
        *(_REQUESTS, _ANTHROPIC),
        r"tools\[\]\[(bash|text_editor|code_execution|web_search|web_fetch)_\d+\]$",
        "another version of the tool, whose name and fields are carried",
    ),
    Row(_REQUESTS, _GEMINI, r".*\.(responseLogprobs|includeThoughts)=false$", _DEFAULT),
    Row(
        _REQUESTS,
        _GEMINI,
        r".*[sS]chema\.nullable=false$|.*\.parameters\.nullable=false$",
        _DEFAULT,
    ),
    Row(_REQUESTS, _GEMINI, r".*\.thought=false$", _DEFAULT),
    Row(_REQUESTS, _GEMINI, r".*\.partialArgs\[\]\.willContinue", "the pieces are joined"),
    Row(
        *(_REQUESTS, _GEMINI, r".*\.fileData\.mimeType$"),
        "the server that fetches the file is told its type",
    ),
    Row(_REQUESTS, _INTERACTIONS, r"input\[function_result\]\.name$", "its call has the name"),
    Row(_REQUESTS, _INTERACTIONS, r"input\[model_output\]$", _NOTHING),
    Row(
        *(_REQUESTS, _INTERACTIONS, r".*\[audio\]\.mime_type=audio/(mp3|mpeg)$"),
        *("the format has two types", _CHAT),
    ),
    Row(
        *(_REQUESTS, _INTERACTIONS),
        r"(generation_config\.thinking_summaries=none"
        r"|response_format(\[List\]\[\])?\[text\]\.mime_type=text/plain)$",
        _DEFAULT,
    ),
    Row(
        *(_REQUESTS, _INTERACTIONS, r"tools\[\]\[tool_search\]\.name$"),
        "the name of a tool that the client executes, which this one is not",
    ),
    # Answers and streams
    Row(
        *(_STREAMS, _RESPONSES, r"output\[custom_tool_call_output\]"),
        "a loss names the result, and the stop reason says that its call was executed",
        (*_CHAT, *_ANTHROPIC),
    ),
    Row(_ANSWERS, _INTERACTIONS, r"(created|updated)$", _BOOKKEEPING),
    Row(
        *(_ANSWERS, _INTERACTIONS),
        r"(agent|agent_config|environment|generation_config|labels|previous_interaction_id"
        r"|response_(format|mime_type|modalities)|safety_settings|system_instruction|tools"
        r"|webhook_config|cached_content)(?![a-z_])",
        _ECHO,
    ),
    Row(_ANSWERS, _INTERACTIONS, r"service_tier=standard$", "the tier of every answer"),
    Row(_ANSWERS, _INTERACTIONS, r"steps\[model_output\]$", _NOTHING),
    Row(
        *(_ANSWERS, _INTERACTIONS, r"status=(incomplete|budget_exceeded)$"),
        "the others have one word for an answer that is cut",
    ),
    Row(_ANSWERS, _CHAT, r"(created|system_fingerprint|obfuscation)$", _BOOKKEEPING),
    Row(_ANSWERS, _CHAT, r"metadata\.", _ECHO),
    Row(_ANSWERS, _OPENAI, r"service_tier=(auto|default)$", "the tier of every answer"),
    Row(_STREAMS, _CHAT, r"choices\[\]\.delta\.role=", "an answer is the assistant's"),
    Row(_STREAMS, _CHAT, r".*\.tool_calls\[\]\.type=function$", "the type of a call without one"),
    Row(_ANSWERS, _RESPONSES, r"(created_at|completed_at|background)", _BOOKKEEPING),
    Row(_ANSWERS, _RESPONSES, r"output\[\w+\]\.id$", _BOOKKEEPING),
    Row(
        *(_ANSWERS, _RESPONSES, r"output\[\w+\]\.status=\w+$"),
        "the response says whether it was cut, and so do the arguments of a call",
    ),
    Row(_STREAMS, _RESPONSES, r"response\.queued$", "a state before the answer starts"),
    Row(_ANSWERS, _RESPONSES, r"output\[\w+\]\.async=false$", _DEFAULT),
    Row(
        *(_ANSWERS, _RESPONSES, r"incomplete_details\.reason=(max_messages|steered)$"),
        *("written as OTHER, as all words without one of Google's", _GEMINI),
    ),
    Row(
        *(_ANSWERS, _RESPONSES),
        r"(access_programs|conversation|image|instructions|max_output_tokens|max_tool_calls|metadata"
        r"|parallel_tool_calls|previous_response_id|prompt|prompt_cache_\w+|reasoning"
        r"|safety_identifier|temperature|text|tool_choice|tools|top_logprobs|top_p|truncation|user)"
        r"(?![a-z_])",
        _ECHO,
    ),
    Row(
        *(
            _STREAMS,
            _RESPONSES,
            r"(response\.[\w.]+|error)\.(item_id|output_index|sequence_number)$",
        ),
        _BOOKKEEPING,
    ),
    Row(
        *(_STREAMS, _RESPONSES, r"response\.reasoning_summary_part\.done\.status=incomplete$"),
        "the response says that it was cut",
    ),
    Row(_ANSWERS, _ANTHROPIC, r".*\.service_tier=standard$", "the tier of every answer"),
    Row(_STREAMS, _ANTHROPIC, r"message_start\.message\.(usage|stop_\w+)", _SUPERSEDED),
    Row(
        *(_ANSWERS, _ANTHROPIC),
        r".*stop_reason=(max_tokens|model_context_window_exceeded)$",
        "the others have one word for an answer that is full and a context that is",
    ),
    Row(
        *(_ANSWERS, _ANTHROPIC, r".*stop_reason=(pause_turn|compaction)$"),
        *("written as one word of Google's", _GOOGLE),
    ),
    Row(
        *(_ANSWERS, _GEMINI),
        r"candidates\[\]\.finishReason=(SAFETY|RECITATION|LANGUAGE|BLOCKLIST|PROHIBITED_CONTENT"
        r"|SPII|IMAGE_SAFETY|IMAGE_PROHIBITED_CONTENT|IMAGE_RECITATION|ESCALATION"
        r"|PUP_LIMITED_DISABLED|MODEL_ARMOR)$",
        "the others have one word for all filters",
    ),
    Row(_ANSWERS, _GEMINI, r".*\.functionCall\.willContinue$", "the pieces are joined"),
    Row(_ANSWERS, _GEMINI, r"createTime$", _BOOKKEEPING),
    Row(_ANSWERS, _GEMINI, r".*\.(thought|willContinue|finished)=false$", _DEFAULT),
)
"""What other dialects drop without a loss."""

CHANGED: tuple[Row, ...] = (
    Row(_ANSWERS, _RESPONSES, r"error(?![a-z])|status=(failed|cancelled)$", "an error, no answer"),
    Row(
        *(_ANSWERS, _RESPONSES, r"status=(in_progress|queued|incomplete)$"),
        "an answer that has not ended, or that says nothing of its end",
    ),
    Row(
        *(_STREAMS, _RESPONSES, r"output\[\w+\]\.status="),
        "an item is written when it is done, before it is known why",
    ),
    Row(
        *(_STREAMS, _RESPONSES, r"(output\[|response\.)(custom_tool_call|program)"),
        "the API sends a status, although the type of the item has none",
    ),
    Row(
        *(_STREAMS, _RESPONSES, r"output\[reasoning\]\.content|response\.reasoning_text"),
        "written as summaries, which every client shows",
    ),
    Row(
        *(_STREAMS, _RESPONSES, r"response\.reasoning_summary_part\.done\.status=incomplete$"),
        "the response says that it was cut",
    ),
    Row(_STREAMS, _RESPONSES, r"response\.queued$", "a state before the answer starts"),
    Row(_STREAMS, _CHAT, r".*function_call", "the deprecated form of tool_calls"),
    Row(_STREAMS, _CHAT, r"choices\[\]\.delta\.role=", "an answer is the assistant's"),
    Row(_STREAMS, _ANTHROPIC, r"message_start\.message\.stop_\w+", _SUPERSEDED),
    Row(_ANSWERS, _GEMINI, r"candidates\[\]\.finishReason=", "an error, no answer, or no end"),
    Row(_ANSWERS, _INTERACTIONS, r"status=", "an error, or no end"),
    Row(_ANSWERS, _GEMINI, r"promptFeedback\.blockReason=", "an unspecified reason is no end"),
    Row(
        *(_ANSWERS, _GEMINI, r".*\.functionCall|.*\.parts\[\]\.thoughtSignature$"),
        "a call gets an id, which its result names, and its arguments in one piece",
    ),
)
"""What is written in another way in the same dialect, or is no answer."""


def accepted_silence(kind: str, case: Case, target: str) -> Row | None:
    """Return the row that permits a silent loss; None if there is none."""
    return next(
        (row for row in SILENT if _matches(row, kind, case) and target in (row.targets or _EVERY)),
        None,
    )


def accepted_difference(kind: str, case: Case) -> Row | None:
    """Return the row that permits a same-dialect change; None if there is none."""
    return next((row for row in CHANGED if _matches(row, kind, case)), None)


def _matches(row: Row, kind: str, case: Case) -> bool:
    return (
        kind in row.kinds
        and case.dialect in row.dialects
        and re.match(row.path, case.path) is not None
    )
