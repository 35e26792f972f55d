"""The board: what the dashboard shows of one process, and of several processes merged.

The board is an observer of requests.  Every collection on it is bounded: rows of requests by a
number, upstreams by the configuration, and names that clients or upstreams choose by a number,
beyond which they are `other`.  Nothing on it is content: a row has the fields of the log.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from streamnorm._core.events import ErrorKind
from streamnorm.gateway.config import Config
from streamnorm.gateway.observing import (
    CallRecord,
    FailureReason,
    UpstreamFailure,
    list_log_fields,
)
from streamnorm.gateway.routing import ModelNames

T = TypeVar("T")

Health: TypeAlias = Literal["unused", "healthy", "unsteady", "failing"]
"""State of an upstream by its last 20 requests: none; no failure; some; half of them, or all of
the last three."""

MAX_ROWS = 200
"""Bound on the last requests, and another on the running ones that are listed."""

MAX_MINUTES = 60
"""Bound on the minutes of which requests and tokens are counted."""

_MAX_MODELS = 50
_MAX_NAMES = 50  # features of losses; reasons of the failures of an upstream
_MAX_TIMES = 100  # of one model: the last ones
_MAX_RECENT = 20
_MAX_LAST = 3
_OTHER = "other"
_MINUTE_S = 60
# The request itself is at fault where an upstream answers with another status below 500: these
# are of its key, its account, and its capacity.
_OF_UPSTREAM = (401, 402, 403, 408, 429)
_SERVER_ERROR = 500


class Minute(Struct):
    """Counts of the requests that ended within one minute."""

    requests: int = 0
    failures: int = 0
    output_tokens: int = 0


class UpstreamRow(Struct):
    """Counts of the requests to one upstream.

    Attributes:
        dialect: Its dialect.
        requests: Requests that it was sent and that have ended, retries included.
        failures: Those that failed through its fault, or whose answer broke.
        retries: Those that were sent to it again for the same request of a client.
        reasons: How often it failed, by the reason.
        recent: When each of the last requests ended, and whether it succeeded, the oldest first.
        failed_at: When it failed last, in seconds since 1970; None if it never did.
    """

    dialect: str
    requests: int = 0
    failures: int = 0
    retries: int = 0
    reasons: dict[str, int] = {}
    recent: list[tuple[float, bool]] = []
    failed_at: float | None = None

    @property
    def health(self) -> Health:
        """State of the upstream, judged by its last requests."""
        recent = [succeeded for _, succeeded in self.recent]
        failed = recent.count(False)
        if not recent:
            return "unused"
        if not failed:
            return "healthy"
        is_down = not any(recent[-_MAX_LAST:])
        return "failing" if is_down or 2 * failed >= len(recent) else "unsteady"


class ModelRow(Struct):
    """Counts of the requests for one model, or for all models without a row of their own.

    Attributes:
        requests: Requests that have ended.
        failures: Those that failed, or whose answer was truncated.
        input_tokens: Tokens that went in.
        output_tokens: Tokens that came out.
        first_event_s: Seconds to the first event of the last streams.
        tokens_per_s: Output tokens a second of the last streams.
    """

    requests: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    first_event_s: list[float] = []
    tokens_per_s: list[float] = []


class Totals(Struct):
    """Counts of all requests that have ended.

    Attributes:
        endings: Requests by how they ended.
        input_tokens: Tokens that went in.
        cached_tokens: Those of them that were read from a cache.
        output_tokens: Tokens that came out.
        losses: What a dialect could not carry, by feature.
    """

    endings: dict[str, int] = {}
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    losses: dict[str, int] = {}


class Board(Struct, kw_only=True):
    """What the dashboard shows of one process: its requests, upstreams, models and totals.

    Attributes:
        process: Its id, and the name of its host.
        started_at: When it started, in seconds since 1970.
        running: Running requests, the oldest first.
        running_count: Their number, of which `running` has the first.
        ended: The last requests that have ended, the oldest first; `n` numbers them.
        upstreams: The upstreams by name.
        models: The models by name.
        minutes: The last minutes, by their number since 1970.
        totals: Counts of all requests that have ended.
    """

    process: str
    started_at: float
    totals: Totals
    running: list[dict[str, Any]] = []
    running_count: int = 0
    ended: list[dict[str, Any]] = []
    upstreams: dict[str, UpstreamRow] = {}
    models: dict[str, ModelRow] = {}
    minutes: dict[int, Minute] = {}


class BoardObserver:
    """An observer that adds the requests of this process to the `Board` of this process.

    Args:
        config: The configuration.
        has_timelines: Whether rows have the scope and the id of their streams in the log.
    """

    def __init__(self, config: Config, *, has_timelines: bool = False) -> None:
        self._has_timelines = has_timelines
        self._names = ModelNames(config.models)
        self._matches = [model.match for model in config.models]
        self._has_models = bool(config.models)
        self._running: dict[int, tuple[int, CallRecord]] = {}
        self._begun = self._ended = 0
        self._rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self._board = Board(
            process=f"{os.getpid()}@{socket.gethostname()}",
            started_at=time.time(),
            upstreams={
                name: UpstreamRow(upstream.dialect) for name, upstream in config.upstreams.items()
            },
            totals=Totals(),
        )

    def begin(self, call: CallRecord) -> None:
        """Add a request to the running requests."""
        self._begun += 1
        self._running[id(call)] = self._begun, call

    def end(self, call: CallRecord) -> None:
        """Move a request from the running to the ended requests, and count the request."""
        begun, _ = self._running.pop(id(call), (0, call))
        self._ended += 1
        now = time.time()
        tokens_per_s = _tokens_per_s(call)
        row = list_log_fields(call) | {"n": self._ended, "at": round(now, 1)}
        self._add_stream(row, begun, call)
        if call.client_key:
            row["client_key"] = call.client_key
        if tokens_per_s is not None:
            row["tokens_per_s"] = tokens_per_s
        if failures := [failure._asdict() for failure in call.failures]:
            row["failures"] = failures
        self._rows.append(row)
        self._count_totals(call, now)
        self._count_model(call, tokens_per_s)
        self._count_upstreams(call, now)

    def board(self, now_s: float) -> Board:
        """Return the board of this process.

        Args:
            now_s: The time of the clock of the records.
        """
        board = self._board
        board.running_count = len(self._running)
        listed = islice(self._running.values(), MAX_ROWS)
        board.running = [_make_running_row(n, call, now_s) for n, call in listed]
        for row, (begun, call) in zip(board.running, self._running.values(), strict=False):
            self._add_stream(row, begun, call)
        board.ended = [*self._rows]
        return board

    def _add_stream(self, row: dict[str, Any], begun: int, call: CallRecord) -> None:
        """Add the log key of a request's stream, and the name of the stream on the dashboard."""
        if self._has_timelines and call.stream is not None:
            row |= {"stream": call.stream, "timeline": f"{self._board.process}-{begun}"}

    def _count_totals(self, call: CallRecord, now: float) -> None:
        totals, usage = self._board.totals, call.usage
        _count(totals.endings, call.ending)
        totals.input_tokens += usage.input_tokens or 0
        totals.cached_tokens += usage.cache_read_tokens or 0
        totals.output_tokens += usage.output_tokens or 0
        for feature, count in call.losses.items():
            _count(totals.losses, feature, count)
        minutes, number = self._board.minutes, int(now // _MINUTE_S)
        minute = minutes.setdefault(number, Minute())
        minute.requests += 1
        minute.failures += call.ending in ("failed", "truncated")
        minute.output_tokens += usage.output_tokens or 0
        while len(minutes) > MAX_MINUTES:
            del minutes[min(minutes)]

    def _count_model(self, call: CallRecord, tokens_per_s: float | None) -> None:
        name = self._model_name(call.model)
        if name is None:
            return
        models = self._board.models
        if name not in models and len(models) >= _MAX_MODELS:
            name = _OTHER
        row = models.setdefault(name, ModelRow())
        row.requests += 1
        row.failures += call.ending in ("failed", "truncated")
        row.input_tokens += call.usage.input_tokens or 0
        row.output_tokens += call.usage.output_tokens or 0
        if call.first_event_s is not None:
            _append(row.first_event_s, round(call.first_event_s, 3), _MAX_TIMES)
        if tokens_per_s is not None:
            _append(row.tokens_per_s, tokens_per_s, _MAX_TIMES)

    def _model_name(self, model: str) -> str | None:
        """Return the name of a model's row; None if the request names no model."""
        if not model:
            return None
        if not self._has_models:
            return CallRecord(client="", operation="", started_at=0.0, model=model).model_name
        found = self._names.find(model)
        return _OTHER if found is None else self._matches[found.entry]

    def _count_upstreams(self, call: CallRecord, now: float) -> None:
        asked: dict[str, int] = {}
        for failure in call.failures:
            self._count_upstream(failure, now)
            asked[failure.upstream] = asked.get(failure.upstream, 0) + 1
        # An answer has begun, unless the client left before.
        if call.attempts > len(call.failures) and call.upstream and call.ending != "abandoned":
            error = call.error
            kind = None if error is None else error.kind
            status = _SERVER_ERROR if error is None else error.status_hint or _SERVER_ERROR
            self._count_upstream(_Asked(call.upstream, status, kind, call.reason), now)
            asked[call.upstream] = asked.get(call.upstream, 0) + 1
        for name, count in asked.items():
            if (row := self._board.upstreams.get(name)) is not None:
                row.retries += count - 1

    def _count_upstream(self, asked: UpstreamFailure | _Asked, now: float) -> None:
        row = self._board.upstreams.get(asked.upstream)
        if row is None:
            return
        row.requests += 1
        reason = None
        if asked.error is not None and _is_at_fault(asked.status, asked.reason):
            reason = asked.reason or _describe(asked.status, asked.error)
            row.failures += 1
            row.failed_at = round(now, 1)
            _count(row.reasons, reason)
        _append(row.recent, (round(now, 1), reason is None), _MAX_RECENT)


class _Asked(Struct):
    """A request to an upstream whose answer has begun; `error` is None after a complete answer."""

    upstream: str
    status: int
    error: ErrorKind | None
    reason: FailureReason | None


def _is_at_fault(status: int, reason: FailureReason | None) -> bool:
    return reason is not None or status >= _SERVER_ERROR or status in _OF_UPSTREAM


def _describe(status: int, error: ErrorKind) -> str:
    """Return the reason of a failed request to an upstream: the HTTP status or the error kind."""
    return f"status {status}" if error == "upstream" else error


def _tokens_per_s(call: CallRecord) -> float | None:
    """Return the output tokens per second of a stream after its first event."""
    if call.first_event_s is None or not call.usage.output_tokens:
        return None
    seconds = call.seconds - call.first_event_s
    # Of an answer that came at once, the quotient would say nothing.
    return round(call.usage.output_tokens / seconds, 1) if seconds > 0.01 else None


def _make_running_row(number: int, call: CallRecord, now_s: float) -> dict[str, Any]:
    running = call.running
    upstream, attempts = call.upstream, call.attempts
    events, output_tokens = 0, None
    if running is not None:
        upstream, attempts = upstream or running.asked, attempts or running.count
        events, output_tokens = running.progress, running.usage.output_tokens
    return {
        "n": number,
        "age_s": round(now_s - call.started_at, 1),
        "client": call.client,
        "client_key": call.client_key,
        "operation": call.operation,
        "model": call.model_name,
        "upstream": upstream,
        "state": _state(call, upstream),
        "attempts": attempts,
        "first_event_s": None if call.first_event_s is None else round(call.first_event_s, 3),
        "events": events,
        "output_tokens": output_tokens,
    }


def _state(call: CallRecord, upstream: str) -> str:
    """Return the state of a running request: reading, waiting or answering."""
    if call.first_event_s is not None or call.status:
        return "answering"
    return "waiting" if upstream else "reading"


def _count(counts: dict[str, int], name: str, count: int = 1) -> None:
    if name not in counts and len(counts) >= _MAX_NAMES:
        name = _OTHER
    counts[name] = counts.get(name, 0) + count


def _append(values: list[T], value: T, most: int) -> None:
    values.append(value)
    del values[:-most]


def merge_boards(boards: Sequence[Board]) -> dict[str, Any]:
    """Return the boards of several processes merged into the JSON that the page reads."""
    running: list[dict[str, Any]] = [
        {**row, "process": board.process} for board in boards for row in board.running
    ]
    ended: list[dict[str, Any]] = [
        {**row, "process": board.process} for board in boards for row in board.ended
    ]
    minutes: dict[int, list[int]] = {}
    for board in boards:
        for number, minute in board.minutes.items():
            counts = (minute.requests, minute.failures, minute.output_tokens)
            sums = minutes.get(number, [0, 0, 0])
            minutes[number] = [a + b for a, b in zip(sums, counts, strict=True)]
    names = {name: row.dialect for board in boards for name, row in board.upstreams.items()}
    models = {name for board in boards for name in board.models}
    totals = [board.totals for board in boards]
    return {
        "about": {
            "processes": sorted(board.process for board in boards),
            "started_at": round(min(board.started_at for board in boards), 1),
            "running_count": sum(board.running_count for board in boards),
        },
        "totals": {
            "endings": _sum_counts(total.endings for total in totals),
            "input_tokens": sum(total.input_tokens for total in totals),
            "cached_tokens": sum(total.cached_tokens for total in totals),
            "output_tokens": sum(total.output_tokens for total in totals),
            "losses": _sum_counts(total.losses for total in totals),
        },
        "minutes": [[number, *minutes[number]] for number in sorted(minutes)[-MAX_MINUTES:]],
        "upstreams": [
            _merge_upstream(name, [b.upstreams[name] for b in boards if name in b.upstreams])
            for name in names
        ],
        "models": [
            _merge_model(name, [board.models[name] for board in boards if name in board.models])
            for name in sorted(models)
        ],
        "running": sorted(running, key=lambda row: -row["age_s"])[:MAX_ROWS],
        "ended": sorted(ended, key=lambda row: row["at"])[-MAX_ROWS:],
    }


def _merge_upstream(name: str, rows: list[UpstreamRow]) -> dict[str, Any]:
    recent = sorted(each for row in rows for each in row.recent)[-_MAX_RECENT:]
    failed_at = [row.failed_at for row in rows if row.failed_at is not None]
    return {
        "name": name,
        "dialect": rows[0].dialect,
        "health": UpstreamRow(rows[0].dialect, recent=recent).health,
        "requests": sum(row.requests for row in rows),
        "failures": sum(row.failures for row in rows),
        "retries": sum(row.retries for row in rows),
        "reasons": _sum_counts(row.reasons for row in rows),
        "failed_at": max(failed_at, default=None),
    }


def _merge_model(name: str, rows: list[ModelRow]) -> dict[str, Any]:
    first_event_s = sorted(seconds for row in rows for seconds in row.first_event_s)
    return {
        "name": name,
        "requests": sum(row.requests for row in rows),
        "failures": sum(row.failures for row in rows),
        "input_tokens": sum(row.input_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "first_event_p50_s": _percentile(first_event_s, 50),
        "first_event_p95_s": _percentile(first_event_s, 95),
        "tokens_per_s": _percentile(sorted(rate for row in rows for rate in row.tokens_per_s), 50),
    }


def _percentile(values: list[float], percent: int) -> float | None:
    """Return a percentile of sorted values; None without values."""
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
