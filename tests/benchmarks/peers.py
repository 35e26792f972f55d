"""The CPU of an event in this package and in its peers, each in a process of its own.

    python tests/benchmarks/peers.py [--rounds N] [--only NAME] [--svg FILE]

The peers are those of the scorecard, found as `tests/scorecard/peers` says, and driven by the
same scripts.  Every side reads the same streams over HTTP from one upstream, which writes a
stream at once, and answers a client of another dialect.  The cost of an event is the CPU of the
process for a long stream without that for a short one, so that nothing of a request is in it; the
rounds of all sides are interleaved, and of each the fastest counts.  A side whose client does not
read the text, reasoning and calls of the stream has no cost.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import scorecard.peers
from peers_chart import Bar, Group, draw
from scorecard.peers import Peer, find_peers
from scorecard.readings import READERS
from workloads import anthropic, chat, responses

LONG, SHORT = 1000, 100
OURS = "streamnorm"


class Stream(NamedTuple):
    """A stream to convert, in two lengths.

    Attributes:
        name: Its name in the table.
        source: Its dialect.
        target: The client's dialect.
        long: Its frames with `LONG` deltas.
        short: Its frames with `SHORT` deltas.
    """

    name: str
    source: str
    target: str
    long: list[bytes]
    short: list[bytes]


def main() -> int:
    """Measure, and print a table; return 2 if the one peer that is asked for is not found."""
    arguments = _arguments()
    script = Path(scorecard.peers.__file__).with_name("drive_streamnorm.py")
    ours = Peer(OURS, (sys.executable, str(script)))
    sides = [ours, *(peer for peer in find_peers() if arguments.only in (None, peer.name))]
    if len(sides) == 1:
        print("no peer is found: see STREAMNORM_PEERS, STREAMNORM_PEERS_NODE", file=sys.stderr)
        if arguments.only is not None:
            return 2
    with ExitStack() as stack:
        for side in sides:
            stack.enter_context(side)
        groups = [_measure(stream, sides, arguments.rounds) for stream in _streams()]
    print("\n".join(_table(groups)))
    if arguments.svg is not None:
        arguments.svg.write_text(draw(groups, OURS))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side (default: 5)")
    parser.add_argument("--only", metavar="NAME", help="only this peer beside ours")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the chart there")
    return parser.parse_args()


def _streams() -> list[Stream]:
    made = [
        ("text of Chat to Anthropic", "openai_chat", "anthropic", chat.text),
        ("four calls of Chat to Anthropic", "openai_chat", "anthropic", chat.calls),
        ("thinking, text, calls of Anthropic to Chat", "anthropic", "openai_chat", anthropic.mixed),
        ("text of Responses to Anthropic", "openai_responses", "anthropic", responses.text),
    ]
    frames = {
        "openai_chat": chat.frames,
        "anthropic": anthropic.frames,
        "openai_responses": responses.frames,
    }
    return [
        Stream(name, source, target, frames[source](make(LONG)), frames[source](make(SHORT)))
        for name, source, target, make in made
    ]


def _measure(stream: Stream, sides: list[Peer], rounds: int) -> Group:
    """Return the cost of an event of a stream on each side that converts it."""
    bars: dict[str, Bar] = {}
    chosen = [side for side in sides if side.converts(stream.source, stream.target)]
    for side in chosen:
        fault = _fault(stream, side)
        bars[side.name] = Bar(side.name, side.version, None if fault else float("inf"), fault)
    for _ in range(rounds):
        for side in chosen:
            if bars[side.name].fault is None:
                cost = _cost(stream, side)
                best = bars[side.name]
                if best.microseconds is not None and cost < best.microseconds:
                    bars[side.name] = best._replace(microseconds=cost)
        print(f"{stream.name}: a round is over", file=sys.stderr)
    return Group(stream.name, list(bars.values()))


def _fault(stream: Stream, side: Peer) -> str | None:
    """Return what is wrong with the message that a client of a side reads; None if nothing is.

    A client of the source reads the stream, too, by code that shares nothing with the package.
    """
    for frames in (stream.short, stream.long):
        data = b"".join(frames)
        sent = READERS[stream.source](data)
        tools = {call.name for call in sent.accumulated.calls}
        try:
            out, _ = side.cpu_of(data, stream.source, stream.target, tools, 1)
        except RuntimeError as exc:
            return str(exc)[:80]
        read = READERS[stream.target](out)
        if read.failed or not read.ended:
            return "no whole stream"
        for kind in ("text", "reasoning", "calls"):
            if getattr(read.accumulated, kind) != getattr(sent.accumulated, kind):
                return f"other {kind}"
    return None


def _cost(stream: Stream, side: Peer) -> float:
    """Return the CPU of an event in microseconds."""
    tools = {call.name for call in READERS[stream.source](b"".join(stream.short)).accumulated.calls}
    (_, long), (_, short) = (
        side.cpu_of(b"".join(frames), stream.source, stream.target, tools, 2)
        for frames in (stream.long, stream.short)
    )
    return max(long - short, 0.0) / (len(stream.long) - len(stream.short)) * 1e6


def _table(groups: list[Group]) -> list[str]:
    names = {bar.name: f"{bar.name} {bar.version}" for group in groups for bar in group.bars}
    names[OURS] = OURS
    lines = [f"| stream | {' | '.join(names.values())} |", "|---|" + "---:|" * len(names)]
    for group in groups:
        by_name = {bar.name: bar for bar in group.bars}
        ours = by_name[OURS].microseconds or 0.0
        cells = []
        for name in names:
            bar = by_name.get(name)
            if bar is None:
                cells.append("–")
            elif bar.microseconds is None:
                cells.append(str(bar.fault))
            elif name == OURS or not ours:
                cells.append(f"{bar.microseconds:.1f} µs")
            else:
                cells.append(f"{bar.microseconds:.0f} µs, {bar.microseconds / ours:.1f} ×")
        lines.append(f"| {group.name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
