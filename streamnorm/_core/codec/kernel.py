"""The kernel: reader and writer of deltas in C; None if not compiled or `STREAMNORM_PURE=1`.

The kernel does what its twins in `templates` do, at a third of their cost.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from streamnorm._core.errors import LimitExceeded
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.text import BATCH, LONG_CHARS, MAX_FRESH

if TYPE_CHECKING:
    from streamnorm._core.codec import _kernel

MAX_DIGITS = 18
"""Digits of two token counts, at most: all such numbers have less than 64 bits."""

TemplateReader: type[_kernel.TemplateReader] | None = None
"""Reads deltas that fit a template; its twin is `Templates.text_reader`."""

DeltaFrames: type[_kernel.DeltaFrames] | None = None
"""Writes frames of deltas; its twins are `delta_frames` and those that number or count."""

if os.environ.get("STREAMNORM_PURE", "0") in ("", "0"):
    try:
        from streamnorm._core.codec import _kernel
    except ImportError:  # no compiler was there, or the interpreter takes no such modules
        pass
    else:
        _decode = msgspec.json.Decoder(str).decode
        limits = MAX_FRESH, BATCH, LONG_CHARS, MAX_DIGITS
        _kernel.setup(_decode, FAST_ERRORS, LimitExceeded, *limits)
        TemplateReader, DeltaFrames = _kernel.TemplateReader, _kernel.DeltaFrames
