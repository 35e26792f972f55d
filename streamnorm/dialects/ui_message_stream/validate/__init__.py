"""Strict validator of the UI message stream."""

from streamnorm.dialects.ui_message_stream.validate.stream import UIMessageChecker

__all__ = ["UIMessageChecker"]
