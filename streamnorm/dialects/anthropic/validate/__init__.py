"""Strict validator of Anthropic Messages streams."""

from streamnorm.dialects.anthropic.validate.stream import AnthropicChecker

__all__ = ["AnthropicChecker"]
