"""The frames of a stream, numbered, as lines of text or as JSON."""

from __future__ import annotations

from typing import Any

from streamnorm.inspect.page import Style
from streamnorm.inspect.printable import columns
from streamnorm.sse import Frame

__all__ = ["FrameLines", "frame_fields"]

_MAX_REPEATED_CHARS = 4096
_MIN_REPEATED_CHARS = 20


class FrameLines:
    """The frames of one stream as lines of text.

    Frames repeat their ids and names: a line leaves out the start of the data that equals that
    of the frame before.

    Args:
        style: How the lines look.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._before = ""  # the start of the data of the frame before

    def line(self, number: int, frame: Frame, at_ms: int | None) -> str:
        """Return the number of a frame, its time, its event type and its data.

        Args:
            number: Number of the frame, from 0, as violations name it.
            frame: The next frame.
            at_ms: Its arrival since the request; None if it is unknown.
        """
        glyphs, width = self._style.glyphs, self._style.width
        line = f"{number:>6}  "
        if at_ms is not None:
            line += f"{at_ms / 1000:>8.3f} s  "
        if frame.event != "message":
            line += f"{glyphs.fit(frame.event, width // 3)}  "
        start = self._repeated(frame.data)
        if start:
            line += glyphs.more
        return line + glyphs.fit(frame.data[start:], width - columns(line))

    def _repeated(self, data: str) -> int:
        """Return where the part of the data starts that differs, behind a comma."""
        before, self._before = self._before, data[:_MAX_REPEATED_CHARS]
        pairs = enumerate(zip(before, self._before, strict=False))
        equal = next((at for at, (one, other) in pairs if one != other), len(before))
        start = data.rfind(",", 0, equal) + 1
        return start if start >= _MIN_REPEATED_CHARS else 0


def frame_fields(number: int, frame: Frame, at_ms: int | None) -> dict[str, Any]:
    """Return a frame as JSON fields, with its whole data."""
    time = {} if at_ms is None else {"ms": at_ms}
    return {"frame": number, **time, "event": frame.event, "data": frame.data}
