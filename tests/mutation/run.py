"""Mutation testing: are there lines that no test holds?

    python tests/mutation/run.py [--sample 50] [--seed 1] [streamnorm/_core/codec …]

Each mutant is a copy of the project with one small change; it is killed if a test fails.  The
tests named like the changed module run first, then those of its folder, then those of the laws.
Of each path so many mutants are tried; `module.py:12` stands for those of that line.  Survivors are
printed with their line: some change nothing that can be seen, all others are missing tests.

Before the first mutant all tests must pass on the copy, and fail on one whose modules raise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from forked_pytest import run_tests
from mutants import Mutant, mutants, mutated, unchanged

_ROOT = Path(__file__).parents[2]
_COPIED = ("streamnorm", "tests", "recordings", "docs", "pyproject.toml", "README.md")
_DEFAULT = (
    *("streamnorm/_core/codec", "streamnorm/_core/grammar.py", "streamnorm/_core/grammar.py"),
    *("streamnorm/_core/gate.py", "streamnorm/_core/messages.py", "streamnorm/_transcoder.py"),
    *sorted(
        f"streamnorm/dialects/{room.name}"
        for room in (_ROOT / "streamnorm/dialects").iterdir()
        if (room / "__init__.py").exists()
    ),
)
# Of the modules that join dialects.
_JOINING = (
    *("tests/test_bodies.py", "tests/test_codec.py", "tests/test_detection.py"),
    *("tests/test_projection.py", "tests/test_registry.py", "tests/transcoder"),
    *("tests/test_counting.py", "tests/test_models.py"),
)
_LAWS = (
    *("tests/test_capabilities.py", "tests/test_endpoints.py", "tests/test_keep_message.py"),
    *("tests/test_codec.py", "tests/test_detection.py", "tests/test_registry.py"),
    *("tests/test_counting.py", "tests/test_models.py"),
    *("tests/transcoder", "tests/test_adversarial.py", "tests/test_cost.py", "tests/laws"),
)
_WANTED = 0.9

# Seconds of processor time that each group of tests may take.
_Limits: TypeAlias = dict[tuple[str, ...], float]
# The tests of unchanged code take no longer, by far; a mutant of them may loop.
_MAX_CPU_S = 300


@dataclass(frozen=True)
class Site:
    """A mutant and the module that it is of."""

    module: Path
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.module}:{self.mutant.line}: {self.mutant.change}"


def sites(path: str) -> list[Site]:
    """Return all mutants of a module, of a line of it, or of a package."""
    name, _, line = path.partition(":")
    place = _ROOT / name
    return [
        Site(module.relative_to(_ROOT), mutant)
        for module in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
        for mutant in mutants(module.read_text())
        if not line or mutant.line == int(line)
    ]


def test_groups(module: Path) -> list[tuple[str, ...]]:
    """Return the tests of a module, one group after the other, the last ones for all."""
    parts = module.parts[1:]
    if parts[0] == "dialects":
        return [(f"tests/dialects/{parts[1]}",), ("tests/dialects/test_recordings.py", *_LAWS)]
    if parts[0] == "_core":
        return [("tests/core",), ("tests/dialects",), _LAWS]
    if (_ROOT / "tests" / parts[0]).is_dir():
        # A layer that neither rooms nor laws import.
        folder = Path("tests", *parts[:-1])
        while not (_ROOT / folder).is_dir():
            folder = folder.parent
        return [(str(folder),)]
    return [_JOINING, _LAWS]


def namesakes(module: Path) -> tuple[str, ...]:
    """Return the test files that have the name of a module in theirs."""
    return tuple(
        str(file.relative_to(_ROOT))
        for folder in test_groups(module)[0]
        for pattern in (f"test_{module.stem}.py", f"test_{module.stem}_*.py")
        for file in sorted((_ROOT / folder).rglob(pattern))
    )


def is_killed(copy: Path, max_cpu_s: _Limits, site: Site) -> bool:
    """Return whether a test fails for a mutant."""
    target, original = copy / site.module, copy / "original.py"
    target.rename(original)
    target.write_text(mutated(original.read_text(), site.mutant))
    try:
        own, *others = test_groups(site.module)
        first = namesakes(site.module)
        for group in ([first] if first else []) + [own, *others]:
            limit = max_cpu_s[own if group is first else group]
            if run_tests(copy, group, max_cpu_s=limit, writes_bytecode=False).fails:
                return True
        return False
    finally:
        original.rename(target)


def checked_copy(copy: Path, modules: Iterable[Path]) -> _Limits:
    """Make a copy of the project in which a test that fails is the fault of a mutant.

    Modules are written as their mutants are, so that these differ by their change alone.

    Returns:
        The processor time to allow each group of tests, in seconds.
    """
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(source, copy / name, ignore=ignore)
        else:
            shutil.copy(source, copy / name)
    for module in modules:
        (copy / module).write_text(unchanged((_ROOT / module).read_text()))
    max_cpu_s: _Limits = {}
    for group in dict.fromkeys(group for module in modules for group in test_groups(module)):
        result = run_tests(copy, group, max_cpu_s=_MAX_CPU_S, writes_bytecode=True)
        if result.fails:
            raise SystemExit(f"a test fails without a mutant\n{result.output}")
        max_cpu_s[group] = 5 * result.cpu_s + 10
    for module in {test_groups(module)[0]: module for module in modules}.values():
        own = test_groups(module)[0]
        original = copy / "original.py"
        (copy / module).rename(original)
        (copy / module).write_text("raise RuntimeError('this copy is what is tested')")
        result = run_tests(copy, own, max_cpu_s=max_cpu_s[own], writes_bytecode=False)
        original.rename(copy / module)
        if not result.fails:
            raise SystemExit(f"no test of {' '.join(own)} fails without {module}")
    return max_cpu_s


_judge: Callable[[Site], bool]  # of a process of the pool


def _start_judge(checked: Path, max_cpu_s: _Limits) -> None:
    global _judge
    copy = checked.with_name(str(os.getpid()))
    shutil.copytree(checked, copy)
    _judge = partial(is_killed, copy, max_cpu_s)


def _judged(site: Site) -> tuple[Site, bool]:
    return site, _judge(site)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=_DEFAULT)
    parser.add_argument("--sample", type=int, default=50, help="mutants of each path (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    areas = {path: sites(path) for path in options.paths}
    modules = sorted({site.module for found in areas.values() for site in found})
    ends_well = True
    with tempfile.TemporaryDirectory() as folder:
        checked = Path(folder, "checked")
        checked.mkdir()
        state = (checked, checked_copy(checked, modules))
        with multiprocessing.get_context("fork").Pool(options.jobs, _start_judge, state) as pool:
            for path, every in areas.items():
                chosen = every
                if options.sample < len(every):
                    chosen = random.Random(options.seed).sample(every, options.sample)  # noqa: S311
                print(f"{path}: {len(chosen)} of {len(every)} mutants", flush=True)
                killed = 0
                for site, dead in pool.imap(_judged, chosen):
                    killed += dead
                    if not dead:
                        print(site, flush=True)
                share = killed / max(len(chosen), 1)
                print(f"{path}: {killed} of {len(chosen)} killed ({share:.0%})", flush=True)
                ends_well &= share >= _WANTED
    return not ends_well


if __name__ == "__main__":
    raise SystemExit(main())
