"""Schemas of tools and outputs in translated requests: what is enforced stays so, or is a loss."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.schema_requests import answering, calling, gemini_parameters, gemini_response
from support.rules.schemas import ANTHROPIC, CHAT, GEMINI, RESPONSES, TEXT

from streamnorm import Encoded, EncodeError, translate_request
from streamnorm.validation import validate_request

MODELS = {
    CHAT: "gpt-4.1",
    RESPONSES: "gpt-4.1",
    ANTHROPIC: "claude-opus-4-5",
    GEMINI: "gemini-3-flash",
}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


def closed(**properties: Any) -> dict[str, Any]:
    return {**of(**properties), "additionalProperties": False}


def translated(
    body: dict[str, Any], source: str, target: str, server: str | None = None
) -> Encoded:
    """Return a legal translation of a request."""
    model = MODELS[target]
    path = f"/v1beta/models/{model}:generateContent" if source == GEMINI else None
    body = body if source == GEMINI else {"model": model, **body}
    made = translate_request(body, dialect=source, to=target, path=path, server=server)
    found = validate_request(made.body, target, model=model, server=server, path=made.path)
    assert found == []
    return made


def tool_of(made: Encoded, target: str) -> tuple[Any, Any]:
    """Return the schema of the only tool, and whether it is strict."""
    [tool] = made.body["tools"]
    match target:
        case "openai_chat":
            return tool["function"]["parameters"], tool["function"].get("strict", False)
        case "openai_responses":
            return tool["parameters"], tool["strict"]
        case "anthropic":
            return tool["input_schema"], tool.get("strict", False)
        case _:
            [declaration] = tool["functionDeclarations"]
            mode = made.body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
            return declaration["parametersJsonSchema"], mode == "VALIDATED"


def output_of(made: Encoded, target: str) -> tuple[Any, Any]:
    """Return the schema of the output, and whether it is enforced."""
    match target:
        case "openai_chat":
            output = made.body["response_format"]["json_schema"]
            return output["schema"], output.get("strict")
        case "openai_responses":
            output = made.body["text"]["format"]
            return output["schema"], output.get("strict")
        case "anthropic":
            return made.body["output_config"]["format"]["schema"], True
        case _:
            return made.body["generationConfig"]["responseJsonSchema"], True


def losses(made: Encoded) -> dict[str, str]:
    """Return the losses of schemas, each with its detail."""
    return {
        loss.feature: loss.detail
        for loss in made.losses
        if loss.feature.startswith(("schema", "strict"))
    }


# What is enforced


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
@pytest.mark.parametrize("source", [ANTHROPIC, GEMINI])
def test_enforced_output_is_strict_for_openai(source: str, target: str) -> None:
    schema = closed(a=TEXT, b={"type": "array", "items": closed(c={"type": ["integer", "null"]})})
    made = translated(answering(source, schema), source, target)
    assert output_of(made, target) == (schema, True)
    assert losses(made) == {}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_output_of_gemini_is_closed_to_be_strict(target: str) -> None:
    made = translated(answering(GEMINI, of(a=of(b=TEXT))), GEMINI, target)
    assert output_of(made, target) == (closed(a=closed(b=TEXT)), True)
    assert losses(made) == {"schema.additionalProperties": "written as false"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
@pytest.mark.parametrize("source", [ANTHROPIC, GEMINI])
def test_output_beyond_the_subset_of_openai_is_not_strict(source: str, target: str) -> None:
    schema = {**closed(a=TEXT, b=TEXT), "required": ["a"]}
    made = translated(answering(source, schema), source, target)
    assert output_of(made, target) == (schema, False)
    assert losses(made) == {"schema_strict": "not enforced: a property that is not required"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_strict_tool_of_anthropic_stays_strict(target: str) -> None:
    schema = closed(a=TEXT)
    made = translated(calling(ANTHROPIC, schema, strict=True), ANTHROPIC, target)
    assert tool_of(made, target) == (schema, True)
    assert losses(made) == {}
    made = translated(
        calling(ANTHROPIC, {**schema, "required": []}, strict=True), ANTHROPIC, target
    )
    assert tool_of(made, target) == ({**schema, "required": []}, False)
    assert losses(made) == {"strict": "not enforced: a property that is not required"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_tuple_is_not_strict_for_openai_and_has_items(target: str) -> None:
    """As Pydantic writes `tuple[int, int]`: OpenAI ignores `prefixItems`."""
    number = {"type": "integer"}
    pair = {"type": "array", "prefixItems": [number, number], "minItems": 2, "maxItems": 2}
    expected = closed(a={**pair, "items": {}})
    made = translated(calling(ANTHROPIC, closed(a=pair), strict=True), ANTHROPIC, target)
    assert tool_of(made, target) == (expected, False)
    assert losses(made) == {"strict": "not enforced: `prefixItems`"}
    made = translated(answering(ANTHROPIC, closed(a=pair)), ANTHROPIC, target)
    assert output_of(made, target) == (expected, False)
    assert losses(made) == {"schema_strict": "not enforced: `prefixItems`"}
    made = translated(calling(ANTHROPIC, of(a=pair)), ANTHROPIC, target)
    assert tool_of(made, target) == (of(a={**pair, "items": {}}), False)
    assert losses(made) == {}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_enumerated_values_have_their_type_in_strict_schemas_of_openai(target: str) -> None:
    schema = closed(a={"enum": ["x", "y"]}, b={"const": 1}, c={"enum": ["x", None]})
    expected = closed(
        a={"enum": ["x", "y"], "type": "string"},
        b={"const": 1, "type": "integer"},
        c={"enum": ["x", None], "type": ["string", "null"]},
    )
    made = translated(calling(ANTHROPIC, schema, strict=True), ANTHROPIC, target)
    assert (tool_of(made, target), losses(made)) == ((expected, True), {})
    made = translated(answering(ANTHROPIC, schema), ANTHROPIC, target)
    assert (output_of(made, target), losses(made)) == ((expected, True), {})
    # Without strict mode the API does not ask for types.
    made = translated(calling(ANTHROPIC, schema), ANTHROPIC, target)
    assert (tool_of(made, target), losses(made)) == ((schema, False), {})


@pytest.mark.parametrize(("source", "target"), [(CHAT, RESPONSES), (RESPONSES, CHAT)])
def test_strict_tool_outside_the_subset_is_not_strict_elsewhere(source: str, target: str) -> None:
    schema = closed(a={"type": "string", "minLength": 1})
    made = translated(calling(source, schema, strict=True), source, target)
    assert tool_of(made, target) == (schema, False)
    assert losses(made) == {"strict": "not enforced: `minLength`"}


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
def test_strict_tool_of_openai_is_strict_for_anthropic_without_bounds(source: str) -> None:
    schema = closed(
        n={"type": "integer", "minimum": 1, "maximum": 9},
        a={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3},
        t={"type": "string", "pattern": "^a", "format": "date"},
    )
    made = translated(calling(source, schema, strict=True), source, ANTHROPIC)
    plain = closed(
        n={"type": "integer"},
        a={"type": "array", "items": TEXT},
        t={"type": "string", "format": "date"},
    )
    assert tool_of(made, ANTHROPIC) == (plain, True)
    names = ("minimum", "maximum", "minItems", "maxItems", "pattern")
    assert losses(made) == {f"schema.{name}": "dropped" for name in names}


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
def test_tool_that_is_not_strict_keeps_its_bounds_for_anthropic(source: str) -> None:
    schema = of(n={"type": "integer", "minimum": 1})
    made = translated(calling(source, schema), source, ANTHROPIC)
    assert tool_of(made, ANTHROPIC) == (schema, False)
    assert losses(made) == {}


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
@pytest.mark.parametrize("strict", [None, True])
def test_output_of_openai_is_closed_for_anthropic(source: str, strict: bool | None) -> None:
    schema = of(n={"type": "integer", "minimum": 1}, o=of(a=TEXT))
    made = translated(answering(source, schema, strict=strict), source, ANTHROPIC)
    assert output_of(made, ANTHROPIC) == (closed(n={"type": "integer"}, o=closed(a=TEXT)), True)
    lost = {"schema.minimum": "dropped", "schema.additionalProperties": "written as false"}
    assert losses(made) == lost | {"schema_name": "dropped"}


def test_output_with_names_of_any_kind_has_no_form_for_anthropic() -> None:
    """A closed object would always be empty."""
    schema = closed(counts={"type": "object", "additionalProperties": {"type": "integer"}})
    made = translated(answering(CHAT, schema), CHAT, ANTHROPIC)
    assert "output_config" not in made.body
    assert losses(made) == {"schema_dropped": ""}
    with pytest.raises(
        EncodeError, match="an object with properties of any name in the schema of"
    ) as info:
        translated(answering(GEMINI, schema), GEMINI, ANTHROPIC)
    assert info.value.path == "output.schema"


@pytest.mark.parametrize("source", [CHAT, RESPONSES, GEMINI])
def test_output_of_several_parts_is_one_object_for_anthropic(source: str) -> None:
    """Closed one by one, the parts would refuse the properties of each other."""
    parts = {"allOf": [of(a=TEXT), {"$ref": "#/$defs/B"}], "$defs": {"B": of(b=TEXT)}}
    made = translated(answering(source, parts, strict=True), source, ANTHROPIC)
    schema, _ = output_of(made, ANTHROPIC)
    assert {name: schema[name] for name in closed()} == closed(a=TEXT, b=TEXT)
    assert "allOf" not in schema


def test_output_with_inner_parts_has_no_form_for_anthropic() -> None:
    inner = of(inner={"allOf": [of(a=TEXT), of(b=TEXT)]})
    with pytest.raises(EncodeError, match="an object of several parts") as caught:
        translated(answering(CHAT, inner, strict=True), CHAT, ANTHROPIC)
    assert caught.value.path == "output.schema"
    of_texts = {"allOf": [TEXT]}
    made = translated(answering(CHAT, of_texts, strict=True), CHAT, ANTHROPIC)
    assert output_of(made, ANTHROPIC)[0] == of_texts


def test_strict_tool_with_names_of_any_kind_is_not_strict_for_anthropic() -> None:
    schema = closed(counts={"type": "object", "additionalProperties": {"type": "integer"}})
    made = translated(calling(CHAT, schema, strict=True), CHAT, ANTHROPIC)
    assert tool_of(made, ANTHROPIC) == (schema, False)
    assert losses(made) == {"strict": "not enforced: an object with properties of any name"}


def test_tool_without_parameters_is_strict() -> None:
    made = translated(calling(CHAT, {"type": "object"}, strict=True), CHAT, ANTHROPIC)
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool_of(made, ANTHROPIC) == (schema, True)


def test_anthropic_enforces_the_first_twenty_tools() -> None:
    body = calling(CHAT, closed(a=TEXT), strict=True)
    function = body["tools"][0]["function"]
    body["tools"] = [
        {"type": "function", "function": {**function, "name": f"f{number}"}} for number in range(23)
    ]
    made = translated(body, CHAT, ANTHROPIC)
    assert [tool.get("strict") for tool in made.body["tools"]] == [True] * 20 + [None] * 3
    [lost] = [loss for loss in made.losses if loss.feature == "strict"]
    assert (lost.count, lost.detail) == (
        3,
        "not enforced: more than 20 tools of all strict schemas",
    )


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
def test_claude_gets_tuples_and_bounds_as_the_latest_draft_spells_them(source: str) -> None:
    schema = of(
        pair={"type": "array", "items": [TEXT, TEXT], "additionalItems": False},
        days={"type": "integer", "minimum": 0, "exclusiveMinimum": True},
    )
    made = translated(calling(source, schema), source, ANTHROPIC)
    assert tool_of(made, ANTHROPIC)[0] == of(
        pair={"type": "array", "prefixItems": [TEXT, TEXT], "items": False},
        days={"type": "integer", "exclusiveMinimum": 0},
    )
    assert losses(made) == {}


def test_unions_of_all_tools_are_counted() -> None:
    union = {"anyOf": [TEXT, {"type": "null"}]}
    body = calling(CHAT, closed(**{f"p{number}": union for number in range(8)}), strict=True)
    function = body["tools"][0]["function"]
    more = {**function, "name": "more"}
    body["tools"] = [{"type": "function", "function": each} for each in (function, more)]
    made = translated(body, CHAT, ANTHROPIC)
    assert [tool.get("strict") for tool in made.body["tools"]] == [True, True]
    last = {**function, "name": "last", "parameters": closed(p=union)}
    body["tools"].append({"type": "function", "function": last})
    made = translated(body, CHAT, ANTHROPIC)
    assert [tool.get("strict") for tool in made.body["tools"]] == [True, True, None]
    [lost] = [loss for loss in made.losses if loss.feature == "strict"]
    assert lost.detail == "not enforced: more than 16 unions of all strict schemas"


def test_output_counts_among_what_anthropic_enforces() -> None:
    free = {f"p{number}": TEXT for number in range(13)}
    schema = {"type": "object", "properties": free, "additionalProperties": False}
    body = {**calling(GEMINI, schema), **answering(GEMINI, schema)}
    body["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    made = translated(body, GEMINI, ANTHROPIC)
    assert tool_of(made, ANTHROPIC) == (schema, False)
    assert losses(made) == {
        "strict": (
            "not enforced: more than 24 properties that are not required of all strict schemas"
        )
    }


def test_output_beyond_what_anthropic_enforces_has_no_form() -> None:
    free = {f"p{number}": TEXT for number in range(25)}
    schema = {"type": "object", "properties": free, "additionalProperties": False}
    made = translated(answering(CHAT, schema), CHAT, ANTHROPIC)
    assert losses(made) == {"schema_dropped": ""}


def test_recursive_output_has_no_form_for_anthropic() -> None:
    schema = closed(next={"anyOf": [{"$ref": "#"}, {"type": "null"}]})
    made = translated(answering(GEMINI, schema), GEMINI, CHAT)
    assert output_of(made, CHAT) == (schema, True)
    with pytest.raises(EncodeError, match="a recursive reference in the schema of the answer"):
        translated(answering(GEMINI, schema), GEMINI, ANTHROPIC)


def test_every_schema_is_enforced_by_gemini() -> None:
    schema = of(n={"type": "integer", "minimum": 1, "multipleOf": 2})
    made = translated(answering(CHAT, schema, strict=False), CHAT, GEMINI)
    assert output_of(made, GEMINI) == (schema, True)
    assert losses(made) == {"schema_name": "dropped", "schema_strict": "enforced"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_array_of_gemini_has_no_form_for_openai(target: str) -> None:
    """OpenAI answers with objects alone."""
    body = gemini_response({"type": "ARRAY", "items": {"type": "STRING"}})
    with pytest.raises(EncodeError, match="a schema of an answer that is no object") as info:
        translated(body, GEMINI, target)
    assert info.value.path == "output.schema"
    made = translated(body, GEMINI, ANTHROPIC)
    assert output_of(made, ANTHROPIC) == ({"type": "array", "items": TEXT}, True)


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_object_of_gemini_that_may_be_null_is_an_object(target: str) -> None:
    schema = {"type": "OBJECT", "nullable": True, "properties": {"a": {"type": "STRING"}}}
    made = translated(gemini_response({**schema, "required": ["a"]}), GEMINI, target)
    assert output_of(made, target) == (closed(a=TEXT), True)
    assert losses(made)["schema.type"] == "written as object"


# What is refused


@pytest.mark.parametrize("target", [CHAT, RESPONSES, ANTHROPIC, GEMINI])
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_union_at_the_root_is_one_object(keyword: str, target: str) -> None:
    source = CHAT if target != CHAT else RESPONSES
    schema = {keyword: [of(a=TEXT), of(b=TEXT)], "title": "Args"}
    made = translated(calling(source, schema), source, target)
    properties = {"a": TEXT, "b": TEXT}
    assert tool_of(made, target)[0] == {
        "type": "object",
        "title": "Args",
        "properties": properties,
    }
    assert losses(made) == {f"schema.{keyword}": "merged"}


def test_union_at_the_root_is_one_object_for_bedrock() -> None:
    """Claude Code behind Bedrock: only the root is changed."""
    schema = {**of(a=TEXT), "oneOf": [{"required": ["a"]}], "$comment": "c"}
    made = translated(calling(ANTHROPIC, schema), ANTHROPIC, ANTHROPIC, "bedrock")
    assert tool_of(made, ANTHROPIC)[0] == {**of(a=TEXT), "$comment": "c"}
    same = translated(calling(ANTHROPIC, of(a=TEXT)), ANTHROPIC, ANTHROPIC, "bedrock")
    assert losses(same) == {}
    assert same.body["tools"] == calling(ANTHROPIC, of(a=TEXT))["tools"]


def test_strict_tool_is_fitted_for_a_cloud_of_its_vendor() -> None:
    schema = closed(n={"type": "integer", "minimum": 1})
    body = calling(ANTHROPIC, schema, strict=True)
    made = translated(body, ANTHROPIC, ANTHROPIC, "vertex")
    assert tool_of(made, ANTHROPIC) == (closed(n={"type": "integer"}), True)
    same = translate_request({"model": "m", **body}, dialect=ANTHROPIC, to=ANTHROPIC)
    assert same.body == {"model": "m", **body}


@pytest.mark.parametrize(("source", "target"), [(ANTHROPIC, CHAT), (ANTHROPIC, RESPONSES)])
def test_gaps_that_openai_refuses_are_filled(source: str, target: str) -> None:
    made = translated(calling(source, {"type": "object"}), source, target)
    assert tool_of(made, target)[0] == {"type": "object", "properties": {}}
    schema = {"properties": {"a": {"type": "array"}}}
    made = translated(calling(source, schema), source, target)
    items = {"type": "array", "items": {}}
    assert tool_of(made, target)[0] == {"type": "object", "properties": {"a": items}}
    assert losses(made) == {}


def test_references_are_such_as_gemini_reads() -> None:
    schema = {
        **of(a={"$ref": "#/definitions/A", "title": "An A"}, b={"$ref": "#/definitions/A"}),
        "definitions": {"A": TEXT},
    }
    made = translated(calling(CHAT, schema), CHAT, GEMINI)
    assert tool_of(made, GEMINI)[0] == {
        **of(a={"title": "An A", "anyOf": [{"$ref": "#/$defs/A"}]}, b={"$ref": "#/$defs/A"}),
        "$defs": {"A": TEXT},
    }
    assert losses(made) == {}


@pytest.mark.parametrize("make", [calling, answering], ids=["tool", "output"])
def test_reference_that_leads_nowhere_is_an_error_for_gemini(make: Any) -> None:
    with pytest.raises(EncodeError, match=r"a \$ref that leads nowhere") as info:
        translated(make(CHAT, of(a={"$ref": "#/$defs/A"})), CHAT, GEMINI)
    assert info.value.path in ("tools[0].input_schema", "output.schema")


def test_order_of_properties_is_a_loss_outside_of_gemini() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
        "propertyOrdering": ["b", "a"],
    }
    for body, found in (
        (gemini_parameters(schema), tool_of),
        (gemini_response(schema), output_of),
    ):
        for target in (CHAT, RESPONSES, ANTHROPIC):
            made = translated(body, GEMINI, target)
            assert [*found(made, target)[0]["properties"]] == ["b", "a"]
            ordering = losses(made)["schema.propertyOrdering"]
            assert ordering == "written as the order of the properties"


def test_only_what_kimi_refuses_is_changed_in_chat() -> None:
    schema = of(
        skill={"type": "string", "anyOf": [{"enum": ["a"]}, TEXT], "default": "a"},
        pair={"type": "array", "items": [TEXT, TEXT], "maxLength": 2},
        ref={"$ref": "#/definitions/R"},
    )
    body = {"model": "kimi-k2.5", **calling(CHAT, {**schema, "definitions": {"R": TEXT}})}
    made = translate_request(body, dialect=CHAT, to=CHAT, server="kimi")
    assert validate_request(made.body, CHAT, server="kimi") == []
    branches = [{"type": "string", "enum": ["a"]}, TEXT]
    items = {"anyOf": [TEXT, TEXT]}
    assert tool_of(made, CHAT)[0] == {
        **of(
            skill={"anyOf": branches, "default": "a"},
            pair={"type": "array", "items": items, "maxLength": 2},
            ref={"$ref": "#/$defs/R"},
        ),
        "$defs": {"R": TEXT},
    }


def test_only_what_ollama_refuses_is_changed_in_chat() -> None:
    body = {"model": "m", **calling(CHAT, {"type": "object", "properties": [], "x": 1})}
    made = translate_request(body, dialect=CHAT, to=CHAT, server="ollama")
    assert tool_of(made, CHAT)[0] == {"type": "object", "properties": {}, "x": 1}
    plain = {"model": "m", **calling(CHAT, {"properties": {"a": {"type": "array"}}})}
    made = translate_request(plain, dialect=CHAT, to=CHAT, server="ollama")
    assert made.body == plain
