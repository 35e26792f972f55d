"""What the encoder writes, by the rules that the clients of `ai` 5 to 7 enforce."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from support.ui_message_stream.chunks import START, STOP, middle, written

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Image,
    JSONDelta,
    LimitExceeded,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm._core.codec import RunEncoder
from streamnorm.codec import decoder, encoder


def call(arguments: str, block: Any = None) -> list[Any]:
    block = block or ToolCall("c", "f")
    deltas = [JSONDelta(0, arguments)] if arguments else []
    return middle(BlockStart(0, block), *deltas, BlockStop(0))


def test_message_is_one_step_between_start_and_finish_and_done() -> None:
    events = [START, BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]
    usage = UsageUpdate(Usage(7, 3, 2, 1, 1))
    assert written([*events, usage, MessageStop("max_tokens")]) == [
        {"type": "start", "messageMetadata": {"id": "m", "model": "model"}},
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hi"},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "length",
            "messageMetadata": {
                "usage": {
                    "inputTokens": 7,
                    "outputTokens": 3,
                    "cachedInputTokens": 2,
                    "cacheWriteInputTokens": 1,
                    "reasoningTokens": 1,
                    "totalTokens": 10,
                }
            },
        },
        "[DONE]",
    ]


def test_rule_1_absent_fields_are_left_out_and_never_null() -> None:
    assert written([MessageStart(), STOP]) == [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
        "[DONE]",
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("other", "other"),
    ],
)
def test_rule_1_finish_reason_is_of_the_schema(reason: Any, word: str) -> None:
    assert written([START, MessageStop(reason)])[-2]["finishReason"] == word


def test_rule_4_cut_is_an_error_and_never_a_finish() -> None:
    events = [START, BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a":')]
    error = StreamError("truncated", "connection lost")
    assert written([*events, error])[-2:] == [
        {"type": "error", "errorText": "connection lost"},
        "[DONE]",
    ]
    assert written([StreamError("upstream", "")])[0]["errorText"]


def test_rule_6_half_a_call_is_never_available() -> None:
    events = [START, BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a":1}')]
    types = [c["type"] for c in written([*events, StreamError("truncated", "lost")])[:-1]]
    assert types[2:] == ["tool-input-start", "tool-input-delta", "error"]


def test_input_is_available_as_the_model_wrote_it() -> None:
    assert call('{"n": 12345678901234567890,\n"a": []}')[-1] == {
        "type": "tool-input-available",
        "toolCallId": "c",
        "toolName": "f",
        "input": {"n": 12345678901234567890, "a": []},
    }


def test_rule_6_call_without_arguments_has_an_input() -> None:
    assert call("")[-1]["input"] == {}


@pytest.mark.parametrize(
    "arguments",
    [
        *('{"a":', '{"__proto__":{"a":1}}', '{"constructor":{"prototype":{}}}'),
        '{"\\u0061":' + "[" * 600 + "]" * 600 + "}",
        *('{"\\u005f_proto__":1}', '{"a":[{"c\\u006fnstructor":{"prototype":1}}]}'),
    ],
)
def test_input_that_clients_cannot_parse_is_an_error_of_the_call(arguments: str) -> None:
    last = call(arguments)[-1]
    assert (last["type"], last["input"]) == ("tool-input-error", arguments)
    refused = "the arguments of the call cannot be given to a page"
    broken = "the arguments of the call are no JSON"
    assert last["errorText"] == (broken if arguments == '{"a":' else refused)


@pytest.mark.parametrize(
    "arguments", ['{"constructor":1}', '{"a":"__proto__"}', '{"prototype":[2]}', '{"é":"\\u0000"}']
)
def test_harmless_keys_are_input(arguments: str) -> None:
    assert call(arguments)[-1]["input"] == json.loads(arguments)


@pytest.mark.parametrize(
    ("number", "end"), [("1e999", "tool-input-available"), ("9" * 5000, "tool-input-error")]
)
def test_numbers_beyond_python_are_no_failure(number: str, end: str) -> None:
    """JavaScript reads them; one that is not looked through here is not made available."""
    events = [BlockStart(0, ToolCall("c", "f")), JSONDelta(0, r'{"\u0061":' + number + "}")]
    writer = encoder("ui_message_stream")
    written = [writer.encode(event) for event in (START, *events, BlockStop(0))]
    assert json.loads(written[-1].removeprefix(b"data: "), parse_int=str)["type"] == end
    assert number.encode() in written[-1]


def test_citation_keeps_no_key_that_clients_refuse() -> None:
    citation = Citation("url_citation", "https://u", extra={"__proto__": {"a": 1}})
    start, stop = BlockStart(0, Text()), BlockStop(0)
    sources = middle(start, TextDelta(0, "a"), CitationDelta(0, citation), stop)
    (source,) = [chunk for chunk in sources if chunk["type"] == "source-url"]
    assert "__proto__" not in json.dumps(source)


def test_unfinished_call_is_never_an_input() -> None:
    """The client executes a call whose input is available."""
    chunks = middle(BlockStart(0, ToolCall("c", "rm")), BlockStop(0, is_unfinished=True))
    assert (chunks[-1]["type"], chunks[-1]["input"]) == ("tool-input-error", "")


def test_parallel_calls_interleave_by_their_ids() -> None:
    events = [
        *(BlockStart(0, ToolCall("a", "f")), BlockStart(1, ToolCall("b", "g"))),
        *(JSONDelta(0, "{"), JSONDelta(1, "{}"), JSONDelta(0, "}")),
        *(BlockStop(1), BlockStop(0)),
    ]
    assert [(c["type"].removeprefix("tool-input-"), c["toolCallId"]) for c in middle(*events)] == [
        *(("start", "a"), ("start", "b")),
        *(("delta", "a"), ("delta", "b"), ("delta", "a")),
        *(("available", "b"), ("available", "a")),
    ]


def test_rule_7_tool_of_the_provider_says_so_on_every_chunk_of_the_call() -> None:
    block = ServerToolCall("s", "web_search", kind="server_tool_use")
    first, _, last = call('{"q":1}', block)
    assert first["providerExecuted"] is last["providerExecuted"] is True


@pytest.mark.parametrize(
    ("issuer", "id", "metadata"),
    [
        ("anthropic", None, {"anthropic": {"signature": "s"}}),
        ("openai", None, {"openai": {"reasoningEncryptedContent": "s"}}),
        (
            "openai",
            "rs",
            {
                "openai": {"itemId": "rs", "reasoningEncryptedContent": "s"},
                # No further part of the item follows.
                "streamnorm": {"isContinued": False},
            },
        ),
        ("google", None, {"google": {"thoughtSignature": "s"}}),
        (
            "xai",
            "i",
            {"streamnorm": {"signature": "s", "issuer": "xai", "id": "i", "isContinued": False}},
        ),
        (None, None, {"streamnorm": {"signature": "s"}}),
    ],
)
def test_rule_9_signature_stands_at_the_end_of_its_part(
    issuer: str | None, id: str | None, metadata: dict[str, Any]
) -> None:
    signed = SignatureDelta(0, "s", issuer, id)
    chunks = middle(BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), signed, BlockStop(0))
    assert chunks == [
        {"type": "reasoning-start", "id": "0:0"},
        {"type": "reasoning-delta", "id": "0:0", "delta": "t"},
        {"type": "reasoning-end", "id": "0:0", "providerMetadata": metadata},
    ]


def test_signature_of_a_call_stands_on_its_last_chunk() -> None:
    signed = SignatureDelta(0, "s", "google")
    chunks = middle(BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "{}"), signed, BlockStop(0))
    assert chunks[-1]["providerMetadata"] == {"google": {"thoughtSignature": "s"}}


def test_each_summary_is_a_part() -> None:
    parts = [ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1), ReasoningDelta(0, "c", 1)]
    chunks = middle(BlockStart(0, Reasoning()), *parts, BlockStop(0))
    assert [(c["type"], c["id"]) for c in chunks] == [
        *(("reasoning-start", "0:0"), ("reasoning-delta", "0:0"), ("reasoning-end", "0:0")),
        *(("reasoning-start", "0:1"), ("reasoning-delta", "0:1"), ("reasoning-delta", "0:1")),
        ("reasoning-end", "0:1"),
    ]
    # The page sends parts back without their ids.
    assert [c["providerMetadata"] for c in chunks if "providerMetadata" in c] == [
        {"streamnorm": {"isContinued": True}},
    ]


@pytest.mark.parametrize(
    ("block", "metadata"),
    [
        (RedactedReasoning("d", "anthropic"), {"anthropic": {"redactedData": "d"}}),
        (
            RedactedReasoning("d", "openai", "rs"),
            {
                "openai": {"itemId": "rs", "reasoningEncryptedContent": "d"},
                "streamnorm": {"redactedData": "d", "issuer": "openai", "id": "rs"},
            },
        ),
        (RedactedReasoning("d", "xai"), {"streamnorm": {"redactedData": "d", "issuer": "xai"}}),
    ],
)
def test_redacted_reasoning_is_an_empty_part(
    block: RedactedReasoning, metadata: dict[str, Any]
) -> None:
    assert middle(BlockStart(0, block), BlockStop(0)) == [
        {"type": "reasoning-start", "id": "0:0"},
        {"type": "reasoning-end", "id": "0:0", "providerMetadata": metadata},
    ]


def test_citations_are_sources() -> None:
    cited = [
        Citation("source-url", "https://a", "A"),
        Citation("url_citation", "https://b", start=1, end=2),
        Citation("char_location", title="T", cited_text="x", extra={"document_index": 0}),
        Citation("page_location"),
    ]
    deltas = [CitationDelta(0, citation) for citation in cited]
    chunks = middle(BlockStart(0, Text()), TextDelta(0, "ab"), *deltas, BlockStop(0))
    assert chunks[2:-1] == [
        {"type": "source-url", "sourceId": "source-0", "url": "https://a", "title": "A"},
        {
            "type": "source-url",
            "sourceId": "source-1",
            "url": "https://b",
            "providerMetadata": {
                "streamnorm": {"kind": "url_citation", "startIndex": 1, "endIndex": 2}
            },
        },
        {
            "type": "source-document",
            "sourceId": "source-2",
            "mediaType": "text/plain",
            "title": "T",
            "providerMetadata": {
                "streamnorm": {
                    "kind": "char_location",
                    "citedText": "x",
                    "extra": {"document_index": 0},
                }
            },
        },
        {
            "type": "source-document",
            "sourceId": "source-3",
            "mediaType": "text/plain",
            "title": "page_location",
            "providerMetadata": {"streamnorm": {"kind": "page_location", "untitled": True}},
        },
    ]


@pytest.mark.parametrize(
    ("block", "url"),
    [
        (Image("image/png", "AA=="), "data:image/png;base64,AA=="),
        (Image("image/png", url="https://a"), "https://a"),
        (Document("text/plain", "hi"), "data:text/plain;base64,aGk="),
    ],
)
def test_files_are_urls(block: Any, url: str) -> None:
    chunk = {"type": "file", "url": url, "mediaType": block.media_type}
    assert middle(BlockStart(0, block), BlockStop(0)) == [chunk]


def test_ping_is_a_comment() -> None:
    assert written([START, Ping()])[-1] == ": keep-alive"


def test_rule_3_next_step_ends_the_one_before() -> None:
    step = Opaque("ui_message_stream", "start-step", '{"type":"start-step"}')
    data = Opaque("ui_message_stream", "data-x", '{"type":"data-x",\n"data":1}')
    assert middle(step, data) == [
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "data-x", "data": 1},
    ]


def test_only_the_first_choice_is_written() -> None:
    writer = encoder("ui_message_stream")
    events = [START, BlockStart(0, Text(), 1), TextDelta(0, "other"), BlockStop(0)]
    assert b"other" not in b"".join(writer.encode(event) for event in events)
    assert [loss.feature for loss in writer.losses] == ["choices"]


def test_error_before_the_stream_is_a_plain_sentence() -> None:
    writer = encoder("ui_message_stream")
    assert writer.error_body(StreamError("upstream", "overloaded")) == b"overloaded"
    assert writer.error_body(StreamError("upstream", ""))


def test_other_model_is_named_in_place_of_the_one_that_answered() -> None:
    assert written([START], model="mine")[0]["messageMetadata"]["model"] == "mine"


def test_fast_writer_writes_what_the_slow_one_does() -> None:
    for block, delta in ((Text(), TextDelta(0, "a")), (ToolCall("c", "f"), JSONDelta(0, "1"))):
        writer = encoder("ui_message_stream")
        for event in (START, BlockStart(0, block)):
            writer.encode(event)
        text = delta.text if isinstance(delta, TextDelta) else delta.partial_json
        assert writer.delta_writer(0)(text) == writer.encode(delta)


def test_block_that_the_projection_withholds_is_refused() -> None:
    with pytest.raises(AssertionError, match="Refusal passed the projection"):
        encoder("ui_message_stream").render(BlockStart(0, Refusal()))


def test_answers_of_a_run_are_steps_of_one_message() -> None:
    writer = encoder("ui_message_stream")
    assert isinstance(writer, RunEncoder)
    writer.encode(START)
    writer.encode(UsageUpdate(Usage(3, 1)))
    between = b'data: {"type":"finish-step"}\n\ndata: {"type":"start-step"}\n\n'
    assert writer.begin_step(MessageStart("n", "other")) == between
    writer.encode(UsageUpdate(Usage(4)))
    usage = {"inputTokens": 7, "outputTokens": 1, "totalTokens": 8}
    finish = {"type": "finish", "finishReason": "stop", "messageMetadata": {"usage": usage}}
    assert json.dumps(finish, separators=(",", ":")).encode() in writer.encode(STOP)


@pytest.mark.parametrize("data", ["{", "[]", '"data-x"', '{"data":1}', '{"type":""}', '{"type":1}'])
def test_chunk_without_a_type_is_a_loss(data: str) -> None:
    """The clients fail at it."""
    writer = encoder("ui_message_stream", extras=True)
    writer.encode(START)
    assert writer.encode(Opaque("ui_message_stream", "data-x", data)) == b""
    assert [loss.feature for loss in writer.losses] == ["opaque"]


def test_id_of_the_provider_is_no_id_of_the_page() -> None:
    """Ids of Ollama repeat, and the client replaces the message that has one already."""
    written = encoder("ui_message_stream").encode(MessageStart("chatcmpl-604", "m"))
    metadata = {"id": "chatcmpl-604", "model": "m"}
    start = {"type": "start", "messageMetadata": metadata}
    assert json.loads(written.split(b"\n\n")[0].removeprefix(b"data: ")) == start
    (read, *_) = decoder("ui_message_stream").feed(written)
    assert read == MessageStart("chatcmpl-604", "m", {"messageMetadata": {"id": "chatcmpl-604"}})


@pytest.mark.parametrize(
    "start",
    [
        {"messageId": "page-1", "messageMetadata": {"id": "chatcmpl-604"}},
        {"messageId": "page-1", "messageMetadata": {"id": "page-1"}},
        {"messageMetadata": {"id": "chatcmpl-604"}},
        {"messageMetadata": {"id": 1}},
        {"messageId": "page-1"},
    ],
)
def test_ids_of_a_page_are_written_anew_as_they_were(start: dict[str, Any]) -> None:
    chunks = [{"type": "start", **start}, {"type": "finish", "finishReason": "stop"}]
    body = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks)
    run = Transcoder("ui_message_stream", "ui_message_stream", verbatim=False)
    written = b"".join(run.feed(body) + run.close())
    assert json.loads(written.split(b"\n\n")[0].removeprefix(b"data: ")) == chunks[0]


def test_refusal_ends_its_own_answer_alone() -> None:
    writer = encoder("ui_message_stream")
    assert isinstance(writer, RunEncoder)
    for event in (START, BlockStart(0, Refusal()), RefusalDelta(0, "No."), BlockStop(0)):
        writer.encode(event)
    writer.begin_step(START)
    assert b'"finishReason":"stop"' in writer.encode(STOP)


SEVERAL = [
    *(BlockStart(0, Text()), BlockStart(1, Reasoning()), TextDelta(0, "a")),
    *(ReasoningDelta(1, "b"), ReasoningDelta(1, "c", 1), BlockStop(0), BlockStop(1)),
    *(BlockStart(2, ToolCall("c", "f")), JSONDelta(2, "{}"), BlockStop(2)),
    *(BlockStart(3, Text()), TextDelta(3, "d"), BlockStop(3)),
]


def test_rule_2_pieces_stand_between_start_and_end_of_their_id() -> None:
    open_ids: set[str] = set()
    ended: set[str] = set()
    for chunk in middle(*SEVERAL):
        family, _, action = chunk["type"].rpartition("-")
        id = f"{family} {chunk.get('id') or chunk['toolCallId']}"
        if action == "start":
            assert id not in open_ids | ended
            open_ids.add(id)
            continue
        assert id in open_ids
        if action != "delta":
            open_ids.remove(id)
            ended.add(id)
    assert not open_ids
    assert len(ended) == 5


def test_rule_3_every_part_ends_before_its_step() -> None:
    types = [chunk["type"] for chunk in written([START, *SEVERAL, STOP])[:-1]]
    assert types[-2:] == ["finish-step", "finish"]
    starts = [each for each in types if each.endswith("-start")]
    ends = [each for each in types if each.endswith(("text-end", "reasoning-end", "-available"))]
    assert len(starts) == len(ends) == 5


def test_rule_5_no_failure_is_an_abort() -> None:
    """`useChat` passes over `abort`."""
    for kind in ("upstream", "malformed", "too_large", "truncated", "transport", "stalled"):
        *_, last, done = written([START, StreamError(kind, "no", code="cancelled")])
        assert (last["type"], done) == ("error", "[DONE]")


def test_rule_8_no_chunk_of_a_call_differs_in_dynamic() -> None:
    blocks = (ToolCall("c", "f"), ServerToolCall("c", "f"))
    for chunks in [call('{"a":1}', block) for block in blocks]:
        assert len({chunk.get("dynamic") for chunk in chunks}) == 1


def test_rule_10_message_has_one_start() -> None:
    types = [chunk["type"] for chunk in written([START, *SEVERAL, STOP])[:-1]]
    assert types.count("start") == 1


def test_call_without_arguments_waits_for_what_proves_it_whole() -> None:
    """Anthropic stops a call that the bound of tokens cut before its first argument."""
    begun = [START, BlockStart(0, ToolCall("c", "f")), BlockStop(0)]
    start = {"type": "tool-input-start", "toolCallId": "c", "toolName": "f"}
    available = {**start, "type": "tool-input-available", "input": {}}
    assert written(begun)[2:] == [start]
    assert written([*begun, UsageUpdate(Usage(1)), MessageStop("tool_use")])[2:4] == [
        *(start, available)
    ]
    following = [BlockStart(1, Text()), TextDelta(1, "x")]
    assert written([*begun, *following])[2:4] == [start, available]
    cut = "the answer ended before the arguments of the call"
    refused = {**start, "type": "tool-input-error", "input": "", "errorText": cut}
    assert written([*begun, MessageStop("max_tokens")])[2:4] == [start, refused]
    failed = written([*begun, StreamError("truncated", "cut")])
    assert [chunk["type"] for chunk in failed[2:-1]] == ["tool-input-start", "error"]
    next_step = Opaque("ui_message_stream", "start-step", '{"type":"start-step"}')
    assert written([*begun, next_step])[2:5] == [start, available, {"type": "finish-step"}]
    # Metadata of a part that is not open have no chunk to stand in.
    late = Opaque("ui_message_stream", "providerMetadata", "{}", 0)
    assert written([*begun, late])[2:] == [start]
    server = [START, BlockStart(0, ServerToolCall("c", "f")), BlockStop(0)]
    assert written(server)[3]["type"] == "tool-input-available"


CITED = [
    *(START, BlockStart(0, Text()), TextDelta(0, "Hello.")),
    CitationDelta(0, Citation("web", "https://a", "A", "Hello", 0, 5)),
    CitationDelta(0, Citation("page_location", title="Report")),
    *(BlockStop(0), STOP),
]


def test_newest_client_gets_the_position_of_citations() -> None:
    (end,) = [
        each for each in written(CITED, page_client="ai@7")[:-1] if each["type"] == "text-end"
    ]
    url = {"type": "source", "sourceType": "url", "id": "source-0", "url": "https://a"}
    document = {"type": "source", "sourceType": "document", "id": "source-1"}
    assert end["citations"] == [
        {"source": {**url, "title": "A"}, "startIndex": 0, "endIndex": 5, "citedText": "Hello"},
        {"source": {**document, "mediaType": "text/plain", "title": "Report"}},
    ]


@pytest.mark.parametrize("client", [None, "ai@5", "ai@6"])
def test_all_clients_get_citations_as_sources(client: str | None) -> None:
    assert written(CITED, page_client=client) == written(CITED)
    kept = [each for each in written(CITED, page_client="ai@7")[:-1] if each["type"] != "text-end"]
    assert kept == [each for each in written(CITED)[:-1] if each["type"] != "text-end"]


def test_other_clients_are_refused() -> None:
    with pytest.raises(ValueError, match=r"page_client 'ai@4', expected one of ai@5, ai@6, ai@7"):
        encoder("ui_message_stream", page_client="ai@4")


def test_arguments_of_calls_that_have_ended_are_not_stored() -> None:
    writer = encoder("ui_message_stream", limits=Limits(max_accumulated_bytes=4_000))
    writer.encode(START)
    for index in range(10):
        writer.encode(BlockStart(index, ToolCall(f"c{index}", "f")))
        writer.encode(JSONDelta(index, '"' + "a" * 300 + '"'))
        assert b"tool-input-available" in writer.encode(BlockStop(index))


def test_texts_are_numbered() -> None:
    texts = [(BlockStart(at, Text()), TextDelta(at, "a"), BlockStop(at)) for at in range(3)]
    ids = [each["id"] for each in middle(*chain(*texts)) if each["type"] == "text-start"]
    assert ids == ["0", "1", "2"]


def test_call_that_ended_early_says_so() -> None:
    start, stop = BlockStart(0, ToolCall("c", "f")), BlockStop(0, is_unfinished=True)
    [*_, unfinished] = middle(start, JSONDelta(0, "{}"), stop)
    [*_, broken] = middle(start, JSONDelta(0, "{"), BlockStop(0))
    assert unfinished["errorText"] == "the arguments of the call ended early"
    assert broken["errorText"] == "the arguments of the call are no JSON"


def test_citations_that_wait_for_the_end_of_their_text_are_bounded() -> None:
    source = CitationDelta(0, Citation("url_citation", "https://e.org/", "T" * 800))
    events = [START, BlockStart(0, Text()), TextDelta(0, "a"), *[source] * 20]
    limits = Limits(max_accumulated_bytes=9000)
    with pytest.raises(LimitExceeded):
        written(events, limits=limits, page_client="ai@7")


@pytest.mark.parametrize(
    ("call", "feature"),
    [
        (ToolCall("c", "f", kind="custom"), "custom_tool"),
        (ToolCall("c", "f", namespace="n"), "namespace"),
    ],
)
def test_calls_of_other_kinds_are_losses(call: ToolCall, feature: str) -> None:
    events = [START, BlockStart(0, call), BlockStop(0), MessageStop("tool_use")]
    _, losses = project(events, "ui_message_stream")
    assert feature in [loss.feature for loss in losses]


def test_null_arguments_pass() -> None:
    call = [BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "null"), BlockStop(0)]
    events = [START, *call, MessageStop("tool_use")]
    assert project(events, "ui_message_stream") == (events, ())
