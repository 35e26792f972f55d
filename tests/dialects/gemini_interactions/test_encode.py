"""What is written as a stream of the Interactions API."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from support.gemini_interactions.frames import CREATED, completed, delta, start, step, stop
from support.streams.content import decode, encode, transcode

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Event,
    Failed,
    Image,
    JSONDelta,
    LimitExceeded,
    Limits,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import encoder
from streamnorm.sse import SSEDecoder

OWN = "gemini_interactions"
BEGIN: list[Event] = [MessageStart("v1", "m")]
DONE = b"event: done\ndata: [DONE]\n\n"


def payloads(data: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream without its `done`; each is named by its type."""
    events = []
    for frame in SSEDecoder().feed(data):
        if frame.data != "[DONE]":
            events.append(json.loads(frame.data))
            assert frame.event == events[-1]["event_type"]
    return events


def written(*events: Event, **options: Any) -> list[Any]:
    """Return start, deltas and stops of the steps of an interaction, without their indexes."""
    data, _ = encode([*BEGIN, *events, MessageStop("end_turn")], OWN, **options)
    assert data.endswith(DONE)
    steps = [event for event in payloads(data) if event["event_type"].startswith("step.")]
    starts = [event["index"] for event in steps if event["event_type"] == "step.start"]
    assert starts == list(range(len(starts)))
    return [event.get("step", event.get("delta", event["index"])) for event in steps]


def end_of(*events: Event, **options: Any) -> dict[str, Any]:
    """Return the interaction in the last event."""
    data, _ = encode([*BEGIN, *events], OWN, **options)
    last: dict[str, Any] = payloads(data)[-1]
    assert last["event_type"] == "interaction.completed"
    return dict(last["interaction"])


def text(index: int, *texts: str) -> list[Event]:
    deltas = [TextDelta(index, each) for each in texts]
    return [BlockStart(index, Text()), *deltas, BlockStop(index)]


def thought_step(index: int, signature: str) -> list[Any]:
    """Return a thought that has a signature alone."""
    return [{"type": "thought"}, {"type": "thought_signature", "signature": signature}, index]


def base64(value: str) -> str:
    return b64encode(value.encode()).decode()


def test_bytes_are_those_of_the_api() -> None:
    data, _ = encode(
        [
            *BEGIN,
            *text(0, 'a"é', "b"),
            *(BlockStart(1, ToolCall("c", "f")), JSONDelta(1, '{"x"'), JSONDelta(1, ":1}")),
            *(BlockStop(1), UsageUpdate(Usage(12, 5, 4, None, 2)), MessageStop("tool_use")),
        ],
        OWN,
    )
    expected = [
        (
            "interaction.created",
            '{"interaction":{"id":"v1","status":"in_progress","object":"interaction",'
            '"model":"m"},"event_type":"interaction.created"}',
        ),
        (
            "interaction.status_update",
            '{"interaction_id":"v1","status":"in_progress",'
            '"event_type":"interaction.status_update"}',
        ),
        (
            "step.start",
            '{"index":0,"step":{"type":"model_output"},"event_type":"step.start"}',
        ),
        (
            "step.delta",
            '{"index":0,"delta":{"type":"text","text":"a\\"é"},"event_type":"step.delta"}',
        ),
        ("step.delta", '{"index":0,"delta":{"type":"text","text":"b"},"event_type":"step.delta"}'),
        ("step.stop", '{"index":0,"event_type":"step.stop"}'),
        (
            "step.start",
            '{"index":1,"step":{"type":"function_call","id":"c","name":"f","arguments":{}},'
            '"event_type":"step.start"}',
        ),
        (
            "step.delta",
            '{"index":1,"delta":{"type":"arguments_delta","arguments":"{\\"x\\""},'
            '"event_type":"step.delta"}',
        ),
        (
            "step.delta",
            '{"index":1,"delta":{"type":"arguments_delta","arguments":":1}"},'
            '"event_type":"step.delta"}',
        ),
        ("step.stop", '{"index":1,"event_type":"step.stop"}'),
        (
            "interaction.completed",
            '{"interaction":{"id":"v1","status":"requires_action","object":"interaction",'
            '"model":"m","usage":{"total_tokens":17,"total_input_tokens":12,'
            '"total_cached_tokens":4,"total_output_tokens":3,"total_thought_tokens":2}},'
            '"event_type":"interaction.completed"}',
        ),
        ("done", "[DONE]"),
    ]
    frames = [f"event: {name}\ndata: {payload}\n\n" for name, payload in expected]
    assert data.decode() == "".join(frames)


def test_texts_of_one_answer_share_a_step() -> None:
    assert written(*text(0, "a"), *text(1, "b")) == [
        {"type": "model_output"},
        *({"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 0),
    ]


def test_text_after_another_block_is_a_step_of_its_own() -> None:
    call = (BlockStart(1, ToolCall("c", "f")), BlockStop(1))
    assert written(*text(0, "a"), *call, *text(2, "b")) == [
        *({"type": "model_output"}, {"type": "text", "text": "a"}, 0),
        *({"type": "function_call", "id": "c", "name": "f", "arguments": {}}, 1),
        *({"type": "model_output"}, {"type": "text", "text": "b"}, 2),
    ]


def test_step_of_a_text_stops_before_the_next_block() -> None:
    writer = encoder(OWN)
    for event in (*BEGIN, *text(0, "a")):
        data = writer.encode(event)
    assert data == b""  # another text may follow
    found = payloads(writer.encode(BlockStart(1, ToolCall("c", "f"))))
    assert [event["event_type"] for event in found] == ["step.stop", "step.start"]


def test_thought_has_summary_and_signature() -> None:
    events = [BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)]
    assert written(*events, SignatureDelta(0, "QQ==", "google"), BlockStop(0)) == [
        {"type": "thought"},
        {"type": "thought_summary", "content": {"type": "text", "text": "a"}},
        {"type": "thought_summary", "content": {"type": "text", "text": "\n\nb"}},
        *({"type": "thought_signature", "signature": "QQ=="}, 0),
    ]


def test_signed_thought_is_not_continued() -> None:
    signed = [BlockStart(0, Reasoning()), SignatureDelta(0, "QQ==", "google"), BlockStop(0)]
    unsigned = [BlockStart(1, Reasoning()), ReasoningDelta(1, "b"), BlockStop(1)]
    summary = {"type": "thought_summary", "content": {"type": "text", "text": "b"}}
    assert written(*signed, *unsigned) == [
        *thought_step(0, "QQ=="),
        {"type": "thought"},
        summary,
        1,
    ]


@pytest.mark.parametrize(
    ("signature", "issuer", "wire"),
    [
        ("Q", "google", "Q"),
        ("QQ==", "anthropic", base64("sn1.anthropic.QQ==")),
        ("QQ==", None, base64("sn1..QQ==")),
        (base64("sn1.x.y"), "google", base64(f"sn1.google.{base64('sn1.x.y')}")),
    ],
)
def test_foreign_signature_is_tagged(signature: str, issuer: str | None, wire: str) -> None:
    sign = SignatureDelta(0, signature, issuer)
    assert written(BlockStart(0, Reasoning()), sign, BlockStop(0)) == thought_step(0, wire)


def test_thoughts_are_steps_of_their_own() -> None:
    """A signature alone belongs to the call behind it, and not to the thought before it."""
    thought = [BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), BlockStop(0)]
    call = ToolCall("c", "f", signature="QQ==", issuer="google")
    found = written(*thought, BlockStart(1, call), BlockStop(1))
    assert [each["type"] for each in found if isinstance(each, dict)] == [
        *("thought", "thought_summary", "thought", "thought_signature", "function_call")
    ]


def test_redacted_reasoning_is_a_signature() -> None:
    own, other = RedactedReasoning("QQ==", "google"), RedactedReasoning("QQ==", "anthropic")
    data, _ = encode(
        [*BEGIN, BlockStart(0, own), BlockStop(0), BlockStart(1, other), BlockStop(1)], OWN
    )
    *_, first, _, _, second, _ = payloads(data)
    assert first["delta"]["signature"] == "QQ=="
    assert second["delta"]["signature"] == base64("sn1-redacted.anthropic.QQ==")
    back = decode([data], OWN).events
    assert BlockStart(1, other) in back


def test_signature_of_a_call_stands_in_a_thought_before_it() -> None:
    call = ToolCall("c", "f", signature="QQ==", issuer="google")
    found = written(BlockStart(0, call), BlockStop(0))
    assert found[:1] == [{"type": "thought"}]
    assert found[3] == {"type": "function_call", "id": "c", "name": "f", "arguments": {}}
    data, _ = encode([*BEGIN, BlockStart(0, call), BlockStop(0), MessageStop("tool_use")], OWN)
    again, _ = transcode([data], OWN, "gemini")
    assert b'"thoughtSignature":"QQ=="' in again


@pytest.mark.parametrize(
    ("citation", "wire"),
    [
        (
            Citation("web", "https://a.org", "A", None, 1, 2),
            {"type": "url_citation", "start_index": 1, "end_index": 3, "url": "https://a.org"}
            | {"title": "A"},
        ),
        (
            Citation("retrievedContext", "gs://d", "d.pdf", None, 0, 9),
            {"type": "file_citation", "start_index": 0, "end_index": 4, "file_name": "d.pdf"}
            | {"document_uri": "gs://d"},
        ),
        (Citation("maps", None, "Rue"), {"type": "place_citation", "name": "Rue"}),
        (
            Citation("url_citation", "https://a.org", None, "text"),
            {"type": "url_citation", "url": "https://a.org"},
        ),
    ],
)
def test_citations_count_bytes(citation: Citation, wire: dict[str, Any]) -> None:
    events = [BlockStart(0, Text()), CitationDelta(0, citation), TextDelta(0, "aéb"), BlockStop(0)]
    assert written(*events)[2] == {"type": "text_annotation_delta", "annotations": [wire]}


def test_citation_of_a_continued_text_counts_from_the_start_of_the_step() -> None:
    cited = CitationDelta(1, Citation("web", "u"))
    found = written(*text(0, "é"), BlockStart(1, Text()), TextDelta(1, "b"), cited, BlockStop(1))
    annotation = {"type": "url_citation", "start_index": 2, "end_index": 3, "url": "u"}
    assert found[3] == {"type": "text_annotation_delta", "annotations": [annotation]}


def test_unknown_fields_of_a_citation_are_written_back() -> None:
    cited = CitationDelta(0, Citation("web", "u", extra={"rank": 1}))
    events = [BlockStart(0, Text()), TextDelta(0, "a"), cited, BlockStop(0)]
    annotation = {"rank": 1, "type": "url_citation", "url": "u"}
    assert written(*events, extras=True)[2]["annotations"] == [annotation]


def test_files_are_deltas_of_an_answer() -> None:
    image, document = Image("image/png", "aGk="), Document("text/csv", "a,b")
    events = [BlockStart(0, image, extra={"resolution": "low"}), BlockStop(0)]
    linked = [BlockStart(2, Document("application/pdf", url="gs://x")), BlockStop(2)]
    found = written(*events, BlockStart(1, document), BlockStop(1), *linked, extras=True)
    assert found == [
        {"type": "model_output"},
        {"type": "image", "mime_type": "image/png", "data": "aGk=", "resolution": "low"},
        *(0, {"type": "model_output"}),
        {"type": "document", "mime_type": "text/csv", "data": "YSxi"},
        *(1, {"type": "model_output"}),
        *({"type": "document", "mime_type": "application/pdf", "uri": "gs://x"}, 2),
    ]


SEARCH = ServerToolCall("s", "google_search", kind="google_search_call_step")


def test_call_of_the_provider_is_one_object() -> None:
    fields = Opaque(OWN, "google_search_call", '{"signature":"QQ=="}', 0)
    events = [BlockStart(0, SEARCH), JSONDelta(0, '{"queries":'), JSONDelta(0, '\n["a"]}')]
    assert written(*events, fields, BlockStop(0)) == [
        {"type": "google_search_call", "id": "s", "arguments": {}},
        {"type": "google_search_call", "signature": "QQ==", "arguments": {"queries": ["a"]}},
        0,
    ]


@pytest.mark.parametrize("with_run", [True, False])
def test_call_of_the_provider_without_an_object(with_run: bool) -> None:
    writer = encoder(OWN)
    for event in (*BEGIN, BlockStart(0, SEARCH), JSONDelta(0, "{")):
        writer.encode(event)
    if with_run:
        assert writer.delta_writer(0)('"') == b""
        assert writer.delta_template(0) is None
    else:
        assert writer.encode(JSONDelta(0, '"')) == b""
    first, _ = payloads(writer.encode(BlockStop(0)))
    assert first["delta"] == {"type": "arguments_delta", "arguments": '{"'}
    assert written(BlockStart(0, SEARCH), BlockStop(0))[1:] == [0]


def test_mcp_call_names_its_tool_and_server() -> None:
    call = ServerToolCall("s", "f", kind="mcp_server_tool_call_step")
    events = [BlockStart(0, call, extra={"server_name": "x"}), JSONDelta(0, '{"a":1}')]
    own = {"type": "mcp_server_tool_call", "name": "f"}
    assert written(*events, BlockStop(0), extras=True)[:2] == [
        {**own, "server_name": "x", "id": "s", "arguments": {}},
        {**own, "server_name": "x", "arguments": {"a": 1}},
    ]
    assert written(*events, BlockStop(0))[0]["server_name"] == ""


NO_TEXT = {"result": ""}


@pytest.mark.parametrize(
    ("content", "start_fields", "deltas"),
    [
        ({"call_id": "s", "result": [{"a": 1}]}, {"result": []}, [{"result": [{"a": 1}]}]),
        (
            {"result": "out", "is_error": True},
            {"result": "", "is_error": True},
            [{"result": "out"}],
        ),
        ({"result": {"a": 1}}, {"result": {"a": 1}}, []),
        ({"signature": "QQ=="}, {"signature": "QQ=="}, []),
        ("out", {"result": ""}, [{"result": "out"}]),
    ],
)
def test_result_of_the_provider_has_its_result_in_a_delta(
    content: Any, start_fields: dict[str, Any], deltas: list[Any]
) -> None:
    result = ServerToolResult("s", "code_execution_result_step", content)
    kind = {"type": "code_execution_result"}
    assert written(BlockStart(0, result), BlockStop(0)) == [
        {**kind, "call_id": "s", **start_fields},
        *({**kind, **each} for each in deltas),
        0,
    ]


def test_failed_result_of_the_provider_says_so() -> None:
    result = ServerToolResult("s", "code_execution_result_step", [], is_error=True)
    start = {"type": "code_execution_result", "call_id": "s", "result": [], "is_error": True}
    assert written(BlockStart(0, result), BlockStop(0))[0] == start


def test_own_block_and_its_deltas_are_written_back() -> None:
    block = OpaqueBlock(OWN, "memory", '{"type":"memory","n":1}')
    more = Opaque(OWN, "memory_delta", '{"type":"memory_delta","n":2}', 0)
    assert written(BlockStart(0, block), more, BlockStop(0)) == [
        *({"type": "memory", "n": 1}, {"type": "memory_delta", "n": 2}, 0)
    ]


def test_delta_without_an_open_block_has_a_step_of_its_own() -> None:
    audio = Opaque(OWN, "audio", '{"type":"audio","data":"AA=="}')
    assert written(*text(0, "a"), audio) == [
        *({"type": "model_output"}, {"type": "text", "text": "a"}, 0),
        *({"type": "model_output"}, {"type": "audio", "data": "AA=="}, 1),
    ]


@pytest.mark.parametrize(
    ("name", "data", "frame"),
    [
        ("budget.note", '{"left":3}', b'event: budget.note\ndata: {"left":3}\n\n'),
        ("message", "[1]", b"event: message\ndata: [1]\n\n"),
        (
            "interaction.progress",
            '{"percent":50}',
            b'event: interaction.progress\ndata: {"percent":50,'
            b'"event_type":"interaction.progress"}\n\n',
        ),
    ],
)
def test_unknown_event_is_written_back(name: str, data: str, frame: bytes) -> None:
    out, losses = encode([*BEGIN, Opaque(OWN, name, data)], OWN)
    assert out.endswith(frame)
    assert losses == ()


def test_field_of_a_known_event_is_lost() -> None:
    _, losses = encode([*BEGIN, Opaque(OWN, "step.stop", "{}")], OWN)
    assert losses == (Loss("opaque", "gemini_interactions step.stop", 1, "dropped"),)


@pytest.mark.parametrize(
    ("reason", "raw", "status"),
    [
        ("end_turn", None, "completed"),
        ("tool_use", None, "requires_action"),
        ("max_tokens", "length", "incomplete"),
        ("max_tokens", "budget_exceeded", "budget_exceeded"),
        ("pause", None, "requires_continuation"),
        ("refusal", None, "completed"),
        ("other", "OTHER", "completed"),
    ],
)
def test_stop_reason_is_a_status(reason: StopReason, raw: str | None, status: str) -> None:
    assert end_of(MessageStop(reason, raw))["status"] == status


def test_fields_of_the_interaction_are_written_back() -> None:
    extra = {"created": "2026-11-22T00:00:00Z", "service_tier": "priority"}
    stopped = MessageStop("end_turn", extra={"updated": "2026-11-22T00:00:01Z"})
    data, _ = encode([MessageStart("v1", "m", extra), stopped], OWN, extras=True)
    last = payloads(data)[-1]["interaction"]
    assert last["created"] == "2026-11-22T00:00:00Z"
    assert last["updated"] == "2026-11-22T00:00:01Z"
    assert last["service_tier"] == "priority"


def test_service_tier_of_another_vendor_has_the_name_of_this_one() -> None:
    data, _ = encode([MessageStart("v1", "", {"service_tier": "default"}), *text(0, "a")], OWN)
    assert "model" not in payloads(data)[0]["interaction"]
    assert end_of(MessageStop("end_turn", extra={"service_tier": "default"}))["service_tier"] == (
        "standard"
    )


def test_usage_of_the_tools_comes_out_of_the_input() -> None:
    extra = {"toolUsePromptTokenCount": 198, "totalTokenCount": 1983, "x_by_modality": [1]}
    usage = UsageUpdate(Usage(220, 1763, 0, None, 1173, extra))
    assert end_of(usage, MessageStop("end_turn"), extras=True)["usage"] == {
        "x_by_modality": [1],
        "total_tokens": 1983,
        "total_input_tokens": 22,
        "total_cached_tokens": 0,
        "total_output_tokens": 590,
        "total_tool_use_tokens": 198,
        "total_thought_tokens": 1173,
    }
    assert "usage" not in end_of(MessageStop("end_turn"))
    few = UsageUpdate(Usage(output_tokens=3))
    assert end_of(few, MessageStop("end_turn"))["usage"] == {
        "total_tokens": 3,
        "total_input_tokens": 0,
        "total_output_tokens": 3,
    }


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StreamError("upstream", "slow", "rate_limit_exceeded", 429), "resource_exhausted", "slow"),
        (StreamError("upstream", "busy", "overloaded_error", 529), "service_unavailable", "busy"),
        (StreamError("upstream", "odd", None, 418), "invalid_request", "odd"),
        (StreamError("upstream", "twice", None, 409), "conflict", "twice"),
        (StreamError("upstream", "soon", None, 501), "unimplemented", "soon"),
        (StreamError("stalled", "no byte"), "gateway_timeout", "no byte"),
        (StreamError("malformed", "no JSON"), "internal_error", "no JSON"),
        (
            StreamError("upstream", "prompt is too long: 9 tokens > 8 maximum", None, 400),
            "invalid_request",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
    ],
    ids=lambda value: getattr(value, "message", ""),
)
def test_error_is_the_last_event(error: StreamError, code: str, message: str) -> None:
    data, _ = encode([*BEGIN, *text(0, "a"), error], OWN)
    *_, stopped, last = payloads(data)
    assert stopped["event_type"] == "step.stop"
    assert last == {"error": {"code": code, "message": message}, "event_type": "error"}
    assert b"[DONE]" not in data
    found = decode([data], OWN).outcome
    assert isinstance(found, Failed)
    assert found.error.message == message


def test_own_error_is_written_back() -> None:
    error = StreamError("upstream", "no", "quota_exceeded", 429, True, {"details": [1]})
    data, _ = encode([error], OWN, extras=True)
    fields = {"code": "quota_exceeded", "message": "no", "details": [1]}
    assert payloads(data) == [{"error": fields, "event_type": "error"}]


def test_body_of_an_error_is_that_of_all_of_googles_apis() -> None:
    body = encoder(OWN).error_body(StreamError("upstream", "no", None, 404))
    assert json.loads(body) == {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}


def test_block_that_the_projection_drops_is_not_written() -> None:
    with pytest.raises(AssertionError, match="Refusal passed the projection"):
        encoder(OWN).render(BlockStart(0, Refusal()))


def test_ping_is_a_comment() -> None:
    assert encode([*BEGIN, Ping()], OWN)[0].endswith(b": ping\n\n")


def test_blocks_may_overlap() -> None:
    """Without a sequencer before it, an encoder gets blocks that are open side by side."""
    writer = encoder(OWN)
    events = [BlockStart(0, Text()), BlockStart(1, Text()), TextDelta(1, "b"), TextDelta(0, "a")]
    stops = [BlockStop(0), BlockStop(1), BlockStart(2, ToolCall("c", "f")), BlockStop(2)]
    data = b"".join([writer.encode(each) for each in (*BEGIN, *events, *stops)])
    steps = [(each["event_type"], each["index"]) for each in payloads(data)[2:]]
    expected = [(f"step.{name}", index) for name in ("start", "stop") for index in (0, 1, 2)]
    assert sorted(each for each in steps if each[0] != "step.delta") == sorted(expected)
    assert [index for name, index in steps if name == "step.delta"] == [0, 1]


STORING: dict[str, list[Event]] = {
    "text": [BlockStart(0, Text()), TextDelta(0, "a" * 3000)],
    "citation": [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        CitationDelta(0, Citation("web", "https://a.org/" + "b" * 1000)),
    ],
    "arguments": [BlockStart(0, SEARCH), JSONDelta(0, "1" * 3000)],
    "field": [
        BlockStart(0, SEARCH),
        Opaque(OWN, "google_search_call", json.dumps({"f": "x" * 1000}), 0),
    ],
}


@pytest.mark.parametrize("name", STORING)
def test_what_is_stored_is_bounded(name: str) -> None:
    writer = encoder(OWN, limits=Limits(max_accumulated_bytes=1000))
    *before, last = STORING[name]
    for event in (*BEGIN, *before):
        writer.encode(event)
    with pytest.raises(LimitExceeded, match="max_accumulated_bytes"):
        writer.encode(last)


def test_stream_of_its_own_passes_through_another_reading() -> None:
    """Arguments in the start of a call are those of its deltas."""
    body = CREATED + start(0, "function_call", id="c", name="f", arguments={"a": 1})
    body += delta(0, "arguments_delta", arguments='{"a":1}') + stop(0)
    out, _ = transcode([body + completed("requires_action")], OWN, OWN, verbatim=False)
    steps = [each for each in payloads(out) if each["event_type"].startswith("step.")]
    assert [each.get("step", each.get("delta")) for each in steps] == [
        {"type": "function_call", "id": "c", "name": "f", "arguments": {}},
        {"type": "arguments_delta", "arguments": '{"a":1}'},
        None,
    ]


def test_signature_of_a_text_is_read_back() -> None:
    body = CREATED + step("model_output", ("text", {"text": "a"}), ("thought_signature", SIGNED))
    out, _ = transcode([body + completed()], OWN, OWN, verbatim=False)
    again, _ = transcode([out], OWN, "gemini")
    assert b'"thoughtSignature":"QQ=="' in again


SIGNED = {"signature": "QQ=="}


def test_id_of_the_gateway_takes_the_place_of_the_upstream_s() -> None:
    writer = encoder(OWN)
    writer.response_fields = {"id": "i1", "previous_interaction_id": "i0"}
    created, status = payloads(writer.encode(MessageStart("up", "m")))
    assert (created["interaction"]["id"], status["interaction_id"]) == ("i1", "i1")
    writer.response_fields = {"id": ""}  # it could not be stored
    [completed, _] = writer.encode(MessageStop("end_turn")).split(b"\n\n")[:2]
    [last] = payloads(completed + b"\n\n")
    assert last["interaction"]["id"] == ""
    assert "previous_interaction_id" not in last["interaction"]


def test_what_was_stored_of_a_block_that_has_ended_is_not_counted() -> None:
    writer = encoder(OWN, limits=Limits(max_accumulated_bytes=25_000))
    written = [writer.encode(event) for event in BEGIN]
    for index in range(15):  # the projector stores each to write it once
        citation = CitationDelta(index, Citation("web", f"https://a.org/{'b' * 1000}"))
        block = (BlockStart(index, Text()), TextDelta(index, "a"), citation, BlockStop(index))
        written += [writer.encode(event) for event in block]
    assert b"".join(written).count(b"https://a.org/") == 15
