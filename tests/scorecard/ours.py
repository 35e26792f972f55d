"""This package as a column of the scorecard."""

from __future__ import annotations

from streamnorm import Transcoder
from streamnorm.codec import INVOKE_CHUNKS

from .cases import Case

__all__ = ["OURS", "transcode"]

OURS = "streamnorm"


def transcode(case: Case, target: str) -> bytes:
    """Return a stream of the target dialect, read frame by frame."""
    is_invoke = case.source == "bedrock_invoke"
    transcoder = Transcoder(
        "anthropic" if is_invoke else case.source,
        target,
        verbatim=False,
        framing=INVOKE_CHUNKS if is_invoke else None,
    )
    out = [data for frame in case.frames for data in transcoder.feed(frame)]
    return b"".join(out + transcoder.close())
