"""Strict validator of Gemini streams."""

from streamnorm.dialects.gemini.validate.order import GeminiChecker

__all__ = ["GeminiChecker"]
