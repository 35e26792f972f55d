"""A translated request is one that its provider accepts, or an error that names the place.

To the vendor of its own dialect a request passes as it is, violations included.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import assume, given
from support.bodies.checks import BODIES
from support.bodies.legal_targets import TARGETS, Target, legal_or_refused
from support.bodies.request_corpus import RealRequest, needs_requests, real_requests, share_of
from support.bodies.request_strategies import hostile_requests, requests
from support.draws import Draws, draws, with_half_the_examples

from streamnorm import DecodeError, EncodeError, Request, decode_request, encode_request


def decoded(real: RealRequest) -> Request | None:
    """Return a real request, or None if it is none of its dialect."""
    try:
        return decode_request(real.body, real.dialect, path=real.path, headers=real.headers)
    except DecodeError:
        return None


def of_clients(request: Request, d: Draws, target: Target) -> Request | None:
    """Return a request as it decodes after one vendor's dialect, or after those of two.

    The last dialect is another than the target's, unless the target is a named server.
    """
    dialects = [name for name in BODIES if name != target.dialect or target.server is not None]
    for dialect in [*d.some(1, lambda: d.pick(BODIES)), d.pick(dialects)]:
        try:
            made = encode_request(request, dialect, repair="fill", arguments="raw")
            body = json.loads(json.dumps(made.body))
            request = decode_request(body, dialect, path=made.path, headers=made.headers)
        except (EncodeError, DecodeError):
            return None
    return request


@pytest.mark.parametrize("target", TARGETS, ids=str)
@with_half_the_examples
@given(request=requests(), d=draws(4))
def test_request_is_legal_for_its_target(target: Target, request: Request, d: Draws) -> None:
    asked = of_clients(request, d, target)
    assume(asked is not None)
    assert asked is not None
    found = legal_or_refused(asked, target)
    assert not isinstance(found, list) or found == []


@pytest.mark.parametrize("target", TARGETS, ids=str)
@with_half_the_examples
@given(request=hostile_requests(), d=draws(4))
def test_repaired_request_is_legal_for_its_target(
    target: Target, request: Request, d: Draws
) -> None:
    asked = of_clients(request, d, target)
    assume(asked is not None)
    assert asked is not None
    found = legal_or_refused(asked, target, "fill")
    assert not isinstance(found, list) or found == []


@needs_requests
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_real_request_is_legal_for_its_target(target: Target) -> None:
    broken: Counter[str] = Counter()
    # All of them for each target take ten minutes.
    for real in share_of(real_requests(), TARGETS.index(target), shares=8):
        is_native = real.dialect == target.dialect and target.server is None
        request = None if is_native else decoded(real)
        if request is None:
            continue
        found = legal_or_refused(request, target)
        if isinstance(found, list):
            broken.update(f"{real.name}: {each}" for each in found)
    assert not broken
