"""Arguments for a dialect that has them whole, as JSON objects, or not at all."""

from __future__ import annotations

from collections.abc import Callable

from streamnorm._core.errors import ArgumentsError
from streamnorm._core.json import compact
from streamnorm._core.losses.capabilities import Losses
from streamnorm._core.partial_json import decode_arguments
from streamnorm._core.text_buffer import TextBuffer

__all__ = ["WholeArguments", "escaped"]


_WHITE_SPACE = " \t\r\n"

# JSON has the first two around and between its tokens alone.  The others, at which some
# readers cut lines, are in its strings alone.
_LINE_ENDS = (
    *(("\r", " "), ("\n", " ")),
    *(("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")),
)


class WholeArguments:
    """Keep the arguments of calls until they are complete.

    Args:
        losses: Where those that have no place are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._texts: dict[int, TextBuffer] = {}

    def add(self, index: int, text: str) -> None:
        """Take more arguments of a call."""
        if index not in self._texts:
            self._texts[index] = TextBuffer()
        self._texts[index].append(text)

    def sink(self, index: int) -> Callable[[str], None] | None:
        """Return a function that adds arguments of a call, if some were added before."""
        buffer = self._texts.get(index)
        return None if buffer is None else buffer.append

    def take(self, index: int, where: str) -> str | None:
        """Return all arguments of a call on one line, "" for none; None if they have no place."""
        buffer = self._texts.pop(index, None)
        text = "" if buffer is None else buffer.text()
        if text.strip() == "null":
            self._losses.add("null_arguments", "tool call", "written as {}")
            return ""
        try:
            decode_arguments(text)
        except ArgumentsError:
            self._losses.add("broken_arguments", where, "call dropped")
            return None
        text = text.strip(_WHITE_SPACE)
        for end, written in _LINE_ENDS:
            text = text.replace(end, written)
        return text

    def drop(self, index: int, where: str) -> None:
        """Count the arguments of a call that was open when the stream failed."""
        self._texts.pop(index, None)
        self._losses.count("broken_arguments", where, "call dropped")


def escaped(text: str) -> str:
    """Return text as the inside of a JSON string."""
    return compact(text)[1:-1]
