"""What OpenAI and Anthropic refuse in schemas, rule by rule, beside the nearest legal schema."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.schema_requests import CLOSED, OBJECT, answering, calling
from support.rules.schemas import (
    ANTHROPIC,
    CHAT,
    RESPONSES,
    TEXT,
    closed,
    parameters,
    strict,
)
from support.rules.schemas import SchemaCase as Case

from streamnorm.validation import validate_request


def of_openai(
    rule: str, schema: Any, at: str, says: str, legal: Any, *, is_strict: bool = False
) -> list[Case]:
    """Return the cases of a rule for functions, in both of OpenAI's dialects.

    Args:
        rule: The rule.
        schema: The schema that is refused.
        at: Path within it.
        says: What OpenAI says of it.
        legal: The nearest schema that is accepted.
        is_strict: Whether the function is strict.
    """
    said = f"Invalid schema for function 'f': {says}"
    return [
        Case(
            rule,
            dialect,
            calling(dialect, schema, strict=is_strict),
            f"{place}{at}",
            said,
            calling(dialect, legal, strict=is_strict),
        )
        for dialect, place in (
            (CHAT, "tools[0].function.parameters"),
            (RESPONSES, "tools[0].parameters"),
        )
    ]


def of_openai_outputs(rule: str, schema: Any, at: str, says: str, legal: Any) -> list[Case]:
    """Return the cases of a rule for strict outputs, in both of OpenAI's dialects."""
    return [
        Case(
            rule,
            dialect,
            answering(dialect, schema, strict=True),
            f"{place}{at}",
            f"Invalid schema for response_format 'f': {says}",
            answering(dialect, legal, strict=True),
        )
        for dialect, place in (
            (CHAT, "response_format.json_schema.schema"),
            (RESPONSES, "text.format.schema"),
        )
    ]


def of_strict(rule: str, schema: Any, at: str, says: str, legal: Any) -> list[Case]:
    """Return the cases of a rule for strict functions and outputs of OpenAI's."""
    return [
        *of_openai(rule, schema, at, says, legal, is_strict=True),
        *of_openai_outputs(rule, schema, at, says, legal),
    ]


DEEP: dict[str, Any] = TEXT
for _ in range(10):
    DEEP = closed(a=DEEP)
TOO_DEEP = closed(a=DEEP)
NODE = {"$defs": {"N": closed(n={"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]})}}

OPENAI = [
    *of_openai(
        "openai.function_schema_type",
        {"properties": {}},
        ".type",
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: null'.",
        OBJECT,
    ),
    *of_openai(
        "openai.function_schema_type",
        {"type": "array", "items": TEXT, "properties": {}},
        ".type",
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        OBJECT,
    ),
    *of_openai(
        "openai.function_schema_union",
        {**OBJECT, "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "anyOf": []},
        ".oneOf",
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the"
        " top level.",
        parameters(a={"oneOf": [TEXT, {"type": "null"}]}),
    ),
    *of_openai(
        "openai.function_schema_properties",
        {"type": "object"},
        ".properties",
        "In context=(), object schema missing properties.",
        OBJECT,
    ),
    *of_openai(
        "openai.array_items",
        parameters(a={"type": "array"}),
        ".properties.a.items",
        "In context=('properties', 'a'), array schema missing items.",
        parameters(a={"type": "array", "items": {}}),
    ),
    *of_openai(
        "openai.array_items",
        parameters(a={"type": "array", "prefixItems": [TEXT, TEXT]}),
        ".properties.a.items",
        "In context=('properties', 'a'), array schema missing items.",
        parameters(a={"type": "array", "prefixItems": [TEXT, TEXT], "items": {}}),
    ),
    *of_openai_outputs(
        "openai.array_items",
        closed(a={"type": ["null", "array"]}),
        ".properties.a.items",
        "In context=('properties', 'a'), array schema missing items.",
        closed(a={"type": ["null", "array"], "items": TEXT}),
    ),
    *of_openai_outputs(
        "openai.output_schema_type",
        {"type": "array", "items": TEXT},
        ".type",
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        closed(a={"type": "array", "items": TEXT}),
    ),
    *of_openai_outputs(
        "openai.strict_union",
        {**CLOSED, "anyOf": [CLOSED]},
        ".anyOf",
        "root schema must be an object and not use 'anyOf'.",
        closed(a={"anyOf": [CLOSED]}),
    ),
    *of_strict(
        "openai.strict_additional_properties",
        closed(a=OBJECT),
        ".properties.a.additionalProperties",
        "In context=('properties', 'a'), 'additionalProperties' is required to be supplied and to"
        " be false.",
        closed(a=CLOSED),
    ),
    *of_strict(
        "openai.strict_additional_properties",
        {**CLOSED, "additionalProperties": {"type": "string"}},
        ".additionalProperties",
        "In context=(), 'additionalProperties' is required to be supplied and to be false.",
        CLOSED,
    ),
    *of_strict(
        "openai.strict_required",
        {**CLOSED, "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "required": ["a"]},
        ".required",
        "In context=(), 'required' is required to be supplied and to be an array including every"
        " key in properties. Missing 'b'.",
        closed(a=TEXT, b=TEXT, c=TEXT),
    ),
    *of_strict(
        "openai.strict_keywords",
        closed(data={"type": "string", "allOf": [TEXT]}),
        ".properties.data.allOf",
        "In context=('properties', 'data'), 'allOf' is not permitted.",
        closed(data={"type": "string", "description": "Data", "pattern": "a"}),
    ),
    *of_strict(
        "openai.strict_formats",
        closed(url={"type": "string", "format": "uri"}),
        ".properties.url.format",
        "In context=('properties', 'url'), 'uri' is not a valid format.",
        closed(url={"type": "string", "format": "email"}),
    ),
    *of_strict(
        "openai.strict_pattern",
        closed(a={"type": "string", "pattern": "(?!b)a"}),
        ".properties.a.pattern",
        "In context=('properties', 'a'), 'pattern' has a look-around, which is not supported.",
        closed(a={"type": "string", "pattern": "(?:b)a"}),
    ),
    *of_strict(
        "openai.strict_reference_beside",
        {"$defs": {"A": TEXT}, **closed(a={"$ref": "#/$defs/A", "description": "An A"})},
        ".properties.a.description",
        "In context=('properties', 'a'), $ref cannot have keywords {'description'}.",
        {"$defs": {"A": TEXT}, **closed(a={"$ref": "#/$defs/A"})},
    ),
    *of_strict(
        "openai.strict_references",
        closed(a=TEXT, b={"$ref": "#/properties/a"}),
        ".properties.b.$ref",
        "In context=('properties', 'b'), reference '#/properties/a' can only point to definitions"
        " at the top level of the schema.",
        {
            "definitions": {"A/B": TEXT},
            **closed(b={"$ref": "#/definitions/A~1B"}, c={"anyOf": [{"$ref": "#"}, TEXT]}),
        },
    ),
    *of_strict(
        "openai.strict_references",
        {"$defs": {"A": TEXT}, **closed(b={"$ref": "#/$defs/B"})},
        ".properties.b.$ref",
        "In context=('properties', 'b'), reference '#/$defs/B' can only point to definitions"
        " at the top level of the schema.",
        {**NODE, **closed(b={"$ref": "#/$defs/N"})},
    ),
    *of_strict(
        "openai.strict_types",
        closed(a={"type": "array", "items": {"description": "Any"}}),
        ".properties.a.items",
        "In context=('properties', 'a', 'items'), schema must have a 'type' key.",
        closed(a={"type": "array", "items": {"type": "string", "enum": ["a"]}}),
    ),
    *of_strict(
        "openai.strict_types",
        closed(a={"enum": ["a", "b"]}),
        ".properties.a",
        "In context=('properties', 'a'), schema must have a 'type' key.",
        closed(a={"type": "string", "const": "a"}),
    ),
    *of_strict(
        "openai.strict_size",
        TOO_DEEP,
        "",
        "11 exceed the limit of 10.",
        DEEP,
    ),
    *of_strict(
        "openai.strict_size",
        closed(**{f"p{number}": TEXT for number in range(5001)}),
        "",
        "5001 exceed the limit of 5000.",
        closed(**{f"p{number}": TEXT for number in range(5000)}),
    ),
    *of_strict(
        "openai.strict_size",
        closed(a={"type": "string", "enum": [str(number) for number in range(1001)]}),
        "",
        "1001 exceed the limit of 1000.",
        closed(a={"type": "string", "enum": [str(number) for number in range(1000)]}),
    ),
    *of_strict(
        "openai.strict_size",
        closed(a={"type": "string", "enum": ["x" * 120_000]}),
        "",
        "120001 exceed the limit of 120000.",
        closed(a={"type": "string", "enum": ["x" * 119_999, 7]}),
    ),
]


def of_anthropic(rule: str, schema: Any, at: str, says: str, legal: Any) -> list[Case]:
    """Return the cases of a rule for strict tools and outputs of Anthropic's."""
    return [
        Case(
            rule,
            ANTHROPIC,
            strict(ANTHROPIC, schema),
            f"tools[0].input_schema{at}",
            f"tools.0.custom: {says}",
            strict(ANTHROPIC, legal),
            free="deepseek",
        ),
        Case(
            rule,
            ANTHROPIC,
            answering(ANTHROPIC, schema),
            f"output_config.format.schema{at}",
            f"output_config.format.schema: {says}",
            answering(ANTHROPIC, legal),
            server="copilot",
            model="claude-sonnet-4.5",
            free="deepseek",
        ),
    ]


CLAUDE = [
    Case(
        "anthropic.tool_schema_union",
        ANTHROPIC,
        calling(ANTHROPIC, {**OBJECT, "oneOf": [OBJECT]}),
        "tools[0].input_schema.oneOf",
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the"
        " top level",
        calling(ANTHROPIC, parameters(a={"oneOf": [OBJECT], "minimum": 1}), strict=False),
        free="deepseek",
    ),
    *[
        Case(
            "anthropic.tool_properties",
            ANTHROPIC,
            calling(ANTHROPIC, parameters(**{name: OBJECT})),
            "tools[0].input_schema.properties",
            "tools.0.custom.input_schema.properties: Property keys should match pattern"
            " '^[a-zA-Z0-9_.-]{1,64}$'",
            # Those further down may have any name.
            calling(ANTHROPIC, parameters(**{"a.b-c": parameters(**{name: OBJECT})})),
            free="deepseek",
        )
        for name in ("filter[id]", "$top", "Account Number", "", "a" * 65, "a\n")
    ],
    *[
        Case(
            f"anthropic.schema_draft_{rule}",
            ANTHROPIC,
            calling(ANTHROPIC, parameters(a=refused), strict=False),
            f"tools[0].input_schema.properties.a.{keyword}",
            "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft"
            " 2020-12",
            calling(ANTHROPIC, parameters(a=legal), strict=False),
            free="deepseek",
        )
        for rule, keyword, refused, legal in (
            ("items", "items", {"items": [TEXT]}, {"prefixItems": [TEXT], "items": False}),
            (
                "minimum",
                "exclusiveMinimum",
                {"minimum": 0, "exclusiveMinimum": True},
                {"exclusiveMinimum": 0},
            ),
            (
                "maximum",
                "exclusiveMaximum",
                {"maximum": 0, "exclusiveMaximum": True},
                {"exclusiveMaximum": 0},
            ),
        )
    ],
    *of_anthropic(
        "anthropic.strict_keywords",
        closed(a={"type": "array", "items": TEXT, "maxItems": 3}),
        ".properties.a.maxItems",
        "For 'array' type, property 'maxItems' is not supported",
        closed(a={"type": "array", "items": TEXT, "description": "Three"}),
    ),
    *of_anthropic(
        "anthropic.strict_keywords",
        closed(a={"not": TEXT}),
        ".properties.a.not",
        "For 'any' type, property 'not' is not supported",
        closed(a={"anyOf": [TEXT]}),
    ),
    *of_anthropic(
        "anthropic.strict_one_of",
        closed(a={"oneOf": [TEXT]}),
        ".properties.a.oneOf",
        "Schema type 'oneOf' is not supported",
        closed(a={"anyOf": [TEXT]}),
    ),
    *of_anthropic(
        "anthropic.strict_min_items",
        closed(a={"type": "array", "items": TEXT, "minItems": 2}),
        ".properties.a.minItems",
        "For 'array' type, 'minItems' values other than 0 or 1 are not supported",
        closed(a={"type": "array", "items": TEXT, "minItems": 1}),
    ),
    *of_anthropic(
        "anthropic.strict_additional_properties",
        closed(a={"type": "array", "items": OBJECT}),
        ".properties.a.items.additionalProperties",
        "For 'object' type, 'additionalProperties' must be explicitly set to false",
        closed(a={"type": "array", "items": CLOSED}),
    ),
    *of_anthropic(
        "anthropic.strict_formats",
        closed(a={"type": "string", "format": "regex"}),
        ".properties.a.format",
        "For 'string' type, 'format' value 'regex' is not supported",
        closed(a={"type": "string", "format": "uri"}),
    ),
    *of_anthropic(
        "anthropic.strict_recursion",
        {**NODE, **closed(a={"$ref": "#/$defs/N"})},
        ".$defs.N.properties.n.anyOf[0].$ref",
        "recursive reference '#/$defs/N' is not supported",
        {"$defs": {"N": CLOSED}, **closed(a={"$ref": "#/$defs/N"}, b={"$ref": "#/$defs/N"})},
    ),
    *of_anthropic(
        "anthropic.strict_references",
        closed(a={"$ref": "https://example.com/a.json"}),
        ".properties.a.$ref",
        "reference 'https://example.com/a.json' is not supported",
        {"$defs": {"A": TEXT}, **closed(a={"$ref": "#/$defs/A"})},
    ),
]


def many_tools(count: int, schema: Any, *, is_strict: bool = True) -> dict[str, Any]:
    """Return a request with several strict tools of Anthropic's."""
    tools = [
        {"name": f"f{number}", "input_schema": schema, "strict": is_strict}
        for number in range(count)
    ]
    return {**calling(ANTHROPIC, OBJECT), "tools": tools}


def optional(count: int) -> dict[str, Any]:
    """Return a closed schema with some properties of which none is required."""
    return {**CLOSED, "properties": {f"p{number}": TEXT for number in range(count)}}


def unions(count: int) -> dict[str, Any]:
    """Return a closed schema with some properties that are unions, half of them by `type`."""
    kinds = ({"anyOf": [TEXT, {"type": "null"}]}, {"type": ["string", "null"]})
    return closed(**{f"p{number}": kinds[number % 2] for number in range(count)})


CLAUDE += [
    Case(
        "anthropic.strict_tools",
        ANTHROPIC,
        many_tools(21, CLOSED),
        "tools",
        "Too many strict tools (21). The maximum number of strict tools supported is 20. Try"
        " reducing the number of tools marked as strict.",
        many_tools(20, CLOSED),
        free="deepseek",
    ),
    Case(
        "anthropic.strict_optional",
        ANTHROPIC,
        {**many_tools(2, optional(8)), **answering(ANTHROPIC, optional(9))},
        "tools",
        "Schemas contains too many optional parameters (25), which would make grammar compilation"
        " inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).",
        {**many_tools(2, optional(8)), **answering(ANTHROPIC, {**optional(8), "required": [{}]})},
        free="deepseek",
    ),
    Case(
        "anthropic.strict_unions",
        ANTHROPIC,
        strict(ANTHROPIC, unions(17)),
        "tools",
        "Schemas contains too many parameters with union types (17 parameters with type arrays or"
        " anyOf). Reduce the number of parameters with union types (limit: 16).",
        strict(ANTHROPIC, {**unions(16), "$defs": {"A": unions(9)}}),
        free="deepseek",
    ),
]


@pytest.mark.parametrize("schema", [optional(25), unions(17)])
def test_bounds_of_strict_tools_are_none_of_others(schema: Any) -> None:
    body = {"model": "claude-opus-4-5", **many_tools(21, schema, is_strict=False)}
    assert validate_request(body, ANTHROPIC) == []


CASES = [*OPENAI, *CLAUDE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_schema_is_refused_in_the_words_of_the_vendor(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES])
def test_schema_that_is_not_strict_may_have_what_a_strict_one_may_not(dialect: str) -> None:
    schema = parameters(
        a={"type": "string", "minLength": 1, "default": "x", "format": "uri"},
        b={"allOf": [{"oneOf": [{}, {"$ref": "#/properties/a", "description": "B"}]}]},
        c={"type": "object", "additionalProperties": True},
    )
    for made in (calling, answering):
        for is_strict in (False, None):
            body = {"model": "gpt-4.1", **made(dialect, schema, strict=is_strict)}
            assert validate_request(body, dialect) == []
