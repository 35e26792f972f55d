"""Strict validator of Responses streams."""

from streamnorm.dialects.openai_responses.validate.checker import ResponsesChecker

__all__ = ["ResponsesChecker"]
