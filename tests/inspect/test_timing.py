"""The times of a stream: its first events, its gaps and its speed."""

from __future__ import annotations

from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning

from streamnorm.inspect import Survey
from streamnorm.inspect.report import Gap, Report, Timing

OPENING = frame({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant"}}]})


def usage(output: int, hidden: int | None = None) -> bytes:
    counts = {"prompt_tokens": 1, "completion_tokens": output, "total_tokens": 1 + output}
    details = {} if hidden is None else {"completion_tokens_details": {"reasoning_tokens": hidden}}
    return frame({"id": "c", "choices": [], "usage": {**counts, **details}})


def timed(*reads: tuple[int, bytes]) -> Report:
    """Return the report of reads, each with the milliseconds since the one before."""
    run = Survey("openai_chat", timed=True)
    for gap_ms, data in reads:
        run.feed(data, gap_ms)
    run.close()
    return run.report()


def timing(*reads: tuple[int, bytes]) -> Timing:
    found = timed(*reads).timing
    assert found is not None
    return found


def test_moments_are_those_of_the_reads() -> None:
    first, rest = content("a")[:9], content("a")[9:]
    assert timing(
        (300, b": ping\n\n"),
        (40, OPENING),
        (60, first),
        (100, rest),
        (250, content("b")),
        (250, chunk({}, "stop") + usage(30)),
        (20, DONE),
    ) == Timing(
        first_byte_ms=300,
        first_event_ms=340,
        first_text_ms=500,
        end_ms=1020,
        # Frame 1 arrives in two reads, frame 2 after it.
        gaps=(Gap(250, 2), Gap(250, 3), Gap(100, 1)),
        tokens_per_s=120.0,  # 30 in 250 ms
    )


def test_stream_of_calls_has_no_text() -> None:
    found = timing(
        (1, calls(call(0, "a", "f", "{"))),
        (500, calls(call(0, arguments="}"))),
        (1, chunk({}, "tool_calls") + usage(5) + DONE),
    )
    assert (found.first_text_ms, found.tokens_per_s) == (None, 10.0)


def test_hidden_reasoning_is_no_speed() -> None:
    answer = (1000, content("a")), (1000, content("b") + chunk({}, "stop") + usage(50, 40) + DONE)
    assert timing(*answer).tokens_per_s == 10.0
    thought = (1000, reasoning("hm"))
    assert timing(thought, *answer).tokens_per_s == 25.0


def test_speed_is_unknown_without_tokens_or_time() -> None:
    end = chunk({}, "stop") + DONE
    assert timing((5, content("a")), (5, content("b") + end)).tokens_per_s is None
    assert timing((5, content("a") + content("b")), (5, usage(9) + end)).tokens_per_s is None
    assert timing((5, usage(9) + end)).tokens_per_s is None


def test_stream_without_events_has_an_end() -> None:
    assert timing((7, b": ping\n\n"), (0, b": ping\n\n")) == Timing(
        first_byte_ms=7,
        first_event_ms=7,  # the error at its end
        first_text_ms=None,
        end_ms=7,
        gaps=(),
        tokens_per_s=None,
    )


def test_reads_without_times_have_no_timing() -> None:
    run = Survey()
    run.feed(content("a"))
    assert run.report().timing is None
    assert run.report().tracks[0].start_ms is None


def test_blocks_have_the_times_of_their_start_and_stop() -> None:
    report = timed(
        (100, OPENING),
        (400, reasoning("hm")),
        (1000, content("a")),
        (3000, content("b")),
        (9, chunk({}, "stop") + DONE),
    )
    assert [(track.start_ms, track.stop_ms) for track in report.tracks] == [
        (500, 1500),
        (1500, 4509),
    ]
    assert report.cell_width == 8  # 4,509 ms in 1,024 cells
    assert report.tracks[1].busy == 1 << 1500 // 8 | 1 << 4500 // 8 | 1 << 4509 // 8
