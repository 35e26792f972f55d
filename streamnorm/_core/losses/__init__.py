"""What a dialect can carry, and what becomes of the rest.

`CAPABILITIES` is the table; a `Projector` applies it to a stream, event by event, and
counts what the dialect could not take.  Encoders write what a projector lets
through, so the losses of an encoder and of `project` are the same by construction.
"""

from streamnorm._core.losses.capabilities import (
    CAPABILITIES,
    Capabilities,
    Loss,
    Losses,
    Note,
    OnLoss,
    OnNote,
    ReasoningField,
    capabilities,
)
from streamnorm._core.losses.projection import Projector
from streamnorm._core.losses.whole import project

__all__ = [
    "CAPABILITIES",
    "Capabilities",
    "Loss",
    "Losses",
    "Note",
    "OnLoss",
    "OnNote",
    "Projector",
    "ReasoningField",
    "capabilities",
    "project",
]
