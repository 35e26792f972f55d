"""Betas that are lost together with the field that they enable: one loss, of the field.

A provider without the field has no judge of tool calls.  Claude Code then says once that its auto
mode uses a classifier of its own: one thing is lost, and not two (pleaseai/shunt#622).  The beta is
none of those that the SDK has types for, which are data of the profiles.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

__all__ = ["JOINT_BETAS", "is_joint"]

JOINT_BETAS = {"dangerous-tool-use-*": frozenset({"safeguards"})}
"""The fields that each beta enables, by the pattern of its name."""


def is_joint(beta: str, lost: Collection[str]) -> bool:
    """Return whether the loss of a beta is that of its field.

    Args:
        beta: Name of the beta.
        lost: Names of fields of the request that are lost.
    """
    return any(
        fnmatchcase(beta, pattern) and not fields.isdisjoint(lost)
        for pattern, fields in JOINT_BETAS.items()
    )
