"""Cost of an event in every workload and read size: decoded, transcoded and verbatim.

The units are CPU times of an untyped `msgspec.json.decode`: U that of a Chat text chunk of
some 300 bytes, u that of a payload of the workload itself.
"""

from __future__ import annotations

from typing import NamedTuple

from reads import HALVES, ONE_EVENT, READS, SEGMENTS, SEVERAL
from timing import Figure, Run, decode, decode_json, fastest, transcode
from workloads import DIALECTS, Workload, chat, pages, workloads

import streamnorm

__all__ = ["measure", "report"]

_RATIO_BAR = 1.3
_ARGUMENTS_BAR = 0.6
_CHECKSUMS_BAR = 0.8  # U of the two checksums of a message that is read, and of one that is written
_FRAMED = "bedrock_converse"
_INTERACTIONS = "gemini_interactions"

_WIDTH = 15
_SHORT = {"openai_chat": "chat", "openai_responses": "responses", _FRAMED: "converse"}
_SHORT |= {_INTERACTIONS: "interactions", "ui_message_stream": "ui"}


class Column(NamedTuple):
    """One way of processing a stream, a column of the report.

    Attributes:
        title: Its name in the report.
        own: Its bar in u.
        common: Its bar in U, added to that in u.
        target: Dialect that is written; None for events.
        verbatim: Whether the original bytes are written.
        reads: Read sizes at which it is measured.
    """

    title: str
    own: float
    common: float
    target: str | None = None
    verbatim: bool = False
    reads: tuple[str, ...] = tuple(READS)

    def run(self, workload: Workload, reads: list[bytes]) -> Run:
        """Return the run to measure."""
        if self.target is None:
            return decode(reads, workload.dialect)
        return transcode(reads, workload.dialect, self.target, verbatim=self.verbatim)

    def bar(self, workload: Workload, u: float, *, halves: bool) -> float:
        """Return the bar for an event, in U."""
        bar = self.own * u + self.common + _ARGUMENTS_BAR * workload.argument_share
        written = None if self.verbatim else self.target
        bar += _CHECKSUMS_BAR * [workload.dialect, written].count(_FRAMED)
        return 2 * bar if halves else bar


def columns(workload: Workload) -> list[Column]:
    """Return the columns of the report."""
    known = (*DIALECTS, _INTERACTIONS, _FRAMED, *pages.DIALECTS)
    rest = [dialect for dialect in known if dialect != workload.other]
    return [
        Column("events", 2, 0.7),
        Column(_title(workload.other), 2, 1.2, workload.other),
        Column("verbatim", 1, 1.4, workload.dialect, verbatim=True),
        *(Column(_title(to), 2, 1.2, to, reads=(ONE_EVENT, SEGMENTS)) for to in rest),
    ]


def _title(dialect: str) -> str:
    return f"→ {_SHORT.get(dialect, dialect)}"


class Costs(NamedTuple):
    """Costs of an event in one workload, in U.

    Attributes:
        workload: The workload.
        u: Cost of decoding one of its payloads.
        cells: Figures by read size and column title.
    """

    workload: Workload
    u: float
    cells: dict[tuple[str, str], Figure]

    def ratio(self, column: Column) -> Figure:
        """Return the largest cost with several events in a read, relative to one event a read."""
        several = [self.cells[name, column.title].value for name in SEVERAL if name in column.reads]
        one = self.cells[ONE_EVENT, column.title].value
        name = f"{self.workload.name}, {column.title}: several events a read, to one"
        return Figure(name, max(several) / one, _RATIO_BAR)


def report(events: int, rounds: int, only: str) -> tuple[list[Figure], list[Figure]]:
    """Print the costs of the workloads whose name contains `only`; return cells and ratios."""
    measured = [workload for workload in workloads(events) if only in workload.name]
    if not measured:
        return [], []
    unit, costs = measure(measured, rounds)
    print(f"U = {unit * 1e6:.2f} µs, and every cost in U; '!' is over the bar")
    for each in costs:
        _print(each)
    cells = [figure for each in costs for figure in each.cells.values()]
    ratios = [each.ratio(column) for each in costs for column in columns(each.workload)]
    return cells, ratios


def measure(measured: list[Workload], rounds: int) -> tuple[float, list[Costs]]:
    """Return U in seconds, and the costs of each workload."""
    unit_payloads = chat.text(1000)
    runs: dict[tuple[str, str, str], Run] = {("U", "", ""): decode_json(unit_payloads)}
    for workload in measured:
        _check(workload)
        runs[workload.name, "u", ""] = decode_json(workload.payloads)
        for name, cut in READS.items():
            reads = cut(workload.frames)
            for column in columns(workload):
                if name in column.reads:
                    runs[workload.name, name, column.title] = column.run(workload, reads)
    best = fastest(runs, rounds)
    unit = best["U", "", ""] / len(unit_payloads)
    costs = []
    for workload in measured:
        u = best[workload.name, "u", ""] / len(workload.payloads) / unit
        cells = {
            (name, column.title): Figure(
                f"{workload.name}, {name}, {column.title}",
                best[workload.name, name, column.title] / len(workload.frames) / unit,
                column.bar(workload, u, halves=name == HALVES),
            )
            for name in READS
            for column in columns(workload)
            if name in column.reads
        }
        costs.append(Costs(workload, u, cells))
    return unit, costs


# Blocks of the message, where there is more than one.
_BLOCKS = {
    "chat: reasoning, text": 2,
    "chat: 4 calls": 4,
    "chat: 4 calls, interleaved": 4,
    "anthropic: thinking, text, calls": 4,
    "responses: 4 calls": 4,
}


def _check(workload: Workload) -> None:
    """Assert that verbatim bytes, message and outcome are right at every read size."""
    seen: list[streamnorm.Message] = []
    for cut in READS.values():
        for target, verbatim in ((workload.dialect, True), (workload.other, False)):
            transcoder = streamnorm.Transcoder(workload.dialect, target, verbatim=verbatim)
            written = [piece for read in cut(workload.frames) for piece in transcoder.feed(read)]
            written += transcoder.close()
            assert not verbatim or b"".join(written) == workload.body, workload.name
            assert isinstance(transcoder.outcome, streamnorm.Completed), workload.name
            seen.append(transcoder.message)
    assert all(message == seen[0] for message in seen), workload.name
    assert len(seen[0].blocks) == _BLOCKS.get(workload.name, 1), workload.name


def _print(costs: Costs) -> None:
    workload, u, cells = costs
    uses = columns(workload)
    print(
        f"\n{workload.name}: {len(workload.frames):,} events of"
        f" {len(workload.body) // len(workload.frames)} bytes, u = {u:.2f} U"
    )
    print(" " * 20 + "".join(f"{column.title:>{_WIDTH}}" for column in uses))
    for name in READS:
        measured = [cells.get((name, column.title)) for column in uses]
        print(f"{name:20}" + "".join(_cell(figure) for figure in measured).rstrip())
    print(
        f"{'several, to one':20}" + "".join(_cell(costs.ratio(column)) for column in uses).rstrip()
    )
    for name, halves in (("bar", False), ("bar, halves", True)):
        bars = (
            f"{column.bar(workload, u, halves=halves):{_WIDTH - 1}.2f} "
            for column in uses
            if not halves or HALVES in column.reads
        )
        print(f"{name:20}" + "".join(bars).rstrip())


def _cell(figure: Figure | None) -> str:
    return " " * _WIDTH if figure is None else f"{figure.value:{_WIDTH - 1}.2f}{figure.mark}"
