"""The projection to Gemini: whole arguments, merged texts, its own token counts."""

from __future__ import annotations

from hypothesis import example, given
from msgspec import structs
from support.streams.content import overlaps
from support.streams.event_strategies import event_streams

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._registry import capabilities
from streamnorm.validation import validate

START = MessageStart("m", "gpt")
STOP = MessageStop("end_turn")
DROPPED = Loss("broken_arguments", "ToolCall", 1, "call dropped")
MERGED = Loss("boundaries", "Text", 1, "written as one block")


def block(index: int, block: Block, *deltas: Event) -> list[Event]:
    return [BlockStart(index, block), *deltas, BlockStop(index)]


def text(index: int, words: str) -> list[Event]:
    return block(index, Text(), TextDelta(index, words))


def call(index: int, *pieces: str) -> list[Event]:
    return block(index, ToolCall("c", "f"), *(JSONDelta(index, piece) for piece in pieces))


def projected(*events: Event, stop: Event = STOP) -> tuple[list[Event], tuple[Loss, ...]]:
    """Return what is left of a stream behind its start."""
    left, losses = project([START, *events, stop], "gemini")
    assert left[0] == START
    return left[1:], losses


def test_arguments_come_in_one_piece() -> None:
    assert projected(*call(0, '{"a":', "1}")) == ([*call(0, '{"a":1}'), STOP], ())


def test_arguments_are_written_on_one_line() -> None:
    """Some cut lines at U+2028 as well, which JSON has only within strings."""
    events, losses = projected(*call(0, ' {"a":\n1,\r\n"b": "\u2028\u2029\x85"}\t'))
    assert events[1] == JSONDelta(0, '{"a": 1,  "b": "\\u2028\\u2029\\u0085"}')
    assert losses == ()


def test_arguments_of_server_calls_are_written_on_one_line() -> None:
    server = ServerToolCall("s", "code", kind="executableCode")
    pieces = [JSONDelta(0, '{"a":'), JSONDelta(0, "1}")]
    whole = block(0, server, JSONDelta(0, '{"a":1}'))
    assert projected(*block(0, server, *pieces)) == ([*whole, STOP], ())


def test_call_with_broken_arguments_is_withdrawn_and_fails_the_stream() -> None:
    (failed,), losses = projected(*call(0, '{"a"'))
    assert isinstance(failed, StreamError)
    assert (failed.kind, failed.code) == ("malformed", "MALFORMED_FUNCTION_CALL")
    assert losses == (DROPPED,)


def test_call_cut_short_by_the_stop_reason_is_only_withdrawn() -> None:
    for reason in ("max_tokens", "refusal"):
        stop = MessageStop(reason)
        assert projected(*call(0, '{"a"'), stop=stop) == ([stop], (DROPPED,))


def test_texts_around_a_withdrawn_call_merge() -> None:
    stop = MessageStop("max_tokens")
    left, losses = projected(*text(0, "a"), *call(1, "["), *text(2, "b"), stop=stop)
    assert left == [*text(0, "a")[:-1], TextDelta(0, "b"), BlockStop(0), stop]
    assert losses == (DROPPED, MERGED)


def test_texts_around_a_withdrawn_call_that_stops_late_merge() -> None:
    stop = MessageStop("max_tokens")
    start, delta, end = call(1, "[")
    events = [*text(0, "a"), start, delta, *text(2, "b"), end, *text(3, "c")]
    left, losses = projected(*events, stop=stop)
    assert [event for event in left if isinstance(event, BlockStart)] == [BlockStart(0, Text())]
    assert [event.text for event in left if isinstance(event, TextDelta)] == ["a", "b", "c"]
    assert set(losses) == {DROPPED, Loss("boundaries", "Text", 2, "written as one block")}


def test_texts_around_two_withdrawn_calls_merge() -> None:
    stop = MessageStop("max_tokens")
    events = [*text(0, "a"), *call(1, "["), *call(2, "["), *text(3, "b")]
    left, _ = projected(*events, stop=stop)
    assert left == [*text(0, "a")[:-1], TextDelta(0, "b"), BlockStop(0), stop]


def test_overtaken_text_separates_its_neighbours() -> None:
    """It has said nothing when the thought begins, and is written behind it."""
    first, words, end = text(0, "a")
    begin, *thought = block(1, Reasoning(), ReasoningDelta(1, "b"))
    events = [first, begin, *thought[:-1], words, end, thought[-1]]
    left, losses = projected(*events, *block(2, Reasoning(), ReasoningDelta(2, "c")))
    assert left == [
        *block(0, Reasoning(), ReasoningDelta(0, "b")),
        *text(1, "a"),
        *block(2, Reasoning(), ReasoningDelta(2, "c")),
        STOP,
    ]
    assert losses == ()


def test_text_overtaken_twice_separates_its_neighbours() -> None:
    """Both wait for the first of them, and go out in the order of their blocks."""
    first, words, end = text(0, "a")
    begin, said, stopped = block(1, Reasoning(), ReasoningDelta(1, "b"))
    events = [first, begin, said, *text(2, "c"), words, end, stopped, *text(3, "d")]
    left, losses = projected(*events)
    assert left == [
        *block(0, Reasoning(), ReasoningDelta(0, "b")),
        *(BlockStart(1, Text()), TextDelta(1, "a"), TextDelta(1, "c"), TextDelta(1, "d")),
        *(BlockStop(1), STOP),
    ]
    assert losses == (Loss("boundaries", "Text", 2, "written as one block"),)


def test_opaque_data_of_a_withdrawn_call_loses_its_index() -> None:
    stop, data = MessageStop("max_tokens"), Opaque("gemini", "frame", "{}", 0)
    start, *rest = call(0, "[")
    left, _ = projected(start, data, *rest, stop=stop)
    assert left == [Opaque("gemini", "frame", "{}"), stop]


def test_call_open_at_the_failure_is_withdrawn() -> None:
    cut = StreamError("truncated", "cut")
    assert projected(*call(0, "{}")[:-1], stop=cut) == ([cut], (DROPPED,))


def test_signature_separates_texts() -> None:
    signed = block(0, Text(), TextDelta(0, "a"), SignatureDelta(0, "s", "google"))
    assert projected(*signed, *text(1, "b")) == ([*signed, *text(1, "b"), STOP], ())


def test_signature_without_text_merges_with_the_previous_text() -> None:
    """Whatever it was: a client cannot tell, and Gemini means it so."""
    thought = block(0, Reasoning(), ReasoningDelta(0, "a"))
    for before, kind in ((text(0, "a"), "Text"), (thought, "Reasoning")):
        bare = block(1, Text(), SignatureDelta(1, "s", "google"))
        left, losses = projected(*before, *bare)
        assert left == [*before[:-1], SignatureDelta(0, "s", "google"), BlockStop(0), STOP]
        assert losses == (Loss("boundaries", kind, 1, "written as one block"),)


def test_redacted_reasoning_of_google_is_a_signature() -> None:
    sealed = block(1, RedactedReasoning("cw==", "google"))
    signed = SignatureDelta(0, "cw==", "google")
    behind = block(1, Reasoning(), SignatureDelta(1, "cw==", "google"))
    assert projected(*text(0, "a"), *sealed) == ([*text(0, "a"), *behind, STOP], ())
    alone = block(0, RedactedReasoning("cw==", "google"))
    assert projected(*alone) == ([*block(0, Reasoning(), signed), STOP], ())
    foreign = block(0, RedactedReasoning("cw==", "anthropic"))
    assert projected(*foreign) == ([*foreign, STOP], ())


def test_signature_of_a_hidden_thought_after_a_text_is_a_block() -> None:
    """The part is marked as a thought."""
    events = [*text(0, "a"), *block(1, Reasoning(), SignatureDelta(1, "s", "google"))]
    assert projected(*events) == ([*events, STOP], ())


def test_signature_without_text_after_a_call_is_a_block() -> None:
    events = [*call(0, "{}"), *block(1, Text(), SignatureDelta(1, "s", "google"))]
    assert projected(*events) == ([*events, STOP], ())


def test_citations_that_differ_only_in_lost_fields_are_one() -> None:
    cited = [CitationDelta(0, Citation("k", "https://u", "T", words)) for words in "xy"]
    left, losses = projected(*block(0, Text(), TextDelta(0, "a"), *cited))
    web = CitationDelta(0, Citation("web", "https://u", "T"))
    assert left == [*block(0, Text(), TextDelta(0, "a"), web), STOP]
    assert losses == (Loss("citations", "k", 2, "written as web"),)


def test_unsupported_token_counts_are_lost_once() -> None:
    usage = UsageUpdate(Usage(9, 4, 1, 2, 5))
    kept = UsageUpdate(Usage(9, 4, 1, None, 4))
    left, losses = projected(usage, usage)
    assert left == [kept, kept, STOP]
    assert losses == (
        Loss("usage", "cache_write_tokens", 1, "dropped"),
        Loss("usage", "reasoning_tokens", 1, "written as output_tokens"),
    )


def test_stop_sequence_is_lost_with_its_stop_reason() -> None:
    left, losses = projected(stop=MessageStop("stop_sequence", "stop", "END"))
    assert left == [MessageStop("end_turn", "stop")]
    assert losses == (Loss("stop_reason", "stop_sequence", 1, "written as end_turn"),)


def test_sink_holds_whole_arguments() -> None:
    projector = Projector(capabilities("gemini"), Losses())
    for event in [START, BlockStart(0, ToolCall("c", "f")), BlockStart(1, Text())]:
        projector.push(event)
    assert projector.held_sink(JSONDelta(0, "")) is None  # nothing was collected yet
    projector.push(JSONDelta(0, '{"a"'))
    assert projector.passthrough_delta(0) == (None, 0)
    collect = projector.held_sink(JSONDelta(0, ""))
    assert collect is not None
    collect(":1")
    projector.push(JSONDelta(0, "}"))
    assert projector.push(BlockStop(0)) == [JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert all(projector.held_sink(JSONDelta(index, "")) is None for index in (0, 1, 2))


def test_wrapped_arguments_have_no_sink() -> None:
    projector = Projector(capabilities("gemini"), Losses())
    custom = BlockStart(0, ToolCall("c", "f", kind="custom"))
    for event in [START, custom, JSONDelta(0, "a")]:
        projector.push(event)
    assert projector.held_sink(JSONDelta(0, "")) is None
    assert Projector(capabilities("anthropic"), Losses()).held_sink(JSONDelta(0, "")) is None


@given(event_streams(2, failing=True))
def test_projected_stream_is_legal(events: list[Event]) -> None:
    left, _ = project(events, "gemini")
    count = len(left)
    assert [wrong for wrong in validate(left) if wrong.position < count] == []


SIGNED = SignatureDelta(0, "aaa", "google")
LENT = [START, *block(0, Reasoning(), SIGNED), *call(1, "{}"), MessageStop("tool_use")]


@example(LENT)
@given(event_streams(calls_only=True))
def test_projection_is_idempotent(events: list[Event]) -> None:
    left, lost = project(events, "gemini")
    if any(loss.feature == "boundaries" for loss in lost):  # two that cite the same become one
        left = [event for event in left if not isinstance(event, CitationDelta)]
    # A call may have stopped before the call in front of it is withdrawn, to which the signature of
    # the reasoning was lent.
    if DROPPED.feature in {loss.feature for loss in lost} and overlaps(events):
        return
    again, losses = project(left, "gemini")
    assert again == left
    assert {loss.feature for loss in losses} <= {"usage_unknown"}


def test_call_is_withdrawn_from_a_dialect_with_boundaries() -> None:
    losses = Losses()
    target = structs.replace(capabilities("gemini"), boundaries=True)
    projector = Projector(target, losses)
    events = [START, *text(0, "a"), *call(1, "no"), *text(2, "b")]
    left = [passed for event in events for passed in projector.push(event)]
    assert [e for e in left if isinstance(e, TextDelta)] == [TextDelta(0, "a"), TextDelta(2, "b")]
    assert list(projector.withdrawn_calls) == [1]
    assert losses.list() == (DROPPED,)


def test_namespace_is_lost() -> None:
    block = BlockStart(0, ToolCall("c", "f", namespace="n"))
    _, losses = projected(block, JSONDelta(0, "{}"), BlockStop(0))
    assert [loss.feature for loss in losses] == ["namespace"]
