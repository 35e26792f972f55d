"""Results of tools from and to the Model Context Protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.json_texts import ANY_TEXT, values

from streamnorm import (
    Audio,
    DecodeError,
    Document,
    EncodeError,
    Image,
    OpaqueBlock,
    StreamnormError,
    Text,
    ToolResult,
    UpstreamError,
    Video,
)

# Each block of MCP, and the unified one: what it holds by the specification.
BLOCKS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({"type": "text", "text": "5 °C"}, Text("5 °C")),
    "annotated text": (
        {"type": "text", "text": "5 °C", "annotations": {"audience": ["user"]}},
        Text("5 °C", extra={"mcp": {"annotations": {"audience": ["user"]}}}),
    ),
    "image": (
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        Image("image/png", "iVBORw=="),
    ),
    "audio": (
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        Audio("audio/wav", "UklGRg=="),
    ),
    "resource of text": (
        {
            "type": "resource",
            "resource": {"uri": "file:///a.md", "mimeType": "text/markdown", "text": "# A"},
        },
        Document("text/markdown", "# A", title="file:///a.md"),
    ),
    "resource of JSON": (
        {
            "type": "resource",
            "resource": {"uri": "db://1", "mimeType": "application/json", "text": "{}"},
        },
        Document(
            "text/plain", "{}", title="db://1", extra={"mcp": {"mimeType": "application/json"}}
        ),
    ),
    "resource of bytes": (
        {
            "type": "resource",
            "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "JVBERg=="},
        },
        Document("application/pdf", "JVBERg==", title="file:///a.pdf"),
    ),
    "resource that is an image": (
        {
            "type": "resource",
            "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": "iVBORw=="},
        },
        Image("image/png", "iVBORw==", extra={"mcp": {"uri": "file:///a.png"}}),
    ),
    "resource that is a video": (
        {
            "type": "resource",
            "resource": {"uri": "file:///a.mp4", "mimeType": "video/mp4", "blob": "AAAA"},
        },
        Video("video/mp4", "AAAA", extra={"mcp": {"uri": "file:///a.mp4"}}),
    ),
    "resource with fields of its own": (
        {
            "type": "resource",
            "annotations": {"priority": 1},
            "resource": {
                "uri": "file:///a.txt",
                "mimeType": "text/plain",
                "text": "a",
                "_meta": {"b": 1},
            },
        },
        Document(
            "text/plain",
            "a",
            title="file:///a.txt",
            extra={"mcp": {"annotations": {"priority": 1}, "resource": {"_meta": {"b": 1}}}},
        ),
    ),
    "link": (
        {"type": "resource_link", "uri": "file:///b", "name": "b", "description": "The letter"},
        Text(
            "b: file:///b\nThe letter",
            extra={
                "mcp": {
                    "resource_link": {
                        "type": "resource_link",
                        "uri": "file:///b",
                        "name": "b",
                        "description": "The letter",
                    }
                }
            },
        ),
    ),
    "titled link": (
        {"type": "resource_link", "uri": "file:///b", "name": "b", "title": "Letter B"},
        Text(
            "Letter B: file:///b",
            extra={
                "mcp": {
                    "resource_link": {
                        "type": "resource_link",
                        "uri": "file:///b",
                        "name": "b",
                        "title": "Letter B",
                    }
                }
            },
        ),
    ),
    "block of tomorrow": (
        {"type": "hologram", "depth": 3},
        OpaqueBlock("mcp", "hologram", '{"type":"hologram","depth":3}'),
    ),
}


@pytest.mark.parametrize(("wire", "block"), BLOCKS.values(), ids=BLOCKS)
def test_content_there_and_back(wire: dict[str, Any], block: Any) -> None:
    value = {"content": [wire], "isError": False}
    result = ToolResult.from_mcp(value, "call_1", "f")
    assert result == ToolResult("call_1", (block,), name="f")
    assert result.to_mcp() == value


@pytest.mark.parametrize(
    ("resource", "block", "written"),
    [
        ({"text": "a"}, Document("text/plain", "a", title="db:1"), {"mimeType": "text/plain"}),
        (
            {"blob": "AA=="},
            Document("application/octet-stream", "AA==", title="db:1"),
            {"mimeType": "application/octet-stream"},
        ),
    ],
)
def test_a_resource_without_a_type_gets_the_general_one(
    resource: dict[str, Any], block: Document, written: dict[str, Any]
) -> None:
    inner = {"uri": "db:1", **resource}
    result = ToolResult.from_mcp({"content": [{"type": "resource", "resource": inner}]})
    assert result.content == (block,)
    assert result.to_mcp()["content"] == [{"type": "resource", "resource": {**inner, **written}}]


def test_a_failed_tool_is_a_result() -> None:
    value = {"content": [{"type": "text", "text": "no station"}], "isError": True}
    result = ToolResult.from_mcp(value, "call_1")
    assert result == ToolResult("call_1", (Text("no station"),), is_error=True)
    assert result.to_mcp() == value


def test_an_error_of_the_protocol_is_an_exception() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "unknown tool"}}
    with pytest.raises(UpstreamError, match="unknown tool") as caught:
        ToolResult.from_mcp(answer)
    assert caught.value.code == "-32602"


def test_a_field_of_that_name_makes_no_error_of_a_result() -> None:
    value = {"content": [], "isError": False, "error": {"code": 1, "message": "m"}}
    assert ToolResult.from_mcp(value).to_mcp() == value


@pytest.mark.parametrize("text", ['{"snow":true}', '{\n  "snow": true\n}'])
def test_structured_content_that_is_the_text_is_the_value(text: str) -> None:
    value = {
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "structuredContent": {"snow": True},
    }
    result = ToolResult.from_mcp(value)
    assert result == ToolResult("", (Text(text),), value='{"snow":true}')
    assert result.to_mcp() == value


def test_structured_content_beside_more_text_is_extra() -> None:
    """The value would take the place of all text."""
    texts = [{"type": "text", "text": text} for text in ('{"snow":true}', "Take care")]
    result = ToolResult.from_mcp({"content": texts, "structuredContent": {"snow": True}})
    assert result.value is None
    assert result.extra == {"mcp": {"structuredContent": {"snow": True}}}


def test_numbers_that_json_lacks_are_named_for_the_model() -> None:
    """As null they would say that there is no number; `run_tools` names those of functions, too."""
    content = {"high": float("nan"), "low": [float("-inf"), 1.5, None]}
    result = ToolResult.from_mcp({"content": [], "structuredContent": content})
    text = '{"high":"NaN","low":["-Infinity",1.5,null]}'
    assert result == ToolResult("", (Text(text),), value=text)
    assert result.to_mcp()["structuredContent"] == json.loads(text)


def test_structured_content_alone_is_the_text_too() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    result = ToolResult.from_mcp({"content": [image], "structuredContent": {"snow": True}})
    content = (Text('{"snow":true}'), Image("image/png", "AA=="))
    assert result == ToolResult("", content, value='{"snow":true}')


@pytest.mark.parametrize(
    ("text", "structured", "is_error"),
    [
        ("It snows", {"snow": True}, False),
        ('{"snow":true}', {"snow": True}, True),
        ("[1]", [1], False),
    ],
    ids=["other text", "error", "array"],
)
def test_structured_content_that_no_value_holds_is_extra(
    text: str, structured: object, is_error: bool
) -> None:
    value = {
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
        "structuredContent": structured,
    }
    result = ToolResult.from_mcp(value)
    extra = {"mcp": {"structuredContent": structured}}
    assert result == ToolResult("", (Text(text),), is_error, extra=extra)
    assert result.to_mcp() == value


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "image", "data": "", "mimeType": "text/plain", "uri": "x:"},
        {"type": "resource", "resource": {"uri": "x:", "text": ""}, "mimeType": "text/plain"},
    ],
)
def test_a_block_with_fields_of_another_kind_stays_as_it_is(wire: dict[str, Any]) -> None:
    result = ToolResult.from_mcp({"content": [wire]})
    assert [type(block) for block in result.content] == [OpaqueBlock]
    assert result.to_mcp()["content"] == [wire]


def test_other_fields_of_a_result_are_extra() -> None:
    value = {"content": [], "_meta": {"a": 1}, "resultType": "complete", "isError": None}
    result = ToolResult.from_mcp(value)
    assert result == ToolResult("", extra={"mcp": {"_meta": {"a": 1}}})
    assert result.to_mcp() == {"content": [], "isError": False, "_meta": {"a": 1}}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "$"),
        ({"content": "text"}, "$.content"),
        ({"content": ["text"]}, "$.content[0]"),
        ({"content": [{}]}, "$.content[0].type"),
        ({"content": [{"type": "text"}]}, "$.content[0]"),
        ({"content": [{"type": "image", "data": 3}]}, "$.content[0].data"),
        ({"content": [{"type": "resource", "resource": {}}]}, "$.content[0].resource"),
        ({"content": [{"type": "resource", "resource": {"uri": "a"}}]}, "$.content[0].resource"),
        ({"content": [{"type": "resource_link", "uri": "a"}]}, "$.content[0]"),
        ({"error": {"code": "x"}}, "$.error.code"),
        ({"content": [], "resultType": "input_required"}, "$.resultType"),
    ],
)
def test_what_is_no_result_is_an_error_with_its_path(value: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        ToolResult.from_mcp(value)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (
            Image("image/png", url="https://a.b/c.png"),
            {
                "type": "resource_link",
                "uri": "https://a.b/c.png",
                "name": "https://a.b/c.png",
                "mimeType": "image/png",
            },
        ),
        (
            Document(url="https://a.b/c", title="C"),
            {"type": "resource_link", "uri": "https://a.b/c", "name": "C"},
        ),
        (
            Document("application/pdf", "JVBERg==", title="my plan.pdf"),
            {
                "type": "resource",
                "resource": {
                    "uri": "file:///my%20plan.pdf",
                    "mimeType": "application/pdf",
                    "blob": "JVBERg==",
                },
            },
        ),
        (
            Document(None, "a"),
            {
                "type": "resource",
                "resource": {"uri": "file:///content-0", "mimeType": "text/plain", "text": "a"},
            },
        ),
        (
            Video("video/mp4", "AAAA"),
            {
                "type": "resource",
                "resource": {"uri": "file:///content-0", "mimeType": "video/mp4", "blob": "AAAA"},
            },
        ),
    ],
)
def test_blocks_that_are_not_of_mcp(block: Any, wire: dict[str, Any]) -> None:
    assert ToolResult("c", (block,)).to_mcp()["content"] == [wire]


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (Image(file_id="file_1"), "file of a provider, expected its content or address"),
        (Image(None, "AA=="), "image without a media type, expected one"),
        (OpaqueBlock("anthropic", "search_result", "{}"), "block of dialect anthropic"),
    ],
)
def test_a_block_without_a_form_in_mcp_is_an_error(block: Any, error: str) -> None:
    with pytest.raises(EncodeError, match=rf"^content\[1\]: {error}"):
        ToolResult("c", (Text("a"), block)).to_mcp()


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


ANY = values(ANY_TEXT)
TYPES = st.sampled_from(["text/plain", "text/csv", "image/png", "audio/wav", "video/mp4", "a/b"])
RESOURCES = some(
    {"uri": ANY_TEXT, "mimeType": TYPES | ANY_TEXT, "text": ANY_TEXT, "blob": ANY_TEXT, "x": ANY}
)
CONTENT = some(
    {
        "type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "new"]),
        "text": ANY_TEXT,
        "data": ANY_TEXT,
        "mimeType": TYPES,
        "resource": RESOURCES,
        "uri": ANY_TEXT,
        "name": ANY_TEXT,
        "annotations": ANY,
    }
)
RESULTS = some(
    {
        "content": st.lists(CONTENT | ANY, max_size=3),
        "isError": st.booleans(),
        "structuredContent": ANY,
        "error": some({"code": ANY, "message": ANY_TEXT}),
        "_meta": ANY,
    }
)


@given(RESULTS | ANY)
def test_any_value_is_a_result_or_an_error_of_ours(value: object) -> None:
    try:
        result = ToolResult.from_mcp(value)
    except StreamnormError:
        return
    assert ToolResult.from_mcp(result.to_mcp()) == result
