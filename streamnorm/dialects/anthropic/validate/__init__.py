"""Strict validator of Anthropic Messages streams."""

from streamnorm.dialects.anthropic.validate.order import AnthropicChecker

__all__ = ["AnthropicChecker"]
