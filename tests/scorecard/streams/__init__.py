"""Functions that return the cases of each source dialect."""

from __future__ import annotations

from collections.abc import Callable

from ..cases import Case
from . import chat

__all__ = ["CASES"]

CASES: dict[str, Callable[[], list[Case]]] = {
    "openai_chat": chat.cases,
}
