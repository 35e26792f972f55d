"""Clients of each target dialect, written from the vendor's reference."""

from __future__ import annotations

from collections.abc import Callable

from . import ag_ui, anthropic, chat, converse, gemini, responses, ui_message_stream
from .reading import Content, Reading, join_surrogates

__all__ = ["READERS", "Content", "Reading", "join_surrogates"]

READERS: dict[str, Callable[[bytes], Reading]] = {
    "anthropic": anthropic.read,
    "openai_chat": chat.read,
    "openai_responses": responses.read,
    "gemini": gemini.read,
    "bedrock_converse": converse.read,
    "ui_message_stream": ui_message_stream.read,
    "ag_ui": ag_ui.read,
}
