"""Strict validator of Gemini streams."""

from streamnorm.dialects.gemini.validate.checker import GeminiChecker

__all__ = ["GeminiChecker"]
