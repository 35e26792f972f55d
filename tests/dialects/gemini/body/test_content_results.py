"""Results of tools: their text, their error, their object and their files."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.gemini.bodies import Written, blocks_of, contents_of, request_of

from streamnorm import (
    DecodeError,
    Document,
    Image,
    OpaqueBlock,
    Text,
    ToolResult,
    decode_request,
    encode_request,
)

PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
IMAGE = Image("image/png", "iVBORw0=")


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"output": "18 °C"}, ToolResult("1", (Text("18 °C"),), name="f")),
        ({"output": ""}, ToolResult("1", (), name="f")),
        ({"error": "timeout"}, ToolResult("1", (Text("timeout"),), is_error=True, name="f")),
        (
            {"output": {"t": 18}},
            ToolResult("1", (Text('{"t":18}'),), name="f", value='{"output":{"t":18}}'),
        ),
        (
            {"error": {"code": 1}},
            ToolResult("1", (Text('{"code":1}'),), True, "f", '{"error":{"code":1}}'),
        ),
        (
            {"result": "a"},
            ToolResult("1", (Text('{"result":"a"}'),), name="f", value='{"result":"a"}'),
        ),
        (
            {"output": "a", "error": "b"},
            ToolResult(
                "1",
                (Text('{"output":"a","error":"b"}'),),
                name="f",
                value='{"output":"a","error":"b"}',
            ),
        ),
        ({}, ToolResult("1", (Text("{}"),), name="f", value="{}")),
    ],
    ids=repr,
)
def test_a_response_is_one_result_in_both_directions(
    response: dict[str, Any], result: ToolResult
) -> None:
    part = {"functionResponse": {"id": "1", "name": "f", "response": response}}
    assert blocks_of(part) == (result,)
    assert contents_of(result) == [part]


@pytest.mark.parametrize(
    ("value", "response"),
    [
        ('{"code":1}', {"error": {"code": 1}}),
        ('{"error":{"code":1}}', {"error": {"code": 1}}),
        # Without the key `error` the API takes the whole response as the output of the tool.
        ('{"output":"a","error":"b"}', {"error": {"output": "a", "error": "b"}}),
        ("[1]", {"error": [1]}),
    ],
)
def test_value_of_a_failed_tool_stands_under_error(value: str, response: dict[str, Any]) -> None:
    result = ToolResult("1", is_error=True, name="f", value=value)
    part = {"functionResponse": {"id": "1", "name": "f", "response": response}}
    assert contents_of(result) == [part]
    assert blocks_of(part)[0].is_error


def test_a_result_without_id_name_and_response_is_read() -> None:
    assert blocks_of({"functionResponse": {}}) == (ToolResult(""),)
    assert contents_of(ToolResult("", name="f")) == [
        {"functionResponse": {"name": "f", "response": {"output": ""}}}
    ]


def test_files_of_a_result_are_written_beside_its_text() -> None:
    pdf = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.org/b"}}
    part = {
        "functionResponse": {
            "id": "1",
            "name": "f",
            "response": {"output": "page"},
            "parts": [PNG, pdf],
        }
    }
    document = Document("application/pdf", url="https://a.org/b")
    result = ToolResult("1", (Text("page"), IMAGE, document), name="f")
    assert blocks_of(part) == (result,)
    assert contents_of(result) == [part]


def test_unknown_parts_of_a_result_are_opaque() -> None:
    parts = [{"newData": {"a": 1}}, {**PNG, "mediaResolution": {"numTokens": 1}}]
    part = {"functionResponse": {"name": "f", "response": {"output": ""}, "parts": parts}}
    (result,) = blocks_of(part)
    image = Image("image/png", "iVBORw0=", extra={"gemini": {"mediaResolution": {"numTokens": 1}}})
    assert result == ToolResult("", (OpaqueBlock("gemini", "newData", '{"a":1}'), image), name="f")
    written = Written(request_of(result), typed=False)
    assert written.body["contents"][0]["parts"] == [part]
    assert not written.lost


def test_an_empty_part_of_a_result_is_opaque() -> None:
    (result,) = blocks_of({"functionResponse": {"name": "f", "parts": [{}]}})
    assert result == ToolResult("", (OpaqueBlock("gemini", "", "null"),), name="f")


def test_other_fields_of_a_result_are_kept() -> None:
    part = {
        "functionResponse": {
            "name": "f",
            "response": {"output": "a"},
            "scheduling": "SILENT",
        },
        "partMetadata": {"a": 1},
    }
    extra = {"gemini": {"functionResponse.scheduling": "SILENT", "partMetadata": {"a": 1}}}
    result = ToolResult("", (Text("a"),), name="f", extra=extra)
    assert blocks_of(part) == (result,)
    assert contents_of(result) == [part]


def test_texts_of_a_result_are_one_text() -> None:
    result = ToolResult("1", (Text("a"), IMAGE, Text("b")), name="f")
    written = Written(request_of(result))
    assert written.lost == {"order_lost": 1, "boundaries": 1}
    response = written.body["contents"][0]["parts"][0]["functionResponse"]
    assert (response["response"], response["parts"]) == ({"output": "ab"}, [PNG])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"name": 1}, "name"),
        ({"id": 1}, "id"),
        ({"response": "ok"}, "response"),
        ({"parts": {}}, "parts"),
        ({"parts": [PNG, 1]}, "parts[1]"),
        ({"parts": [{"a_b": 1, "aB": 2}]}, "parts[0].aB"),
    ],
    ids=repr,
)
def test_a_result_of_another_form_is_refused(value: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        blocks_of({"functionResponse": value})
    assert caught.value.path == f"$.contents[0].parts[0].functionResponse.{path}"


def test_results_without_ids_keep_the_names_of_their_functions() -> None:
    """google-genai sends no ids: the n-th result is that of the n-th call."""
    calls = [{"functionCall": {"name": name, "args": {}}} for name in "fg"]
    results = [{"functionResponse": {"name": name, "response": {"output": "a"}}} for name in "fg"]
    asked = decode_request(
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": calls},
                {"role": "user", "parts": results},
            ]
        },
        "gemini",
    )
    *before, last = asked.messages
    blocks = tuple(structs.replace(block, content=(Text("b"),)) for block in last.tool_results)
    changed = structs.replace(last, blocks=blocks)
    encoded = encode_request(structs.replace(asked, messages=(*before, changed)), "gemini")
    parts = encoded.body["contents"][2]["parts"]
    assert [part["functionResponse"]["name"] for part in parts] == ["f", "g"]
    assert encoded.losses == ()
