"""The differences of two streams: their alignment, their fields, and messages of two dialects."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from support.openai_chat.chunks import DONE, call, calls, chunk, content
from support.operation_counts import lines
from support.streams.corpus import each_recording

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
)
from streamnorm.inspect import Survey
from streamnorm.inspect.compare import (
    MAX_DIFFERENCES,
    Comparison,
    Difference,
    FieldDifference,
    Place,
    compare,
)
from streamnorm.inspect.report import TimedEvent
from streamnorm.recording import Recording

START = MessageStart("m", "gpt")
STOP = (BlockStop(0), MessageStop("end_turn"))


def timed(events: Iterable[Event]) -> list[TimedEvent]:
    """Return events, each in a frame of its own."""
    return [TimedEvent(n, 10 + n, None, event) for n, event in enumerate(events)]


def text(*deltas: str) -> list[Event]:
    return [START, BlockStart(0, Text()), *(TextDelta(0, delta) for delta in deltas), *STOP]


def compare_events(a: Iterable[Event], b: Iterable[Event]) -> Comparison:
    return compare(timed(a), timed(b), same_dialect=True)


def counts(found: Comparison) -> tuple[int, int, int, int]:
    return found.equal, found.changed, found.only_a, found.only_b


def test_equal_streams_have_no_difference() -> None:
    found = compare_events(text("a", "b"), text("a", "b"))
    assert (counts(found), found.differs, found.differences) == ((6, 0, 0, 0), False, [])
    assert not compare_events([], []).differs


def test_changed_event_has_its_place_and_its_field() -> None:
    found = compare_events(text("a", "b", "c"), text("a", "x", "c"))
    assert counts(found) == (6, 1, 0, 0)
    assert found.differences == [
        Difference(
            "text_delta",
            0,
            Place(3, 13),
            Place(3, 13),
            (FieldDifference("text", '"b"', '"x"'),),
        )
    ]


def test_missing_event_does_not_shift_those_behind_it() -> None:
    found = compare_events(text("a", "b", "c"), text("a", "c"))
    assert counts(found) == (6, 0, 1, 0)
    assert found.differences == [Difference("text_delta", 0, Place(3, 13), None)]
    other = compare_events(text("a", "c"), [Ping(), *text("a", "c")])
    assert other.differences == [Difference("ping", None, None, Place(0, 10))]


def test_events_of_other_types_are_no_change_of_each_other() -> None:
    found = compare_events(
        [START, StreamError("truncated", "cut")],
        [START, BlockStart(0, Text()), TextDelta(0, "a")],
    )
    assert counts(found) == (1, 0, 1, 2)
    assert sorted(each.event for each in found.differences) == [
        "block_start",
        "stream_error",
        "text_delta",
    ]


def test_rest_of_the_longer_stream_is_only_its() -> None:
    assert counts(compare_events(text("a"), text("a")[:2])) == (2, 0, 3, 0)
    assert counts(compare_events(text("a")[:2], text("a"))) == (2, 0, 0, 3)


def test_fields_are_named_by_their_path() -> None:
    a = MessageStart("m", "gpt", {"logs": [1, {"p": 0.5}], "tier": "flex"})
    b = MessageStart("m", "gpt", {"logs": [1, {"p": 0.25}, 3], "mode": None})
    [found] = compare_events([a], [b]).differences
    assert found.fields == (
        FieldDifference("extra.logs[1].p", "0.5", "0.25"),
        FieldDifference("extra.logs[2]", None, "3"),
        FieldDifference("extra.tier", '"flex"', None),
        FieldDifference("extra.mode", None, "null"),
    )


def test_numbers_are_equal_in_any_spelling_but_true_and_false_are_no_numbers() -> None:
    def start(value: object) -> list[Event]:
        return [MessageStart("m", "gpt", {"a": {"list": [0, value]}, "b": value})]

    for a, b in ((1, 1.0), (0, 0.0), (True, True), (None, None)):
        assert not compare_events(start(a), start(b)).differs
    for a, b, shown in ((1, True, "1"), (0.0, False, "0.0")):
        [found] = compare_events(start(a), start(b)).differences
        assert found.fields == (
            FieldDifference("extra.a.list[1]", shown, str(b).lower()),
            FieldDifference("extra.b", shown, str(b).lower()),
        )


def test_values_in_the_citations_of_a_block_have_a_path() -> None:
    def start(value: object) -> list[Event]:
        return [START, BlockStart(0, Text(citations=(Citation("web", extra={"n": value}),)))]

    assert not compare_events(start(1), start(1.0)).differs
    [found] = compare_events(start(1), start(True)).differences
    assert found.fields == (FieldDifference("block.citations[0].extra.n", "1", "true"),)


def test_long_values_are_shown_from_their_difference_on() -> None:
    a, b = "same " * 1000 + "left" + "!" * 100, "same " * 1000 + "right"
    [found] = compare_events(text(a), text(b)).differences
    assert found.fields == (
        FieldDifference("text", '…"same same left' + "!" * 46 + '"…', '…"same same right"'),
    )
    short = MessageStart(extra={"a": list(range(100))}), MessageStart(extra={"a": 1})
    [found] = compare_events(*([each] for each in short)).differences
    value = found.fields[0].a
    assert value is not None
    assert (len(value), value[-1], found.fields[0].b) == (61, "…", "1")


def test_fields_of_an_event_are_bounded() -> None:
    a = MessageStart(extra={str(n): n for n in range(1000)})
    [found] = compare_events([a], [MessageStart()]).differences
    assert len(found.fields) == 1  # the whole field is missing
    b = MessageStart(extra={str(n): -n - 1 for n in range(1000)})
    [found] = compare_events([a], [b]).differences
    assert len(found.fields) == 32


def test_differences_are_stored_up_to_their_bound() -> None:
    a, b = ([START, *(TextDelta(0, f"{x}{n}") for n in range(1500))] for x in "ab")
    found = compare_events(a, b)
    assert (counts(found), len(found.differences)) == ((1, 1500, 0, 0), MAX_DIFFERENCES)


def test_vendor_data_without_a_hash_is_compared() -> None:
    a, b = (Opaque("openai_chat", "logprobs", data) for data in ("{}", "[]"))
    assert compare_events([a], [a]).equal == 1
    assert compare_events([a], [b]).differences[0].fields == (
        FieldDifference("data", '"{}"', '"[]"'),
    )


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
def test_every_event_is_counted_once_and_in_order(a: list[str], b: list[str]) -> None:
    found = compare_events(text(*a), text(*b))
    assert found.equal + found.changed + found.only_a == len(a) + 4
    assert found.equal + found.changed + found.only_b == len(b) + 4
    assert found.differs == (a != b)
    for side in ("a", "b"):
        places = [place.number for each in found.differences if (place := getattr(each, side))]
        assert places == sorted(set(places))


def test_steps_are_linear_in_events_that_all_differ() -> None:
    def steps(count: int) -> int:
        a, b = (timed(TextDelta(0, f"{x}{n}") for n in range(count)) for x in "ab")
        return lines(lambda: compare(a, b, same_dialect=True))

    assert steps(2000) < 2.5 * steps(1000)


# Messages of two dialects


def events_of(dialect: str, data: bytes) -> list[TimedEvent]:
    run = Survey(dialect)
    return [*run.feed(data).events, *run.close().events]


def compare_messages(a: Iterable[Event], b: Iterable[Event]) -> Comparison:
    return compare(timed(a), timed(b), same_dialect=False)


ANSWER = (
    content("Hel")
    + content("lo")
    + calls(call(0, "c1", "f", '{"a": 1}'))
    + chunk({}, "tool_calls")
    + DONE
)


def test_message_of_another_dialect_is_equal_however_it_is_cut() -> None:
    transcoder = Transcoder("openai_chat", "anthropic")
    written = b"".join([*transcoder.feed(ANSWER), *transcoder.close()])
    found = compare(
        events_of("openai_chat", ANSWER), events_of("anthropic", written), same_dialect=False
    )
    # The tokens are unknown in one and 0 in the other.
    assert (found.compared, found.equal, found.differs) == ("messages", 5, False)


def test_arguments_are_equal_in_any_spelling() -> None:
    def call_of(arguments: str) -> list[Event]:
        start = BlockStart(0, ToolCall("c", "f"))
        return [START, start, JSONDelta(0, arguments), BlockStop(0), MessageStop("tool_use")]

    assert not compare_messages(call_of('{"a": [1]}'), call_of('{"a":[1]}')).differs
    assert compare_messages(call_of('{"a": [1]}'), call_of('{"a":[2]}')).differs
    assert compare_messages(call_of('{"a":'), call_of('{"a": ')).differs


def test_vendor_fields_do_not_count_between_dialects() -> None:
    a = [MessageStart("m", "gpt", {"x": 1}), UsageUpdate(Usage(1, 2, extra={"y": 1})), *STOP[1:]]
    assert not compare_messages(a, [START, UsageUpdate(Usage(1, 2)), *STOP[1:]]).differs


def test_message_that_failed_differs_from_one_that_ended() -> None:
    [found] = compare_messages(
        text("a"), [*text("a")[:3], StreamError("stalled", "late")]
    ).differences[-1:]
    assert found.event == "stream_error"
    assert found.b == Place(3)


def test_empty_streams_have_equal_messages() -> None:
    assert not compare_messages([], []).differs


@each_recording
def test_recording_is_equal_to_itself(recording: Recording) -> None:
    events = events_of(recording.dialect or "openai_chat", recording.body)
    for same_dialect in (True, False):
        assert not compare(events, events, same_dialect=same_dialect).differs
