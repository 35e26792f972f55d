"""Blocks and citations as values."""

from __future__ import annotations

import sys

import msgspec
import pytest
from hypothesis import given
from support.bodies.json_texts import NEAR_JSON, documents, exactly

from streamnorm import (
    ArgumentsError,
    Block,
    Citation,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.blocks import file_block
from streamnorm.partial_json import PartialJSON

BLOCKS: list[tuple[Block, str]] = [
    (Text(), '{"type":"text"}'),
    (
        Text("a", (Citation("k", "u", "t", "c", 1, 2, {"x": 1}),), "sig", "google"),
        '{"type":"text","text":"a","citations":[{"kind":"k","url":"u","title":"t",'
        '"cited_text":"c","start":1,"end":2,"extra":{"x":1}}],"signature":"sig",'
        '"issuer":"google"}',
    ),
    (
        Reasoning(("a", "b"), "sig", "anthropic"),
        '{"type":"reasoning","parts":["a","b"],"signature":"sig","issuer":"anthropic"}',
    ),
    (
        RedactedReasoning("zz", "anthropic"),
        '{"type":"redacted_reasoning","data":"zz","issuer":"anthropic"}',
    ),
    (Refusal("no"), '{"type":"refusal","text":"no"}'),
    (
        ToolCall("c1", "f", "{}", "custom", "sig", "google"),
        '{"type":"tool_call","id":"c1","name":"f","arguments":"{}","kind":"custom",'
        '"signature":"sig","issuer":"google"}',
    ),
    (
        ServerToolCall("s1", "web_search", "{}"),
        '{"type":"server_tool_call","id":"s1","name":"web_search","arguments":"{}"}',
    ),
    (
        ServerToolResult("s1", "web_search_result", [{"url": "u"}]),
        '{"type":"server_tool_result","tool_call_id":"s1","kind":"web_search_result",'
        '"content":[{"url":"u"}]}',
    ),
    (
        Image("image/png", "AA==", "u"),
        '{"type":"image","media_type":"image/png","data":"AA==","url":"u"}',
    ),
    (
        Document("text/plain", "hi", "u", "t"),
        '{"type":"document","media_type":"text/plain","data":"hi","url":"u","title":"t"}',
    ),
    (
        ToolResult("c1", (Text("ok"), Image(url="u"), Document(title="t")), True),
        '{"type":"tool_result","tool_call_id":"c1","content":[{"type":"text","text":"ok"},'
        '{"type":"image","url":"u"},{"type":"document","title":"t"}],"is_error":true}',
    ),
    (
        OpaqueBlock("anthropic", "container_upload", "{}"),
        '{"type":"opaque","dialect":"anthropic","kind":"container_upload","data":"{}"}',
    ),
]
NAMES = [type(block).__name__ for block, _ in BLOCKS]


@pytest.mark.parametrize(("block", "text"), BLOCKS, ids=NAMES)
def test_block_is_written_under_its_type_and_read_back(block: Block, text: str) -> None:
    assert msgspec.json.encode(block).decode() == text
    assert msgspec.json.decode(text, type=Block) == block


def test_table_holds_every_block() -> None:
    assert {type(block) for block, _ in BLOCKS} == set(Block.__args__)


@pytest.mark.parametrize("block", [block for block, _ in BLOCKS], ids=NAMES)
def test_block_is_immutable_and_matches_by_position(block: Block) -> None:
    for field in block.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(block, field, None)
    assert type(block)(*(getattr(block, field) for field in type(block).__match_args__)) == block


def test_text_of_reasoning_joins_its_parts_by_a_blank_line() -> None:
    assert Reasoning(("one", "two")).text == "one\n\ntwo"
    assert Reasoning().text == ""


# Arguments, and the object that they are.
ARGUMENTS: list[tuple[str, dict[str, object]]] = [
    ("", {}),
    (" \t\r\n", {}),
    ("{}", {}),
    (' {"a": [1, 1.5, null, true]} ', {"a": [1, 1.5, None, True]}),
    ('{"a":1,"a":2}', {"a": 2}),
    ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
    ('{"\\ud83d":"a\\ude00"}', {"�": "a�"}),
    ('{"a":"\ud83d\ude00\ud83d"}', {"a": "😀�"}),
    ('{"a":"NaN and -Infinity \\ud83d"}', {"a": "NaN and -Infinity �"}),
]


@pytest.mark.parametrize(("text", "value"), ARGUMENTS)
def test_input_of_a_call_is_its_decoded_arguments(text: str, value: dict[str, object]) -> None:
    for call in (ToolCall("c", "f", text), ServerToolCall("s", "f", text)):
        assert exactly(call.input()) == exactly(value)
        assert call.arguments == text


def test_input_is_decoded_anew_each_time() -> None:
    for arguments in ("", '{"a":[]}'):
        call = ToolCall("c", "f", arguments)
        first = call.input()
        first["b"] = 1
        assert "b" not in call.input()


@pytest.mark.parametrize("arguments", ["", "{}", "free text"])
def test_custom_call_has_free_text_and_no_input(arguments: str) -> None:
    with pytest.raises(ArgumentsError, match="custom call with free text, expected JSON") as caught:
        ToolCall("c", "f", arguments, "custom").input()
    assert caught.value.position == 0


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("[]", 0),
        (' "{}"', 1),
        ("null", 0),
        ("12", 0),
        ("not JSON", 0),
        ("\u00a0", 0),
        ("{", 1),
        ('{"a":"b', 7),
        ('{"a":1', 6),
        ('{"a":1,}', 7),
        ('{}{"a":1}', 2),
        ('  {"a":1}x', 9),
        ('{"a":NaN}', 5),
        ('{"a":-Infinity}', 6),
        ('{"a":"NaN"', 10),
        ('{"a":"\n"}', 6),
        ('{"a":' + "1" * 5000 + "}", 5),
        ('{"a":' * 129 + "1" + "}" * 129, 641),
        ('{"a":' + "[" * sys.getrecursionlimit() * 50, 5 + 128),
    ],
)
def test_invalid_arguments_raise_with_their_position(text: str, position: int) -> None:
    for call in (ToolCall("c", "f", text), ServerToolCall("s", "f", text)):
        with pytest.raises(ArgumentsError, match=rf"character {position}\b") as caught:
            call.input()
        assert caught.value.position == position


def test_arguments_error_quotes_no_content() -> None:
    for text in ("secret", '{"secret', '{"secret":secret}', '{"a":"secret\\x"}', '["secret"]'):
        with pytest.raises(ArgumentsError) as caught:
            ToolCall("c", "f", text).input()
        assert "secret" not in repr(caught.value)


def test_arguments_as_deep_as_allowed_are_read() -> None:
    value: object = ToolCall("c", "f", '{"a":' * 128 + "1" + "}" * 128).input()
    for _ in range(128):
        assert isinstance(value, dict)
        value = value["a"]
    assert value == 1


@given(documents() | NEAR_JSON | NEAR_JSON.map(lambda text: f'{{"a":{text}}}'))
def test_input_fails_where_the_incremental_parser_does(text: str) -> None:
    parser = PartialJSON()
    parser.feed(text)
    parser.close()
    call = ToolCall("c", "f", text)
    if not text.strip():
        assert call.input() == {}
    elif parser.error is None and isinstance(parser.value, dict):
        assert exactly(call.input()) == exactly(parser.value)
    else:
        with pytest.raises(ArgumentsError) as caught:
            call.input()
        start = len(text) - len(text.lstrip())
        assert caught.value.position == start or repr(caught.value) == repr(parser.error)


@pytest.mark.parametrize(
    ("media_type", "data", "url", "block"),
    [
        ("image/png", "aGk=", None, Image("image/png", "aGk=")),
        ("image/png", None, "u", Image("image/png", None, "u")),
        ("application/pdf", "aGk=", None, Document("application/pdf", "aGk=")),
        ("text/plain", "aGk=", None, Document("text/plain", "hi")),
        ("text/plain", None, "u", Document("text/plain", None, "u")),
        ("text/plain", "!", None, None),
        ("text/plain", "/w==", None, None),
        ("audio/mp3", "aGk=", None, None),
        ("image/png", None, None, None),
        ("image/png", "aGk=", "u", None),
    ],
)
def test_media_type_decides_between_image_and_document(
    media_type: str, data: str | None, url: str | None, block: Block | None
) -> None:
    assert file_block(media_type, data, url) == block
