"""Blocks that take turns, piece by piece: the short way gives what the long way gives."""

from __future__ import annotations

from typing import Any

import anthropic_frames as wire
import pytest
import responses_frames as responses
from chat import DONE, call, calls, chunk, content
from streams import transcode

from streamnorm import Completed, Failed, Limits, Reasoning, Transcoder
from streamnorm.codec import Turns

TARGETS = ("openai_chat", "anthropic", "openai_responses", "gemini")
SOURCES = ("openai_chat", "openai_responses")
"""The dialects whose calls take turns in recorded streams."""

each_way = pytest.mark.parametrize(
    ("source", "target"), [(source, target) for source in SOURCES for target in TARGETS]
)


def parallel(source: str, pieces: list[list[str]]) -> list[bytes]:
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


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each chunk that was offered as one of several blocks was taken so."""
    told: list[bool] = []
    feed = Turns.feed

    def record(turns: Turns, data: bytes) -> bytes | None:
        written = feed(turns, data)
        told.append(written is not None)
        return written

    monkeypatch.setattr(Turns, "feed", record)
    return told


@pytest.mark.parametrize("ordering", ["sequential", "interleaved"])
@pytest.mark.parametrize("verbatim", [False, True])
@each_way
def test_turns_one_by_one_are_those_of_the_whole(
    source: str, target: str, *, verbatim: bool, ordering: str, taken: list[bool]
) -> None:
    pieces = [
        ['{"a":"', "x", "é😀", "x" * 300, "", '"}'],
        ["{", '"b"', ":", "", "1", "}"],
        ['{"c', '":[', "", "2", "]", "}"],
    ]
    frames = parallel(source, pieces)
    options: dict[str, Any] = {"verbatim": verbatim, "ordering": ordering}
    whole, run = transcode([b"".join(frames)], source, target, **options)
    assert not taken
    out, other = transcode(frames, source, target, **options)
    assert sum(taken) > 6
    assert out == whole
    assert (other.message, other.outcome, other.frames) == (run.message, run.outcome, run.frames)
    assert isinstance(other.outcome, Completed)
    said = [made.arguments for made in other.message.tool_calls]
    assert said == ["".join(texts) for texts in pieces]


@each_way
def test_nearly_all_turns_are_taken_the_short_way(
    source: str, target: str, taken: list[bool]
) -> None:
    frames = parallel(source, arguments(4, 200))
    run = Transcoder(source, target, verbatim=False)
    for piece in frames:
        run.feed(piece)
    assert sum(taken) > 0.97 * len(frames)


@each_way
def test_source_that_was_found_out_is_read_the_same_way(
    source: str, target: str, taken: list[bool]
) -> None:
    frames = parallel(source, arguments(3, 20))
    out, run = transcode(frames, None, target, verbatim=False)
    assert sum(taken) > 30
    named, other = transcode(frames, source, target, verbatim=False)
    assert (out, run.message) == (named, other.message)


def test_text_may_take_its_turn_beside_a_call() -> None:
    """Chat's own text between arguments ends no call; vLLM sends it so."""
    deltas = [frame for n in range(9) for frame in (content(str(n)), calls(call(0, arguments="1")))]
    body = [calls(call(0, "t", "f", "[")), *deltas, chunk({}, "tool_calls"), DONE]
    whole, _ = transcode([b"".join(body)], "openai_chat", "anthropic")
    out, run = transcode(body, "openai_chat", "anthropic")
    assert out == whole
    assert run.message.tool_calls[0].arguments == "[" + "1" * 9
    assert run.message.text == "012345678"


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_call_that_has_not_begun_or_has_ended_takes_no_turn(target: str, *, verbatim: bool) -> None:
    turns = [calls(call(n, arguments="1")) for _ in range(3) for n in (0, 1)]
    begun = [calls(call(n, f"t{n}", "f", "[")) for n in (0, 1)]
    waits, ends = calls(call(2, "t2", "f")), calls(call(0, arguments="]"))
    nothing = [calls(call(n, arguments="")) for n in (2, 1, 0, 2, 1, 0)]
    late = [calls(call(2, arguments="["))]
    late += [calls(call(n, arguments="2")) for _ in range(3) for n in (1, 2)]
    closing = [calls(call(n, arguments="]")) for n in (1, 2)]
    body = [*begun, waits, *turns, *nothing, ends, *late, *nothing, *closing]
    body += [chunk({}, "tool_calls"), DONE]
    whole, _ = transcode([b"".join(body)], "openai_chat", target, verbatim=verbatim)
    out, run = transcode(body, "openai_chat", target, verbatim=verbatim)
    assert out == whole
    assert [made.arguments for made in run.message.tool_calls] == ["[111]", "[111222]", "[222]"]


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_summaries_may_take_turns(target: str, *, verbatim: bool, taken: list[bool]) -> None:
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
    whole, _ = transcode([b"".join(body)], "openai_responses", target, verbatim=verbatim)
    out, run = transcode(body, "openai_responses", target, verbatim=verbatim)
    assert out == whole
    assert sum(taken) > 7
    assert run.message.blocks == (Reasoning(("00" * 4, "01" * 4)), Reasoning(("10" * 4, "11" * 4)))


@pytest.mark.parametrize("target", TARGETS)
def test_dialect_that_never_takes_turns_may_all_the_same(target: str, taken: list[bool]) -> None:
    """Anthropic tells blocks by their index, so that a gateway may send them in turn."""
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
    whole, _ = transcode([b"".join(body)], "anthropic", target)
    out, run = transcode(body, "anthropic", target)
    assert out == whole
    assert taken
    assert [made.arguments for made in run.message.tool_calls] == ["1111"] * 2


def test_what_the_target_may_not_see_is_kept_in_turns_too(taken: list[bool]) -> None:
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
    out, run = transcode(body, "openai_responses", "anthropic", reasoning=None)
    assert sum(taken) > 4
    assert b"thinking" not in out
    assert run.message.blocks == (Reasoning(("1111",)),) * 2


@each_way
def test_what_may_wait_is_bounded_for_turns_too(
    source: str, target: str, taken: list[bool]
) -> None:
    frames = parallel(source, arguments(3, 100))
    limits = Limits(max_held_bytes=200)
    out, run = transcode(frames, source, target, verbatim=False, limits=limits)
    whole, other = transcode([b"".join(frames)], source, target, verbatim=False, limits=limits)
    assert sum(taken) > 9
    assert out == whole
    assert run.losses == other.losses
    assert type(run.outcome) is type(other.outcome)
    if target in ("anthropic", "openai_responses"):
        assert isinstance(run.outcome, Failed)
        assert run.outcome.error.code == "max_held_bytes"


@pytest.mark.parametrize("verbatim", [False, True])
@each_way
def test_bound_of_the_message_holds_for_turns_too(
    source: str, target: str, *, verbatim: bool
) -> None:
    limits = Limits(max_accumulated_bytes=900)
    for size, outcome in ((50, Completed), (1000, Failed)):
        frames = parallel(source, arguments(3, size))
        _, run = transcode(frames, source, target, verbatim=verbatim, limits=limits)
        assert isinstance(run.outcome, outcome)
