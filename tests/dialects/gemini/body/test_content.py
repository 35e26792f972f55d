"""Parts of contents as blocks, and back."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from support.gemini.bodies import Written, blocks_of, contents_of, request_of

from streamnorm import (
    Citation,
    DecodeError,
    EncodeError,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
)
from streamnorm._core.blocks import InputBlock
from streamnorm._core.text import tag_redacted_reasoning

SEALED = b64encode(tag_redacted_reasoning("data", "anthropic").encode()).decode()
CODE_TEXT = '{"language":"PYTHON","code":"1"}'
CODE = {"language": "PYTHON", "code": "1"}
OUTCOME = {"outcome": "OUTCOME_OK", "output": "1", "id": "7"}
SEARCH = {"id": "8", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"text": "a"}, Text("a")),
        ({"text": ""}, Text("")),
        ({"text": "a", "thought": True}, Reasoning(("a",))),
        (
            {"text": "a", "thought": True, "thoughtSignature": "c2ln"},
            Reasoning(("a",), "c2ln", "google"),
        ),
        (
            {"text": "", "thought": True, "thoughtSignature": "c2ln"},
            Reasoning((), "c2ln", "google"),
        ),
        ({"text": "a", "thoughtSignature": "c2ln"}, Text("a", signature="c2ln", issuer="google")),
        (
            {"text": "", "thought": True, "thoughtSignature": SEALED},
            RedactedReasoning("data", "anthropic"),
        ),
        (
            {"text": "a", "partMetadata": {"b": 1}},
            Text("a", extra={"gemini": {"partMetadata": {"b": 1}}}),
        ),
        (
            {"executableCode": CODE},
            ServerToolCall(
                "", "code_execution", '{"language":"PYTHON","code":"1"}', "executableCode"
            ),
        ),
        ({"codeExecutionResult": OUTCOME}, ServerToolResult("7", "codeExecutionResult", OUTCOME)),
        (
            {"toolCall": SEARCH, "thoughtSignature": "c2ln"},
            ServerToolCall(
                "8",
                "GOOGLE_SEARCH_WEB",
                '{"id":"8","toolType":"GOOGLE_SEARCH_WEB","args":{"q":"x"}}',
                "toolCall",
                extra={"gemini": {"thoughtSignature": "c2ln"}},
            ),
        ),
        (
            {"toolResponse": {"id": "8", "response": {}}},
            ServerToolResult("8", "toolResponse", {"id": "8", "response": {}}),
        ),
        (
            {"audioTranscription": {"text": "x"}},
            OpaqueBlock("gemini", "audioTranscription", '{"text":"x"}'),
        ),
        (
            {"inlineData": {"mimeType": "image/png", "data": "aQ=="}, "thought": True},
            OpaqueBlock(
                "gemini",
                "inlineData",
                '{"mimeType":"image/png","data":"aQ=="}',
                extra={"gemini": {"thought": True}},
            ),
        ),
    ],
    ids=repr,
)
def test_a_part_is_one_block_in_both_directions(part: dict[str, Any], block: InputBlock) -> None:
    assert blocks_of(part) == (block,)
    assert contents_of(block) == [part]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({}, Text("")),
        ({"text": None}, Text("")),
        ({"functionCall": None}, Text("", extra={"gemini": {"functionCall": None}})),
        ({"thoughtSignature": "c2ln"}, Text("", signature="c2ln", issuer="google")),
        ({"text": "a", "thought": False, "thoughtSignature": ""}, Text("a")),
        ({"text": "a", "thought": None}, Text("a", extra={"gemini": {"thought": None}})),
        (
            {"text": "", "executable_code": {}},
            ServerToolCall("", "code_execution", "{}", "executableCode"),
        ),
        ({"text": "", "toolResponse": "x"}, OpaqueBlock("gemini", "toolResponse", '"x"')),
        ({"newField": 1, "thought": False}, OpaqueBlock("gemini", "newField", "1")),
    ],
    ids=repr,
)
def test_unusual_parts_are_read(part: dict[str, Any], block: InputBlock) -> None:
    assert blocks_of(part) == (block,)


def test_text_before_redacted_reasoning_is_kept() -> None:
    redacted = RedactedReasoning("data", "anthropic")
    sealed = {"text": "a", "thoughtSignature": SEALED}
    assert blocks_of(sealed) == (Text("a"), redacted)
    assert blocks_of({**sealed, "thought": True}) == (Reasoning(("a",)), redacted)


def test_a_part_with_two_data_is_refused() -> None:
    with pytest.raises(DecodeError, match="text and functionCall, expected one") as caught:
        blocks_of({"text": "a", "functionCall": {"name": "f"}})
    assert caught.value.path == "$.contents[0].parts[0]"


def test_summaries_are_joined() -> None:
    written = Written(request_of(Reasoning(("a", "b"), "c2ln", "google"), role="assistant"))
    assert written.lost == {"reasoning_parts": 1}
    part = {"text": "a\n\nb", "thought": True, "thoughtSignature": "c2ln"}
    assert written.body["contents"][0]["parts"] == [part]


@pytest.mark.parametrize(
    "block",
    [
        Reasoning(("a",), "x", "anthropic"),
        Text("a", signature="x"),
        Text("a", signature="x", issuer="y"),
    ],
    ids=repr,
)
def test_a_signature_that_is_not_google_s_is_dropped(block: InputBlock) -> None:
    written = Written(request_of(block, role="assistant"))
    assert written.lost == {"signature_dropped": 1}
    assert "thoughtSignature" not in written.body["contents"][0]["parts"][0]


def test_a_block_without_a_part_has_no_legal_form() -> None:
    with pytest.raises(EncodeError, match="Refusal, expected a block with a part") as caught:
        Written(request_of(Text("a", citations=(Citation("web"),)), Refusal("no")))
    assert caught.value.path == "messages[0].blocks[1]"


def test_the_body_that_a_block_came_from_is_not_changed() -> None:
    response = {"name": "f"}
    parts = [
        {"functionCall": {"name": "f"}},
        {"functionResponse": response, "functionResponse.a": 1},
    ]
    blocks = blocks_of(*parts, role="model")
    written = Written(request_of(*blocks, role="assistant"), typed=False)
    assert written.body["contents"][0]["parts"][1] == {"functionResponse": {"name": "f", "a": 1}}
    assert response == {"name": "f"}


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ({"outcome": "OUTCOME_DEADLINE_EXCEEDED"}, {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}),
        ({"output": "x", "id": "1"}, {"output": "x", "id": "1", "outcome": "OUTCOME_FAILED"}),
        ("no memory", {"output": "no memory", "outcome": "OUTCOME_FAILED"}),
        (["x"], {"output": '["x"]', "outcome": "OUTCOME_FAILED"}),
    ],
)
def test_failed_code_is_written_with_its_outcome(content: Any, written: dict[str, str]) -> None:
    result = ServerToolResult("1", "codeExecutionResult", content, is_error=True)
    assert contents_of(result) == [{"codeExecutionResult": written}]


def test_a_result_of_the_server_may_be_any_value() -> None:
    whole = ServerToolResult("", "toolResponse", "text")
    assert Written(request_of(whole), typed=False).body["contents"][0]["parts"] == [
        {"toolResponse": "text"}
    ]
