"""Events to a message, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.streams.event_strategies import coalesced, make_stream, messages

from streamnorm import (
    Accumulator,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Message,
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
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    accumulate,
    message_events,
)
from streamnorm._core.limits import NEAR_BYTES
from streamnorm._core.messages import UsageAccumulator
from streamnorm._core.text import BATCH
from streamnorm.partial_json import ValueDelta


@given(messages())
def test_events_accumulate_to_the_message(message: Message) -> None:
    assert accumulate(message_events(message)) == message


@given(draws())
def test_accumulating_in_batches_gives_the_same_message(d: Draws) -> None:
    events = make_stream(d, choices=2, failing=True)
    accumulator = Accumulator()
    for event in events:
        accumulator.push(event)
        if d.flag():
            accumulator.message()
    assert accumulator.message(1) == accumulate(events, choice=1)
    assert accumulator.message() == accumulate(events) == accumulate(coalesced(events))


def test_every_delta_type_extends_its_block() -> None:
    events: list[Event] = [
        MessageStart("m1", "gpt", {"created": 1}),
        *(BlockStart(0, Text("a")), BlockStart(1, Reasoning(("p",))), BlockStart(2, Refusal("n"))),
        *(BlockStart(3, ToolCall("c", "f", "[")), BlockStart(4, ServerToolCall("s", "g", "("))),
        BlockStart(5, RedactedReasoning("zz", "anthropic")),
        *(TextDelta(0, "b"), CitationDelta(0, Citation("k")), TextDelta(0, "c")),
        *(ReasoningDelta(1, "q"), ReasoningDelta(1, "r", 2), SignatureDelta(1, "s1", "anthropic")),
        *(RefusalDelta(2, "o"), JSONDelta(3, "1"), SignatureDelta(3, "s3"), JSONDelta(3, "]")),
        *(JSONDelta(4, ")"), Ping(), Opaque("d", "n", "{}", 0)),
        *(BlockStop(index) for index in range(6)),
        *(UsageUpdate(Usage(1)), UsageUpdate(Usage(1, 2))),
        MessageStop("stop_sequence", "stop", "END", extra={"tier": 1}),
    ]
    assert accumulate(events) == Message(
        "m1",
        "gpt",
        (
            Text("abc", (Citation("k"),)),
            Reasoning(("pq", "", "r"), "s1", "anthropic"),
            Refusal("no"),
            ToolCall("c", "f", "[1]", signature="s3"),
            ServerToolCall("s", "g", "()"),
            RedactedReasoning("zz", "anthropic"),
        ),
        "stop_sequence",
        "stop",
        "END",
        Usage(1, 2),
        {"created": 1},
        {"tier": 1},
    )


def test_stop_says_whether_free_text_is_unfinished() -> None:
    call = ToolCall("c", "f", kind="custom")
    for is_unfinished in (False, True):
        stop = BlockStop(0, is_unfinished)
        events = [MessageStart(), BlockStart(0, call), JSONDelta(0, "*** Beg"), stop]
        whole = ToolCall("c", "f", "*** Beg", "custom", is_unfinished=is_unfinished)
        assert accumulate(events).blocks == (whole,)
        assert message_events(Message(blocks=(whole,)))[1:] == events[1:]


def test_each_choice_has_its_own_message() -> None:
    events: list[Event] = [
        MessageStart("m"),
        BlockStart(0, Text(), 1),
        BlockStart(1, Text()),
        *(TextDelta(0, "one"), TextDelta(1, "zero"), BlockStop(0), BlockStop(1)),
        *(MessageStop("end_turn"), MessageStop("max_tokens", choice=1)),
    ]
    zero, one = accumulate(events), accumulate(events, choice=1)
    assert (zero.text, zero.stop_reason) == ("zero", "end_turn")
    assert (one.text, one.stop_reason) == ("one", "max_tokens")


def test_unfinished_stream_has_a_partial_message() -> None:
    events = [MessageStart("m"), BlockStart(0, Text()), TextDelta(0, "ha")]
    assert accumulate([*events, StreamError("transport", "reset")]) == Message(
        "m", blocks=(Text("ha"),)
    )
    assert accumulate([]) == Message()


def test_usage_is_the_last_snapshot() -> None:
    accumulator = Accumulator()
    assert accumulator.usage == Usage()
    accumulator.extend([MessageStart(), UsageUpdate(Usage(1, 2)), UsageUpdate(Usage(3))])
    assert accumulator.usage == Usage(3)


def test_many_small_deltas_are_joined() -> None:
    accumulator = Accumulator()
    accumulator.push(BlockStart(0, Text()))
    for number in range(500):
        accumulator.push(TextDelta(0, f"{number},"))
    assert accumulator.message().text == "".join(f"{number}," for number in range(500))


def test_block_waits_once_for_its_text_to_be_packed() -> None:
    accumulator = Accumulator()
    accumulator.extend([BlockStart(0, Text()), BlockStart(1, Reasoning())])
    append, _ = accumulator.text_sinks(1)
    for _ in range(500):
        accumulator.push(TextDelta(0, "a"))
        append("b")
        assert len(accumulator._unpacked) <= 2
    assert accumulator.message().blocks == (Text("a" * 500), Reasoning(("b" * 500,)))


def test_list_of_a_block_takes_texts_between_those_that_are_appended() -> None:
    accumulator = Accumulator()
    accumulator.push(BlockStart(0, Text()))
    append, fresh = accumulator.text_sinks(0)
    expected = ""
    for number in range(100):
        if len(fresh) < BATCH:
            fresh.append(f"{number},")
        else:
            append(f"{number},")
        expected += f"{number},"
        if number % 30 == 7:
            accumulator.push(TextDelta(0, "|"))
            expected += "|"
    assert accumulator.message().text == expected


def test_lists_of_many_blocks_are_taken_back() -> None:
    accumulator = Accumulator()
    accumulator.extend([BlockStart(index, Text()) for index in range(20)])
    sinks = [accumulator.text_sinks(index) for index in range(20)]
    assert [len(fresh) < BATCH for _, fresh in sinks] == [False] * 16 + [True] * 4
    for _, fresh in sinks[16:]:
        fresh.append("a")
    for append, _ in sinks:
        append("b")
    expected = ("b",) * 16 + ("ab",) * 4
    assert accumulator.message().blocks == tuple(map(Text, expected))


def test_list_of_a_block_is_taken_back_near_the_bound() -> None:
    bound = NEAR_BYTES + 100
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=bound))
    accumulator.push(BlockStart(0, Text()))  # {"type":"text"} is 15 bytes
    append, fresh = accumulator.text_sinks(0)
    fresh += ["é" * 40, "é"]
    append("a" * 3)
    assert len(accumulator.message().text) == 44
    assert len(fresh) < BATCH
    append("a")
    assert len(accumulator.message().text) == 45
    assert len(fresh) >= BATCH
    append("b" * (NEAR_BYTES - 1))
    with pytest.raises(LimitExceeded, match=f"message of {bound + 1} bytes, expected at most"):
        append("c")


def test_list_is_full_where_the_bound_is_near_from_the_start() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=1_000))
    accumulator.push(BlockStart(0, Text()))
    append, fresh = accumulator.text_sinks(0)
    assert len(fresh) >= BATCH
    append("a" * 985)
    with pytest.raises(LimitExceeded):
        append("a")


TEXT = BlockStart(0, Text())  # {"type":"text"} is 15 bytes
BOUNDED: dict[str, tuple[list[Event], int]] = {
    "text": ([TEXT, TextDelta(0, "é" * 5)], 25),
    "json": ([BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "x" * 5)], 45),
    "reasoning": ([BlockStart(0, Reasoning()), ReasoningDelta(0, "é")], 22),
    "refusal": ([BlockStart(0, Refusal()), RefusalDelta(0, "abc")], 21),
    "signature": ([TEXT, SignatureDelta(0, "abc")], 18),
    "citation": ([TEXT, CitationDelta(0, Citation("k", "u"))], 237),  # 200 of them the object
    "another part": (
        [*(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")), ReasoningDelta(0, "b", 1)],
        422,  # 400 of them the part
    ),
    "whole block": ([BlockStart(0, RedactedReasoning("é"))], 41),
}


@pytest.mark.parametrize(("events", "size"), BOUNDED.values(), ids=BOUNDED)
def test_message_is_bounded_in_bytes(events: list[Event], size: int) -> None:
    for bound in (size + 1, size):
        accumulator = Accumulator(limits=Limits(max_accumulated_bytes=bound))
        accumulator.extend(events)
        assert accumulator.message().blocks
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=size - 1))
    accumulator.extend(events[:-1])
    for call in (lambda: accumulator.push(events[-1]), accumulator.message):
        with pytest.raises(LimitExceeded, match=f"{size} bytes, .* at most {size - 1}") as caught:
            call()
        assert caught.value.limit == "max_accumulated_bytes"


def test_message_beyond_its_bound_ends_an_endless_stream() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=1000))
    accumulator.push(TEXT)
    with pytest.raises(LimitExceeded):
        accumulator.extend(TextDelta(0, "0123456789") for _ in range(101))


def test_message_beyond_its_bound_stops_growing() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=100))
    accumulator.push(TEXT)
    for _ in range(3):
        for call in (lambda: accumulator.push(TextDelta(0, "x" * 200)), accumulator.message):
            with pytest.raises(LimitExceeded, match="of 215 bytes, expected at most 100"):
                call()
        assert accumulator._blocks[0].part(0).size == 200


def test_message_events_have_one_delta_for_each_text() -> None:
    message = Message(
        "m",
        "gpt",
        (
            *(Text("a", (Citation("k"),), "s", "google"), ToolCall("c", "f"), Reasoning(("", "b"))),
            *(
                ToolCall("d", "f", "[]", signature="t"),
                Refusal("no"),
                ServerToolCall("s", "f", "{}"),
            ),
            RedactedReasoning("x"),
        ),
        "end_turn",
        usage=Usage(1),
    )
    assert message_events(message) == [
        MessageStart("m", "gpt"),
        *(BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, Citation("k"))),
        *(SignatureDelta(0, "s", "google"), BlockStop(0)),
        *(BlockStart(1, ToolCall("c", "f")), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "b", 1), BlockStop(2)),
        *(BlockStart(3, ToolCall("d", "f", signature="t")), JSONDelta(3, "[]")),
        *(BlockStop(3), BlockStart(4, Refusal()), RefusalDelta(4, "no"), BlockStop(4)),
        *(BlockStart(5, ServerToolCall("s", "f")), JSONDelta(5, "{}"), BlockStop(5)),
        *(BlockStart(6, RedactedReasoning("x")), BlockStop(6)),
        UsageUpdate(Usage(1)),
        MessageStop("end_turn"),
    ]


def test_partial_arguments_are_available_while_they_arrive() -> None:
    accumulator = Accumulator()
    accumulator.extend([MessageStart(), BlockStart(0, Text()), TextDelta(0, "hm"), BlockStop(0)])
    accumulator.push(BlockStart(1, ToolCall("c", "f")))
    assert accumulator.partial_input(1) == {}
    for fragment, value in (
        ('{"city', {}),
        ('":"Par', {"city": "Par"}),
        ('is","days":1', {"city": "Paris"}),
        ("2}", {"city": "Paris", "days": 12}),
    ):
        accumulator.push(JSONDelta(1, fragment))
        assert accumulator.partial_input(1) == value
    accumulator.push(BlockStop(1))
    assert accumulator.partial_input(1) == {"city": "Paris", "days": 12}
    assert accumulator.message().tool_calls[0].input() == {"city": "Paris", "days": 12}


def test_earlier_partial_arguments_never_change() -> None:
    accumulator = Accumulator()
    accumulator.push(BlockStart(0, ServerToolCall("s", "f")))
    values = []
    for fragment in ('{"a":[', "1,", '"x', 'y",{', "}]}"):
        accumulator.push(JSONDelta(0, fragment))
        values.append(accumulator.partial_input(0))
    assert [value["a"] for value in values] == [
        *([], [1], [1, "x"], [1, "xy", {}], [1, "xy", {}]),
    ]


def test_partial_arguments_of_interleaved_calls_are_separate() -> None:
    accumulator = Accumulator()
    accumulator.extend([BlockStart(0, ToolCall("c", "f")), BlockStart(1, ToolCall("d", "f", '{"'))])
    accumulator.extend([JSONDelta(0, '{"a":'), JSONDelta(1, 'b":[null'), JSONDelta(0, "1,")])
    assert (accumulator.partial_input(0), accumulator.partial_input(1)) == ({"a": 1}, {"b": [None]})
    assert accumulator.message().tool_calls[1].arguments == '{"b":[null'


@pytest.mark.parametrize("arguments", ["", " ", "[1,2]", '"{}"', "nonsense"])
def test_partial_arguments_that_are_no_object_are_empty(arguments: str) -> None:
    accumulator = Accumulator()
    accumulator.extend([BlockStart(0, ToolCall("c", "f")), JSONDelta(0, arguments)])
    assert accumulator.partial_input(0) == {}


def test_invalid_arguments_end_the_partial_value() -> None:
    accumulator = Accumulator(limits=Limits(max_json_depth=2))
    accumulator.extend([BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a":[1,[2')])
    accumulator.extend([BlockStart(1, ToolCall("d", "f")), JSONDelta(1, '{"a":[1,2')])
    accumulator.push(JSONDelta(1, ",x,3]}"))
    assert accumulator.partial_input(0) == {"a": [1, []]}
    assert accumulator.partial_input(1) == {"a": [1, 2]}


def test_custom_call_has_empty_partial_arguments() -> None:
    accumulator = Accumulator()
    custom = ToolCall("c", "f", kind="custom")
    accumulator.extend([BlockStart(0, custom), JSONDelta(0, '{"a":1}')])
    assert accumulator.partial_input(0) == {}
    assert accumulator.input_deltas(0) == []


def test_argument_deltas_cover_the_time_since_the_last_call() -> None:
    accumulator = Accumulator()
    accumulator.extend([BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a":"x')])
    assert accumulator.partial_input(0) == {"a": "x"}
    assert accumulator.input_deltas(0) == [ValueDelta((), {}), ValueDelta(("a",), "x")]
    accumulator.push(JSONDelta(0, "yz"))
    assert accumulator.partial_input(0) == {"a": "xyz"}
    accumulator.push(JSONDelta(0, '","b":[1]'))
    assert accumulator.input_deltas(0) == [
        ValueDelta(("a",), "yz", True),
        *(ValueDelta(("b",), []), ValueDelta(("b", 0), 1)),
    ]
    assert accumulator.input_deltas(0) == []


@pytest.mark.parametrize(("index", "found"), [(0, "Text"), (1, "nothing"), (-1, "nothing")])
def test_partial_arguments_of_another_block_raise(index: int, found: str) -> None:
    accumulator = Accumulator()
    accumulator.push(BlockStart(0, Text()))
    for ask in (accumulator.partial_input, accumulator.input_deltas):
        with pytest.raises(LocalProtocolError, match=f"block {index} is {found}, expected a call"):
            ask(index)


def test_partial_arguments_beyond_the_message_bound_raise() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=50))
    accumulator.push(BlockStart(0, ToolCall("c", "f")))
    with pytest.raises(LimitExceeded):
        accumulator.push(JSONDelta(0, "[" * 50))
    with pytest.raises(LimitExceeded):
        accumulator.partial_input(0)


def test_start_and_usage_are_stored_without_the_message() -> None:
    accumulator = UsageAccumulator()
    events: list[Event] = [
        *(MessageStart("m", "gpt"), BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(UsageUpdate(Usage(1)), UsageUpdate(Usage(1, 2)), MessageStop("end_turn")),
    ]
    assert accumulator.take(events) is events
    append, fresh = accumulator.text_sinks(0)
    append("more")
    assert len(fresh) >= BATCH
    assert (accumulator.start, accumulator.usage) == (MessageStart("m", "gpt"), Usage(1, 2))
    with pytest.raises(LocalProtocolError, match="keep_message=False"):
        accumulator.message()


@pytest.mark.parametrize("make", [Accumulator, UsageAccumulator])
@pytest.mark.parametrize("event", [MessageStart("m"), UsageUpdate(Usage(1))])
def test_accumulator_is_empty_until_a_start_or_usage_arrives(
    make: type[Accumulator | UsageAccumulator], event: Event
) -> None:
    accumulator = make()
    assert accumulator.is_empty
    accumulator.take([event])
    assert not accumulator.is_empty


def test_message_holds_opaque_data_by_the_numbers_of_its_blocks() -> None:
    events: list[Event] = [
        Opaque("d", "early", "1"),
        MessageStart("m"),
        *(BlockStart(0, Text()), BlockStart(1, Text(), 1), BlockStart(2, Text())),
        *(TextDelta(0, "a"), TextDelta(2, "c")),
        *(Opaque("d", "logprobs", "[0]", 0), Opaque("d", "logprobs", "[1]", 1)),
        *(Opaque("d", "logprobs", "[2]", 2), BlockStop(0), BlockStop(1), BlockStop(2)),
        *(MessageStop("end_turn"), MessageStop("end_turn", choice=1)),
    ]
    first, second = accumulate(events), accumulate(events, choice=1)
    assert first.opaque == (
        Opaque("d", "early", "1"),
        Opaque("d", "logprobs", "[0]", 0),
        Opaque("d", "logprobs", "[2]", 1),
    )
    assert second.opaque == (Opaque("d", "logprobs", "[1]", 0),)
    assert message_events(first) == [
        MessageStart("m"),
        *(BlockStart(0, Text()), TextDelta(0, "a"), Opaque("d", "logprobs", "[0]", 0)),
        *(BlockStop(0), BlockStart(1, Text()), TextDelta(1, "c")),
        *(Opaque("d", "logprobs", "[2]", 1), BlockStop(1)),
        Opaque("d", "early", "1"),
        MessageStop("end_turn"),
    ]


def test_opaque_data_counts_against_the_bound() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=220))
    accumulator.push(Opaque("d", "note", "[1,2]"))  # 9 bytes, and 200 of the object
    with pytest.raises(LimitExceeded, match="message of 456 bytes"):
        accumulator.push(Opaque("d", "note", "[" + "1," * 20 + "1]"))


def test_signature_that_another_one_replaced_does_not_count() -> None:
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=19))
    accumulator.extend([TEXT, *[SignatureDelta(0, "abcd") for _ in range(9)]])
    assert accumulator.message().blocks == (Text("", signature="abcd"),)


def test_objects_of_whole_blocks_count_against_the_bound() -> None:
    content = [{}] * 100  # 64 bytes each, as the list that holds them
    accumulator = Accumulator(limits=Limits(max_accumulated_bytes=5000))
    for start in (
        BlockStart(0, ServerToolResult("c", "k", content)),
        BlockStart(0, Text(), extra={"a": content}),
    ):
        accumulator = Accumulator(limits=Limits(max_accumulated_bytes=5000))
        with pytest.raises(LimitExceeded):
            accumulator.push(start)
