"""The order in which a request is reduced to what a target can carry."""

from __future__ import annotations

from typing import Literal, TypeAlias

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.reply import Reply
from streamnorm._core.bodies.request import Request
from streamnorm._core.losses import Losses

__all__ = ["RepairPolicy", "project_request"]

RepairPolicy: TypeAlias = Literal["error", "fill"]
"""What becomes of a conversation that no vendor accepts: an error, or what is missing is filled
in and what stands in the wrong place is moved."""


def project_request(
    request: Request, can: BodyCapabilities, losses: Losses, *, repair: RepairPolicy = "error"
) -> tuple[Request, Reply]:
    """Return a request reduced to what a target can carry, and how its answer is read.

    What the target can carry stays the same object, so that it can be written as it was read.

    Raises:
        EncodeError: The request has no legal form in the target.
        LossyEncoding: Something would be lost, and the losses are strict.
    """
    return request, Reply()
