"""The scorecard's command: `python -m tests.scorecard`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from .cases import SOURCES, TARGETS, Case, all_cases
from .judging import Fault, judge, judge_exception
from .ours import OURS, transcode
from .peers import Peer, find_peers
from .requests import Written, all_requests, broken_rules, client_body, translate
from .table import Cell, Row, as_markdown, as_text

__all__ = ["main"]


class _Converted(NamedTuple):
    """One stream by one converter: its bytes, and its faults."""

    case: Case
    out: bytes
    faults: list[Fault]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or one case; return 1 if a stream or request of ours has a fault."""
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        wanted = {name.casefold() for name in options.peer or ()}
        converters: list[Peer | None] = [
            stack.enter_context(peer)
            for peer in find_peers()
            if not wanted or peer.name.casefold() in wanted
        ]
        if not wanted or OURS in wanted:
            converters.insert(0, None)
        rows_of = _request_rows if options.requests else _stream_rows
        rows = list(rows_of(converters, options))
        names = [OURS if peer is None else f"{peer.name} {peer.version}" for peer in converters]
    if options.case is None:
        print(as_markdown(names, rows) if options.markdown else as_text(names, rows))
    ours = [row.cells[0] for row in rows] if None in converters else []
    return 0 if all(cell is None or cell.clean == cell.total for cell in ours) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.scorecard", description=__doc__)
    parser.add_argument("--requests", action="store_true", help="requests in place of streams")
    parser.add_argument("--source", action="append", choices=SOURCES, help="only this source")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this target")
    parser.add_argument("--peer", action="append", help=f"only this column; {OURS} is ours")
    parser.add_argument("--case", metavar="NAME", help="show one stream, its output and faults")
    parser.add_argument("--markdown", action="store_true", help="print the table as docs have it")
    return parser


def _stream_rows(converters: Sequence[Peer | None], options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each pair of dialects."""
    for source in options.source or SOURCES:
        cases = [case for case in all_cases(source) if options.case in (None, case.name)]
        for target in (options.target or TARGETS) if cases else ():
            cells: list[Cell | None] = []
            for peer in converters:
                if peer is not None and not peer.converts(source, target):
                    cells.append(None)
                    continue
                cells.append(cell := Cell())
                for converted in _convert(peer, cases, target):
                    cell.add([fault.kind for fault in converted.faults])
                    if options.case is not None:
                        _show(peer, target, converted)
            yield Row(source, target, tuple(cells))


def _convert(peer: Peer | None, cases: list[Case], target: str) -> Iterator[_Converted]:
    """Yield the streams that a converter writes for a client of the target."""
    _print_progress(peer, f"{len(cases)} streams, {cases[0].source} to {target}")
    if peer is None:
        for case in cases:
            out = transcode(case, target)
            yield _Converted(case, out, judge(case, target, out))
        return
    for case, out, error in peer.run(cases, target):
        faults = judge(case, target, out) if error is None else judge_exception(case, error)
        yield _Converted(case, out, faults)


def _request_rows(converters: Sequence[Peer | None], options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each pair of dialects; servers other than the vendor's have rows of ours."""
    requests = list(all_requests())
    pairs = sorted({(case.source, case.target, case.server is None) for case in requests})
    for source, target, is_vendor in pairs:
        if (options.source and source not in options.source) or (
            options.target and target not in options.target
        ):
            continue
        cases = [
            case
            for case in requests
            if (case.source, case.target, case.server is None) == (source, target, is_vendor)
        ]
        cells: list[Cell | None] = []
        for peer in converters:
            # Which server a peer writes for is no part of its request.
            if peer is not None and not (is_vendor and peer.converts(target, source)):
                cells.append(None)
                continue
            _print_progress(peer, f"{len(cases)} requests, {source} to {target}")
            cells.append(cell := Cell())
            if peer is None:
                written: Iterator[Written] = map(translate, cases)
            else:
                # A client of Gemini has the model in its path.
                bodies = [{**client_body(case), "model": case.model} for case in cases]
                asked = peer.run_requests([(source, body) for body in bodies], target)
                written = (Written(body, path, headers) for path, body, headers, _ in asked)
            for case, sent in zip(cases, written, strict=True):
                cell.add(broken_rules(case, sent))
        yield Row(source, target if is_vendor else f"{target}, other servers", tuple(cells))


def _print_progress(peer: Peer | None, work: str) -> None:
    print(f"{OURS if peer is None else peer.name}: {work}", file=sys.stderr)


def _show(peer: Peer | None, target: str, converted: _Converted) -> None:
    """Print a stream, what a converter makes of it, and what is wrong."""
    case, out, faults = converted
    print(f"## {case.source} → {target}, {OURS if peer is None else peer.name}: {case.name}")
    print(case.why)
    print(f"expected: {case.expected}")
    print(f"--- {case.source}\n{case.data.decode(errors='backslashreplace')}")
    print(f"--- {target}\n{out.decode(errors='backslashreplace')}")
    for kind, detail in faults:
        print(f"{kind}: {detail}")
    print("clean" if not faults else f"{len(faults)} faults", end="\n\n")


if __name__ == "__main__":
    sys.exit(main())
