"""Functions that return the cases of each source dialect."""

from __future__ import annotations

from collections.abc import Callable

from ..cases import Case
from . import anthropic, bedrock, chat, frontend, gemini, responses

__all__ = ["CASES"]

CASES: dict[str, Callable[[], list[Case]]] = {
    "ag_ui": frontend.ag_ui_cases,
    "anthropic": anthropic.cases,
    "bedrock_converse": bedrock.converse_cases,
    "bedrock_invoke": bedrock.invoke_cases,
    "gemini": gemini.cases,
    "openai_chat": chat.cases,
    "openai_responses": responses.cases,
    "ui_message_stream": frontend.ui_cases,
}
