"""A translated request is one that its provider accepts, or an error that names the place.

To the vendor of its own dialect a request passes as it is, violations included.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from support.legal_targets import TARGETS, Target, legal_or_refused
from support.request_corpus import RealRequest, needs_requests, real_requests
from support.requests import hostile_requests, requests
from support.seeded import with_half_the_examples

from streamnorm import DecodeError, Request, decode_request


def decoded(real: RealRequest) -> Request | None:
    """Return a real request, or None if it is none of its dialect."""
    try:
        return decode_request(real.body, real.dialect, path=real.path, headers=real.headers)
    except DecodeError:
        return None


@pytest.mark.parametrize("target", TARGETS, ids=str)
@with_half_the_examples
@given(request=requests())
def test_request_is_legal_for_its_target(target: Target, request: Request) -> None:
    found = legal_or_refused(request, target)
    assert not isinstance(found, list) or found == []


@pytest.mark.parametrize("target", TARGETS, ids=str)
@with_half_the_examples
@given(request=hostile_requests())
def test_repaired_request_is_legal_for_its_target(target: Target, request: Request) -> None:
    found = legal_or_refused(request, target, "fill")
    assert not isinstance(found, list) or found == []


@needs_requests
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_real_request_is_legal_for_its_target(target: Target) -> None:
    broken: Counter[str] = Counter()
    for real in real_requests():
        is_native = real.dialect == target.dialect and target.server is None
        request = None if is_native else decoded(real)
        if request is None:
            continue
        found = legal_or_refused(request, target)
        if isinstance(found, list):
            broken.update(f"{real.name}: {each}" for each in found)
    assert not broken
