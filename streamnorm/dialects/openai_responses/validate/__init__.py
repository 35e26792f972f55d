"""Strict validator of Responses streams."""

from streamnorm.dialects.openai_responses.validate.stream import ResponsesChecker

__all__ = ["ResponsesChecker"]
