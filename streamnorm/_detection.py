"""The dialect of a frame, of a whole body, and of a URL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from streamnorm._core.bodies.parsing import Body, body_object
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import DecodeError
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS
from streamnorm.sse import Frame

__all__ = ["detect", "detect_body", "detect_frame", "detect_path"]


def detect(frame_or_body: Frame | Body, /) -> str | None:
    """Return the name of the dialect of a frame, or of a whole request or response.

    Args:
        frame_or_body: A frame of a stream; or a body, as JSON text or as the decoded object.

    Returns:
        The name, or None if more than one dialect has such a frame or body, or none has.
    """
    if isinstance(frame_or_body, Frame):
        found = detect_frame(frame_or_body, DIALECTS.values())
        return None if found is None else found.variant_of or found.name
    try:
        body = body_object(frame_or_body, Limits())
    except DecodeError:
        return None
    return detect_body(body)


def detect_frame(frame: Frame, among: Iterable[Dialect]) -> Dialect | None:
    """Return the first of some dialects that recognises a frame, or None."""
    found = next((known for known in among if known.recognises(frame)), None)
    first, joined, _ = frame.data.partition("\n")
    if found is None and joined:  # several events, perhaps, without blank lines between
        return detect_frame(Frame(frame.event, first), among)
    return found


def detect_body(
    body: dict[str, Any], kind: Literal["request", "response"] | None = None
) -> str | None:
    """Return the name of the only dialect that has such a body, or None.

    Args:
        body: A decoded JSON object.
        kind: What it is; None if it may be either.
    """
    names = {
        known.variant_of or known.name
        for known in DIALECTS.values()
        if (kind != "response" and known.is_request(body))
        or (kind != "request" and known.is_response(body))
    }
    return names.pop() if len(names) == 1 else None


def detect_path(path: str) -> str | None:
    """Return the name of the dialect whose endpoints have the path of a URL, or None.

    Args:
        path: The path, decoded, without empty segments and query.
    """
    for name, known in DIALECTS.items():
        if known.endpoints.has(path):
            return name
    return None
