"""The JSON values of texts that may not be JSON."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["is_json", "value_or_text"]


def is_json(text: str) -> bool:
    """Return whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def value_or_text(arguments: str) -> Any:
    """Return the value of a call's arguments, or the text if it cannot be parsed."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
