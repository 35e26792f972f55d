"""The keyword options that decoders and encoders of all dialects have."""

from __future__ import annotations

from typing import TypedDict

from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities, OnLoss, OnNote

__all__ = ["DecodeOptions", "EncodeOptions"]


class DecodeOptions(TypedDict, total=False):
    """How a stream is read; see `Decoder`."""

    server: str | None
    limits: Limits
    on_note: OnNote | None


class EncodeOptions(TypedDict, total=False):
    """How a stream is written; see `Encoder`."""

    model: str | None
    strict: bool
    on_loss: OnLoss | None
    extras: bool
    limits: Limits
    capabilities: Capabilities | None
