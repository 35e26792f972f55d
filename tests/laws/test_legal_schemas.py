"""Schemas of tools and outputs are such as their target accepts, whatever a client wrote."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from support.bodies.legal_targets import Target, legal_or_refused
from support.bodies.schema_strategies import KEYWORDS, definitions, junk, schema
from support.draws import Draws, draws

from streamnorm import EncodeError, InputMessage, OutputFormat, Request, Text, Tool, encode_request

TARGETS = [
    Target("openai_chat", None, "gpt-4.1"),
    Target("openai_chat", "kimi", "kimi-k2.5"),
    Target("openai_chat", "ollama", "qwen3:32b"),
    Target("openai_responses", None, "gpt-4.1"),
    Target("anthropic", None, "claude-opus-4-5"),
    Target("anthropic", "bedrock", "anthropic.claude-opus-4-5-v1:0"),
    Target("gemini", None, "gemini-3-flash"),
    Target("gemini", "vertex", "gemini-2.5-pro"),
]


def asked(whole: dict[str, Any], **fields: Any) -> Request:
    return Request(messages=(InputMessage("user", (Text("Hi"),)),), **fields)


def made(d: Draws) -> dict[str, Any]:
    """Return a schema as authors write them, or one that is none."""
    if d.flag(3):
        return {name: junk(d) for name in d.some(5, lambda: d.pick((*KEYWORDS, "$defs")), 1)}
    fields = (
        ("type", d.pick(("object", "string", ["object", "null"]))),
        ("required", d.pick((["p"], ["p", "q"]))),
        ("additionalProperties", d.pick((False, True, {}))),
        (d.pick(("anyOf", "oneOf", "allOf")), d.some(3, lambda: schema(d), 1)),
        ("$ref", "#/$defs/a"),
    )
    whole = {"properties": {"p": schema(d), "q": schema(d)}, "$defs": definitions(d)}
    return whole | {field: value for field, value in fields if d.flag()}


@pytest.mark.parametrize("strict", [None, True], ids=["free", "strict"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@given(d=draws(300))
def test_schema_of_a_tool_is_legal(target: Target, strict: bool | None, d: Draws) -> None:
    whole = made(d)
    before = copy.deepcopy(whole)
    request = asked(whole, tools=(Tool("f", "does it", whole, strict),))
    found = legal_or_refused(request, target)
    assert whole == before
    assert not isinstance(found, list) or found == []


@pytest.mark.parametrize("strict", [None, True], ids=["free", "strict"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@given(d=draws(300))
def test_schema_of_an_output_is_legal(target: Target, strict: bool | None, d: Draws) -> None:
    output = OutputFormat("json_schema", made(d), "answer", strict=strict)
    found = legal_or_refused(asked({}, output=output), target)
    assert not isinstance(found, list) or found == []


@pytest.mark.parametrize("target", TARGETS, ids=str)
@given(d=draws(300))
def test_same_schema_is_written_the_same_each_time(target: Target, d: Draws) -> None:
    whole = made(d)
    again = json.loads(json.dumps(whole))

    def tools(schema: dict[str, Any]) -> str:
        request = Request(
            model=target.model,
            messages=(InputMessage("user", (Text("Hi"),)),),
            tools=(Tool("f", None, schema, strict=True), Tool("g", None, schema)),
        )
        body = encode_request(request, target.dialect, server=target.server).body
        return json.dumps(body["tools"])

    try:
        first = tools(whole)
    except EncodeError:
        assume(False)
    else:
        assert first == tools(again)
