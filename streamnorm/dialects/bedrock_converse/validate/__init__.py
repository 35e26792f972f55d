"""Strict validator of `ConverseStream`."""

from streamnorm.dialects.bedrock_converse.validate.stream import ConverseChecker

__all__ = ["ConverseChecker"]
