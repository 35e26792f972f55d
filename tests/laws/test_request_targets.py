"""The laws of requests for single servers and models, as the shipped profiles have them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.consecutive_turns import a_turn_apart, assert_prefix
from support.bodies.request_strategies import hostile_requests
from support.draws import Draws, draws, with_half_the_examples

from streamnorm import Encoded, EncodeError, Request, decode_request, encode_request
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm.profiles import shipped_profiles

SERVERS = {
    (server, dialect)
    for rule in shipped_profiles()._rules
    for server in rule.servers
    for dialect in rule.dialects
}
MODELS = (
    *("claude-fable-5", "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-4-8", "gpt-4o"),
    *("claude-sonnet-5", "deepseek-reasoner", "gemini-2.5-pro", "gemini-3-pro", "glm-5.3", "o3"),
    *("gpt-5", "gpt-5.6", "grok-4.5", "kimi-k3", "mistral-large", "qwen3-max", "some-model"),
)
TARGETS = [*sorted(SERVERS), *((None, dialect) for dialect in BODIES)]


def encoded(
    request: Request, dialect: str, server: str | None, repair: RepairPolicy
) -> Encoded | None:
    """Return a request for a server; it must be JSON that is read again."""
    try:
        made = encode_request(request, dialect, server=server, repair=repair, arguments="raw")
    except EncodeError:
        return None
    text = json.dumps(made.body, allow_nan=False)
    decode_request(text, dialect, path=made.path, headers=made.headers)
    return made


@pytest.mark.parametrize(("server", "dialect"), TARGETS)
@with_half_the_examples
@given(request=hostile_requests(), d=draws(1))
def test_request_for_a_server_is_readable_or_an_error(
    server: str | None, dialect: str, request: Request, d: Draws
) -> None:
    encoded(structs.replace(request, model=d.pick(MODELS)), dialect, server, "fill")


@pytest.mark.parametrize(("server", "dialect"), TARGETS)
@with_half_the_examples
@given(d=draws(250))
def test_longer_conversation_with_a_server_begins_with_the_shorter(
    server: str | None, dialect: str, d: Draws
) -> None:
    model = d.pick(MODELS)
    turns = a_turn_apart(d, hostile=d.flag())
    made = [
        encoded(structs.replace(request, model=model), dialect, server, "fill") for request in turns
    ]
    if made[0] is not None and made[1] is not None:
        assert_prefix(made[0], made[1], dialect)
