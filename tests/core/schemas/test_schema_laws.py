"""The laws of simplified schemas: what was valid stays valid, and nothing is simplified twice."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from jsonschema import Draft202012Validator
from support.bodies.schema_strategies import KEYWORDS, definitions, junk, schema, value
from support.draws import Draws, draws

from streamnorm import EncodeError
from streamnorm._core.json import dumps
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.simplify import simplify_schema


def simplified(whole: dict[str, Any]) -> tuple[dict[str, Any], Losses]:
    losses = Losses()
    return simplify_schema(whole, losses, path="tools[0]"), losses


@given(draws(200), draws(200))
def test_value_that_was_valid_is_valid_for_the_simplified_schema(d: Draws, other: Draws) -> None:
    whole = {
        "type": "object",
        "properties": {"p": schema(d)},
        "$defs": definitions(d),
    }
    simple, _ = simplified(whole)
    Draft202012Validator.check_schema(simple)
    before, after = Draft202012Validator(whole), Draft202012Validator(simple)
    for _ in range(40):
        instance = {"p": value(other)}
        assert after.is_valid(instance) or not before.is_valid(instance)


@given(draws(200))
def test_simplified_schema_is_simple_and_the_first_is_unchanged(d: Draws) -> None:
    whole = {
        "properties": {"p": schema(d), "q": schema(d)},
        "$defs": definitions(d),
    }
    before = copy.deepcopy(whole)
    simple, _ = simplified(whole)
    assert whole == before
    assert simplify_schema(simple, Losses(strict=True), path="tools[0]") is simple
    assert "$ref" not in json.dumps(simple)


@given(draws(200))
def test_each_change_is_a_loss(d: Draws) -> None:
    whole = {"type": "object", "properties": {"p": schema(d)}, "required": ["p"]}
    whole["$defs"] = definitions(d)
    simple, losses = simplified(whole)
    assert (simple is whole) == (losses.list() == ())
    again, _ = simplified(json.loads(json.dumps(whole)))
    assert dumps(again) == dumps(simple)


@given(draws(200))
def test_no_schema_is_more_than_an_error_of_ours(d: Draws) -> None:
    whole = {name: junk(d) for name in d.some(5, lambda: d.pick((*KEYWORDS, "$defs")), 1)}
    try:
        simple, _ = simplified(whole)
    except EncodeError:
        return
    assert simplify_schema(simple, Losses(strict=True), path="tools[0]") is simple
