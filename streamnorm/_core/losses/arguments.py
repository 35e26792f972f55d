"""Tool arguments for a dialect that writes them whole, as a JSON object."""

from __future__ import annotations

from collections.abc import Callable

from streamnorm._core.errors import ArgumentsError
from streamnorm._core.losses.loss import Losses
from streamnorm._core.partial_json import decode_arguments
from streamnorm._core.text_buffer import TextBuffer

__all__ = ["WholeArguments"]


_WHITE_SPACE = " \t\r\n"

# The first two occur in JSON only between tokens.  The others, at which some readers split
# lines, occur only within strings.
_LINE_ENDS = (
    *(("\r", " "), ("\n", " ")),
    *(("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")),
)


class WholeArguments:
    """Buffers the arguments of each call until the call stops.

    Args:
        losses: Counts the calls that are dropped.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._texts: dict[int, TextBuffer] = {}

    def append(self, index: int, text: str) -> None:
        """Append arguments of a call."""
        if index not in self._texts:
            self._texts[index] = TextBuffer()
        self._texts[index].append(text)

    def sink(self, index: int) -> Callable[[str], None] | None:
        """Return a function that appends arguments of a call; None before the first."""
        buffer = self._texts.get(index)
        return None if buffer is None else buffer.append

    def pop(self, index: int, where: str) -> str | None:
        """Remove and return the arguments of a call, on one line.

        "" if there are none.  None if they are no JSON object: the call must be dropped.
        """
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

    def discard(self, index: int, where: str) -> None:
        """Count and discard the arguments of a call that is open when the stream fails."""
        self._texts.pop(index, None)
        self._losses.count("broken_arguments", where, "call dropped")
