"""Strict validator of Anthropic Messages streams."""

from streamnorm.dialects.anthropic.validate.checker import AnthropicChecker

__all__ = ["AnthropicChecker"]
