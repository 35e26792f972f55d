"""Strict validator of Gemini streams."""

from streamnorm.dialects.gemini.validate.stream import GeminiChecker

__all__ = ["GeminiChecker"]
