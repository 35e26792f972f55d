"""Strict validator of Chat Completions streams."""

from streamnorm.dialects.openai_chat.validate.stream import ChatChecker

__all__ = ["ChatChecker"]
