"""Strict validator of Chat Completions streams."""

from streamnorm.dialects.openai_chat.validate.order import ChatChecker

__all__ = ["ChatChecker"]
