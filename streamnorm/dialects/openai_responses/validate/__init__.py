"""Strict validator of Responses streams."""

from streamnorm.dialects.openai_responses.validate.order import ResponsesChecker

__all__ = ["ResponsesChecker"]
