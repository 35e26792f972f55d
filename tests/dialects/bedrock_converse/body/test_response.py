"""Whole answers and token counts, beyond those that were recorded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bedrock_converse.bodies import response_problems

from streamnorm import (
    DecodeError,
    EncodeError,
    Image,
    Message,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    Text,
    ToolCall,
    Usage,
    decode_message,
    encode_message,
)
from streamnorm._core.codec import Written
from streamnorm.dialects.bedrock_converse.body.response import COUNT

DIALECT = "bedrock_converse"
COUNTS = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}


def answer(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": list(blocks)}},
        "stopReason": "end_turn",
        "usage": COUNTS,
        "metrics": {"latencyMs": 7},
        **fields,
    }


@pytest.mark.parametrize(
    ("wire", "block"),
    [
        (
            {"reasoningContent": {"redactedContent": "c2VhbGVk"}},
            RedactedReasoning("sealed", "anthropic"),
        ),
        ({"toolUse": {"toolUseId": "c", "name": "f"}}, ToolCall("c", "f")),
        (
            {"toolUse": {"toolUseId": "c", "name": "f", "input": '{"a":1}'}},
            ToolCall("c", "f", '{"a":1}'),
        ),
        ({"image": {"format": "png", "source": {"bytes": "AAAA"}}}, Image("image/png", "AAAA")),
        ({"citationsContent": {}}, Text("")),
        ({"odd": 1}, OpaqueBlock(DIALECT, "odd", '{"start":{"odd":1},"deltas":[]}')),
        ({"odd": {"a": 1}}, OpaqueBlock(DIALECT, "odd", '{"start":{"odd":{"a":1}},"deltas":[]}')),
        (
            {"image": {"format": "png"}},
            OpaqueBlock(DIALECT, "image", '{"start":{"image":{"format":"png"}},"deltas":[]}'),
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_block_of_an_answer(wire: dict[str, Any], block: Any) -> None:
    message = decode_message(answer(wire), DIALECT)
    assert message.blocks == (block,)
    changed = structs.replace(message, id="x")
    written = encode_message(changed, DIALECT).body["output"]["message"]["content"]
    again = decode_message(answer(*written), DIALECT)
    # No input is an empty object, and an empty text is left out.
    expected = {ToolCall("c", "f"): (ToolCall("c", "f", "{}"),), Text(""): ()}
    assert again.blocks == expected.get(block, (block,))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$.output.message"),
        ({"output": {"message": {"content": []}}}, "$.stopReason"),
        (answer({}), "$.output.message.content[0]"),
        (answer({"text": "a"}, {"text": 1}), "$.output.message.content[1]"),
        (answer(usage={}, stopReason=""), "$"),
    ],
    ids=str,
)
def test_what_is_no_answer_is_an_error_with_its_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_message(body, DIALECT)
    assert refused.value.path == path


def test_four_fields_are_always_there() -> None:
    body = encode_message(Message("m1", "m", (Text("a"),), "end_turn"), DIALECT).body
    assert body == {
        "output": {"message": {"role": "assistant", "content": [{"text": "a"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
        "metrics": {"latencyMs": 0},
    }


def test_fields_of_its_own_return() -> None:
    extra = {
        "trace": {"a": 1},
        "serviceTier": {"type": "flex"},
        "additionalModelResponseFields": {"stop_sequence": "END", "b": 1},
    }
    body = answer({"text": "a"}, stopReason="stop_sequence", **extra)
    message = decode_message(body, DIALECT)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert encode_message(structs.replace(message, id="x"), DIALECT).body == body


def test_server_tool_and_its_result_return() -> None:
    call = {"toolUseId": "c", "name": "n", "input": {}, "type": "server_tool_use"}
    result = {"toolUseId": "c", "content": [{"json": {"a": 1}}], "type": "n_result"}
    body = answer({"toolUse": call}, {"toolResult": result})
    message = decode_message(body, DIALECT)
    assert [type(block).__name__ for block in message.blocks] == [
        *("ServerToolCall", "ServerToolResult")
    ]
    assert message.stop_reason == "end_turn"
    assert encode_message(structs.replace(message, id="x"), DIALECT).body == body


def test_reasoning_that_nobody_signed_returns() -> None:
    body = answer({"reasoningContent": {"reasoningText": {"text": "hm"}}})
    message = decode_message(body, DIALECT)
    assert message.blocks == (Reasoning(("hm",)),)
    assert encode_message(structs.replace(message, id="x"), DIALECT).body == body


def test_answer_of_another_vendor() -> None:
    usage = Usage(10, 2, 3, 1)
    message = Message(
        "m1",
        "m",
        (ToolCall("a|b", "f", ""),),
        "tool_use",
        usage=usage,
        extra={"service_tier": "auto"},
    )
    body = encode_message(message, DIALECT).body
    assert body["output"]["message"]["content"] == [
        {"toolUse": {"toolUseId": "snid_a_7cb", "name": "f", "input": {}}}
    ]
    assert body["usage"] == {
        "cacheReadInputTokens": 3,
        "cacheWriteInputTokens": 1,
        "inputTokens": 6,
        "outputTokens": 2,
        "totalTokens": 12,
    }
    assert body["serviceTier"] == {"type": "default"}
    stopped = Message("m1", "m", (Text("a"),), "stop_sequence", stop_sequence="END")
    assert encode_message(stopped, DIALECT).body["additionalModelResponseFields"] == {
        "stop_sequence": "END"
    }


@pytest.mark.parametrize("id", ["a" * 65, "a|" * 20], ids=["long", "long_once_escaped"])
def test_id_of_a_call_has_at_most_64_characters(id: str) -> None:
    message = Message("m1", "m", (ToolCall(id, "f", "{}"),), "tool_use")
    body = encode_message(message, DIALECT).body
    assert response_problems(body) == ""
    assert len(body["output"]["message"]["content"][0]["toolUse"]["toolUseId"]) <= 64


def test_answer_that_is_not_complete_is_an_error() -> None:
    with pytest.raises(EncodeError, match="without a stop reason"):
        encode_message(Message(blocks=(Text("a"),)), DIALECT)
    broken = Message(blocks=(ToolCall("c", "f", '{"a":'),), stop_reason="tool_use")
    with pytest.raises(EncodeError, match="broken arguments"):
        encode_message(broken, DIALECT)


def test_call_that_only_its_client_can_answer_is_an_error() -> None:
    waiting = Message(
        blocks=(ServerToolCall("c", "computer", "{}", "computer_call"),), stop_reason="end_turn"
    )
    with pytest.raises(EncodeError, match="computer_call waits for the client"):
        encode_message(waiting, DIALECT)


def test_token_counts() -> None:
    request = {"messages": []}
    written = COUNT.write_request(Written(request, "/model/m/converse-stream"))
    assert (written.path, written.body) == (
        "/model/m/count-tokens",
        {"input": {"converse": request}},
    )
    assert COUNT.read_request(written.body) == request
    assert COUNT.read_count({"inputTokens": 19}).input_tokens == 19
    with pytest.raises(DecodeError, match="missing, expected an object"):
        COUNT.read_request({"input": {"invokeModel": {"body": "AAAA"}}})
    # Base64 of `{}`.
    assert COUNT.read_invocation({"input": {"invokeModel": {"body": "e30="}}}) == b"{}"
    assert COUNT.read_invocation(written.body) is None
    with pytest.raises(DecodeError, match="no base64"):
        COUNT.read_invocation({"input": {"invokeModel": {"body": "?"}}})
    with pytest.raises(EncodeError, match="no model"):
        COUNT.write_request(Written(request, ""))


def test_answer_with_another_model_is_the_same() -> None:
    body = answer({"text": "a"})
    message = decode_message(body, DIALECT)
    assert encode_message(message, DIALECT, model="m", created=1.0).body == body
