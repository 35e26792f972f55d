"""Projection: reducing a stream to what a dialect can carry, and counting the losses.

A `Projector` reduces a stream to the `Capabilities` of a dialect, event by event, and counts
what the dialect cannot carry.  Encoders write only what a projector returns, so the losses of
an encoder and of `project` are the same by construction.
"""

from streamnorm._core.losses.loss import (
    Capabilities,
    Loss,
    Losses,
    Note,
    OnLoss,
    OnNote,
    ReasoningField,
)
from streamnorm._core.losses.projection import Projector

__all__ = [
    "Capabilities",
    "Loss",
    "Losses",
    "Note",
    "OnLoss",
    "OnNote",
    "Projector",
    "ReasoningField",
]
