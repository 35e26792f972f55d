"""Whole interactions, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from support.streams.content import decode, encode, transcode
from support.streams.corpus import recordings

from streamnorm import (
    Citation,
    Completed,
    DecodeError,
    EncodeError,
    Limits,
    Loss,
    Message,
    Opaque,
    OpaqueBlock,
    Reasoning,
    Reply,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    UpstreamError,
    Usage,
    accumulate,
    decode_message,
    encode_message,
    message_events,
)
from streamnorm._core.bodies.fields import body_object
from streamnorm._registry import DIALECTS

OWN = "gemini_interactions"
BODY: dict[str, Any] = {
    "id": "v1",
    "object": "interaction",
    "model": "m",
    "status": "requires_action",
    "created": "2026-11-22T00:00:00Z",
    "steps": [
        {
            "type": "thought",
            "summary": [{"type": "text", "text": "t"}],
            "signature": "QQ==",
        },
        {
            "type": "model_output",
            "content": [
                {
                    "type": "text",
                    "text": "aé",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "u",
                            "start_index": 0,
                            "end_index": 3,
                        }
                    ],
                }
            ],
        },
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {"a": 1}},
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}},
        {"type": "google_search_result", "call_id": "s", "result": [{"b": 1}]},
        {"type": "memory", "n": 1},
    ],
    "usage": {
        "total_tokens": 12,
        "total_input_tokens": 5,
        "total_output_tokens": 4,
        "total_thought_tokens": 3,
    },
}
BLOCKS = (
    Reasoning(("t",), "QQ==", "google"),
    Text("aé", (Citation("web", "u", None, None, 0, 2),)),
    ToolCall("c1", "f", '{"a":1}'),
    ServerToolCall("s", "google_search", '{"queries":["q"]}', "google_search_call_step"),
    ServerToolResult("s", "google_search_result_step", {"call_id": "s", "result": [{"b": 1}]}),
    OpaqueBlock(OWN, "memory", '{"type":"memory","n":1}'),
)


def test_interaction_is_read() -> None:
    message = decode_message(BODY, OWN)
    assert message.blocks == BLOCKS
    assert (message.id, message.model, message.stop_reason) == ("v1", "m", "tool_use")
    assert message.usage == Usage(5, 7, None, None, 3)
    assert encode_message(message, OWN).body == BODY


def test_interaction_is_written() -> None:
    message = Message("v1", "m", BLOCKS, "tool_use", usage=Usage(5, 7, None, None, 3))
    made = encode_message(message, OWN, created=1795305600.5)
    assert made.body == {**BODY, "created": "2026-11-22T00:00:00Z"}
    assert made.losses == ()


def test_model_and_time_can_be_replaced() -> None:
    codec = DIALECTS[OWN].codec
    assert codec is not None
    assert codec.revise_response is not None
    changed = {**BODY, "model": "x", "created": "1970-01-01T00:00:01Z"}
    assert codec.revise_response(BODY, "x", 1) == changed
    assert codec.revise_response(BODY, None, None) == BODY


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"steps": []}, r"^\$\.status: missing"),
        ({"status": "in_progress"}, r"^\$\.status: a string of 11 characters, expected the status"),
        ({"status": "completed", "steps": [7]}, r"^\$\.steps\[0\]: an integer"),
        ({"status": "completed", "steps": [{}]}, r"^\$\.steps\[0\]\.type: missing"),
        (
            {"status": "completed", "steps": [{"type": "function_call", "id": "c"}]},
            r"^\$\.steps: function call without a name",
        ),
    ],
)
def test_body_that_is_no_ended_interaction_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_message(body, OWN)


def test_failed_interaction_is_an_error_of_the_provider() -> None:
    body = {"status": "failed", "errors": [{"code": "internal", "message": "no"}]}
    with pytest.raises(UpstreamError, match="no"):
        decode_message(body, OWN)


def test_call_with_broken_arguments_has_no_form() -> None:
    broken = ToolCall("c", "f", "{")
    with pytest.raises(EncodeError, match="call with broken arguments, expected a JSON object"):
        encode_message(Message("v1", "m", (broken,), "tool_use"), OWN)
    cut = encode_message(Message("v1", "m", (Text("a"), broken), "max_tokens"), OWN)
    content = [{"type": "text", "text": "a"}]
    assert cut.body["steps"] == [{"type": "model_output", "content": content}]
    assert cut.body["status"] == "incomplete"


def test_message_must_have_ended() -> None:
    with pytest.raises(EncodeError, match="message without a stop reason"):
        encode_message(Message("v1", "m", (Text("a"),)), OWN)


def test_answer_that_only_calls_what_is_lost_is_an_error() -> None:
    lost = ServerToolCall("s", "web_search", "{}", "server_tool_use")
    made = encode_message(Message("v1", "m", (lost, Text("a")), "end_turn"), OWN)
    assert made.body["steps"][0]["content"][0]["text"] == "a"
    assert [loss.feature for loss in made.losses] == ["server_tool"]
    waiting = ServerToolCall("s", "computer", "{}", "computer_call")
    with pytest.raises(EncodeError, match="computer_call waits for the client"):
        encode_message(Message("v1", "m", (waiting, Text("a")), "end_turn"), OWN)


_NAMED = {"id": "m1", "model": "m"}
_REFUSED = {"message": {"role": "assistant", "content": None, "refusal": "No."}}
_CUT = {"message": {"role": "assistant", "content": "No."}}


@pytest.mark.parametrize(
    ("source", "body", "lost"),
    [
        (
            "openai_chat",
            {**_NAMED, "choices": [{"index": 0, "finish_reason": "stop", **_REFUSED}]},
            {"refusal", "stop_reason"},
        ),
        (
            "openai_chat",
            {**_NAMED, "choices": [{"index": 0, "finish_reason": "content_filter", **_CUT}]},
            {"stop_reason"},
        ),
        (
            "openai_responses",
            {
                **_NAMED,
                "object": "response",
                "status": "completed",
                "output": [
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "refusal", "refusal": "No."}],
                    }
                ],
            },
            {"refusal", "stop_reason"},
        ),
        (
            "bedrock_converse",
            {
                "output": {"message": {"role": "assistant", "content": [{"text": "No."}]}},
                "stopReason": "guardrail_intervened",
            },
            {"stop_reason"},
        ),
    ],
    ids=["refusal of Chat", "filter of Chat", "refusal of Responses", "guardrail of Converse"],
)
def test_refusal_is_an_answer_whose_text_alone_is_written(
    source: str, body: dict[str, Any], lost: set[str]
) -> None:
    """No status means a refusal, and the error of a `model_output` is that of the provider."""
    message = decode_message(body, source)
    assert message.stop_reason == "refusal"
    answer = encode_message(message, OWN)
    assert answer.body["status"] == "completed"
    content = [{"type": "text", "text": "No."}]
    assert answer.body["steps"] == [{"type": "model_output", "content": content}]
    assert {loss.feature for loss in answer.losses} == lost
    back = decode_message(answer.body, OWN)
    assert (back.stop_reason, back.blocks) == ("end_turn", (Text("No."),))


def test_data_without_a_unified_form_is_written_back() -> None:
    image = '{"type":"thought_summary","content":{"type":"image","data":"AA=="}}'
    audio = '{"type":"audio","data":"AA=="}'
    message = Message(
        "v1",
        "m",
        (Reasoning(("t",)), Text("a")),
        "end_turn",
        opaque=(Opaque(OWN, "thought_summary", image, 0), Opaque(OWN, "audio", audio, 1)),
    )
    thought, output = encode_message(message, OWN).body["steps"]
    assert thought["summary"] == [{"type": "text", "text": "t"}, {"type": "image", "data": "AA=="}]
    assert output["content"] == [
        {"type": "text", "text": "a"},
        {"type": "audio", "data": "AA=="},
    ]


def test_citations_of_a_summary_are_a_loss_elsewhere() -> None:
    cited = {"annotations": [{"type": "url_citation", "url": "u"}]}
    thought = {"type": "thought", "summary": [{"type": "text", "text": "t", **cited}]}
    answer = {"id": "v1", "model": "m", "status": "completed", "steps": [thought]}
    message = decode_message(answer, OWN)
    assert message.blocks == (Reasoning(("t",)),)
    made = encode_message(message, "openai_chat")
    assert [loss.feature for loss in made.losses] == ["opaque"]
    again = encode_message(structs.replace(message, source=None), OWN)
    assert (again.body["steps"][0]["summary"], again.losses) == (
        [{"type": "text", "text": "t"}, {"type": "text", "text": "", **cited}],
        (),
    )


CITED = {
    "gemini_interactions": {
        "id": "v1",
        "model": "m",
        "status": "completed",
        "steps": [
            {
                "type": "model_output",
                "content": [
                    {
                        "type": "text",
                        "text": "ab",
                        "annotations": [
                            {"type": "file_citation", "file_name": "f", "page_number": 3}
                        ],
                    }
                ],
            }
        ],
    },
    "gemini": {
        "responseId": "v1",
        "modelVersion": "m",
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "ab"}]},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "groundingChunks": [{"retrievedContext": {"title": "f", "pageNumber": 3}}],
                    "groundingSupports": [
                        {"segment": {"endIndex": 2, "text": "ab"}, "groundingChunkIndices": [0]}
                    ],
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("source", "target", "field"),
    [
        ("gemini_interactions", "gemini", "page_number"),
        ("gemini", "gemini_interactions", "pageNumber"),
    ],
)
def test_other_fields_of_a_citation_are_a_loss_in_the_other_api(
    source: str, target: str, field: str
) -> None:
    message = decode_message(CITED[source], source)
    answer = encode_message(message, target)
    frames, _ = encode(message_events(message), source, extras=True)
    assert field.encode() in frames
    output, stream = transcode([frames], source, target)
    for body, losses in (
        (json.dumps(answer.body), answer.losses),
        (output.decode(), stream.losses),
    ):
        assert '"f"' in body
        assert field not in body
        assert [loss.feature for loss in losses if loss.where == field] == ["extra"]


def test_interaction_says_what_its_stream_says() -> None:
    for recording in recordings("gemini_interactions"):
        decoded = decode([recording.body], OWN)
        if not isinstance(decoded.outcome, Completed):
            continue
        message = accumulate(decoded.events)
        made = encode_message(message, OWN)
        body = body_object(json.dumps(made.body), Limits())
        assert DIALECTS[OWN].is_response(body)
        back = decode_message(body, OWN)
        # An interaction tells adjacent texts not apart, and spells arguments in one way.
        said, meant = (
            "".join([b.text for b in m.blocks if isinstance(b, Text)]) for m in (back, message)
        )
        assert said == meant, recording.name
        calls = [[(c.id, c.name, c.input()) for c in m.tool_calls] for m in (back, message)]
        assert calls[0] == calls[1], recording.name
        assert back.stop_reason == message.stop_reason, recording.name


def test_half_a_character_of_arguments_is_a_loss() -> None:
    """UTF-8 cannot encode what the escape stands for."""
    message = Message("v1", "m", (ToolCall("c", "f", '{"s":"\\ud83d"}'),), "tool_use")
    made = encode_message(message, OWN)
    assert made.body["steps"][0]["arguments"] == {"s": "\ufffd"}
    assert made.losses == (Loss("half_character", "tool call", 1, "written as U+FFFD"),)


def test_arguments_beyond_a_double_are_refused() -> None:
    """JSON has no word for the infinity that Python reads."""
    message = Message("v1", "m", (ToolCall("c", "f", '{"t":1e400}'),), "tool_use")
    with pytest.raises(EncodeError, match="number that no double is near to"):
        encode_message(message, OWN)


def test_interaction_names_the_one_that_it_continues() -> None:
    codec = DIALECTS[OWN].codec
    assert codec is not None
    assert codec.echoed_fields is not None
    echoed = codec.echoed_fields({"model": "m", "previous_interaction_id": "i0", "tools": []})
    assert echoed == {"previous_interaction_id": "i0"}
    assert codec.echoed_fields({"model": "m"}) == {}
    reply = Reply(response={"id": "i1", **echoed})
    body = encode_message(Message("up", "m", (Text("a"),), "end_turn"), OWN, reply=reply).body
    assert (body["id"], body["previous_interaction_id"]) == ("i1", "i0")
