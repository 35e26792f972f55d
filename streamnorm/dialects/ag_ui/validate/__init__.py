"""Strict validator of AG-UI's streams."""

from streamnorm.dialects.ag_ui.validate.stream import AGUIChecker

__all__ = ["AGUIChecker"]
