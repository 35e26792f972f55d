"""Whole responses: events of a body, and a message as a body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai.types import GenerateContentResponse
from msgspec import structs

from streamnorm import (
    Citation,
    DecodeError,
    EncodeError,
    Event,
    Loss,
    Message,
    Opaque,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    ToolCall,
    Usage,
    accumulate,
    decode_message,
    encode_message,
)
from streamnorm._core.codec import ReadContext
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm.dialects.gemini.body import CODEC

# The one answer in four bodies of the reference.
BODY: dict[str, Any] = {
    "responseId": "sn_1",
    "modelVersion": "m",
    "candidates": [
        {
            "index": 0,
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "…", "thought": True},
                    {"text": "Hi"},
                    {"functionCall": {"id": "toolu_1", "name": "f", "args": {"t": 1}}},
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 130,
        "cachedContentTokenCount": 100,
        "candidatesTokenCount": 40,
        "totalTokenCount": 170,
    },
}
MESSAGE = Message(
    "sn_1",
    "m",
    (Reasoning(("…",)), Text("Hi"), ToolCall("toolu_1", "f", '{"t":1}')),
    "tool_use",
    "STOP",
    usage=Usage(130, 40, 100),
)


def read(body: dict[str, Any], **context: Any) -> list[Event]:
    return CODEC.read_response(body, ReadContext(**context))


def write(message: Message, created: float | None = None) -> tuple[dict[str, Any], Losses]:
    losses = Losses()
    body = CODEC.write_response(message, created, losses)
    GenerateContentResponse.model_validate_json(json.dumps(body))
    return body, losses


def parts_of(*blocks: Any, reason: Any = "end_turn") -> list[dict[str, Any]]:
    body, losses = write(Message("r", "m", blocks, reason))
    assert losses.list() == ()
    parts: list[dict[str, Any]] = body["candidates"][0]["content"]["parts"]
    return parts


def answer(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP", **fields}]}


# Reading


def test_a_response_is_read_as_its_stream_would_be() -> None:
    assert accumulate(read(BODY)) == MESSAGE


def test_the_response_of_code_assist_is_read() -> None:
    assert accumulate(read({"response": BODY})) == MESSAGE


def test_all_candidates_are_read() -> None:
    texts = [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"} for text in "ab"]
    events = read({"candidates": [{**texts[0], "index": 0}, {**texts[1], "index": 1}]})
    assert [accumulate(events, choice=number).text for number in (0, 1)] == ["a", "b"]


def test_a_blocked_prompt_is_a_refusal_without_content() -> None:
    feedback = {"promptFeedback": {"blockReason": "SAFETY"}}
    message = accumulate(read({**feedback, "modelVersion": "m"}))
    expected = Message("", "m", (), "refusal", "SAFETY", extra=feedback)
    assert message == expected
    body, losses = write(message)
    assert body == {"modelVersion": "m", **feedback}
    assert losses.list() == ()


def test_an_answer_that_failed_ends_in_the_provider_s_error() -> None:
    failed = answer(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="no JSON")
    error = read(failed)[-1]
    assert isinstance(error, StreamError)
    assert (error.kind, error.code) == ("upstream", "MALFORMED_FUNCTION_CALL")
    error = read({"error": {"code": 429, "message": "slow down", "status": "X"}})[-1]
    assert isinstance(error, StreamError)
    assert error.message == "slow down"


@pytest.mark.parametrize(
    ("body", "reason", "path"),
    [
        ({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}, "no finish", "$.candidates"),
        (answer(finishReason="FINISH_REASON_UNSPECIFIED"), "no finish reason", "$.candidates"),
        ({"choices": []}, "no candidates", "$.candidates"),
        ({}, "no candidates", "$.candidates"),
        (answer({"text": "a", "inlineData": {}}), "text and inlineData", "$"),
        ({"candidates": [{"index": -1}]}, "a negative integer", "$"),
    ],
    ids=repr,
)
def test_a_body_that_is_no_whole_response_is_refused(
    body: dict[str, Any], reason: str, path: str
) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        read(body)
    assert caught.value.path == path


def test_an_array_of_chunks_is_no_whole_response() -> None:
    with pytest.raises(DecodeError, match="no JSON object"):
        decode_message(json.dumps([BODY]), "gemini")


def test_a_response_beyond_a_bound_is_refused() -> None:
    with pytest.raises(DecodeError, match="max_blocks"):
        read(BODY, limits=Limits(max_blocks=2))


# Writing


def test_a_message_is_written_as_the_reference_has_it() -> None:
    body, losses = write(MESSAGE)
    assert body == BODY
    assert [*body] == ["responseId", "modelVersion", "candidates", "usageMetadata"]
    assert losses.list() == ()


def test_a_message_that_has_not_ended_has_no_legal_form() -> None:
    with pytest.raises(EncodeError, match="expected one that has ended") as caught:
        write(Message("r", "m", (Text("Hi"),)))
    assert caught.value.path == "stop_reason"


def test_each_block_is_a_part() -> None:
    code = ServerToolCall("", "code_execution", '{"code": "1"}', "executableCode")
    outcome = ServerToolResult("", "codeExecutionResult", {"outcome": "OUTCOME_OK"})
    blocks = (
        Reasoning(("a",), "c2ln", "google"),
        Text("b", signature="c2ln", issuer="google"),
        code,
        outcome,
        OpaqueBlock("gemini", "audioTranscription", '{"text": "x"}'),
        ToolCall("1", "f", signature="c2ln", issuer="google"),
    )
    assert parts_of(*blocks) == [
        {"text": "a", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "b", "thoughtSignature": "c2ln"},
        {"executableCode": {"code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        {"audioTranscription": {"text": "x"}},
        {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"},
    ]


def test_signature_of_a_hidden_thought_is_a_part_behind_the_text() -> None:
    blocks = Text("a"), Reasoning((), "c2ln", "google"), ToolCall("1", "f", "{}")
    message = Message("r", "m", blocks, "tool_use")
    body, losses = write(message)
    # Clients that send no thoughts back send the call with it.
    call = {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}
    assert body["candidates"][0]["content"]["parts"] == [
        {"text": "a"},
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
        call,
    ]
    assert losses.list() == ()
    signed = ToolCall("1", "f", "{}", signature="c2ln", issuer="google")
    assert accumulate(read(body)).blocks == (*blocks[:2], signed)


def test_signatures_of_other_vendors_are_tagged_for_the_way_back() -> None:
    message = Message("r", "m", (Reasoning(("a",), "EqQB", "anthropic"),), "end_turn")
    body, _ = write(message)
    assert accumulate(read(body)).blocks == message.blocks
    redacted = Message("r", "m", (RedactedReasoning("EqQB", "anthropic"),), "end_turn")
    assert accumulate(read(write(redacted)[0])).blocks == redacted.blocks


def test_an_answer_without_content_has_an_empty_text() -> None:
    assert parts_of(reason="max_tokens") == [{"text": ""}]


def test_texts_that_clients_join_are_one_part() -> None:
    cited = Text("ü b", (Citation("web", "https://a.org", "A", start=2, end=3),))
    message = Message("r", "m", (Text("é"), cited), "end_turn")
    body, losses = write(message)
    assert [loss.feature for loss in losses.list()] == ["boundaries"]
    candidate = body["candidates"][0]
    assert candidate["content"]["parts"] == [{"text": "éü b"}]
    assert candidate["groundingMetadata"] == {
        "groundingChunks": [{"web": {"uri": "https://a.org", "title": "A"}}],
        "groundingSupports": [
            {
                "segment": {"startIndex": 5, "endIndex": 6, "text": "b"},
                "groundingChunkIndices": [0],
            }
        ],
    }
    (text,) = accumulate(read(body)).blocks
    assert text == Text("éü b", (Citation("web", "https://a.org", "A", start=3, end=4),))


def test_citations_name_their_part_and_recitations_count_all_text() -> None:
    web = Citation("web", "https://a.org", "A", start=0, end=1)
    other = Citation("web", "https://b.org", "B", start=0, end=1)
    recited = Citation("citation", "https://c.org", start=0, end=1)
    blocks = (
        Reasoning(("thought",)),
        Text("é", (web, recited)),
        ToolCall("1", "f"),
        Text("b", (other, recited)),
    )
    candidate = write(Message("r", "m", blocks, "tool_use"))[0]["candidates"][0]
    chunks = [{"web": {"uri": f"https://{name.lower()}.org", "title": name}} for name in "AB"]
    assert candidate["groundingMetadata"] == {
        "groundingChunks": chunks,
        "groundingSupports": [
            {
                "segment": {"startIndex": 0, "endIndex": 2, "text": "é", "partIndex": 1},
                "groundingChunkIndices": [0],
            },
            {
                "segment": {"startIndex": 0, "endIndex": 1, "text": "b", "partIndex": 3},
                "groundingChunkIndices": [1],
            },
        ],
    }
    assert candidate["citationMetadata"] == {
        "citations": [
            {"startIndex": 0, "endIndex": 2, "uri": "https://c.org"},
            {"startIndex": 2, "endIndex": 3, "uri": "https://c.org"},
        ]
    }


def test_a_citation_of_the_first_part_names_none() -> None:
    recited = Citation("citation", "https://c.org", start=0, end=1)
    candidate = write(Message("r", "m", (Text("a", (recited,)),), "end_turn"))[0]["candidates"][0]
    assert "groundingMetadata" not in candidate
    assert candidate["citationMetadata"]["citations"][0]["startIndex"] == 0


def test_broken_arguments_are_google_s_word_for_them() -> None:
    message = Message("r", "m", (Text("Hi"), ToolCall("1", "f", "{")), "tool_use")
    body, losses = write(message)
    candidate = body["candidates"][0]
    assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert candidate["finishMessage"]
    assert candidate["content"]["parts"] == [{"text": "Hi"}]
    assert [loss.feature for loss in losses.list()] == ["broken_arguments"]


def test_arguments_that_were_cut_short_leave_the_reason_that_says_so() -> None:
    call = ServerToolCall("1", "s", "{", "toolCall")
    message = Message("r", "m", (ToolCall("1", "f", "{"), call), "max_tokens")
    candidate = write(message)[0]["candidates"][0]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert candidate["content"]["parts"] == [{"text": ""}]


def test_a_refusal_is_text_with_the_reason_of_one() -> None:
    body, losses = write(Message("r", "m", (Refusal("No."),), "end_turn"))
    assert body["candidates"][0]["finishReason"] == "SAFETY"
    assert body["candidates"][0]["content"]["parts"] == [{"text": "No."}]
    assert [loss.feature for loss in losses.list()] == ["refusal"]


def test_google_s_own_fields_are_written_and_those_of_others_are_not() -> None:
    foreign = {"system_fingerprint": "x"}
    message = Message(
        "r",
        "m",
        (OpaqueBlock("gemini", "audioTranscription", "{}"),),
        "refusal",
        "RECITATION",
        usage=Usage(9, 4, extra={"trafficType": "ON_DEMAND", **foreign}),
        extra={"createTime": "2026-11-22T07:00:00Z", **foreign},
        stop_extra={"safetyRatings": [], "avgLogprobs": -0.5, **foreign},
        block_extras=({"partMetadata": {"a": 1}, **foreign},),
    )
    body, losses = write(message)
    assert body == {
        "responseId": "r",
        "modelVersion": "m",
        "createTime": "2026-11-22T07:00:00Z",
        "candidates": [
            {
                "index": 0,
                "finishReason": "RECITATION",
                "safetyRatings": [],
                "avgLogprobs": -0.5,
                "content": {
                    "role": "model",
                    "parts": [{"audioTranscription": {}, "partMetadata": {"a": 1}}],
                },
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 9,
            "candidatesTokenCount": 4,
            "totalTokenCount": 13,
            "trafficType": "ON_DEMAND",
        },
    }
    assert losses.list() == ()


@pytest.mark.parametrize(
    ("created", "time"),
    [(1700000000, "2023-11-14T22:13:20Z"), (1700000000.5, "2023-11-14T22:13:20.500000Z")],
)
def test_the_time_of_a_message_is_that_of_the_caller(created: float, time: str) -> None:
    body, _ = write(structs.replace(MESSAGE, extra={"createTime": "earlier"}), created)
    assert body["createTime"] == time


def test_a_message_without_names_has_none() -> None:
    body, _ = write(Message(blocks=(Text("Hi"),), stop_reason="end_turn"))
    assert [*body] == ["candidates"]


def test_values_that_nest_too_deep_are_refused() -> None:
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    result = ServerToolResult("1", "toolResponse", nested)
    with pytest.raises(EncodeError, match="nests too deep") as caught:
        CODEC.write_response(Message("r", "m", (result,), "end_turn"), None, Losses())
    assert caught.value.path == "blocks"


def test_half_a_character_of_arguments_is_a_loss() -> None:
    """UTF-8 cannot encode what the escape stands for."""
    call = ToolCall("c", "f", '{"s":"\\ud83d"}')
    body, losses = write(Message("r", "m", (call,), "tool_use"))
    (part,) = body["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["args"] == {"s": "\ufffd"}
    assert losses.list() == (Loss("half_character", "tool call", 1, "written as U+FFFD"),)


def test_arguments_beyond_a_double_are_refused() -> None:
    """JSON has no word for the infinity that Python reads."""
    with pytest.raises(EncodeError, match="number that no double is near to") as caught:
        write(Message("r", "m", (ToolCall("c", "f", '{"t":1e400}'),), "tool_use"))
    assert caught.value.path == "blocks"


WEB = {"web": {"uri": "https://a", "title": "A"}}
UNCITED = {"web": {"uri": "https://b", "title": "B"}}


def data(name: str, value: Any, index: int | None = 0) -> Opaque:
    return Opaque("gemini", name, json.dumps(value), index)


def own_answer(*opaque: Opaque, citations: tuple[Citation, ...] = ()) -> Message:
    return Message("r", "m", (Text("Hi", citations),), "end_turn", opaque=opaque)


def test_data_of_the_dialect_stands_in_its_candidate() -> None:
    logprobs = {"chosenCandidates": [{"token": "Hi", "logProbability": -0.5}]}
    message = own_answer(
        data("groundingMetadata", {"webSearchQueries": ["tea"]}),
        data("logprobsResult", logprobs),
        data("functionCall", {"mood": "good"}),
    )
    losses = Losses()
    body = CODEC.write_response(message, None, losses)
    assert losses.list() == ()
    (candidate,) = body["candidates"]
    assert candidate["groundingMetadata"] == {"webSearchQueries": ["tea"]}
    assert candidate["logprobsResult"] == logprobs
    part = {"text": "", "functionCall": {"mood": "good"}}
    assert candidate["content"]["parts"] == [part, {"text": "Hi"}]


def test_grounding_of_the_answer_is_joined_with_its_citations() -> None:
    unread = {"segment": {"startIndex": 9}, "groundingChunkIndices": [0]}
    message = own_answer(
        data(
            "groundingMetadata",
            {
                "webSearchQueries": ["tea"],
                "groundingChunks": [UNCITED, WEB],
                "groundingSupports": [unread],
            },
        ),
        data("citationMetadata", {"citations": [{"uri": "https://d"}], "mood": "good"}),
        citations=(
            Citation("web", "https://a", "A", None, 0, 2),
            Citation("web", "https://c", "C", None, 0, 1),
            Citation("citation", "https://e", None, None, 0, 2),
        ),
    )
    (candidate,) = CODEC.write_response(message, None, Losses())["candidates"]
    whole = {"startIndex": 0, "endIndex": 2, "text": "Hi"}
    assert candidate["groundingMetadata"] == {
        "webSearchQueries": ["tea"],
        "groundingChunks": [UNCITED, WEB, {"web": {"uri": "https://c", "title": "C"}}],
        "groundingSupports": [
            {"segment": whole, "groundingChunkIndices": [1]},
            {
                "segment": {"startIndex": 0, "endIndex": 1, "text": "H"},
                "groundingChunkIndices": [2],
            },
            unread,
        ],
    }
    assert candidate["citationMetadata"] == {
        "citations": [
            {"startIndex": 0, "endIndex": 2, "uri": "https://e"},
            {"uri": "https://d"},
        ],
        "mood": "good",
    }


def test_frame_has_no_field_in_a_body() -> None:
    losses = Losses()
    CODEC.write_response(own_answer(data("frame", {"queue": 3}, None)), None, losses)
    assert losses.list() == (Loss("opaque", "frame", 1, "no field, dropped"),)


def test_body_is_revised_in_its_model_and_its_time() -> None:
    message = decode_message(BODY, "gemini")
    assert encode_message(message, "gemini").body == BODY
    revised = encode_message(message, "gemini", model="mine", created=0).body
    time = {"createTime": "1970-01-01T00:00:00Z"}
    assert revised == {**BODY, "modelVersion": "mine", **time}
