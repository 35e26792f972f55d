"""Checks of requests that only this dialect has, by the names that its rules use.

A check is written from what the vendor refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import RequestCheck

__all__ = ["request_checks"]

_CHECKS: Mapping[str, RequestCheck] = {}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
