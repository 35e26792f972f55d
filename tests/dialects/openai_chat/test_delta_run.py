"""Delta runs: chunks that only extend blocks of choice 0."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.openai_chat.chunks import call, calls, chunk, content
from support.streams.delta_runs import read_chunks
from support.streams.run_comparison import every_frame_in_full

from streamnorm import (
    BlockStart,
    BlockStop,
    Failed,
    JSONDelta,
    Limits,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import decoder

read = partial(read_chunks, "openai_chat")
TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300, "}}", "\ud7ff", '"}}\n\n', "x" * 5000]
STARTED = [calls(call(n, f"t{n}", "f", '{"')) for n in (0, 1)]


def arguments(index: int, *fragments: str) -> list[bytes]:
    """Return fragments of one call, a chunk each."""
    return [calls(call(index, arguments=fragment)) for fragment in fragments]


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning"])
def test_deltas_of_an_open_block_are_on_the_run(name: str) -> None:
    reading = read(chunk({name: "first"}), *(chunk({name: text}) for text in TEXTS))
    make = TextDelta if name == "content" else ReasoningDelta
    assert reading.events[1:] == [[make(0, text)] if text else [] for text in TEXTS]
    assert reading.on_run == [0] + [1] * len(TEXTS)


def test_arguments_are_on_the_run_however_they_are_split() -> None:
    fragments = ["city", '":"', " San", " Fran", '"', " ", ",", '"a', '":', "[1", "]", "}"]
    reading = read(STARTED[0], *arguments(0, *fragments), *arguments(0, ""))
    assert reading.events[1:] == [*([JSONDelta(0, text)] for text in fragments), []]
    assert reading.on_run == [0] + [1] * (len(fragments) + 1)


def test_arguments_of_interleaved_calls_are_on_the_run() -> None:
    turns = [(n, text) for text in ("city", '":"', "{", "}", '"', ",", '"b":', "1") for n in (0, 1)]
    reading = read(*STARTED, *(calls(call(n, arguments=text)) for n, text in turns))
    assert reading.events[2:] == [[JSONDelta(n, text)] for n, text in turns]
    # Arguments that may be complete are those of a call behind which another block began.
    refused = [turn for turn, count in zip(turns, reading.on_run[2:], strict=True) if not count]
    assert refused == [(0, "}")]


def test_run_delta_has_the_block_of_the_fragment() -> None:
    reader = decoder("openai_chat")
    for data in (content("hi"), *STARTED):
        reader.feed(data)
    named = []
    for data in (*arguments(0, "1"), *arguments(1, "2"), *arguments(1, "3"), *arguments(0, "4")):
        (raw,) = reader.split(data)
        assert reader.run is not None
        assert isinstance(raw, bytes)
        text = reader.run.text_of(raw)
        assert type(reader.run.delta) is JSONDelta
        named.append((reader.run.delta.index, text))
    assert named == [(1, "1"), (2, "2"), (2, "3"), (1, "4")]


def test_index_of_a_call_may_be_any_number() -> None:
    indexes = [9, 10, 11, 10, 9]
    started = [calls(call(n, f"t{n}", "f", "[1,")) for n in indexes[:3]]
    reading = read(*started, *(calls(call(n, arguments="1")) for n in indexes * 2))
    assert reading.events[3:] == [[JSONDelta(n - 9, "1")] for n in indexes * 2]
    assert reading.on_run[3:] == [1] * 10


@pytest.mark.parametrize("end", ["}", '"}', "} ", "\n}"])
def test_followed_call_stops_with_the_fragment_that_completes_it(end: str) -> None:
    whole = 'a":1' if end[0] != '"' else 'a":"1'
    reading = read(*STARTED, *arguments(0, whole, end), *arguments(1, 'a":1', "}", ""))
    assert reading.events[3] == [JSONDelta(0, end), BlockStop(0)]
    assert reading.events[5] == [JSONDelta(1, "}")]
    assert reading.on_run[2:] == [1, 0, 1, 1, 1]


def test_fragment_that_may_repeat_or_restart_arguments_is_read_in_full() -> None:
    whole = '{"a":1}'
    repeated = read(calls(call(0, "t", "f", whole[:3])), *arguments(0, whole[3:], whole))
    assert [note.kind for note in repeated.decoder.notes] == ["resent_arguments"]
    assert repeated.on_run == [0, 1, 0]
    second = read(calls(call(0, "t", "f", whole[:3])), *arguments(0, whole[3:], '{"'))
    assert isinstance(second.decoder.outcome, Failed)
    placeholder = read(calls(call(0, "t", "f", "{}")), *arguments(0, whole[:3], whole[3:]))
    assert placeholder.events[1] == [JSONDelta(0, whole[:3])]
    assert placeholder.on_run == [0, 0, 1]


def test_first_arguments_of_a_call_are_read_in_full() -> None:
    started = [calls(call(n, f"t{n}", "f")) for n in (0, 1)]
    reading = read(*started, *arguments(0, "", "{", '"a'), *arguments(1, "{", '"a'))
    assert reading.events[3] == [BlockStart(0, ToolCall("t0", "f")), JSONDelta(0, "{")]
    assert reading.on_run == [0, 0, 0, 0, 1, 0, 1]


def test_text_beside_an_open_call_stays_on_the_run() -> None:
    """vLLM sends text between the arguments of a call, and goes on with both."""
    chunks = [STARTED[0], *[content("a"), *arguments(0, "1")] * 3, content("b"), content("c")]
    reading = read(*chunks)
    assert reading.events[-1] == [TextDelta(1, "c")]
    assert reading.on_run[-1] == 1


@pytest.mark.parametrize(
    "fields", [{"id": ""}, {"type": "function"}, {"id": None}, {"custom": None}]
)
def test_repeated_fields_of_a_call_change_nothing(fields: dict[str, Any]) -> None:
    fragment = {"index": 0, "function": {"arguments": "1"}, **fields}
    plain = arguments(0, "1")[0]
    reading = read(STARTED[0], plain, plain, calls(fragment), calls(fragment), plain)
    assert reading.events[1:] == [[JSONDelta(0, "1")]] * 5


@pytest.mark.parametrize("behind", [arguments(1, "city"), [content("a"), content("b")]])
def test_fragment_of_a_stopped_call_is_read_in_full(behind: list[bytes]) -> None:
    stopped = read(*STARTED, *arguments(0, 'a":1', "}"), *behind, *arguments(0, "", "2"))
    assert isinstance(stopped.decoder.outcome, Failed)
    assert stopped.on_run[-1] == 0
    blank = read(*STARTED, *arguments(0, 'a":1', "}"), *behind, *arguments(0, " "))
    assert blank.decoder.outcome is None
    assert blank.events[-1] == []


def test_fragments_with_their_index_last_are_on_the_run() -> None:
    # The index stands behind the function.
    def fragment(text: str) -> bytes:
        return chunk({"tool_calls": [{"function": {"arguments": text}, "index": 0}]})

    reading = read(calls(call(0, "t", "f", "{")), *map(fragment, ('"a', "b", "c")))
    assert reading.on_run == [0, 1, 1, 1]


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_usage_in_each_chunk_follows_its_text(field: str) -> None:
    make = TextDelta if field == "content" else ReasoningDelta

    def counted(text: str, tokens: int) -> bytes:
        return chunk({field: text}, usage={"prompt_tokens": 9, "completion_tokens": tokens})

    reading = read(*(counted(text, n) for n, text in enumerate("abcc")), counted("d", 3))
    assert reading.events[1:] == [
        [make(0, "b"), UsageUpdate(Usage(9, 1))],
        [make(0, "c"), UsageUpdate(Usage(9, 2))],
        [make(0, "c"), UsageUpdate(Usage(9, 3))],
        [make(0, "d")],
    ]
    # The second is read in full: it is the first that the run knows to report tokens.
    assert reading.on_run == [0, 0, 1, 1, 1]


def test_unknown_field_of_usage_that_changes_is_read_in_full() -> None:
    def counted(text: str, cost: float) -> bytes:
        return chunk({"content": text}, usage={"completion_tokens": 1, "cost": cost})

    reading = read(content("a"), counted("b", 0.5), counted("c", 0.5), counted("d", 0.75))
    assert reading.on_run == [0, 0, 1, 0]
    assert reading.events[-1] == [
        TextDelta(0, "d"),
        UsageUpdate(Usage(output_tokens=1, extra={"cost": 0.75})),
    ]


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_usage_that_nests_too_deep_is_refused(field: str) -> None:
    limits = Limits(max_json_depth=4)
    flat = chunk({field: "b"}, usage={"prompt_tokens": 9})
    deep = chunk({field: "b"}, usage={"prompt_tokens_details": {"a": {"b": {"c": {"d": 1}}}}})
    read(chunk({field: "a"}), chunk({field: "a"}), flat, flat, deep, limits=limits)


@pytest.mark.parametrize("ordering", ["sequential", "interleaved"])
def test_usage_of_a_chunk_that_exceeds_a_limit_is_retracted(ordering: Any) -> None:
    def counted(text: str, tokens: int) -> bytes:
        return content(text, usage={"prompt_tokens": 9, "completion_tokens": tokens})

    transcoder = Transcoder(
        "openai_chat", "anthropic", ordering=ordering, limits=Limits(max_accumulated_bytes=60)
    )
    for data in (counted("a", 1), counted("b", 2), counted("x" * 60, 3)):
        transcoder.feed(data)
    assert isinstance(transcoder.outcome, Failed)
    assert transcoder.usage == Usage(9, 2)


@pytest.mark.parametrize("is_one_read", [True, False])
@pytest.mark.parametrize("plain", [1, 4])
def test_usage_stays_where_a_chunk_behind_it_exceeds_a_limit(plain: int, is_one_read: bool) -> None:
    counted = content("b", usage={"prompt_tokens": 9, "completion_tokens": 2})
    # From some chunks without usage on, templates read them.
    chunks = [*[content("a")] * plain, counted, content("c"), content("x" * 60)]

    def usage_of() -> Usage:
        transcoder = Transcoder("openai_chat", "anthropic", limits=Limits(max_accumulated_bytes=60))
        for data in (content("a"), b"".join(chunks)) if is_one_read else chunks:
            transcoder.feed(data)
        assert isinstance(transcoder.outcome, Failed)
        return transcoder.usage

    with every_frame_in_full():
        assert usage_of() == Usage(9, 2)
    assert usage_of() == Usage(9, 2)


def test_usage_before_a_call_stays_where_its_arguments_exceed_a_limit() -> None:
    transcoder = Transcoder("openai_chat", "anthropic", limits=Limits(max_held_bytes=500))
    counted = [
        content("a", usage={"prompt_tokens": 9, "completion_tokens": tokens}) for tokens in (1, 2)
    ]
    for data in (*counted, *STARTED, *arguments(1, "a", "x" * 600)):
        transcoder.feed(data)
    assert isinstance(transcoder.outcome, Failed)
    assert transcoder.usage == Usage(9, 2)


def test_usage_beside_arguments_is_read_in_full() -> None:
    counted = chunk({"tool_calls": [call(0, arguments="b")]}, usage={"prompt_tokens": 9})
    reading = read(calls(call(0, "t", "f", "{")), calls(call(0, arguments='"a')), counted, counted)
    assert reading.on_run == [0, 1, 0, 0]


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("source", ["openai_chat", None])
def test_transcoder_usage_is_current_during_a_run(source: str | None, target: str) -> None:
    run = Transcoder(source, target)
    for number in range(1, 9):
        run.feed(content("a", usage={"prompt_tokens": 9, "completion_tokens": number}))
        assert run.usage == run.message.usage == Usage(9, number)
    run.abort(ConnectionError())
    assert run.usage == Usage(9, 8)


TEXT, SUMMARY = {"type": "reasoning.text"}, {"type": "reasoning.summary"}


def details(reasoning: str | None, *items: dict[str, Any]) -> bytes:
    """Return a chunk of OpenRouter's reasoning."""
    return chunk({"content": "", "reasoning": reasoning, "reasoning_details": list(items)})


@pytest.mark.parametrize(
    ("reasoning", "items", "text"),
    [
        ("a", [{**TEXT, "text": "a", "format": "unknown", "index": 0}], "a"),
        ("a", [{**SUMMARY, "summary": "a", "format": "openai-responses-v1"}], "a"),
        ("other", [{**TEXT, "text": "a"}], "a"),
        (None, [{**TEXT, "text": "a", "signature": None}], "a"),
        (None, [{**TEXT, "text": "", "summary": "a"}], "a"),
        ("a", [{**TEXT, "text": "", "signature": ""}], "a"),
        ("a", [TEXT], "a"),
        ("a", [], "a"),
        ("", [TEXT], ""),
    ],
)
def test_reasoning_details_of_text_alone_are_on_the_run(
    reasoning: str | None, items: list[dict[str, Any]], text: str
) -> None:
    reading = read(details("x", {**TEXT, "text": "x"}), details(reasoning, *items))
    assert reading.events[1] == ([ReasoningDelta(0, text)] if text else [])
    assert reading.on_run == [0, 1]


@pytest.mark.parametrize(
    "items",
    [
        [{**TEXT, "text": "a", "signature": "s"}],
        [{**TEXT, "text": "a"}, {**TEXT, "text": "b"}],
        [{"type": "reasoning.encrypted", "data": "d"}],
        [{**TEXT, "text": "a", "data": "d"}],
        [{**TEXT, "text": 5}],
        [{"type": "new", "text": "a"}],
        [{"text": "a"}],
        [None],
        {},
    ],
)
def test_other_reasoning_details_are_read_in_full(items: Any) -> None:
    beside = chunk({"reasoning": "a", "reasoning_details": items})
    assert read(details("x", {**TEXT, "text": "x"}), beside).on_run == [0, 0]


def test_text_with_a_reasoning_detail_is_read_in_full() -> None:
    beside = chunk({"content": "a", "reasoning_details": [{**TEXT, "text": "b"}]})
    assert read(content("x"), beside).on_run == [0, 0]
