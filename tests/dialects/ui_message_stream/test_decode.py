"""What is read of each chunk; expectations by the reducer of `ai` 7.0.173."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.ui_message_stream.reader import (
    FINISH,
    PM,
    START,
    STEP,
    UI,
    delta,
    end,
    failure,
    frames,
    middle,
    read,
    start,
    tool,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Completed,
    Document,
    Failed,
    Image,
    JSONDelta,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
    Text,
    TextDelta,
    Usage,
    UsageUpdate,
    detect,
)
from streamnorm.codec import decoder
from streamnorm.dialects.ui_message_stream.outcome import stop_reason_from_wire
from streamnorm.dialects.ui_message_stream.traits import is_terminal, recognises
from streamnorm.sse import Frame


def test_message_with_text_and_usage() -> None:
    metadata = {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "x": 1}, "a": 1}
    finish = {**FINISH, "messageMetadata": metadata}
    begin = {**START, "messageMetadata": {"model": "gpt", "b": 2}}
    events, reader = read(
        begin, STEP, start("text"), delta("text", "Hi"), delta("text", "!"), end("text"),
        {"type": "finish-step"}, finish, "[DONE]",
    )  # fmt: skip
    usage = Usage(3, 2, extra={"x": 1})
    assert events == [
        MessageStart("m", "gpt", {"messageMetadata": {"b": 2}}),
        BlockStart(0, Text()),
        TextDelta(0, "Hi"),
        TextDelta(0, "!"),
        BlockStop(0),
        UsageUpdate(usage),
        MessageStop("end_turn", "stop", extra={"messageMetadata": {"a": 1}}),
    ]
    assert reader.outcome == Completed("end_turn", usage)


def test_start_is_optional_and_may_be_repeated() -> None:
    events, reader = read(start("text"), end("text"), START, FINISH)
    assert events[0] == MessageStart()
    assert isinstance(reader.outcome, Failed)
    events, reader = read(START, START, {"type": "start"}, FINISH)
    assert [note.kind for note in reader.notes] == ["repeated_message_start"]
    assert events == [MessageStart("m"), MessageStop("end_turn", "stop")]
    assert read({"type": "start", "messageMetadata": {"usage": {"x": 1}}})[0][0].extra


def test_missing_start_is_a_note() -> None:
    events, reader = read(start("text"), end("text"), {"type": "finish"})
    assert events[-1] == MessageStop("end_turn")
    assert [note.kind for note in reader.notes] == ["missing_start"]


def test_ids_are_free_again_after_their_end() -> None:
    chunks = (start("text"), end("text"), start("text"), delta("text", "b"), end("text"))
    assert middle(*chunks)[2:] == [BlockStart(1, Text()), TextDelta(1, "b"), BlockStop(1)]


def test_signature_stands_in_the_last_metadata() -> None:
    assert middle(
        start("reasoning"), delta("reasoning", "t"),
        delta("reasoning", "", providerMetadata=PM), end("reasoning"),
    ) == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "t"),
        SignatureDelta(0, "s", "anthropic"),
        BlockStop(0),
    ]  # fmt: skip
    signed = start("text", providerMetadata={"google": {"thoughtSignature": "g"}})
    assert middle(signed, end("text")) == [
        BlockStart(0, Text()),
        SignatureDelta(0, "g", "google"),
        BlockStop(0),
    ]


@pytest.mark.parametrize(
    ("metadata", "signed"),
    [
        ({"openai": {"itemId": "i", "reasoningEncryptedContent": "e"}}, ("e", "openai", "i")),
        ({"vertex": {"thoughtSignature": "g"}}, ("g", "google", None)),
        ({"streamnorm": {"signature": "s", "issuer": "xai", "id": "i"}}, ("s", "xai", "i")),
        (
            {"pydantic_ai": {"signature": "s", "provider_name": "google-gla", "id": "i"}},
            ("s", "google", "i"),
        ),
    ],
)
def test_signatures_of_every_issuer(metadata: Any, signed: tuple[Any, ...]) -> None:
    found = middle(
        start("reasoning"), delta("reasoning", "t"), end("reasoning", providerMetadata=metadata)
    )
    assert found[2] == SignatureDelta(0, *signed)


def test_redacted_reasoning_is_a_block_of_its_own() -> None:
    metadata = {"anthropic": {"redactedData": "d"}}
    redacted = RedactedReasoning("d", "anthropic")
    whole = [BlockStart(0, redacted), BlockStop(0)]
    assert middle(start("reasoning", providerMetadata=metadata), end("reasoning")) == whole
    found = middle(
        start("reasoning"), delta("reasoning", "t"), end("reasoning", providerMetadata=metadata)
    )
    assert found[-3:] == [BlockStop(0), BlockStart(1, redacted), BlockStop(1)]


def test_numbered_reasoning_is_one_block_of_summaries() -> None:
    chunks = (
        start("reasoning", "r:0"), delta("reasoning", "a", "r:0"), end("reasoning", "r:0"),
        start("reasoning", "r:1"), delta("reasoning", "b", "r:1"), delta("reasoning", "c", "r:1"),
        end("reasoning", "r:1", providerMetadata=PM),
    )  # fmt: skip
    assert middle(*chunks) == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        ReasoningDelta(0, "c", 1),
        SignatureDelta(0, "s", "anthropic"),
        BlockStop(0),
    ]
    apart = (
        start("reasoning", "r:0"),
        end("reasoning", "r:0"),
        start("reasoning", "x"),
        end("reasoning", "x"),
    )
    assert [type(event) for event in middle(*apart)] == [BlockStart, BlockStop] * 2
    other = (
        *chunks[:3],
        start("reasoning", "q:1"),
        end("reasoning", "q:1"),
        start("text"),
        end("text"),
    )
    assert [event.index for event in middle(*other) if isinstance(event, BlockStart)] == [0, 1, 2]
    assert middle(*chunks[:3], start("text"), delta("text", "x"), end("text"))[2] == BlockStop(0)


def test_mark_of_a_summary_is_no_metadata_of_its_block() -> None:
    marked = {"streamnorm": {"isContinued": True}}
    first = start("reasoning", "r:0"), delta("reasoning", "a", "r:0")
    last = start("reasoning", "r:1"), delta("reasoning", "b", "r:1"), end("reasoning", "r:1")
    assert middle(*first, end("reasoning", "r:0", providerMetadata=marked), *last) == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        BlockStop(0),
    ]


def test_sources_cite_the_open_text() -> None:
    own = {
        "streamnorm": {
            "kind": "web",
            "citedText": "q",
            "startIndex": 0,
            "endIndex": 1,
            "extra": {"a": 1},
        }
    }
    url = {"type": "source-url", "sourceId": "1", "url": "u"}
    page = {"type": "source-document", "sourceId": "1", "mediaType": "x/y", "title": "T"}
    found = middle(
        start("text"), {**url, "title": "T", "providerMetadata": own},
        {**url, "providerMetadata": {"openai": {}}}, page,
        {**page, "providerMetadata": {"streamnorm": {"untitled": True}}}, end("text"), url,
    )  # fmt: skip
    assert found[1:5] == [
        CitationDelta(0, Citation("web", "u", "T", "q", 0, 1, {"a": 1})),
        CitationDelta(0, Citation("source-url", "u", extra={"providerMetadata": {"openai": {}}})),
        CitationDelta(0, Citation("source-document", title="T")),
        CitationDelta(0, Citation("source-document")),
    ]
    assert isinstance(found[-1], Opaque)


def test_files() -> None:
    def file(media_type: str, url: str) -> Any:
        return {"type": "file", "url": url, "mediaType": media_type}

    found = middle(
        file("image/png", "data:image/png;base64,AA=="), file("application/pdf", "https://a"),
        file("audio/wav", "data:audio/wav;base64,AA=="), file("image/png", "data:,x"),
    )  # fmt: skip
    assert found[0] == BlockStart(0, Image("image/png", "AA=="))
    assert found[2] == BlockStart(1, Document("application/pdf", None, "https://a"))
    assert [type(event) for event in found[4:]] == [Opaque, Opaque]


def test_signed_image() -> None:
    file = {"type": "file", "url": "data:image/png;base64,AA==", "mediaType": "image/png"}
    signature = {"google": {"thoughtSignature": "s"}}
    found = middle({**file, "providerMetadata": signature}, {**file, "providerMetadata": {"a": {}}})
    assert found == [
        BlockStart(0, Image("image/png", "AA==", signature="s", issuer="google")),
        BlockStop(0),
        BlockStart(1, Image("image/png", "AA=="), extra={"providerMetadata": {"a": {}}}),
        BlockStop(1),
    ]


def test_other_chunks_are_opaque() -> None:
    metadata = {"type": "message-metadata", "messageMetadata": {"usage": {"outputTokens": 1}}}
    assert middle({"type": "data-x", "data": 1}, STEP, metadata, {"type": "reset-step"}) == [
        Opaque(UI, "data-x", '{"type":"data-x","data":1}'),
        Opaque(UI, "start-step", '{"type":"start-step"}'),
        UsageUpdate(Usage(output_tokens=1)),
        Opaque(UI, "message-metadata", json.dumps(metadata).replace(" ", "")),
    ]


def test_halves_of_a_character_are_joined() -> None:
    found = middle(
        start("text"), '{"type":"text-delta","id":"0","delta":"\\ud83d"}',
        '{"type":"text-delta","id":"0","delta":"\\ude00"}', end("text"),
        start("reasoning", "r:0"), '{"type":"reasoning-delta","id":"r:0","delta":"\\ud83d"}',
        end("reasoning", "r:0"), tool("input-start"),
        '{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"\\ud83d"}',
        tool("input-error", input="", errorText="e"),
    )  # fmt: skip
    assert [e for e in found if isinstance(e, TextDelta | ReasoningDelta | JSONDelta)] == [
        TextDelta(0, "\U0001f600"),
        ReasoningDelta(1, "\ufffd"),
        JSONDelta(2, "\ufffd"),
    ]


def test_open_parts_are_closed_at_the_end() -> None:
    events, reader = read(START, start("text"), tool("input-start"), FINISH)
    assert events[-1] == MessageStop("tool_use", "stop")
    assert [note.kind for note in reader.notes] == ["missing_block_stop", "unfinished_arguments"]


@pytest.mark.parametrize(
    "chunks",
    [
        [delta("text", "x")],
        [end("reasoning")],
        [start("text"), start("text")],
        [{"type": "text-start"}],
        [tool("input-delta", inputTextDelta="x")],
        [tool("input-start"), tool("input-start")],
        [tool("input-available")],
        [tool("input-start"), tool("input-available", input={}, providerExecuted=True)],
        [tool("output-available", output=1)],
        [tool("input-available", input={}), tool("output-available")],
        [{"type": "start", "messageId": "other"}],
        ["[]"],
        ["{"],
        ["{}"],
    ],
)
def test_stream_that_the_client_fails_at_is_malformed(chunks: list[Any]) -> None:
    assert failure(*chunks).kind == "malformed"


@pytest.mark.parametrize(
    ("chunk", "kind", "message"),
    [
        ({"type": "error", "errorText": "boom"}, "upstream", "boom"),
        ({"error": {"message": "boom"}}, "upstream", "boom"),
        ({"type": "abort"}, "truncated", "the answer was aborted"),
        ({"type": "abort", "reason": "stop"}, "truncated", "the answer was aborted: stop"),
        (
            {"type": "finish", "finishReason": "interrupted"},
            "truncated",
            "the answer was interrupted",
        ),
        ({"type": "finish", "finishReason": "error"}, "upstream", "the answer failed"),
    ],
)
def test_failures(chunk: Any, kind: str, message: str) -> None:
    found = failure(chunk)
    assert (found.kind, found.message) == (kind, message)


def test_withdrawn_step_fails_the_stream() -> None:
    assert failure(start("text"), {"type": "reset-step"}).code == "reset-step"


def test_done_without_finish_is_a_cut() -> None:
    assert failure(start("text"), end("text"), "[DONE]").kind == "truncated"


def test_end_needs_no_blank_line() -> None:
    reader = decoder(UI)
    events = reader.feed(b'data: {"type":"start"}\n\ndata: {"type":"finish"}')
    assert (events + reader.close())[-1] == MessageStop("end_turn")
    assert isinstance(reader.outcome, Completed)
    cut = decoder(UI)
    cut.feed(b'data: {"type":"start"}\n\ndata: [DONE]')
    assert cut.close()[-1].kind == "truncated"  # type: ignore[union-attr]  # a StreamError


def test_frames_are_recognised_by_their_type() -> None:
    known = decoder(None)
    assert known.feed(b'data: {"type":"start"}\n\n') == []  # says nothing alone
    assert known.feed(b'data: {"type":"start-step"}\n\n') == [MessageStart()]
    for data in (
        '{"type":"text-start"}',
        '{"type":"data-x"}',
        '{"type":"finish","finishReason":"stop"}',
    ):
        assert detect(Frame("message", data)) == UI
    for foreign in ('{"type":"image"}', '{"type":"finish"}', '{"type":"abort"}'):
        assert detect(Frame("message", foreign)) is None
    assert detect(Frame("message", '{"type":"error","errorText":"no"}')) is not None
    assert detect(Frame("message", "{")) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [("[DONE]", True), ('{"type":"finish"}', True), ('{"type":"start"}', False), ("{", False)],
)
def test_terminal_is_finish_or_done(data: str, expected: bool) -> None:
    assert is_terminal(Frame("message", data)) is expected


def test_error_is_recognised_by_its_text() -> None:
    assert recognises(Frame("message", '{"type":"error","errorText":"no"}'))
    assert not recognises(Frame("message", '{"type":"error","message":"no"}'))


def test_open_call_decides_between_the_reasons() -> None:
    assert stop_reason_from_wire("length", has_open_call=True) == "max_tokens"
    assert stop_reason_from_wire("tool-calls", has_open_call=False) == "end_turn"


def test_parts_without_text_are_bounded() -> None:
    limits = Limits(max_accumulated_bytes=5000)
    parts = [start("reasoning", str(number), x="y" * 100) for number in range(60)]
    assert failure(*parts, limits=limits).kind == "too_large"


def test_replaced_metadata_counts_once() -> None:
    limits = Limits(max_accumulated_bytes=5000)
    metadata = {"x": {"y": "z" * 1000}}
    deltas = [delta("text", "a", providerMetadata=metadata) for _ in range(60)]
    _, reader = read(START, STEP, start("text"), *deltas, end("text"), FINISH, limits=limits)
    assert isinstance(reader.outcome, Completed)


def test_half_a_character_in_a_field_of_the_start_is_cleaned() -> None:
    raw = r'{"type":"text-start","id":"0","delta":"\ud800"}'
    events, _ = read(START, STEP, raw)
    assert events[1] == BlockStart(0, Text(), extra={"delta": "\ufffd"})


def test_reasoning_that_may_go_on_ends_before_what_follows() -> None:
    ended = start("reasoning", "r:0"), delta("reasoning", "a", "r:0"), end("reasoning", "r:0")
    found = middle(start("text"), *ended, end("text"))
    assert found[2:] == [ReasoningDelta(1, "a"), BlockStop(1), BlockStop(0)]
    found = middle(*ended, {"type": "data-x", "data": 1})
    assert [type(event) for event in found[2:]] == [BlockStop, Opaque]


def test_step_without_a_start_may_be_withdrawn() -> None:
    chunks = start("text"), delta("text", "a"), {"type": "reset-step"}
    _, reader = read(START, *chunks)
    assert isinstance(reader.outcome, Failed)
    assert reader.outcome.error.code == "reset-step"


def test_part_without_text_is_a_block() -> None:
    whole = [BlockStart(0, Text()), BlockStop(0)]
    assert middle(start("text"), end("text")) == whole


def test_usage_of_the_start_is_read() -> None:
    begin = {**START, "messageMetadata": {"usage": {"inputTokens": 3}}}
    events, _ = read(begin, STEP, FINISH, "[DONE]")
    assert events[1] == UsageUpdate(Usage(3))


def test_vendor_fields_of_the_usage_are_bounded() -> None:
    usage = {"inputTokens": 3, "x": "a" * 9000}
    finish = {**FINISH, "messageMetadata": {"usage": usage}}
    error = failure(finish, limits=Limits(max_accumulated_bytes=9000))
    assert (error.kind, error.code) == ("too_large", "max_accumulated_bytes")


def test_summary_that_begins_again_is_a_block_of_its_own() -> None:
    summary = (start("reasoning", "r:0"), delta("reasoning", "a", "r:0"), end("reasoning", "r:0"))
    blocks = [event for event in middle(*summary, *summary) if isinstance(event, BlockStart)]
    assert blocks == [BlockStart(0, Reasoning()), BlockStart(1, Reasoning())]


def test_signature_at_the_start_of_a_later_summary_signs_the_block() -> None:
    first = (start("reasoning", "r:0"), delta("reasoning", "a", "r:0"), end("reasoning", "r:0"))
    later = (start("reasoning", "r:1", providerMetadata=PM), delta("reasoning", "b", "r:1"))
    found = middle(*first, *later, end("reasoning", "r:1"))
    assert found[-2:] == [SignatureDelta(0, "s", "anthropic"), BlockStop(0)]


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "source-url", "sourceId": "s", "url": "https://e.org/"},
        {"type": "finish-step"},
        tool("output-available", output="x"),
    ],
    ids=lambda chunk: str(chunk["type"]),
)
def test_chunk_that_goes_on_with_no_summary_ends_the_reasoning(chunk: dict[str, Any]) -> None:
    reader = decoder(UI)
    call = tool("input-available", input={})
    summary = (start("reasoning", "r:0"), delta("reasoning", "a", "r:0"), end("reasoning", "r:0"))
    assert BlockStop(1) not in reader.feed(frames(START, STEP, call, *summary))
    assert reader.feed(frames(chunk))[:1] == [BlockStop(1)]
