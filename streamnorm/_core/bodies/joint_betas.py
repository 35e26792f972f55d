"""Betas that are lost together with the field that they enable: one loss, of the field."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

__all__ = ["is_joint"]

# A provider without the field has no judge of tool calls.  Claude Code then says once that its
# auto mode uses a classifier of its own: one thing is lost, and not two (pleaseai/shunt#622).
_FIELDS = {"dangerous-tool-use-*": "safeguards"}


def is_joint(beta: str, lost: Collection[str]) -> bool:
    """Return whether the loss of a beta is that of its field.

    Args:
        beta: Name of the beta.
        lost: Names of fields of the request that are lost.
    """
    return any(name in lost and fnmatchcase(beta, pattern) for pattern, name in _FIELDS.items())
