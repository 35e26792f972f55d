"""Delta runs: deltas of one event type that only extend open texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.kernels import COMPILED, kernel_of
from support.openai_responses.frames import START, added, call, completed, done, event, part_added
from support.openai_responses.item_deltas import (
    ARGUMENTS,
    MAKE,
    MESSAGE,
    OPENING,
    OTHER,
    REASONING,
    SUMMARY,
    TEXT,
    each_delta_type,
    item_delta,
    numbered,
    read,
)
from support.streams.delta_runs import offer

from streamnorm import (
    BlockStop,
    Completed,
    Failed,
    JSONDelta,
    Limits,
    Note,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.text import MAX_FRESH
from streamnorm.codec import decoder
from streamnorm.dialects.openai_responses.decode import ResponsesRun, SequenceNumbers
from streamnorm.sse import Frame


@each_delta_type
def test_deltas_of_an_open_text_are_on_the_run(delta_type: str) -> None:
    texts = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300, '","delta":"y', "\ud7ff", '"}\n\n']
    reading = read(START, OPENING[delta_type], *numbered(delta_type, *texts))
    make = MAKE[delta_type]
    assert reading.events[2:] == [[make(0, text)] if text else [] for text in texts]
    assert reading.on_run[2:] == [0] + [1] * (len(texts) - 1)


@each_delta_type
def test_delta_is_on_the_run_whatever_the_order_of_its_fields(delta_type: str) -> None:
    turned: list[bytes] = []
    for number in range(8):
        plain = item_delta(delta_type, "a", number, obfuscation="x" * number).split(b"\ndata: ")[1]
        data = json.dumps(json.loads(plain), sort_keys=True, indent=1).replace("\n", "")
        turned.append(f"event: {delta_type}\ndata: {data}\n\n".encode())
    reading = read(START, OPENING[delta_type], *turned)
    assert reading.events[2:] == [[MAKE[delta_type](0, "a")]] * 8
    assert reading.on_run[2:] == [0] + [1] * 7


@each_delta_type
def test_deltas_without_sequence_numbers_are_on_the_run(delta_type: str) -> None:
    reading = read(START, OPENING[delta_type], *[item_delta(delta_type, "a")] * 3)
    assert reading.events[2:] == [[MAKE[delta_type](0, "a")]] * 3
    assert reading.on_run[2:] == [0, 1, 1]


@pytest.mark.parametrize(("size", "most"), [(1, MAX_FRESH), (300, 0)])
def test_run_stores_few_deltas_until_they_are_counted(size: int, most: int) -> None:
    stored = []
    for count in range(1, MAX_FRESH + 20):
        deltas = [item_delta("response.output_text.delta", "a" * size)] * count
        reader = decoder("openai_responses")
        reader.feed(b"".join([START, OPENING["response.output_text.delta"], *deltas]))
        assert isinstance(reader.run, ResponsesRun)
        (text,) = reader.run._texts.values()
        stored.append(len(text.progress.uncounted))
    # The kernel fills the list, which is counted with the next delta.
    assert most - 1 <= max(stored) <= most


@pytest.fixture(params=[COMPILED, None], ids=["kernel", "twin"])
def templates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have templates learned, and compared by the kernel if it is compiled, or by its twin."""
    monkeypatch.setattr(ResponsesRun, "has_templates", True)
    with kernel_of(request.param):
        yield


@pytest.mark.usefixtures("templates")
@each_delta_type
def test_numbered_deltas_are_compared_with_the_one_before(delta_type: str) -> None:
    texts = ["a", "b", "", "é", 'c"', "x" * 300, "d"]
    for fields in ({}, {"obfuscation": "xY9"}):
        chunks = numbered(delta_type, *texts, first=7, **fields)
        reading = read(START, OPENING[delta_type], *chunks, chunks[-1])
        make = MAKE[delta_type]
        assert reading.events[2:-1] == [[make(0, text)] if text else [] for text in texts]
        assert reading.events[-1] == []  # sent again
        assert reading.decoder.notes == (Note("resent_event", "frame", 1),)


def _with_number_first(chunk: bytes) -> bytes:
    before, _, number = chunk.rstrip().rpartition(b',"sequence_number":')
    return before.replace(b'"delta"', b'"sequence_number":%b,"delta"' % number[:-1]) + b"}\n\n"


def _with_spelled_number(chunk: bytes) -> bytes:
    return chunk.replace(b"sequence_number", b"sequence\\u005fnumber")


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("spell", [_with_number_first, _with_spelled_number])
def test_number_in_an_unusual_place_or_spelling_is_decoded(
    spell: Callable[[bytes], bytes],
) -> None:
    chunks = [spell(chunk) for chunk in numbered(TEXT, "a", "b", "c", "d")]
    reading = read(START, MESSAGE, *chunks, chunks[-1])
    assert reading.events[2:] == [*([TextDelta(0, text)] for text in "abcd"), []]
    assert reading.on_run[2:] == [0, 1, 1, 1, 0]


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("first", [10**18 - 2, 2**63 - 3, 2**64 - 2, 10**30])
def test_numbers_of_any_size_are_read(first: int) -> None:
    reading = read(START, MESSAGE, *numbered(TEXT, *"abcdef", first=first))
    assert reading.events[2:] == [[TextDelta(0, text)] for text in "abcdef"]
    assert reading.decoder.notes == ()


@pytest.mark.usefixtures("templates")
def test_known_shapes_are_forgotten_with_their_texts() -> None:
    chunks = numbered(TEXT, "a", "b", "c", "d", "e")
    ping = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n'
    reading = read(START, MESSAGE, *chunks[:3], ping, *numbered(TEXT, *"de", first=4))
    assert reading.events[2:] == [
        *([TextDelta(0, text)] for text in "abc"),
        [Ping()],
        *([TextDelta(0, text)] for text in "de"),
    ]
    assert reading.on_run[2:] == [0, 1, 1, 0, 0, 1]


@pytest.mark.usefixtures("templates")
def test_payload_of_a_known_shape_is_read_by_itself() -> None:
    chunks = numbered(TEXT, "a", "b", "c")
    reader = decoder("openai_responses")
    for chunk in (START, MESSAGE, *chunks[:2]):
        reader.feed(chunk)
    assert isinstance(run := reader.run, ResponsesRun)
    payload = chunks[2].split(b"data: ")[1].rstrip()
    assert (run.decode(payload), run.decode(payload)) == ("c", None)
    assert reader.next_sequence_number == 3


@pytest.mark.parametrize(
    "number",
    [b'"sequence\\u005fnumber":2', b'"sequence_number":4e18', b'"sequence_number":4e1'],
)
def test_number_in_another_spelling_is_in_no_template(number: bytes) -> None:
    run = ResponsesRun(SequenceNumbers(lambda _kind, _where: None))
    payload = b'{"type":"response.output_text.delta","delta":"a",%b}'
    assert run._find_number(payload % number) is None
    assert run._find_number(payload % b'"sequence_number" : 24') == (-3, -1)


def test_items_without_an_output_index_are_distinguished_by_their_ids() -> None:
    texts = [("m", "a"), ("m", "b"), ("n", "c"), ("n", "d"), ("m", "e")]
    opening = [added(None, "message", id=id) for id in "mn"]
    chunks = [item_delta(TEXT, text, item_id=id, output_index=None) for id, text in texts]
    reading = read(START, *opening, *chunks)
    deltas = [event for given in reading.events for event in given if isinstance(event, TextDelta)]
    assert deltas == [
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        TextDelta(1, "c"),
        TextDelta(1, "d"),
        TextDelta(0, "e"),
    ]


def test_two_texts_of_one_item_are_distinguished() -> None:
    opening = [added(number, "reasoning", id=id) for number, id in enumerate("mn")]
    turns: list[tuple[str, dict[str, Any]]]
    turns = [(SUMMARY, {}), (SUMMARY, {}), (REASONING, OTHER), (REASONING, {}), (REASONING, OTHER)]
    reading = read(START, *opening, *(item_delta(kind, "a", **fields) for kind, fields in turns))
    deltas = [e for given in reading.events for e in given if isinstance(e, ReasoningDelta)]
    assert [delta.index for delta in deltas] == [0, 0, 1, 2, 1]


def test_event_without_a_name_is_read_in_full_each_time() -> None:
    unnamed = [chunk.split(b"\n", 1)[1] for chunk in numbered(TEXT, "a", "b", "c")]
    reading = read(START, MESSAGE, *unnamed)
    assert reading.events[2:] == [[TextDelta(0, "a")], [TextDelta(0, "b")], [TextDelta(0, "c")]]
    assert reading.decoder.notes == (Note("no_event_line", "frame", 3),)
    assert not sum(reading.on_run)


def test_deltas_of_interleaved_calls_are_on_the_run() -> None:
    opening = [
        added(number, "function_call", **call(id=f"fc_{number}", call_id=f"c{number}"))
        for number in range(3)
    ]
    texts = '{{{"""abcdef"""}}}'
    deltas = [
        item_delta(ARGUMENTS, text, number, item_id=f"fc_{number % 3}", output_index=number % 3)
        for number, text in enumerate(texts)
    ]
    reading = read(START, *opening, *deltas)
    assert reading.events[4:] == [
        [JSONDelta(number % 3, text)] for number, text in enumerate(texts)
    ]
    assert reading.on_run[4:] == [0] * 3 + [1] * (len(texts) - 3)


def test_deltas_of_many_interleaved_calls_are_on_the_run() -> None:
    opening = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(20)]
    deltas = [
        item_delta(ARGUMENTS, "1", item_id=f"fc_{number}", output_index=number)
        for _ in range(3)
        for number in range(20)
    ]
    reading = read(START, *opening, *deltas)
    assert reading.events[21:] == [[JSONDelta(n, "1")] for _ in range(3) for n in range(20)]
    assert sum(reading.on_run) == 40


def test_stream_that_a_delta_ends_has_ended_for_other_texts_too() -> None:
    items = [call(id=id, call_id=id) for id in "mn"]
    opening = [added(number, "function_call", **item) for number, item in enumerate(items)]
    known = [done(0, "function_call", **items[0]), *[item_delta(ARGUMENTS, "1", **OTHER)] * 2]
    ending = [item_delta(ARGUMENTS, "x"), item_delta(ARGUMENTS, "2", **OTHER)]
    reading = read(START, *opening, *known, *ending)
    assert isinstance(reading.decoder.outcome, Failed)
    assert reading.decoder.run is None
    assert reading.events[-1] == []


def test_delta_of_another_type_ends_the_run() -> None:
    opening = [MESSAGE, added(1, "function_call", **call(id="fc"))]
    arguments: dict[str, Any] = {"item_id": "fc", "output_index": 1}
    chunks: list[bytes] = []
    for number in range(0, 6, 2):
        chunks += [
            item_delta(TEXT, "1", number),
            item_delta(ARGUMENTS, "1", number + 1, **arguments),
        ]
    reading = read(START, *opening, *chunks)
    assert reading.events[3:] == [[TextDelta(0, "1")], [JSONDelta(1, "1")]] * 3


def test_run_names_the_part_that_a_summary_extends() -> None:
    chunks = [
        *numbered(SUMMARY, "a", "b", summary_index=0),
        *numbered(SUMMARY, "c", "d", summary_index=1, first=2),
    ]
    reading = read(START, OPENING[SUMMARY], *chunks)
    assert reading.events[2:] == [
        [ReasoningDelta(0, "a")],
        [ReasoningDelta(0, "b")],
        [ReasoningDelta(0, "c", 1)],
        [ReasoningDelta(0, "d", 1)],
    ]
    assert reading.on_run[2:] == [0, 1, 0, 1]
    run = reading.decoder.run
    assert run is not None
    assert isinstance(run.delta, ReasoningDelta)
    assert (run.delta.index, run.delta.part) == (0, 1)
    assert run.text_of(item_delta(SUMMARY, "e", 4, summary_index=0)[:-2]) is None
    assert run.text_of(item_delta(SUMMARY, "e", 4, summary_index=1)[:-2]) == "e"


CALLS = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(2)]


def turns(*numbers: int) -> list[bytes]:
    """Return deltas of two interleaved calls."""
    return [
        item_delta(
            ARGUMENTS, str(number), number, item_id=f"fc_{number % 2}", output_index=number % 2
        )
        for number in numbers
    ]


def test_delta_with_other_indexes_than_its_item_is_read_in_full() -> None:
    reading = read(START, *CALLS, *turns(0, 1, 2, 3))
    run = reading.decoder.run
    assert run is not None
    other, own = item_delta(ARGUMENTS, "4", 4, item_id="fc_0", output_index=1), turns(4)[0]
    assert run.text_of(other[:-2]) is None
    assert run.text_of(own[:-2]) == "4"
    assert reading.decoder.feed(turns(5)[0]) == [JSONDelta(1, "5")]
    assert reading.decoder.feed(turns(6)[0]) == [JSONDelta(0, "6")]


def test_run_names_the_block_that_a_text_extends() -> None:
    reader = read(START, *CALLS, *turns(0, 1)).decoder
    run = reader.run
    assert run is not None
    named = []
    for chunk in turns(2, 3, 4):
        text = run.text_of(chunk[:-2])
        named.append((type(run.delta), run.delta.index, text))
    assert named == [(JSONDelta, 0, "2"), (JSONDelta, 1, "3"), (JSONDelta, 0, "4")]
    assert reader.feed(turns(5)[0]) == [JSONDelta(1, "5")]


@each_delta_type
def test_delta_of_a_stopped_text_is_not_on_the_run(delta_type: str) -> None:
    types = {TEXT: "message", ARGUMENTS: "function_call"}
    item = call(id="m") if delta_type == ARGUMENTS else {"id": "m"}
    end = done(0, types.get(delta_type, "reasoning"), **item)
    late = numbered(delta_type, "c", "d", first=3)
    reading = read(START, OPENING[delta_type], *numbered(delta_type, "{", "}"), end, *late)
    assert isinstance(reading.events[4][-1], BlockStop)
    assert reading.on_run[2:6] == [0, 1, 0, 0]


@each_delta_type
def test_half_a_surrogate_pair_waits_for_the_other_half(delta_type: str) -> None:
    halves = [rb"\ud83d", rb"\ude00"]
    first, *rest = [
        item_delta(delta_type, "?", number).replace(b"?", half)
        for number, half in enumerate([b"a", *halves])
    ]
    make = MAKE[delta_type]
    begun = [START, OPENING[delta_type], first]
    reading = read(*begun, *rest, item_delta(delta_type, "b", 3))
    assert reading.events[2:] == [[make(0, "a")], [], [make(0, "😀")], [make(0, "b")]]
    reading = read(*begun, rest[0], *numbered(delta_type, "b", "c", first=2))
    assert reading.events[2:] == [[make(0, "a")], [], [make(0, "\ufffdb")], [make(0, "c")]]


def test_delta_with_a_changed_item_id_is_read_in_full() -> None:
    progress = event("response.in_progress", response={"id": "resp_2"})
    deltas = [item_delta(TEXT, "a", number, item_id=f"id {number}") for number in range(4)]
    reading = read(START, progress, MESSAGE, *deltas)
    assert reading.events[3:] == [[TextDelta(0, "a")]] * 4
    assert reading.decoder.notes == (Note("unstable_ids", "response", 1),)
    assert not sum(reading.on_run)


def test_delta_with_the_id_of_another_item_is_malformed_amid_a_run() -> None:
    opening = [MESSAGE, added(1, "message", id="n")]
    for odd in ({"item_id": "n"}, {"output_index": 1}, {"item_id": "x"}, {"output_index": 5}):
        reading = read(START, *opening, *numbered(TEXT, *"abc"), item_delta(TEXT, "d", 3, **odd))
        assert sum(reading.on_run) == 2
        assert [type(event) for event in reading.events[-1]] == [StreamError]


def test_refusal_is_read_in_full() -> None:
    opening = added(0, "message", id="m") + part_added({"type": "refusal", "refusal": ""})
    refusal = "response.refusal.delta"
    chunks = [
        event(refusal, output_index=0, content_index=0, delta="a", item_id="m"),
        *(item_delta(TEXT, "b"), item_delta(TEXT, "b")),
        event(refusal, output_index=0, content_index=0, delta="c", item_id="m"),
    ]
    reading = read(START, opening, *chunks)
    assert reading.events[2] == [RefusalDelta(0, "a")]
    assert reading.events[5] == [RefusalDelta(0, "c")]


@pytest.mark.parametrize("others", [0, 1])
def test_frames_on_the_run_are_counted_and_bounded(others: int) -> None:
    plain = len(item_delta(TEXT, "", 0)) - 1
    opening = [added(0, "message", id="m"), added(1, "message", id="n")]
    part_index: list[dict[str, Any]] = [{}, *[OTHER] * others, {}, {}]
    deltas = [item_delta(TEXT, "a", at, **fields) for at, fields in enumerate(part_index)]
    for size, outcome in ((299, Completed), (300, Completed), (301, Failed)):
        large = item_delta(TEXT, "x" * (size - plain), len(deltas))
        reading = read(
            START, *opening, *deltas, large, completed(), limits=Limits(max_event_bytes=300)
        )
        assert isinstance(reading.decoder.outcome, outcome)
        assert reading.on_run[5 + others] == 1
        if outcome is Completed:
            assert reading.decoder.frames == len(deltas) + 5


def test_directly_fed_frame_is_read_before_the_run() -> None:
    reader = read(START, MESSAGE, *numbered(TEXT, "a", "b")).decoder
    assert offer(reader, item_delta(TEXT, "c", 2)) == ([TextDelta(0, "c")], 1)
    assert reader.feed_frame(Frame("keepalive", '{"type":"keepalive"}')) == [Ping()]
    assert offer(reader, item_delta(TEXT, "d", 3)).events == [TextDelta(0, "d")]


@pytest.mark.parametrize("ends", ["close", "abort"])
def test_stream_that_has_ended_has_no_run(ends: str) -> None:
    reader = read(START, MESSAGE, *numbered(TEXT, "a", "b")).decoder
    assert reader.run is not None
    assert reader.close() if ends == "close" else reader.abort(OSError())
    assert reader.run is None
