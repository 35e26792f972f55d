"""What Google and compatible servers refuse in schemas, beside the nearest legal schema."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.schema_requests import OBJECT, calling, gemini_parameters, gemini_response
from support.rules.schemas import CHAT, GEMINI, TEXT, parameters
from support.rules.schemas import SchemaCase as Case

MOONSHOT = "tools.function.parameters is not a valid moonshot flavored json schema, details: "


def of_google(rule: str, schema: Any, at: str, says: str, legal: Any, **others: Any) -> list[Case]:
    """Return the cases of a rule for Google's own schemas, of functions and of outputs.

    In `says`, `{}` is the place of the schema.
    """
    return [
        Case(
            rule,
            GEMINI,
            gemini_parameters(parameters(a=schema)),
            f"tools[0].functionDeclarations[0].parameters.properties.a{at}",
            says.format("tools[0].function_declarations[0].parameters.properties"),
            gemini_parameters(parameters(a=legal)),
            **{"free": "own", **others},
        ),
        Case(
            rule,
            GEMINI,
            gemini_response(parameters(a=schema)),
            f"generationConfig.responseSchema.properties.a{at}",
            says.format("generation_config.response_schema.properties"),
            gemini_response(parameters(a=legal)),
            **{"free": "own", **others},
        ),
    ]


def unknown(name: str, place: str) -> str:
    text = "Invalid JSON payload received. Unknown name"
    return f"{text} \"{name}\" at '{place}': Cannot find field."


def of_references(
    rule: str, schema: Any, at: str, says: str, legal: Any, field: str = "parametersJsonSchema"
) -> Case:
    place = f"tools[0].functionDeclarations[0].{field}"
    refused, accepted = (gemini_parameters(each, field=field) for each in (schema, legal))
    return Case(rule, GEMINI, refused, f"{place}{at}", says, accepted, free="own")


DECLARATION = "tools[0].function_declarations[0].parameters"
OBJECT_WANTED = (
    "Unable to submit request because `f` functionDeclaration `parameters` schema should be of"
    " type OBJECT."
)

GOOGLE = [
    *of_google(
        "gemini.parameters_keywords",
        {"anyOf": [TEXT, {"type": "string", "const": "x"}]},
        ".anyOf[1].const",
        unknown("const", "{}[0].value.any_of[1]"),
        {"anyOf": [TEXT, {"type": "string", "enum": ["x"], "example": {"const": 1}}]},
        server="vertex",
    ),
    Case(
        "gemini.parameters_keywords",
        GEMINI,
        gemini_parameters({"$schema": "x", "type": "OBJECT"}),
        "tools[0].functionDeclarations[0].parameters.$schema",
        unknown("$schema", DECLARATION),
        gemini_parameters(
            {"$schema": "x", "type": "object", "additionalProperties": False, "allOf": []},
            field="parametersJsonSchema",
        ),
        free="own",
    ),
    Case(
        "gemini.parameters_additional_properties",
        GEMINI,
        gemini_parameters({**OBJECT, "additionalProperties": False}),
        "tools[0].functionDeclarations[0].parameters.additionalProperties",
        unknown("additionalProperties", DECLARATION),
        gemini_parameters({"type": "OBJECT", "properties": {"additionalProperties": TEXT}}),
        free="vertex",
    ),
    *of_google(
        "gemini.parameters_type",
        {"type": ["string", "null"]},
        ".type",
        "Invalid value at '{}[0].value.type'"
        " (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), Proto field is not"
        " repeating, cannot start list.",
        {"type": "string", "nullable": True},
    ),
    Case(
        "gemini.parameters_object",
        GEMINI,
        gemini_parameters({"properties": {"a": TEXT}}),
        "tools[0].functionDeclarations[0].parameters.type",
        OBJECT_WANTED,
        gemini_parameters({"type": "OBJECT", "properties": {"a": TEXT}}),
        server="vertex",
        free="own",
    ),
    of_references(
        "gemini.json_parameters_object",
        {"anyOf": [OBJECT]},
        ".type",
        OBJECT_WANTED,
        {**OBJECT, "anyOf": [OBJECT]},
    ),
    *of_google(
        "gemini.array_items",
        {"type": "ARRAY"},
        ".items",
        "GenerateContentRequest.{}[a].items: missing field.",
        {"type": "ARRAY", "items": TEXT},
    ),
    *of_google(
        "gemini.enum_values",
        {"type": "STRING", "enum": []},
        ".enum",
        "GenerateContentRequest.{}[a].enum: should be non-empty for STRING type with enum format",
        {"type": "STRING", "enum": ["x"]},
        model="gemini-3-flash",
        free="/gemini-2.5-flash",
    ),
    *of_google(
        "gemini.text_formats",
        {"type": "string", "format": "uri"},
        ".format",
        "GenerateContentRequest.{}[a].format: only 'enum' and 'date-time' are supported for STRING"
        " type",
        {"type": "string", "format": "date-time"},
        free="vertex",
    ),
    of_references(
        "gemini.reference_beside",
        {**parameters(a={"$ref": "#/$defs/Q", "type": "array"}), "$defs": {"Q": TEXT}},
        ".properties.a.type",
        "$ref 'Q' was set alongside unsupported fields. If a schema node has $ref set, then only"
        " description and default can be set alongside it",
        {**parameters(a={"$ref": "#/$defs/Q", "description": "A"}), "$defs": {"Q": TEXT}},
    ),
    of_references(
        "gemini.reference_beside",
        {**parameters(a={"$ref": "#/$defs/Q", "title": "A"}), "$defs": {"Q": TEXT}},
        ".properties.a.title",
        "$ref 'Q' was set alongside unsupported fields. If a schema node has $ref set, then only"
        " description and default can be set alongside it",
        {**parameters(a={"$ref": "#/$defs/Q", "default": "A"}), "$defs": {"Q": TEXT}},
        "parameters",
    ),
    of_references(
        "gemini.references",
        {**parameters(a={"anyOf": [TEXT, {"$ref": "#/$defs/Issue"}]}), "$defs": {"Other": TEXT}},
        ".properties.a.anyOf[1].$ref",
        "reference to undefined schema at properties.a.anyOf[1]",
        {**parameters(a={"anyOf": [TEXT, {"$ref": "#/$defs/Issue"}]}), "$defs": {"Issue": TEXT}},
    ),
    of_references(
        "gemini.references",
        parameters(a={"ref": "#/defs/Pet"}),
        ".properties.a.ref",
        "reference to undefined schema at properties.a",
        {**parameters(a={"ref": "#/defs/Pet"}), "defs": {"Pet": TEXT}},
        "parameters",
    ),
]


def of_server(rule: str, server: str, schema: Any, at: str, says: str, legal: Any) -> Case:
    return Case(
        rule,
        CHAT,
        calling(CHAT, schema),
        f"tools[0].function.parameters{at}",
        says,
        calling(CHAT, legal),
        server=server,
        model="qwen3:32b" if server == "ollama" else "kimi-k2.5",
    )


SERVERS = [
    of_server(
        "kimi.schema_type",
        "kimi",
        {"anyOf": [OBJECT]},
        ".type",
        'tools.function.parameters.type is required and must be "object"',
        OBJECT,
    ),
    of_server(
        "kimi.schema_any_of",
        "moonshot",
        parameters(skill={"type": "string", "anyOf": [TEXT]}),
        ".properties.skill.type",
        f"{MOONSHOT}<At path 'properties.skill': when using anyOf, type should be defined in anyOf"
        " items instead of the parent schema>",
        parameters(skill={"anyOf": [TEXT], "description": "A skill"}),
    ),
    of_server(
        "kimi.schema_any_of",
        "kimi",
        {**OBJECT, "anyOf": [OBJECT]},
        ".type",
        f"{MOONSHOT}<At path 'root': when using anyOf, type should be defined in anyOf items"
        " instead of the parent schema>",
        OBJECT,
    ),
    of_server(
        "kimi.schema_items",
        "kimi",
        parameters(a={"type": "array", "items": [TEXT, TEXT]}),
        ".properties.a.items",
        f"{MOONSHOT}<At path 'properties.a': items must be an object>",
        parameters(a={"type": "array", "items": TEXT}),
    ),
    of_server(
        "kimi.schema_items",
        "kimi",
        parameters(a={"type": "array", "prefixItems": [], "items": False}),
        ".properties.a.items",
        f"{MOONSHOT}<At path 'properties.a': items must be an object>",
        parameters(a={"type": "array", "items": {}}),
    ),
    of_server(
        "kimi.schema_references",
        "kimi",
        parameters(a={"$ref": "#/definitions/A"}),
        ".properties.a.$ref",
        f"{MOONSHOT}<At path 'properties.a.$ref': references must start with #/$defs/>",
        {**parameters(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}},
    ),
    of_server(
        "kimi.schema_reference_type",
        "kimi",
        {**parameters(a={"type": "string", "$ref": "#/$defs/A"}), "$defs": {"A": TEXT}},
        ".properties.a.type",
        f"{MOONSHOT}<At path 'properties.a': when using $ref, type should be defined in the"
        " referenced schema instead of the parent schema>",
        {**parameters(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}},
    ),
    of_server(
        "ollama.schema_properties",
        "ollama",
        {"type": "object", "properties": []},
        ".properties",
        "json: cannot unmarshal array into Go struct field .tools.function.parameters.properties"
        " of type map",
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    ),
]


CASES = [*GOOGLE, *SERVERS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_schema_is_refused_in_the_words_of_the_server(case: Case) -> None:
    case.check()
