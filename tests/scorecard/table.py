"""Counts of what is clean by source, target and converter, as text and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

__all__ = ["Cell", "Row", "as_markdown", "as_text"]


@dataclass
class Cell:
    """What a converter made of the streams or requests of one source for one target.

    Attributes:
        total: Streams or requests that were converted.
        clean: Those without a fault.
        kinds: How many have a fault, by its kind, or break a rule, by its id.
    """

    total: int = 0
    clean: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, kinds: Collection[str]) -> None:
        """Count one stream or request with the kinds of its faults."""
        self.total += 1
        self.clean += not kinds
        self.kinds.update(set(kinds))


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        source: The dialect that is read.
        target: The dialect that is written.
        cells: A cell for each converter; None for one that does not convert these.
    """

    source: str
    target: str
    cells: tuple[Cell | None, ...]


def as_text(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table for a terminal, with the kinds of faults below each row."""
    head = ["source → target", *names]
    lines = [[f"{row.source} → {row.target}", *map(_count, row.cells)] for row in rows]
    widths = [max(len(line[at]) for line in [head, *lines]) for at in range(len(head))]
    printed = ["  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True))]
    for row, line in zip(rows, lines, strict=True):
        printed.append("  ".join(c.ljust(width) for c, width in zip(line, widths, strict=True)))
        for name, cell in zip(names, row.cells, strict=True):
            if cell is not None and cell.kinds:
                printed.append(f"    {name}: {_kinds(cell)}")
    return "\n".join(line.rstrip() for line in printed)


def as_markdown(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table for the docs, without the kinds of faults."""
    head = ["Source", "Target", *names]
    lines = [head, ["---"] * 2 + ["---:"] * len(names)]
    lines += [[f"`{row.source}`", f"`{row.target}`", *map(_count, row.cells)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _count(cell: Cell | None) -> str:
    return "–" if cell is None else f"{cell.clean}/{cell.total}"


def _kinds(cell: Cell) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in cell.kinds.most_common())
