"""Chunks at their times, and the end after them, on a clock that only the player moves."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from streamnorm.recording import player
from streamnorm.recording.format import Playback, PlaybackEnd, Step
from streamnorm.recording.player import (
    Pace,
    PlaybackReset,
    PlaybackTimeout,
    Player,
)

Arrivals = list[tuple[float, bytes]]

STEPS = (Step(0.5, b"a"), Step(0.25, b"b"), Step(10, b"c"))


class Clock:
    """A replacement of `time` and `anyio` in which sleeping only advances the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def current_time(self) -> float:
        return self.now


class SyncClock(Clock):
    def sleep(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        self.now += wait_s


class AsyncClock(Clock):
    async def sleep(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        self.now += wait_s
        await anyio.lowlevel.checkpoint()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SyncClock:
    clock = SyncClock()
    monkeypatch.setattr(player, "time", clock)
    return clock


@pytest.fixture
def async_clock(monkeypatch: pytest.MonkeyPatch) -> AsyncClock:
    clock = AsyncClock()
    monkeypatch.setattr(player, "anyio", clock)
    return clock


def answer(*steps: Step, end: PlaybackEnd = "eof") -> Playback:
    return Playback(200, {}, steps, end)


def play(player: Player, clock: Clock) -> tuple[Arrivals, BaseException | None]:
    """Return each chunk with its time since the first read, and the exception at the end."""
    started_at, got = clock.now, []
    try:
        for data in player:
            got.append((clock.now - started_at, data))  # noqa: PERF401 - at its time
    except (PlaybackReset, PlaybackTimeout) as exc:
        return got, exc
    return got, None


async def aplay(player: Player, clock: Clock) -> tuple[Arrivals, BaseException | None]:
    started_at, got = clock.now, []
    try:
        async for data in player:
            got.append((clock.now - started_at, data))  # noqa: PERF401 - at its time
    except (PlaybackReset, PlaybackTimeout) as exc:
        return got, exc
    return got, None


CASES: dict[str, tuple[Playback, Pace, float | None, Arrivals, type[Exception] | None]] = {
    "at once": (answer(*STEPS), Pace(), None, [(0, b"a"), (0, b"b"), (0, b"c")], None),
    "as recorded": (
        *(answer(*STEPS), Pace(1), None),
        *([(0.5, b"a"), (0.75, b"b"), (10.75, b"c")], None),
    ),
    "ten times faster": (
        *(answer(*STEPS), Pace(10), None),
        *([(0.05, b"a"), (0.075, b"b"), (1.075, b"c")], None),
    ),
    "slower": (answer(STEPS[0]), Pace(0.5), None, [(1, b"a")], None),
    "longest gap, before the speed counts": (
        *(answer(*STEPS), Pace(2, 0.5), None),
        *([(0.25, b"a"), (0.375, b"b"), (0.625, b"c")], None),
    ),
    "no gap": (answer(*STEPS), Pace(1, 0), None, [(0, b"a"), (0, b"b"), (0, b"c")], None),
    "stall, not a gap": (answer(Step(9, b"a", 3)), Pace(1, 1), None, [(4, b"a")], None),
    "stall that the speed makes short": (
        *(answer(Step(1, b"a", 3)), Pace(2), None),
        *([(2, b"a")], None),
    ),
    "nothing": (answer(), Pace(1), None, [], None),
    "reset": (answer(STEPS[0], end="reset"), Pace(1), None, [(0.5, b"a")], PlaybackReset),
    "timeout": (answer(STEPS[0], end="timeout"), Pace(), None, [(0, b"a")], PlaybackTimeout),
    "gap longer than the reader waits": (
        *(answer(*STEPS), Pace(1), 9.9),
        *([(0.5, b"a"), (0.75, b"b")], PlaybackTimeout),
    ),
    "gap as long as the reader waits": (
        *(answer(*STEPS), Pace(1), 10),
        *([(0.5, b"a"), (0.75, b"b"), (10.75, b"c")], None),
    ),
    "gap that the speed makes short": (
        *(answer(STEPS[2]), Pace(10), 5),
        *([(1, b"c")], None),
    ),
    "recorded gap where no time passes": (answer(STEPS[2]), Pace(), 5, [(0, b"c")], None),
    "stall where no time passes": (
        *(answer(STEPS[0], Step(0, b"b", 6)), Pace(), 5),
        *([(0, b"a")], PlaybackTimeout),
    ),
    "short stall where no time passes": (
        *(answer(Step(0, b"b", 5)), Pace(), 5),
        *([(0, b"b")], None),
    ),
    "endless stall where no time passes": (
        *(answer(STEPS[0], Step(0, b"b", math.inf)), Pace(), None),
        *([(0, b"a")], PlaybackTimeout),
    ),
    "endless stall": (
        *(answer(STEPS[0], Step(0, b"b", math.inf)), Pace(1), 5),
        *([(0.5, b"a")], PlaybackTimeout),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_chunks_are_played_at_their_time(case: str, clock: SyncClock) -> None:
    playback, pace, timeout_s, arrivals, error = CASES[case]
    got, exc = play(Player(playback, pace, read_timeout_s=timeout_s), clock)
    assert [data for _, data in got] == [data for _, data in arrivals]
    assert [at for at, _ in got] == pytest.approx([at for at, _ in arrivals])
    assert type(exc) is (error or type(None))


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES)
async def test_chunks_are_played_at_their_time_asynchronously(
    case: str, async_clock: AsyncClock
) -> None:
    playback, pace, timeout_s, arrivals, error = CASES[case]
    got, exc = await aplay(Player(playback, pace, read_timeout_s=timeout_s), async_clock)
    assert [data for _, data in got] == [data for _, data in arrivals]
    assert [at for at, _ in got] == pytest.approx([at for at, _ in arrivals])
    assert type(exc) is (error or type(None))


def test_stall_lasts_for_the_read_timeout(clock: SyncClock) -> None:
    play(Player(answer(Step(0, b"a", math.inf)), Pace(1), read_timeout_s=5), clock)
    assert clock.now == 1005


@pytest.mark.anyio
async def test_stall_lasts_for_the_read_timeout_asynchronously(async_clock: AsyncClock) -> None:
    await aplay(Player(answer(Step(0, b"a", 6)), Pace(1), read_timeout_s=5), async_clock)
    assert async_clock.now == 1005


def test_slow_consumer_delays_nothing(clock: SyncClock) -> None:
    player = Player(answer(Step(1, b"a"), Step(1, b"b"), Step(1, b"c")), Pace(1))
    next(player)
    clock.now += 1.5
    assert [next(player), clock.now] == [b"b", 1002.5]
    assert [next(player), clock.now] == [b"c", 1003]


@pytest.mark.anyio
async def test_slow_async_consumer_delays_nothing(async_clock: AsyncClock) -> None:
    player = Player(answer(Step(1, b"a"), Step(1, b"b"), Step(1, b"c")), Pace(1))
    await anext(player)
    async_clock.now += 1.5
    assert [await anext(player), async_clock.now] == [b"b", 1002.5]
    assert [await anext(player), async_clock.now] == [b"c", 1003]


def test_time_counts_from_the_first_read(clock: SyncClock) -> None:
    player = Player(answer(Step(1, b"a")), Pace(1))
    clock.now += 50
    next(player)
    assert clock.now == 1051


def test_player_without_delays_does_not_sleep(clock: SyncClock) -> None:
    play(Player(answer(*STEPS), Pace()), clock)
    assert clock.waits == []


@pytest.mark.anyio
async def test_async_player_without_delays_yields_to_other_tasks(async_clock: AsyncClock) -> None:
    await aplay(Player(answer(*STEPS), Pace()), async_clock)
    assert async_clock.waits == [0, 0, 0]


def test_infinite_stall_sleeps_in_finite_intervals(
    clock: SyncClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(wait_s: float) -> None:
        SyncClock.sleep(clock, wait_s)
        if len(clock.waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(clock, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        next(Player(answer(Step(0, b"a", math.inf)), Pace(1)))
    assert all(0 < wait_s <= 86400 for wait_s in clock.waits)


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["trio"]
)
@pytest.mark.anyio
async def test_infinite_stall_can_be_cancelled() -> None:
    with anyio.move_on_after(1_000_000) as scope:
        await anext(Player(answer(Step(0, b"a", math.inf)), Pace(1)))
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "playback",
    [
        answer(Step(0, b"a", math.inf), Step(0, b"b")),
        answer(end="timeout"),
        answer(end="reset"),
        answer(),
    ],
)
def test_ended_player_keeps_raising_stop_iteration(playback: Playback, clock: SyncClock) -> None:
    player: Any = Player(playback, Pace())
    ends = (PlaybackTimeout, PlaybackReset, StopIteration)
    with pytest.raises(ends) as first:
        next(player)
    with pytest.raises(ends) as again:
        next(player)
    assert first.type is again.type


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((-1,), "speed -1"),
        ((math.inf,), "speed inf"),
        ((math.nan,), "speed nan"),
        ((1, -0.5), "max_gap_s -0.5"),
        ((1, math.nan), "max_gap_s nan"),
    ],
)
def test_invalid_pace_is_refused(numbers: tuple[float, ...], told: str) -> None:
    with pytest.raises(ValueError, match=f"{told}, expected 0 or more"):
        Pace(*numbers)
