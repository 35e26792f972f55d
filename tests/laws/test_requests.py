"""The laws of requests, over every dialect that has whole bodies."""

from __future__ import annotations

import copy
import json
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import assume, given
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.consecutive_turns import a_turn_apart, assert_prefix
from support.bodies.request_equality import same, without
from support.bodies.request_strategies import hostile_requests, requests
from support.bodies.sdk_types import problems
from support.draws import Draws, draws, with_half_the_examples
from support.openai_responses.requests import within_the_types

from streamnorm import (
    Encoded,
    EncodeError,
    InputMessage,
    LossyEncoding,
    OpaqueBlock,
    Request,
    decode_request,
    encode_request,
)
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.losses import Loss, Losses
from streamnorm._registry import DIALECTS
from streamnorm.profiles import shipped_profiles

PAIRS = [(source, target) for source in BODIES for target in BODIES if source != target]


def encoded(request: Request, dialect: str, repair: RepairPolicy = "error") -> Encoded | None:
    """Return a request in a dialect, or None if it has no legal form there."""
    try:
        return encode_request(request, dialect, repair=repair)
    except EncodeError:
        return None


def decoded(made: Encoded, dialect: str) -> Request:
    """Return the request that a body is once it was sent."""
    body = json.loads(json.dumps(made.body))
    return decode_request(body, dialect, path=made.path, headers=made.headers)


def projected(
    request: Request, dialect: str, repair: RepairPolicy = "error"
) -> tuple[Request, tuple[Loss, ...]]:
    """Return a request reduced to a dialect, and what that loses."""
    body = DIALECTS[dialect].body
    assert body is not None
    losses = Losses()
    target = shipped_profiles().resolve(body().capabilities, model=request.model)
    reduced, _ = project_request(request, target, losses, repair=repair)
    return reduced, losses.list()


def assert_arrives(
    request: Request, made: Encoded, dialect: str, repair: RepairPolicy = "error"
) -> Request:
    """Check that what was encoded is read again, less what the losses name, and return it."""
    wanted, known = projected(request, dialect, repair)
    counts = Counter({(loss.feature, loss.where, loss.detail): loss.count for loss in made.losses})
    for loss in known:
        counts[loss.feature, loss.where, loss.detail] -= loss.count
    assert all(count >= 0 for count in counts.values())
    features = {feature for (feature, _, _), count in counts.items() if count}
    back = decoded(made, dialect)
    got = without(same(back, dialect), features)
    assert got == without(same(wanted, dialect), features)
    return back


@pytest.mark.parametrize("dialect", BODIES)
@given(request=requests())
def test_encoded_request_is_read_as_it_was(dialect: str, request: Request) -> None:
    made = encoded(request, dialect)
    assume(made is not None)
    assert made is not None
    assert_arrives(request, made, dialect)


@pytest.mark.parametrize("dialect", BODIES)
@given(request=hostile_requests())
def test_repaired_request_is_read_as_it_was(dialect: str, request: Request) -> None:
    made = encoded(request, dialect, "fill")
    if made is not None:
        assert_arrives(request, made, dialect, "fill")


@pytest.mark.parametrize(("source", "target"), PAIRS)
@with_half_the_examples
@given(request=requests())
def test_request_goes_there_and_back(source: str, target: str, request: Request) -> None:
    first = encoded(request, source)
    assume(first is not None)
    assert first is not None
    there = decoded(first, source)
    made = encoded(there, target)
    assume(made is not None)
    assert made is not None
    away = assert_arrives(there, made, target)
    again = encoded(away, source)
    assume(again is not None)
    assert again is not None
    assert_arrives(away, again, source)


@pytest.mark.parametrize("dialect", BODIES)
@given(request=requests())
def test_request_in_its_own_dialect_is_equal(dialect: str, request: Request) -> None:
    made = encoded(request, dialect)
    assume(made is not None)
    assert made is not None
    again = encode_request(decoded(made, dialect), dialect, strict=True)
    assert again.body == made.body
    assert again.losses == ()


@pytest.mark.parametrize("dialect", BODIES)
@given(request=requests())
def test_encoded_request_is_of_the_types_of_the_sdk(dialect: str, request: Request) -> None:
    made = encoded(without_odd_parts(request), dialect)
    assume(made is not None)
    assert made is not None
    body = within_the_types(made.body) if dialect == "openai_responses" else made.body
    assert problems(dialect, body, beta="anthropic-beta" in made.headers) == []


def without_odd_parts(request: Request) -> Request:
    """Return a request without the fields and blocks that no type knows."""
    messages = tuple(
        structs.replace(
            message,
            blocks=tuple(
                structs.replace(block, extra=None)
                for block in message.blocks
                if not isinstance(block, OpaqueBlock)
            ),
        )
        for message in request.messages
    )
    return structs.replace(
        request,
        system=tuple(structs.replace(text, extra=None) for text in request.system),
        messages=messages,
        tools=tuple(structs.replace(tool, extra=None) for tool in request.tools),
        extra=None,
    )


@pytest.mark.parametrize("repair", ["error", "fill"])
@pytest.mark.parametrize("dialect", BODIES)
@given(d=draws(250))
def test_longer_conversation_begins_with_the_encoding_of_the_shorter(
    dialect: str, repair: RepairPolicy, d: Draws
) -> None:
    shorter, longer = a_turn_apart(d, hostile=repair == "fill")
    before, after = encoded(shorter, dialect, repair), encoded(longer, dialect, repair)
    if before is not None and after is not None:
        assert_prefix(before, after, dialect)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@with_half_the_examples
@given(d=draws(250))
def test_longer_conversation_of_a_client_begins_with_the_shorter(
    source: str, target: str, d: Draws
) -> None:
    shorter, longer = a_turn_apart(d, hostile=False)
    first, second = encoded(shorter, source), encoded(longer, source)
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    # On Bedrock a request offers what its history calls.
    assume(first.body.get("toolConfig") == second.body.get("toolConfig"))
    before = encoded(decoded(first, source), target)
    after = encoded(decoded(second, source), target)
    if before is not None and after is not None:
        assert_prefix(before, after, target)


@pytest.mark.parametrize("dialect", BODIES)
@given(request=hostile_requests())
def test_no_request_is_more_than_an_error_of_ours(dialect: str, request: Request) -> None:
    before = copy.deepcopy(request)
    repairs: tuple[RepairPolicy, ...] = ("error", "fill")
    for repair in repairs:
        made = encoded(request, dialect, repair)
        if made is not None:
            assert json.loads(json.dumps(made.body)) == made.body
    with suppress(EncodeError, LossyEncoding):
        encode_request(request, dialect, strict=True)
    assert request == before


@pytest.mark.parametrize("dialect", BODIES)
def test_request_whose_messages_are_all_empty_has_no_legal_form(dialect: str) -> None:
    with pytest.raises(EncodeError):
        encode_request(Request(model="m", messages=(InputMessage("user"),)), dialect)
