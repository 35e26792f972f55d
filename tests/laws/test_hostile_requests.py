"""Bodies of any form: read, or refused by an error of ours, and never changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from support.bodies.arbitrary_requests import arbitrary_requests
from support.bodies.checks import BODIES, check_body
from support.bodies.history_rules import PROMPTS
from support.bodies.mutations import damaged_body, json_value
from support.bodies.request_corpus import captured_requests, corpus_requests, needs_requests
from support.bodies.request_strategies import make_request
from support.draws import Draws, draws

from streamnorm import (
    DecodeError,
    EncodeError,
    InputBlock,
    InputMessage,
    OpaqueBlock,
    Request,
    Text,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm._core.bodies.projection.results import RepairPolicy


def made_body(d: Draws, dialect: str) -> dict[str, Any]:
    """Return the body of some request."""
    try:
        return encode_request(make_request(d), dialect).body
    except EncodeError:
        return {"model": "m", "messages": [], "input": [], "contents": []}


@pytest.mark.parametrize("dialect", BODIES)
@given(d=draws(300))
def test_any_value_is_a_request_or_a_decode_error(dialect: str, d: Draws) -> None:
    check_body({name: json_value(d) for name in made_body(d, dialect)}, dialect)


@pytest.mark.parametrize("dialect", BODIES)
@given(d=draws(300), other=draws(100))
def test_damaged_request_is_read_or_refused(dialect: str, d: Draws, other: Draws) -> None:
    body = made_body(other, dialect)
    before = copy.deepcopy(body)
    check_body(damaged_body(d, body), dialect)
    assert body == before


@needs_requests
@pytest.mark.parametrize("dialect", BODIES)
@given(d=draws(300))
def test_damaged_request_of_an_agent_is_read_or_refused(dialect: str, d: Draws) -> None:
    # No agent that speaks Converse or the Interactions API was captured.
    real = captured_requests(dialect) or corpus_requests(dialect)
    bodies = [request.body for request in real] or [made_body(d, dialect)]
    check_body(damaged_body(d, d.pick(bodies), bodies), dialect)


@pytest.mark.parametrize("dialect", BODIES)
@given(request=arbitrary_requests())
def test_request_of_any_blocks_is_readable_or_an_error(dialect: str, request: Request) -> None:
    repairs: tuple[RepairPolicy, ...] = ("error", "fill")
    for repair in repairs:
        try:
            made = encode_request(request, dialect, repair=repair, arguments="raw")
        except EncodeError:
            continue
        text = json.dumps(made.body, allow_nan=False)
        decode_request(text, dialect, path=made.path, headers=made.headers)


@pytest.mark.parametrize("dialect", BODIES)
def test_value_that_is_no_object_is_a_decode_error(dialect: str) -> None:
    for text in ("", "null", "[]", "1", '"a"', "{", '{"a":}', "[" * 10_000, "nan", "\ud800"):
        with pytest.raises(DecodeError):
            decode_request(text, dialect)
    with pytest.raises(DecodeError):
        decode_request(b'{"model":"\xff"}', dialect)


@pytest.mark.parametrize("dialect", BODIES)
def test_of_two_members_with_one_key_the_last_counts(dialect: str) -> None:
    body = json.dumps({"model": "m", "max_tokens": 1, PROMPTS[dialect]: []})
    request = decode_request(body.replace('"m"', '"first", "model": "second"'), dialect)
    assert request.model in ("second", "")


@pytest.mark.parametrize(
    ("block", "dialect"),
    [
        (OpaqueBlock("anthropic", "x", "no JSON"), "anthropic"),
        (OpaqueBlock("openai_chat", "x", "no JSON"), "openai_chat"),
        (OpaqueBlock("gemini", "x", "{"), "gemini"),
        (ToolResult("c", (), value="{"), "gemini"),
    ],
)
def test_block_made_by_hand_whose_json_is_none_is_an_encode_error(
    block: InputBlock, dialect: str
) -> None:
    call = InputMessage("assistant", (ToolCall("c", "f", "{}"),))
    blocks = (block,) if isinstance(block, ToolResult) else (ToolResult("c", ()), block)
    question = InputMessage("user", (Text("q"),))
    request = Request(model="m", messages=(question, call, InputMessage("user", blocks)))
    with pytest.raises(EncodeError, match="expected JSON"):
        encode_request(request, dialect)


@pytest.mark.parametrize("server", [None, "vertex"])
def test_half_a_character_in_the_name_of_a_model_is_replaced(server: str | None) -> None:
    request = Request(model="m\ud800", messages=(InputMessage("user", (Text("a"),)),))
    assert "m%EF%BF%BD" in encode_request(request, "gemini", server=server).path
