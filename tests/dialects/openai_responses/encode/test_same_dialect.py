"""Responses re-encoded as Responses: ids and extra fields come back, indexes are new."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.streams import MESSAGE_START, encode, find, types, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    LimitExceeded,
    Limits,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Reasoning,
    Refusal,
    RefusalDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

DIALECT = "openai_responses"


def same(*events: Event) -> list[dict[str, Any]]:
    return encode(*events, extras=True)


# The response


def test_extra_fields_of_the_response_are_written_back() -> None:
    start = MessageStart("gen-1", "m", {"temperature": 0.5, "created_at": 3, "vendor": {"a": 1}})
    details = {"input_tokens_details": {"audio": 1}, "output_tokens_details": {"image": 3}}
    counted = Usage(9, 4, 2, extra={**details, "cost": 0.1})
    stop = MessageStop("end_turn", "completed", extra={"completed_at": 7, "service_tier": "flex"})
    payloads, _ = write([start, UsageUpdate(counted), stop], extras=True)
    first, last = payloads[0]["response"], payloads[-1]["response"]
    assert (first["id"], first["temperature"], first["created_at"]) == ("gen-1", 0.5, 3)
    assert first["vendor"] == last["vendor"] == {"a": 1}
    assert (first["completed_at"], last["completed_at"]) == (None, 7)
    assert (first["service_tier"], last["service_tier"]) == ("default", "flex")
    assert last["usage"]["cost"] == 0.1
    assert last["usage"]["input_tokens_details"] == {
        "audio": 1,
        "cached_tokens": 2,
        "cache_write_tokens": 0,
    }
    assert last["usage"]["output_tokens_details"] == {"image": 3, "reasoning_tokens": 0}


def test_status_error_and_output_are_never_the_source_s() -> None:
    lies = {"id": "x", "object": "x", "status": "x", "output": [1], "usage": {}, "error": {"a": 1}}
    response = write([MessageStart("resp_1", "m", lies)], extras=True)[0][0]["response"]
    assert (response["id"], response["object"], response["status"]) == (
        *("resp_1", "response", "in_progress"),
    )
    assert (response["output"], response["usage"], response["error"]) == ([], None, None)


@pytest.mark.parametrize(
    ("word", "extras", "status"),
    [
        ("max_messages", True, "incomplete"),
        ("steered", True, "incomplete"),
        ("steered", False, "incomplete"),
        ("completed", True, "completed"),
        ("length", True, "completed"),
    ],
)
def test_native_stop_reason_is_written_back(word: str, extras: bool, status: str) -> None:
    last = encode(MessageStop("other", word), extras=extras)[-1]
    assert last["type"] == f"response.{status}"
    details = {"reason": word} if status == "incomplete" else None
    assert last["response"]["incomplete_details"] == details


# Items


def test_item_keeps_its_id_and_its_extra_fields() -> None:
    payloads = same(
        BlockStart(0, ToolCall("c", "f"), extra={"item_id": "fc_9", "namespace": "n"}),
        JSONDelta(0, "{}"),
        BlockStop(0),
        BlockStart(1, Reasoning(), extra={"item_id": "rs_9", "status": "in_progress"}),
        BlockStop(1),
    )
    begun, done = payloads[0]["item"], find(payloads, "output_item.done")[0]["item"]
    assert (begun["id"], begun["namespace"]) == (done["id"], done["namespace"]) == ("fc_9", "n")
    assert "item_id" not in begun
    assert payloads[1]["item_id"] == "fc_9"
    assert find(payloads, "output_item.done")[1]["item"]["id"] == "rs_9"


def test_item_of_another_dialect_keeps_neither() -> None:
    extra = {"item_id": "fc_9", "namespace": "n"}
    begun = encode(BlockStart(0, ToolCall("c", "f"), extra=extra))[0]["item"]
    assert begun["id"] == "fc_1_0"
    assert "namespace" not in begun


def test_texts_of_one_item_are_parts_of_one_message() -> None:
    extra = {"item_id": "msg_9", "phase": "commentary"}
    source = Citation("url_citation", "https://u", "T", start=0, end=1)
    payloads = same(
        BlockStart(0, Text(), extra=extra),
        TextDelta(0, "a"),
        BlockStop(0),
        BlockStart(1, Refusal(), extra={"item_id": "msg_9"}),
        RefusalDelta(1, "b"),
        BlockStop(1),
        BlockStart(2, Text(), extra={"item_id": "msg_9", "part": {"channel": "x"}}),
        TextDelta(2, "c"),
        CitationDelta(2, source),
        BlockStop(2),
        MessageStop("refusal"),
    )
    assert [event["item"]["id"] for event in find(payloads, "output_item.added")] == ["msg_9"]
    assert payloads[0]["item"]["phase"] == "commentary"
    deltas = [event for event in payloads if event["type"].endswith(".delta")]
    assert [event["content_index"] for event in deltas] == [0, 1, 2]
    assert types(payloads)[-2:] == ["output_item.done", "completed"]
    item = find(payloads, "output_item.done")[0]["item"]
    assert [part.get("text", part.get("refusal")) for part in item["content"]] == ["a", "b", "c"]
    assert item["content"][2]["channel"] == "x"
    assert "part" not in item
    assert item["phase"] == "commentary"
    assert payloads[-1]["response"]["output"] == [item]


def test_message_is_done_when_another_item_begins_or_the_stream_ends() -> None:
    first = [BlockStart(0, Text(), extra={"item_id": "msg_9"}), BlockStop(0)]
    assert types(same(*first))[-1] == "content_part.done"
    other = BlockStart(1, Text(), extra={"item_id": "msg_10"})
    whole = BlockStart(1, OpaqueBlock(DIALECT, "quantum", '{"type":"quantum"}'))
    for following in (other, BlockStart(1, ToolCall("c", "f")), BlockStart(1, Text()), whole):
        payloads = types(same(*first, following))
        assert payloads.index("output_item.done") == len(types(same(*first)))
    assert types(same(*first, MessageStop("end_turn")))[-2:] == ["output_item.done", "completed"]


def test_message_whose_part_is_open_when_another_item_begins_is_done_with_it() -> None:
    payloads = same(
        BlockStart(0, Text(), extra={"item_id": "msg_9"}),
        BlockStart(1, ToolCall("c", "f")),
        TextDelta(0, "a"),
        BlockStop(0),
        BlockStop(1),
        MessageStop("tool_use"),
    )
    done = [event["item"]["id"] for event in find(payloads, "output_item.done")]
    assert done == ["msg_9", "fc_1_1"]
    message, call = payloads[-1]["response"]["output"]
    assert [part["text"] for part in message["content"]] == ["a"]
    assert call["id"] == "fc_1_1"


def test_failure_ends_no_message() -> None:
    first = [BlockStart(0, Text(), extra={"item_id": "msg_9"}), BlockStop(0)]
    assert types(same(*first, StreamError("truncated", "cut")))[-3:] == [
        *("content_part.done", "error", "failed"),
    ]


def test_repeated_item_id_is_not_used_twice() -> None:
    extra = {"item_id": "msg_9"}
    payloads = same(
        *(BlockStart(0, Text(), extra=extra), BlockStop(0)),
        *(BlockStart(1, Reasoning(), extra={"item_id": "msg_9"}), BlockStop(1)),
        *(BlockStart(2, Text(), extra=extra), BlockStop(2)),
        MessageStop("end_turn"),
    )
    ids = [event["item"]["id"] for event in find(payloads, "output_item.added")]
    assert ids == ["msg_9", "rs_1_1", "msg_1_2"]
    assert [event["item"]["id"] for event in find(payloads, "output_item.done")] == ids


@pytest.mark.parametrize("id", ["", 7, None])
def test_missing_item_id_is_minted(id: object) -> None:
    payloads = same(BlockStart(0, Text(), extra={"item_id": id}), BlockStop(0))
    assert payloads[0]["item"]["id"] == "msg_1_0"
    assert types(payloads)[-1] == "output_item.done"


# Tokens


def test_logprobs_are_written_after_their_text_and_with_the_complete_part() -> None:
    tokens = [{"token": "hi", "logprob": -0.1}]
    payloads = same(
        BlockStart(0, Text()),
        TextDelta(0, "hi"),
        Opaque(DIALECT, "logprobs", json.dumps(tokens), 0),
        BlockStop(0),
    )
    deltas = find(payloads, "output_text.delta")
    assert [(event["delta"], event["logprobs"]) for event in deltas] == [("hi", []), ("", tokens)]
    assert find(payloads, "output_text.done")[0]["logprobs"] == tokens
    assert find(payloads, "output_item.done")[0]["item"]["content"][0]["logprobs"] == tokens


def test_logprobs_and_citations_are_bounded() -> None:
    cited = CitationDelta(0, Citation("url_citation", "https://u"))
    for more in (Opaque(DIALECT, "logprobs", "[1]", 0), cited):
        writer = ResponsesEncoder(extras=True, limits=Limits(max_accumulated_bytes=1000))
        events = [MESSAGE_START, BlockStart(0, Text()), TextDelta(0, "a"), *[more] * 9]
        with pytest.raises(LimitExceeded):
            list(map(writer.encode, events))


@pytest.mark.parametrize(
    ("index", "data"), [(None, "[1]"), (0, "[1]"), (1, '{"a":1}'), (1, "no JSON")]
)
def test_logprobs_without_text_are_a_loss(index: int | None, data: str) -> None:
    refused = [MESSAGE_START, BlockStart(0, Refusal()), BlockStop(0), BlockStart(1, Text())]
    _, writer = write([*refused, Opaque(DIALECT, "logprobs", data, index)], extras=True)
    assert writer.losses == (Loss("opaque", "logprobs", 1, "no text, dropped"),)
