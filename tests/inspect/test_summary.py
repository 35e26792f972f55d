"""The summary of a stream: positions of its blocks, their content, usage and stops."""

from __future__ import annotations

import tracemalloc

import pytest

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Event,
    Image,
    JSONDelta,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageUpdate,
)
from streamnorm.inspect.summary import HEAD_CHARS, StreamSummary, Track

CALL = ToolCall("call_1", "find")


def summary_of(*events: Event, limits: Limits = Limits()) -> StreamSummary:  # noqa: B008 - frozen
    summary = StreamSummary(limits=limits)
    summary.extend([MessageStart("m", "gpt"), *events])
    summary.close()
    return summary


def track(block: Block, *deltas: Event, limits: Limits = Limits()) -> Track:  # noqa: B008 - frozen
    """Return the track of a block that starts with event 1."""
    [only] = summary_of(BlockStart(0, block), *deltas, BlockStop(0), limits=limits).tracks
    return only


def busy(track: Track, cell_width: int = 1) -> list[int]:
    """Return the first event of each part in which a block has events."""
    return [n * cell_width for n in range(track.busy.bit_length()) if track.busy >> n & 1]


def test_tracks_have_the_positions_of_overlapping_blocks() -> None:
    summary = summary_of(
        BlockStart(0, CALL),  # 1
        BlockStart(1, CALL),
        JSONDelta(0, "{"),
        JSONDelta(1, "{"),
        Ping(),
        JSONDelta(0, "}"),
        BlockStop(0),  # 7
        JSONDelta(1, "}"),
        BlockStop(1),  # 9
        MessageStop("tool_use", "tool_calls"),
    )
    first, second = summary.tracks
    assert (first.start, first.stop, busy(first)) == (1, 7, [1, 3, 6, 7])
    assert (second.start, second.stop, busy(second)) == (2, 9, [2, 4, 8, 9])
    assert (summary.events, summary.cell_width) == (11, 1)
    assert summary.stops == [MessageStop("tool_use", "tool_calls")]
    assert summary.start == MessageStart("m", "gpt")


def test_opaque_data_counts_as_an_event_of_its_block() -> None:
    summary = summary_of(
        BlockStart(0, Text()),
        Opaque("openai_chat", "logprobs", "{}", 0),
        Opaque("openai_chat", "heartbeat", "{}"),
        BlockStop(0),
    )
    assert busy(summary.tracks[0]) == [1, 2, 4]


def test_unstopped_block_has_no_stop() -> None:
    summary = summary_of(BlockStart(0, Text()), StreamError("truncated", "cut"))
    assert summary.tracks[0].stop is None
    assert summary.events == 3


def test_last_usage_replaces_the_one_before() -> None:
    summary = summary_of(UsageUpdate(Usage(1)), UsageUpdate(Usage(2, 3)))
    assert summary.usage == Usage(2, 3)


def test_sizes_are_characters_and_utf_8_bytes() -> None:
    seen = track(Text(), TextDelta(0, "Grüß "), TextDelta(0, "今日\ud83d"))
    assert (seen.kind, seen.chars, seen.bytes) == ("text", 8, 16)
    assert seen.head == "Grüß 今日\ud83d"


def test_only_the_beginning_of_a_text_is_stored() -> None:
    seen = track(Text(), *[TextDelta(0, "abc")] * 1000)
    assert seen.head == ("abc" * 1000)[:HEAD_CHARS]
    assert (seen.chars, seen.bytes) == (3000, 3000)


def test_summaries_of_reasoning_are_joined_by_a_blank_line() -> None:
    seen = track(
        Reasoning(),
        ReasoningDelta(0, "One", 1),
        ReasoningDelta(0, ".", 1),
        ReasoningDelta(0, "Two", 2),
    )
    assert (seen.kind, seen.head, seen.chars) == ("reasoning", "One.\n\nTwo", 9)


def test_signature_is_known_by_its_size_and_issuer() -> None:
    seen = track(Reasoning(), ReasoningDelta(0, "a"), SignatureDelta(0, "s" * 40, "google"))
    assert (seen.signature_chars, seen.issuer) == (40, "google")


def test_arguments_have_the_positions_of_their_deltas() -> None:
    seen = track(
        CALL, JSONDelta(0, '{"a":'), JSONDelta(0, ""), JSONDelta(0, "12"), JSONDelta(0, "}")
    )
    assert (seen.head, seen.deltas) == ('{"a":12}', 3)
    assert [n for n in range(8) if seen.cuts >> n & 1] == [0, 5, 7]
    long = track(CALL, *[JSONDelta(0, "a" * 600)] * 3)
    assert (long.deltas, long.cuts) == (3, 1 | 1 << 600)


def test_content_that_no_delta_brought_has_no_deltas() -> None:
    assert track(RedactedReasoning("abc")).deltas == 0
    assert track(Text(), TextDelta(0, "a"), TextDelta(0, "b")).deltas == 2


def test_citations_are_counted() -> None:
    cited = CitationDelta(0, Citation("url_citation"))
    assert track(Text(), TextDelta(0, "a"), cited, cited).citations == 2


@pytest.mark.parametrize(
    ("block", "kind", "name", "id", "content"),
    [
        (Refusal(), "refusal", "", "", ""),
        (CALL, "tool call", "find", "call_1", ""),
        (ToolCall("c", "summary", kind="custom"), "custom tool call", "summary", "c", ""),
        (ServerToolCall("s", "web_search"), "server tool call", "web_search", "s", ""),
        (ServerToolResult("s", "result", [1, 2]), "server tool result", "result", "s", "[1,2]"),
        (RedactedReasoning("abc"), "redacted reasoning", "", "", "abc"),
        (OpaqueBlock("anthropic", "fallback", "{}"), "opaque", "fallback", "", "{}"),
        (Image("image/png", "QQ=="), "image", "image/png", "", "QQ=="),
        (Image(url="https://a"), "image", "", "", "https://a"),
        (Document(), "document", "", "", ""),
        (ToolResult("t", (Text("a"),)), "tool result", "", "t", '[{"type":"text","text":"a"}]'),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_block_is_described(block: Block, kind: str, name: str, id: str, content: str) -> None:
    seen = track(block)
    assert (seen.kind, seen.name, seen.id, seen.head) == (kind, name, id, content)
    assert seen.chars == len(content)


def test_refusal_grows_by_its_own_deltas() -> None:
    assert track(Refusal(), RefusalDelta(0, "No"), RefusalDelta(0, ".")).head == "No."


def test_redacted_reasoning_names_its_issuer() -> None:
    assert track(RedactedReasoning("abc", "anthropic")).issuer == "anthropic"


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        pytest.param(['{"a"', ":[1,2]}"], True, id="object"),
        pytest.param([" {} "], True, id="white space around it"),
        pytest.param([], True, id="none at all"),
        pytest.param(['{"a":'], False, id="cut"),
        pytest.param(["[1]"], False, id="array"),
        pytest.param(['"{}"'], False, id="string"),
        pytest.param(["{}", "{}"], False, id="two objects"),
        pytest.param(['{"a":NaN}'], False, id="NaN"),
        pytest.param(['{"a":"\n"}'], False, id="raw line end"),
        pytest.param(["[" * 100_000], False, id="nested too deep"),
        pytest.param(['{"a":"\ud83d"}'], False, id="lone surrogate"),
    ],
)
@pytest.mark.parametrize("call", [CALL, ServerToolCall("s", "web_search")], ids=["own", "server's"])
def test_arguments_that_are_no_object_are_a_problem(
    call: Block, arguments: list[str], valid: bool
) -> None:
    seen = track(call, *[JSONDelta(0, text) for text in arguments])
    assert seen.problem == ("" if valid else "no valid JSON object")
    assert seen.head == "".join(arguments)[:HEAD_CHARS]


def test_arguments_of_a_call_that_is_cut_are_checked_at_the_end() -> None:
    whole, part = summary_of(
        BlockStart(0, CALL),
        JSONDelta(0, "{}"),
        BlockStart(1, CALL),
        JSONDelta(1, "{"),
        StreamError("truncated", "cut"),
    ).tracks
    assert (whole.problem, part.problem) == ("", "no valid JSON object")


def test_free_text_of_a_custom_tool_is_no_problem() -> None:
    assert track(ToolCall("c", "summary", kind="custom"), JSONDelta(0, "print(1)")).problem == ""


def test_arguments_that_pass_the_bound_are_not_checked() -> None:
    limits = Limits(max_held_bytes=6)
    assert track(CALL, JSONDelta(0, '{"a"'), JSONDelta(0, ":}"), limits=limits).problem == (
        "no valid JSON object"
    )
    longer = track(
        *(CALL, JSONDelta(0, '{"a"'), JSONDelta(0, ":1}"), JSONDelta(0, "}")), limits=limits
    )
    assert longer.problem == "too long to be checked"
    assert longer.head == '{"a":1}}'


def test_closed_and_oversized_calls_release_their_budget() -> None:
    fits = [JSONDelta(0, "{"), JSONDelta(0, "1234}")]
    closed, long, last = summary_of(
        *(BlockStart(0, CALL), *fits, BlockStop(0)),
        *(BlockStart(1, CALL), JSONDelta(1, "{12"), JSONDelta(1, "3456"), BlockStop(1)),
        *(BlockStart(2, CALL), JSONDelta(2, "123456"), BlockStop(2)),
        limits=Limits(max_held_bytes=6),
    ).tracks
    assert closed.problem == "no valid JSON object"
    assert long.problem == "too long to be checked"
    assert last.problem == "no valid JSON object"


@pytest.mark.parametrize(("events", "cell"), [(1024, 1), (1025, 2), (2048, 2), (5000, 8)])
def test_long_stream_has_coarser_cells(events: int, cell: int) -> None:
    texts = [n for n in range(2, events) if n % 100 < 10 or n == events - 1]
    summary = StreamSummary()
    summary.extend([MessageStart(), BlockStart(0, Text())])
    summary.extend([TextDelta(0, "a") if n in texts else Ping() for n in range(2, events)])
    assert (summary.events, summary.cell_width) == (events, cell)
    assert busy(summary.tracks[0], cell) == sorted({n // cell * cell for n in [1, *texts]})


def test_cells_stay_bounded_after_a_long_gap() -> None:
    summary = summary_of(BlockStart(0, Text()), *[Ping()] * 9998, TextDelta(0, "a"))
    assert summary.cell_width == 16
    assert busy(summary.tracks[0], 16) == [0, 10_000]


def test_memory_does_not_grow_with_text_or_events() -> None:
    summary = StreamSummary()
    summary.extend([MessageStart(), BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f"))])
    text, piece = TextDelta(0, "a" * 1000), JSONDelta(1, "[")
    summary.extend([text] * 100)
    tracemalloc.start()
    for _ in range(5000):
        summary.extend([text])
    for _ in range(1000):
        summary.extend([piece])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary.tracks[0].chars == 5_100_000
    assert kept < 50_000
