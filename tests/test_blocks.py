"""Blocks and citations as values."""

from __future__ import annotations

import msgspec
import pytest

from streamnorm import (
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
from streamnorm.blocks import GROWING_BLOCKS

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


def test_blocks_that_grow_can_be_told_from_those_that_come_whole() -> None:
    whole = {RedactedReasoning, ServerToolResult, Image, Document, ToolResult, OpaqueBlock}
    assert set(GROWING_BLOCKS) == set(Block.__args__) - whole


def test_text_of_reasoning_joins_its_parts_by_a_blank_line() -> None:
    assert Reasoning(("one", "two")).text == "one\n\ntwo"
    assert Reasoning().text == ""
