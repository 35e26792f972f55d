"""Clients of each target dialect, written from the vendor's reference."""

from __future__ import annotations

from collections.abc import Callable

from . import anthropic, chat, gemini, responses
from .reading import Content, Reading, join_surrogates

__all__ = ["READERS", "Content", "Reading", "join_surrogates"]

READERS: dict[str, Callable[[bytes], Reading]] = {
    "anthropic": anthropic.read,
    "openai_chat": chat.read,
    "openai_responses": responses.read,
    "gemini": gemini.read,
}
