"""The board of a dashboard: what it counts, and its bounds."""

from __future__ import annotations

import pytest

from streamnorm import Completed, StreamError, Truncated, Usage
from streamnorm.gateway import CallRecord, Config, ModelConfig, UpstreamConfig
from streamnorm.gateway.dashboard_board import (
    MAX_ROWS,
    Board,
    BoardObserver,
    UpstreamRow,
    merge_boards,
)
from streamnorm.gateway.observing import UpstreamFailure

UPSTREAMS = {
    name: UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:9")
    for name in ("first", "second")
}
MODELS = [ModelConfig(match="m-*", to=["first", "second"])]
ANSWERED = Completed("end_turn", Usage(input_tokens=20, output_tokens=30, cache_read_tokens=5))
CUT = Truncated(StreamError("truncated", "the stream ended early"))
OVERLOADED = StreamError("upstream", "Overloaded.", "overloaded_error", 529)


def ended_call(
    model: str = "m-1",
    *,
    outcome: Completed | Truncated | None = ANSWERED,
    failures: tuple[UpstreamFailure, ...] = (),
    upstream: str = "first",
    answers: int = 1,
    losses: dict[str, int] | None = None,
) -> CallRecord:
    """Return the record of a stream that took a second to begin, and one more."""
    return CallRecord(
        client="anthropic",
        operation="stream",
        started_at=0.0,
        model=model,
        upstream=upstream,
        first_event_s=1.0,
        seconds=2.0,
        status=200,
        outcome=outcome,
        usage=ANSWERED.usage if outcome is ANSWERED else Usage(),
        attempts=len(failures) + answers,
        losses=losses or {},
        failures=[*failures],
    )


def observed(*calls: CallRecord, models: list[ModelConfig] = MODELS) -> BoardObserver:
    """Return an observer of requests that have ended."""
    observer = BoardObserver(Config(upstreams=UPSTREAMS, models=models))
    for call in calls:
        observer.begin(call)
        observer.end(call)
    return observer


def shown(*calls: CallRecord, models: list[ModelConfig] = MODELS) -> dict[str, object]:
    """Return what the page of one process reads."""
    return merge_boards([observed(*calls, models=models).board(9.0)])


def upstream_of(state: dict[str, object], name: str) -> dict[str, object]:
    rows = state["upstreams"]
    assert isinstance(rows, list)
    (row,) = [row for row in rows if row["name"] == name]
    assert isinstance(row, dict)
    return row


def test_unused_gateway_shows_its_upstreams() -> None:
    state = shown()
    assert state["running"] == state["ended"] == state["models"] == state["minutes"] == []
    assert upstream_of(state, "second") == {
        "name": "second",
        "dialect": "openai_chat",
        "health": "unused",
        "requests": 0,
        "failures": 0,
        "retries": 0,
        "reasons": {},
        "failed_at": None,
    }


def test_ended_request_has_the_fields_of_the_log() -> None:
    (row,) = shown(ended_call(losses={"store": 2}))["ended"]  # type: ignore[misc]  # a list
    row.pop("at")
    row.pop("process")
    assert row == {
        "n": 1,
        "client": "anthropic",
        "operation": "stream",
        "model": "m-1",
        "upstream": "first",
        "status": 200,
        "outcome": "completed",
        "attempts": 1,
        "first_event_s": 1.0,
        "duration_s": 2.0,
        "input_tokens": 20,
        "output_tokens": 30,
        "cache_read_tokens": 5,
        "tokens_per_s": 30.0,
        "losses": {"store": 2},
    }


def test_totals_and_models_are_counted() -> None:
    state = shown(ended_call(), ended_call(outcome=CUT), ended_call("unknown", losses={"a": 1}))
    assert state["totals"] == {
        "endings": {"completed": 2, "truncated": 1},
        "input_tokens": 40,
        "cached_tokens": 10,
        "output_tokens": 60,
        "losses": {"a": 1},
    }
    assert state["models"] == [
        {
            "name": "m-*",
            "requests": 2,
            "failures": 1,
            "input_tokens": 20,
            "output_tokens": 30,
            "first_event_p50_s": 1.0,
            "first_event_p95_s": 1.0,
            "tokens_per_s": 30.0,
        },
        {
            "name": "other",
            "requests": 1,
            "failures": 0,
            "input_tokens": 20,
            "output_tokens": 30,
            "first_event_p50_s": 1.0,
            "first_event_p95_s": 1.0,
            "tokens_per_s": 30.0,
        },
    ]
    minutes = state["minutes"]
    assert isinstance(minutes, list)
    assert [sum(column) for column in zip(*minutes, strict=True)][1:] == [3, 1, 60]


def test_failures_of_a_fallback_are_those_of_the_upstream_that_was_down() -> None:
    down = UpstreamFailure("first", 502, "transport", "refused")
    state = shown(ended_call(failures=(down, down), upstream="second"))
    first, second = upstream_of(state, "first"), upstream_of(state, "second")
    assert (first["requests"], first["failures"], first["retries"]) == (2, 2, 1)
    assert (first["reasons"], first["health"]) == ({"refused": 2}, "failing")
    assert (second["requests"], second["failures"], second["retries"]) == (1, 0, 0)
    assert second["health"] == "healthy"


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        (400, {}),
        (404, {}),
        (422, {}),
        (401, {"status 401": 1}),
        (429, {"status 429": 1}),
        (529, {"status 529": 1}),
    ],
)
def test_refusal_of_the_request_is_no_fault_of_the_upstream(
    status: int, reasons: dict[str, int]
) -> None:
    refused = UpstreamFailure("first", status, "upstream", None)
    row = upstream_of(shown(ended_call(failures=(refused,), answers=0)), "first")
    assert (row["requests"], row["reasons"]) == (1, reasons)
    assert row["health"] == ("failing" if reasons else "healthy")


def test_broken_answer_is_a_failure_of_its_upstream() -> None:
    row = upstream_of(shown(ended_call(outcome=CUT)), "first")
    assert (row["failures"], row["reasons"]) == (1, {"truncated": 1})


@pytest.mark.parametrize(
    ("recent", "health"),
    [
        ("", "unused"),
        ("+", "healthy"),
        ("-", "failing"),
        ("+++-", "unsteady"),
        ("++++++---", "failing"),
        ("---+++++", "unsteady"),
        ("--+-+-++", "failing"),
    ],
)
def test_health_is_that_of_the_last_requests(recent: str, health: str) -> None:
    row = UpstreamRow("openai_chat", recent=[(0.0, each == "+") for each in recent])
    assert row.health == health


def test_rows_are_bounded() -> None:
    observer = observed(*[ended_call()] * (MAX_ROWS + 5))
    waiting = [ended_call() for _ in range(MAX_ROWS + 7)]
    for call in waiting:
        observer.begin(call)
    state = merge_boards([observer.board(9.0)])
    ended, running = state["ended"], state["running"]
    assert (len(ended), ended[0]["n"], ended[-1]["n"]) == (MAX_ROWS, 6, MAX_ROWS + 5)
    assert len(running) == MAX_ROWS
    assert state["about"]["running_count"] == MAX_ROWS + 7
    for call in waiting:
        observer.end(call)
    assert merge_boards([observer.board(9.0)])["running"] == []


def test_names_that_clients_choose_are_bounded() -> None:
    calls = [ended_call("x" * 200 + f"{n}") for n in range(3)]
    calls += [ended_call(f"m{n}", losses={f"field{n}": 1}) for n in range(300)]
    state = shown(*calls, models=[])
    models = state["models"]
    assert isinstance(models, list)
    names = [row["name"] for row in models]
    assert len(names) == 51
    assert "other" in names
    assert max(map(len, names)) == 128
    totals = state["totals"]
    assert isinstance(totals, dict)
    assert len(totals["losses"]) == 51
    assert sum(totals["losses"].values()) == 300


def test_running_request_has_no_more_than_its_record() -> None:
    observer = observed()
    call = CallRecord(client="gemini", operation="", started_at=7.0)
    observer.begin(call)
    (row,) = merge_boards([observer.board(9.5)])["running"]
    assert (row["age_s"], row["state"], row["upstream"], row["events"]) == (2.5, "reading", "", 0)


def test_boards_of_processes_are_added() -> None:
    one, two = observed(ended_call()).board(9.0), observed(ended_call(outcome=CUT)).board(9.0)
    two.process = "2@host"
    state = merge_boards([one, two])
    assert state["about"]["processes"] == sorted([one.process, "2@host"])
    assert state["totals"]["endings"] == {"completed": 1, "truncated": 1}
    assert [row["requests"] for row in state["models"]] == [2]
    assert upstream_of(state, "first")["requests"] == 2
    assert {row["process"] for row in state["ended"]} == {one.process, "2@host"}
    assert merge_boards([one])["totals"]["endings"] == {"completed": 1}  # nothing was changed


def test_board_is_read_back_as_it_was_written() -> None:
    import msgspec

    board = observed(ended_call(), ended_call(outcome=CUT)).board(9.0)
    again = msgspec.json.decode(msgspec.json.encode(board), type=Board)
    assert merge_boards([again]) == merge_boards([board])
