"""Faults as they are named on the command line: `cut(event=3)`."""

from __future__ import annotations

import argparse
import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnorm.recording.faults import Fault

__all__ = ["read_fault"]

_MAKERS = (
    *("bom", "content_type", "crlf", "cut", "drop", "drop_terminal", "duplicate", "error_event"),
    *("garbage", "http", "reorder", "slow_first_byte", "stall", "truncate"),
)


def read_fault(text: str) -> Fault:
    """Return the fault that a text names, spelt as in Python: `bom`, `http(529, times=2)`.

    Nothing is evaluated: what stands in the parentheses are numbers and strings.

    Raises:
        argparse.ArgumentTypeError: There is no such fault, or it takes other values.
    """
    from streamnorm.recording import faults

    name, places, named = _spelt(text)
    try:
        fault: Fault = getattr(faults, name)(*places, **named)
    except (TypeError, ValueError) as exc:
        raise argparse.ArgumentTypeError(f"{text!r}: {exc}") from exc
    return fault


def _spelt(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the name of a fault, and what stands in its parentheses."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        places = [ast.literal_eval(value) for value in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise argparse.ArgumentTypeError(f"{text!r}, expected one as cut(event=3)") from exc
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in _MAKERS:
        raise argparse.ArgumentTypeError(f"{text!r}, expected one of {', '.join(_MAKERS)}")
    return name, places, named
