"""Type coverage: is anything of the official SDKs' types dropped in silence?

    python tests/type_coverage/run.py [--source anthropic] [--kind requests] [--sample 200]

For each union member, literal and optional field of the types of `openai`, `anthropic` and
`google-genai` a request, a whole answer and a stream is made that has just that one.  In its own
dialect it must come back equal, also under another model's name; in each other dialect it is
carried, reported as a `Loss`, or refused with a reason.  The table counts them, those elsewhere
once for each target; the finds are listed below.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.bodies.type_cases.coverage import COVERED, KINDS, SOURCES, Finding, cover

_FATES = ("carried", "loss", "refused", "null", "listed", "silent")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=SOURCES)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--sample", type=int, help="cases of each kind (default all)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    findings: list[Finding] = []
    heads = ("source", "kind", "cases", "equal", *_FATES)
    print("{:20}{:10}".format(*heads) + "".join(f"{head:>9}" for head in heads[2:]))
    for source, kind in COVERED:
        if options.source not in (None, source) or options.kind not in (None, kind):
            continue
        found = cover(
            *(source, kind),
            sample=options.sample,
            seed=options.seed,
            on_case=partial(_print_progress, f"{source} {kind}"),
        )
        _print_status("")
        counts = (found.cases, found.equal, *(found.fates[fate] for fate in _FATES))
        print(f"{source:20}{kind:10}" + "".join(f"{n:9}" for n in counts), flush=True)
        findings += found.findings
    for finding in findings:
        print(finding)
    print(f"{len(findings)} finds")
    return bool(findings)


def _print_progress(name: str, number: int, total: int) -> None:
    """Print how many cases of a source and a kind are judged."""
    if number % 20 == 0:
        _print_status(f"{name}: {number} of {total}")


def _print_status(text: str) -> None:
    """Replace the last line of a terminal; print nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
