"""Estimates of tokens: what counts, what is learnt, and the bounds of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import (
    InputMessage,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Video,
)
from streamnorm._core.bodies.request import OutputFormat
from streamnorm._core.bodies.token_count import (
    AUDIO_TOKENS,
    BYTES_PER_TOKEN,
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    ITEM_TOKENS,
    MAX_BYTES_PER_TOKEN,
    MIN_BYTES_PER_TOKEN,
    VIDEO_TOKENS,
    TokenCount,
    TokenEstimator,
)
from streamnorm._core.tools import AnyTool, CustomTool, Grammar, MCPServer, ServerTool

BASE64 = "iVBORw0KGgo" * 100
TEXT = "x" * 70  # 20 tokens


def asked(*blocks: InputBlock, model: str = "m", **fields: Any) -> Request:
    return Request(model=model, messages=(InputMessage("user", blocks),), **fields)


def estimated(request: Request) -> int:
    count = TokenEstimator().estimate(request)
    assert count.is_estimate
    assert count.cached_tokens is None
    return count.input_tokens


def test_estimate_of_text_is_its_bytes_over_the_ratio() -> None:
    assert BYTES_PER_TOKEN == 3.5
    assert estimated(asked(Text(TEXT))) == 20 + ITEM_TOKENS
    assert estimated(asked(Text("x" * 71))) == 21 + ITEM_TOKENS
    assert estimated(asked(Text("é" * 35))) == 20 + ITEM_TOKENS  # two bytes each
    assert estimated(Request()) == 0


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (Refusal(TEXT), 20),
        (Reasoning((TEXT, TEXT)), 40),
        (Reasoning((TEXT,), signature=BASE64), 20),
        (RedactedReasoning(TEXT), 20),
        (ToolCall("c", "f" * 35, "x" * 35), 20),
        (ServerToolCall("c", "f" * 35, "x" * 35), 20),
        (ToolResult("c", (Text(TEXT), Image("image/png", BASE64))), 20 + IMAGE_TOKENS),
        (ToolResult("c", value=TEXT), 20),
        (ToolResult("c", (Text(TEXT),), value=TEXT), 20),  # two forms of one result
        (ServerToolResult("c", "k", {"a" * 35: ["x" * 31, None]}), 20),
        (ServerToolResult("c", "k", {"a": [BASE64], "b" * 69: ""}), 20 + IMAGE_TOKENS),
        (OpaqueBlock("d", "k", json.dumps({"a": f"data:image/png;base64,{BASE64}"})), 1601),
        (OpaqueBlock("d", "k", TEXT), 20),
        (Image("image/png", BASE64), IMAGE_TOKENS),
        (Image(url="https://h/i.png"), IMAGE_TOKENS),
        (Document("application/pdf", BASE64), DOCUMENT_TOKENS),
        (Document("application/pdf", BASE64, title=TEXT), DOCUMENT_TOKENS + 20),
        (Document(url="https://h/d.pdf"), DOCUMENT_TOKENS),
        (Document("text/plain", url="https://h/d.txt"), DOCUMENT_TOKENS),
        (Document("text/plain", TEXT), 20),
        (Audio("audio/wav", BASE64), AUDIO_TOKENS),
        (Video("video/mp4", BASE64), VIDEO_TOKENS),
    ],
    ids=repr,
)
def test_every_block_counts(block: InputBlock, tokens: int) -> None:
    assert estimated(asked(block)) == tokens + ITEM_TOKENS


SCHEMA = {"type": "object", "title": "x" * 41}  # 69 bytes as JSON


@pytest.mark.parametrize(
    ("tool", "tokens"),
    [
        (Tool("f", input_schema=SCHEMA), 20),
        (Tool("f", "x" * 69), 20),
        (Tool("f" * 70), 20),
        (CustomTool("f" * 35, "x" * 35), 20),
        (CustomTool("f", grammar=Grammar("lark", "x" * 69)), 20),
        (ServerTool("web_search", "anthropic", {"a" * 35: "x" * 35}), 20),
        (MCPServer("f" * 70, headers={"authorization": "x" * 100}), 20),
    ],
    ids=repr,
)
def test_every_tool_counts(tool: AnyTool, tokens: int) -> None:
    assert len(json.dumps(SCHEMA, separators=(",", ":"))) == 69
    assert estimated(asked(tools=(tool,))) == tokens + 2 * ITEM_TOKENS


def test_constants_are_those_that_vendors_document() -> None:
    assert AUDIO_TOKENS == 60 * 32  # Gemini, a second
    assert VIDEO_TOKENS == 60 * 263
    assert IMAGE_TOKENS == 1_600  # Anthropic, the largest
    assert DOCUMENT_TOKENS == 3_000  # Anthropic, a page


def test_all_of_a_request_counts() -> None:
    request = Request(
        system=(Text(TEXT), Text(TEXT)),
        messages=(InputMessage("user", (Text(TEXT),)), InputMessage("user", name="x" * 70)),
        output=OutputFormat("json_schema", schema={"title": "x" * 58}),
    )
    assert estimated(request) == 5 * 20 + 2 * ITEM_TOKENS
    assert estimated(Request(output=OutputFormat("json_object"))) == 0


def test_lone_surrogates_are_counted_as_well() -> None:
    assert estimated(asked(Text("\ud83d" * 7))) > ITEM_TOKENS


def test_long_words_are_no_base64() -> None:
    """Base64 is an image from 1,000 characters on, and nothing else may be in its string."""
    for text in ("a" * 999, "a" * 1000 + " "):
        found = estimated(asked(ServerToolResult("c", "k", text)))
        assert found == -(-len(text) * 2 // 7) + ITEM_TOKENS
    assert estimated(asked(ServerToolResult("c", "k", "a" * 1000))) == IMAGE_TOKENS + ITEM_TOKENS


# Learning

LONG = asked(Text("x" * 6_000))


def test_ratio_is_learnt_per_model() -> None:
    estimator = TokenEstimator()
    before = estimator.estimate(LONG).input_tokens
    for _ in range(20):
        estimator.observe(LONG, 3_000 + ITEM_TOKENS)
    # 2,000 bytes at 3.5, decayed twenty times by a fifth, are 1 % of one request.
    assert estimator.estimate(LONG).input_tokens == pytest.approx(3_000, rel=0.01)
    assert estimator.estimate(asked(Text("x" * 6_000), model="n")).input_tokens == before


def test_one_observation_changes_the_ratio_by_its_size() -> None:
    estimator = TokenEstimator()
    estimator.observe(LONG, 3_000 + ITEM_TOKENS)
    # (2,000 * 0.8 + 6,000) / (2,000 / 3.5 * 0.8 + 3,000) = 2.198 bytes a token.
    assert estimator.estimate(LONG).input_tokens == 2_730 + ITEM_TOKENS


@pytest.mark.parametrize(
    ("request_", "tokens"),
    [
        (LONG, None),
        (LONG, 0),
        (LONG, int(6_000 / MAX_BYTES_PER_TOKEN) - 1 + ITEM_TOKENS),
        (LONG, int(6_000 / MIN_BYTES_PER_TOKEN) + 1 + ITEM_TOKENS),
        (LONG, 10**400),
        (asked(Text("x" * 499)), 200),
        (asked(Text("x" * 6_000), Image(url="u")), 3_000),
        (asked(Text("x" * 6_000), state={"previous_response_id": "r"}), 3_000),
        (asked(Text("x" * 6_000), tools=(ServerTool("web_search", "d"),)), 3_000),
        (asked(Text("x" * 6_000), tools=(MCPServer("s"),)), 3_000),
        (asked(Text("x" * 6_000), model="m" * 513), 3_000),
    ],
)
def test_nothing_is_learnt_from(request_: Request, tokens: int | None) -> None:
    estimator = TokenEstimator()
    estimator.observe(request_, tokens)
    probe = asked(Text("x" * 6_000), model=request_.model)
    assert estimator.estimate(probe) == TokenEstimator().estimate(probe)


@pytest.mark.parametrize("bound", [MIN_BYTES_PER_TOKEN, MAX_BYTES_PER_TOKEN])
def test_ratio_stays_within_its_bounds(bound: float) -> None:
    estimator = TokenEstimator()
    for _ in range(100):
        estimator.observe(LONG, int(6_000 / bound) + ITEM_TOKENS)
    count = estimator.estimate(LONG).input_tokens - ITEM_TOKENS
    assert count == pytest.approx(6_000 / bound, abs=1)


def test_shortest_request_and_longest_name_are_learnt_from() -> None:
    estimator = TokenEstimator()
    request = asked(Text("x" * 500), model="m" * 512)
    estimator.observe(request, 300)
    assert estimator.estimate(request).input_tokens > 147


def test_model_observed_least_recently_is_forgotten() -> None:
    estimator = TokenEstimator(max_models=2)
    requests = {name: asked(Text("x" * 6_000), model=name) for name in "abc"}
    for name in "abac":
        estimator.observe(requests[name], 3_000)
    unknown = TokenEstimator().estimate(LONG)
    known = [name for name in "abc" if estimator.estimate(requests[name]) != unknown]
    assert known == ["a", "c"]


def test_count_of_a_server_is_no_estimate() -> None:
    assert not TokenCount(3).is_estimate
