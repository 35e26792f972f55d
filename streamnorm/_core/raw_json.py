"""JSON text that blocks have as it was sent, and that is written as its value."""

from __future__ import annotations

from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm._core.limits import Limits

__all__ = ["json_value"]


def json_value(text: str, what: str, path: str = "") -> Any:
    """Return the value of JSON text.

    Args:
        text: The text.
        what: What it is, for the error.
        path: Of the block, for the error.

    Raises:
        EncodeError: It is no JSON, or nests too deep.
    """
    try:
        return decode_any(text, max_depth=Limits().max_json_depth)
    except InvalidJSON as exc:
        message = f"{what} of {len(text)} characters: {exc}, expected JSON"
        raise EncodeError(message, path=path) from exc
