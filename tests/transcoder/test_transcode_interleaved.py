"""Interleaved blocks: what goes out does not depend on the reads, nor on the delta run."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from support.anthropic import frames as wire
from support.openai_chat.chunks import DONE, call, calls, chunk, content
from support.openai_responses import frames as responses
from support.streams.content import transcode
from support.streams.delta_runs import read_chunks
from support.streams.run_comparison import every_frame_in_full, transcode_each_way

from streamnorm import Completed, Failed, Limits, Reasoning

TARGETS = ("openai_chat", "anthropic", "openai_responses", "gemini", "gemini_interactions")
SOURCES = ("openai_chat", "openai_responses")
"""The dialects whose calls are interleaved in recorded streams."""

each_way = pytest.mark.parametrize(
    ("source", "target"), [(source, target) for source in SOURCES for target in TARGETS]
)


def interleave(source: str, pieces: list[list[str]]) -> list[bytes]:
    """Return a stream of calls that get their arguments in turn.

    Args:
        source: Its dialect.
        pieces: The arguments of each call.
    """
    count = len(pieces)
    turns = [(n, piece) for turn in zip(*pieces, strict=True) for n, piece in enumerate(turn)]
    if source == "openai_chat":
        opening = [calls(call(n, f"t{n}", "f")) for n in range(count)]
        deltas = [calls(call(n, arguments=piece)) for n, piece in turns]
        return [*opening, *deltas, chunk({}, "tool_calls"), DONE]
    opening = [
        responses.added(n, "function_call", **responses.call(id=f"fc_{n}", call_id=f"t{n}"))
        for n in range(count)
    ]
    deltas = [responses.args(piece, n, item_id=f"fc_{n}") for n, piece in turns]
    return [responses.START, *opening, *deltas, responses.completed()]


def arguments(count: int, size: int) -> list[list[str]]:
    """Return the arguments of so many calls, in so many pieces each."""
    return [['{"a":"', *[f"{n}{at % 10}" for at in range(size - 2)], '"}'] for n in range(count)]


@pytest.mark.parametrize("ordering", ["sequential", "interleaved"])
@pytest.mark.parametrize("verbatim", [False, True])
@each_way
def test_interleaved_calls_are_written_the_same_in_any_chunking(
    source: str, target: str, *, verbatim: bool, ordering: str
) -> None:
    pieces = [
        ['{"a":"', "x", "é😀", "x" * 300, "", '"}'],
        ["{", '"b"', ":", "", "1", "}"],
        ['{"c', '":[', "", "2", "]", "}"],
    ]
    frames = interleave(source, pieces)
    _, run = transcode_each_way(frames, source, target, verbatim=verbatim, ordering=ordering)
    assert isinstance(run.outcome, Completed)
    assert run.frames == len(frames)
    assert [made.arguments for made in run.message.tool_calls] == ["".join(p) for p in pieces]


@pytest.mark.parametrize("source", SOURCES)
def test_nearly_all_fragments_of_interleaved_calls_are_on_the_run(source: str) -> None:
    frames = interleave(source, arguments(4, 200))
    assert sum(read_chunks(source, *frames).on_run) > 0.97 * len(frames)


@each_way
def test_detected_source_is_written_like_a_named_one(source: str, target: str) -> None:
    frames = interleave(source, arguments(3, 20))
    out, run = transcode_each_way(frames, None, target, verbatim=False)
    named, other = transcode(frames, source, target, verbatim=False)
    assert (out, run.message) == (named, other.message)


@pytest.mark.parametrize("target", TARGETS)
def test_text_may_be_interleaved_with_a_call(target: str) -> None:
    """Chat's own text between arguments ends no call; vLLM sends it so."""
    deltas = [frame for n in range(9) for frame in (content(str(n)), calls(call(0, arguments="1")))]
    body = [calls(call(0, "t", "f", "[")), *deltas, chunk({}, "tool_calls"), DONE]
    _, run = transcode_each_way(body, "openai_chat", target)
    assert run.message.tool_calls[0].arguments == "[" + "1" * 9
    assert run.message.text == "012345678"


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_fragment_of_an_unopened_or_closed_call_is_not_written(
    target: str, *, verbatim: bool
) -> None:
    turns = [calls(call(n, arguments="1")) for _ in range(3) for n in (0, 1)]
    begun = [calls(call(n, f"t{n}", "f", "[")) for n in (0, 1)]
    waits, ends = calls(call(2, "t2", "f")), calls(call(0, arguments="]"))
    nothing = [calls(call(n, arguments="")) for n in (2, 1, 0, 2, 1, 0)]
    late = [calls(call(2, arguments="["))]
    late += [calls(call(n, arguments="2")) for _ in range(3) for n in (1, 2)]
    closing = [calls(call(n, arguments="]")) for n in (1, 2)]
    body = [*begun, waits, *turns, *nothing, ends, *late, *nothing, *closing]
    body += [chunk({}, "tool_calls"), DONE]
    _, run = transcode_each_way(body, "openai_chat", target, verbatim=verbatim)
    assert [made.arguments for made in run.message.tool_calls] == ["[111]", "[111222]", "[222]"]
    too_late = [*body[:-4], calls(call(0, arguments="3")), *body[-4:]]
    _, run = transcode_each_way(too_late, "openai_chat", target, verbatim=verbatim)
    assert isinstance(run.outcome, Failed)


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_summaries_may_be_interleaved(target: str, *, verbatim: bool) -> None:
    turns = [(n, part) for part in (0, 1) for _ in range(4) for n in (0, 1)]
    body = [
        responses.START,
        *(responses.added(n, "reasoning", id=f"rs_{n}") for n in (0, 1)),
        *(
            responses.delta(
                "reasoning_summary_text", f"{n}{part}", n, item_id=f"rs_{n}", summary_index=part
            )
            for n, part in turns
        ),
        responses.completed(),
    ]
    _, run = transcode_each_way(body, "openai_responses", target, verbatim=verbatim)
    assert run.message.blocks == (Reasoning(("00" * 4, "01" * 4)), Reasoning(("10" * 4, "11" * 4)))


@pytest.mark.parametrize("target", TARGETS)
def test_anthropic_calls_may_be_interleaved(target: str) -> None:
    """Its deltas name their block by an index, so that a gateway may interleave them."""
    turns = [(n, "1") for _ in range(4) for n in (0, 1)]
    body = [
        wire.start(),
        *(wire.block(n, "tool_use", id=f"t{n}", name="f", input={}) for n in (0, 1)),
        *(
            wire.delta(n, "input_json_delta", partial_json=piece).replace(b'": ', b'":')
            for n, piece in turns
        ),
        *map(wire.stop, (0, 1)),
        *(wire.end("tool_use"), wire.STOP),
    ]
    _, run = transcode_each_way(body, "anthropic", target)
    assert [made.arguments for made in run.message.tool_calls] == ["1111"] * 2


def test_interleaved_reasoning_hidden_from_the_target_is_accumulated() -> None:
    turns = [(n, "1") for _ in range(4) for n in (0, 1)]
    body = [
        responses.START,
        *(responses.added(n, "reasoning", id=f"rs_{n}") for n in (0, 1)),
        *(
            responses.delta("reasoning_summary_text", piece, n, item_id=f"rs_{n}", summary_index=0)
            for n, piece in turns
        ),
        responses.completed(),
    ]
    out, run = transcode_each_way(body, "openai_responses", "anthropic", reasoning=None)
    assert b"thinking" not in out
    assert run.message.blocks == (Reasoning(("1111",)),) * 2


@pytest.mark.parametrize("target", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("source", SOURCES)
def test_held_arguments_are_bounded_on_the_run(source: str, target: str) -> None:
    frames = interleave(source, arguments(3, 100))

    def completes(max_held_bytes: int) -> bool:
        limits = Limits(max_held_bytes=max_held_bytes)
        _, run = transcode_each_way(frames, source, target, limits=limits)
        if isinstance(run.outcome, Failed):
            assert run.outcome.error.code == "max_held_bytes"
        return isinstance(run.outcome, Completed)

    least = bisect_left(range(4000), 1, key=completes)
    assert 400 < least < 1200
    assert [completes(bound) for bound in range(least - 2, least + 2)] == [False, False, True, True]


@pytest.mark.parametrize("verbatim", [False, True])
@each_way
def test_message_is_bounded_on_the_run(source: str, target: str, *, verbatim: bool) -> None:
    limits = Limits(max_accumulated_bytes=900)
    for size, outcome in ((50, Completed), (1000, Failed)):
        frames = interleave(source, arguments(3, size))
        _, run = transcode(frames, source, target, verbatim=verbatim, limits=limits)
        assert isinstance(run.outcome, outcome)
        with every_frame_in_full():
            _, full = transcode(frames, source, target, verbatim=verbatim, limits=limits)
        assert full.outcome == run.outcome
