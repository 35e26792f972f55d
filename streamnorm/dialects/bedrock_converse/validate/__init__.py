"""Strict validator of `ConverseStream`."""

from streamnorm.dialects.bedrock_converse.validate.order import ConverseChecker

__all__ = ["ConverseChecker"]
