"""Tools alone: in and out of every dialect, checked, and with simple schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

import streamnorm
from streamnorm import (
    DecodeError,
    EncodeError,
    InputMessage,
    Loss,
    LossyEncoding,
    Request,
    Text,
    Tool,
    UnknownDialect,
)
from streamnorm.profiles import Profiles
from streamnorm.tools import (
    CustomTool,
    MCPServer,
    Namespace,
    ServerTool,
    check_tools,
    decode_tools,
    encode_tools,
    simplify_schema,
)

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}

# The same tool, as each vendor's reference has it.
WEATHER: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA}
    ],
    "openai_chat": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather of a city",
                "parameters": SCHEMA,
            },
        }
    ],
    "openai_responses": [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": SCHEMA,
            "strict": False,
        }
    ],
    "gemini": [
        {
            "functionDeclarations": [
                {
                    "name": "get_weather",
                    "description": "Weather of a city",
                    "parametersJsonSchema": SCHEMA,
                }
            ]
        }
    ],
}
DIALECTS = [*WEATHER]
TOOL = Tool("get_weather", "Weather of a city", SCHEMA)

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@each_dialect
def test_a_tool_is_written_as_the_vendor_has_it(dialect: str) -> None:
    encoded = encode_tools([TOOL], dialect)
    assert encoded.body == {"tools": WEATHER[dialect]}
    assert (encoded.path, encoded.headers, encoded.losses) == ("", {}, ())


@each_dialect
def test_the_vendors_tool_is_read(dialect: str) -> None:
    (tool,) = decode_tools(WEATHER[dialect], dialect)
    assert isinstance(tool, Tool)
    assert (tool.name, tool.description, tool.input_schema) == (
        "get_weather",
        "Weather of a city",
        SCHEMA,
    )
    assert not tool.strict


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_a_tool_of_each_dialect_is_one_of_each_other(source: str, target: str) -> None:
    tools = decode_tools(WEATHER[source], source)
    assert encode_tools(tools, target).body == {"tools": WEATHER[target]}


@each_dialect
def test_a_tool_of_mcp_is_one_of_each_dialect_and_back(dialect: str) -> None:
    listed = {"name": "get_weather", "description": "Weather of a city", "inputSchema": SCHEMA}
    encoded = encode_tools([Tool.from_mcp(listed)], dialect)
    assert encoded.body == {"tools": WEATHER[dialect]}
    (tool,) = decode_tools(encoded.body["tools"], dialect)
    assert isinstance(tool, Tool)
    assert tool.to_mcp() == listed


@each_dialect
def test_tools_are_those_of_the_whole_request(dialect: str) -> None:
    tools = (TOOL, CustomTool("sh", "A shell"), ServerTool("web_search", "anthropic"))
    said = (InputMessage("user", (Text("Hi"),)),)
    whole = streamnorm.encode_request(
        Request(model="m", messages=said, tools=tools, max_tokens=9), dialect
    )
    encoded = encode_tools(tools, dialect, model="m")
    assert encoded.body["tools"] == whole.body["tools"]
    assert encoded.losses == tuple(loss for loss in whole.losses if loss.where == "tools")
    assert encoded.reply == whole.reply


def test_other_fields_that_offer_tools_are_part_of_them() -> None:
    server = MCPServer("crm", "https://crm.example/mcp")
    encoded = encode_tools([TOOL, server], "anthropic")
    assert encoded.body.keys() == {"tools", "mcp_servers"}
    assert "mcp-client" in encoded.headers["anthropic-beta"]
    strict = encode_tools([Tool("f", None, SCHEMA, strict=True)], "gemini")
    assert strict.body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_a_changed_name_is_a_loss_and_has_its_way_back() -> None:
    encoded = encode_tools([Tool("get weather", None, SCHEMA)], "anthropic")
    assert encoded.losses == (Loss("tool_renamed", "tools", 1, "written with a legal name"),)
    (written,) = encoded.body["tools"]
    assert encoded.reply.tools[written["name"]].name == "get weather"
    with pytest.raises(LossyEncoding, match="tool_renamed in tools would be lost"):
        encode_tools([Tool("get weather", None, SCHEMA)], "anthropic", strict=True)


def test_no_tools_have_no_fields() -> None:
    assert encode_tools([], "openai_chat").body == {}
    assert decode_tools([], "openai_chat") == ()


def test_titles_of_mcp_have_no_place_elsewhere() -> None:
    tool = Tool.from_mcp({"name": "f", "inputSchema": SCHEMA, "title": "F"})
    assert encode_tools([tool], "openai_chat").losses == (Loss("title", "tools", 1, "dropped"),)


@pytest.mark.parametrize("call", [decode_tools, encode_tools, check_tools])
@pytest.mark.parametrize("dialect", ["morse", "telegraph"])
def test_a_dialect_without_bodies_is_an_error(call: Any, dialect: str) -> None:
    with registered(structs.replace(TELEGRAPH, body=None)), pytest.raises(UnknownDialect):
        call([], dialect)


@each_dialect
def test_what_is_no_tool_is_an_error_with_its_path(dialect: str) -> None:
    nameless: dict[str, Any] = {"functionDeclarations": [{}], "type": "function"}
    value = {**nameless, "type": "custom"} if dialect == "anthropic" else nameless
    with pytest.raises(DecodeError, match=r"^\$\.tools\[1\]"):
        decode_tools([*WEATHER[dialect], value], dialect)


def test_a_deep_tool_is_an_error() -> None:
    schema: dict[str, Any] = {}
    for _ in range(130):
        schema = {"items": schema}
    with pytest.raises(DecodeError, match="nested deeper than 128"):
        decode_tools([{"name": "f", "input_schema": schema}], "anthropic")


# Checks


@each_dialect
def test_legal_tools_pass(dialect: str) -> None:
    check_tools([TOOL, Tool("g"), CustomTool("sh"), ServerTool("web_search", dialect)], dialect)


@pytest.mark.parametrize(
    ("dialect", "name", "is_legal"),
    [
        # A: [a-zA-Z0-9_-]{1,128}; C: the same with 64; G: starts with a letter or _, 64.
        ("anthropic", "a" * 128, True),
        ("anthropic", "a" * 129, False),
        ("openai_chat", "a" * 64, True),
        ("openai_chat", "a" * 65, False),
        ("openai_responses", "a" * 128, True),
        ("openai_responses", "a" * 129, False),
        ("gemini", "a" * 64, True),
        ("gemini", "a" * 65, False),
        ("gemini", "fs.read", True),
        ("gemini", "2nd", False),
        ("anthropic", "2nd", True),
        ("anthropic", "fs.read", False),
        ("openai_chat", "", False),
        ("openai_chat", "get weather", False),
    ],
)
def test_names_are_checked(dialect: str, name: str, is_legal: bool) -> None:
    if is_legal:
        check_tools([TOOL, Tool(name)], dialect)
        return
    with pytest.raises(EncodeError, match=r"^tools\[1\]\.name: name '.*expected one of"):
        check_tools([TOOL, Tool(name)], dialect)


def test_an_error_shows_the_name_printable_and_bounded() -> None:
    with pytest.raises(EncodeError) as caught:
        check_tools([Tool("\x1b[2J" + "ä" * 1000)], "anthropic")
    text = str(caught.value)
    assert text.isascii() or "…" in text
    assert "\x1b" not in text
    assert "(1004 characters)" in text
    assert len(text) < 600


def test_a_namespace_counts_where_it_is_part_of_the_name() -> None:
    check_tools([Tool("a" * 128, namespace=Namespace("files"))], "openai_responses")
    with pytest.raises(EncodeError, match="name 'files__"):
        check_tools([Tool("a" * 60, namespace=Namespace("files"))], "openai_chat")


def test_names_are_different() -> None:
    two = [TOOL, CustomTool("get_weather")]
    with pytest.raises(EncodeError, match=r"^tools\[1\]\.name: name 'get_weather' of tools\[0\]"):
        check_tools(two, "anthropic")
    check_tools([Tool("f", namespace=Namespace("a")), Tool("f")], "openai_responses")


def test_the_number_of_tools_is_checked() -> None:
    check_tools([Tool(f"f{n}") for n in range(512)], "gemini")
    with pytest.raises(EncodeError, match=r"^tools: 513 tools, expected at most 512$"):
        check_tools([Tool(f"f{n}") for n in range(513)], "gemini")


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "array"}, "no schema of an object, expected one"),
        ({"type": "object", "properties": {"a": {"$ref": "#/no"}}}, "a \\$ref that leads nowhere"),
    ],
)
def test_schemas_are_checked(schema: dict[str, Any], error: str) -> None:
    with pytest.raises(EncodeError, match=rf"^tools\[1\]\.input_schema: {error}"):
        check_tools([TOOL, Tool("f", None, schema)], "anthropic")


def test_limits_of_a_server_are_those_of_its_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[profile]]\nserver = "tiny"\ndialect = "chat"\nset = { max_tools = 1 }\n')
    profiles = Profiles.load(path)
    two = [TOOL, Tool("f")]
    check_tools(two, "openai_chat", profiles=profiles)
    with pytest.raises(EncodeError, match="2 tools, expected at most 1"):
        check_tools(two, "openai_chat", server="tiny", profiles=profiles)
    with pytest.raises(EncodeError, match="2 tools, expected at most 1"):
        encode_tools(two, "openai_chat", server="tiny", profiles=profiles)


# Schemas


def test_a_complex_schema_is_simplified_and_each_change_is_a_loss() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "days": {"type": "integer", "exclusiveMinimum": 0},
        },
        "required": ["city", "street"],
        "additionalProperties": False,
        "$defs": {"City": {"type": ["string", "null"]}},
    }
    simple = simplify_schema(schema)
    assert simple.schema == {
        "type": "object",
        "properties": {
            "city": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "days": {"type": "integer", "minimum": 1},
        },
        "required": ["city"],
    }
    assert {loss.feature for loss in simple.losses} >= {
        "schema.$ref",
        "schema.exclusiveMinimum",
        "schema.required",
        "schema.additionalProperties",
    }
    with pytest.raises(LossyEncoding):
        simplify_schema(schema, strict=True)


def test_a_simple_schema_is_itself() -> None:
    simple = simplify_schema(SCHEMA, strict=True)
    assert simple.schema is SCHEMA
    assert simple.losses == ()


def test_a_reference_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(EncodeError, match=r"^schema: a \$ref that leads nowhere"):
        simplify_schema({"$ref": "https://a.b/c"})
