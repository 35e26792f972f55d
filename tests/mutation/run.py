"""Mutation testing: are there lines that no test holds?

    python tests/mutation/run.py --list
    python tests/mutation/run.py [--area AREA …] [--sample 200] [--seed 1] [--quick]
    python tests/mutation/run.py streamnorm/_core/grammar.py:12 [PATH …]

Each mutant is a copy of the project with one small change; it is killed if a test fails.  Asked are
the tests that run the changed line, the nearest first; where that serves all tests, those named
like the changed module or in the folder like its, then those that run the line, then all that its
area has.  `--quick` asks the tests
in the folder of the module alone, those of the rooms, too, if it is of the core, and of them as
many as take twenty seconds: in a tenth of the time it prints more survivors than there are, never
fewer.
Of each area, module, package or line so many mutants are tried.  Survivors are printed with their
line: some change nothing that is visible, all others are missing tests.  Those of the first kind
stand in `survivors.toml` with their reasons, and do not count; an entry is stale if its mutant is
killed or its line is gone.  19 of 20 of the others must be killed.

Before the first mutant all tests must pass on the copy, and fail on one whose modules raise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from areas import (
    AREAS,
    ROOT,
    modules_by_area,
    modules_of,
    name_of,
    nearest_tests,
    tests_of,
)
from collected_tests import CollectedTests, Question
from covering import Covering, files_of
from forked_pytest import Result, run_tests
from mutants import Mutant, mutants, mutated, unchanged

_COPIED = ("streamnorm", "tests", "recordings", "docs", "pyproject.toml", "README.md")
_WANTED = 0.95

# The tests of unchanged code take no longer, by far; a mutant of them may loop.
_MAX_CPU_S = 1800
# After so many kills so many test functions are run without a mutant: all that fail for what an
# earlier one has left behind would be kills, too.
_TRUSTED_KILLS, _CHECKED = 50, 20
_QUICK_S = 20
# For each job, so that all end at about the same time.
_PARTS = 8


class Entry(NamedTuple):
    """Mutants that change nothing visible.

    Attributes:
        module: Their module.
        line: Their line, with marks around what is changed.
        change: The kind of change.
    """

    module: str
    line: str
    change: str


@dataclass(frozen=True)
class Site:
    """A mutant and the module that it is of."""

    module: Path
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.module}:{self.mutant.line}: {self.mutant.change}: {self.mutant.text}"

    @property
    def entry(self) -> Entry:
        """The entry that explains the mutant, if there is one."""
        return Entry(str(self.module), self.mutant.text, self.mutant.change)


def sites(path: str) -> list[Site]:
    """Return all mutants of a module, of a line of it, or of a package."""
    name, _, line = path.partition(":")
    return [
        Site(module, mutant)
        for module in modules_of(name)
        for mutant in mutants((ROOT / module).read_text())
        if not line or mutant.line == int(line)
    ]


def explained() -> dict[Entry, str]:
    """Return the entries of `survivors.toml`, each with its reason."""
    with Path(__file__).with_name("survivors.toml").open("rb") as file:
        found = tomllib.load(file).get("survivor", [])
    return {Entry(each["module"], each["line"], each["change"]): each["reason"] for each in found}


@dataclass(frozen=True)
class Scope:
    """Which tests are asked of a mutant.

    Attributes:
        is_quick: Whether these are those of the folder of its module, or of the rooms.
    """

    is_quick: bool = False

    def tests_of(self, module: Path) -> tuple[str, ...]:
        """Return the test files of a module."""
        return tests_of(module, own=self.is_quick)

    def files_for(self, modules: Iterable[Path]) -> list[str]:
        """Return the test files of some modules, each once."""
        return list(dict.fromkeys(file for module in modules for file in self.tests_of(module)))


class Judge:
    """Finds out which mutants a test kills, on a copy of the project of its own.

    Args:
        copy: The copy.
        covering: Which tests run which lines.
        scope: Which tests are asked.
        files: The test files of all modules whose mutants it judges.
    """

    def __init__(self, copy: Path, covering: Covering, scope: Scope, files: list[str]) -> None:
        self._copy = copy
        self._covering = covering
        self._scope = scope
        self._collected = CollectedTests(copy, files)
        self._kills = 0

    def is_killed(self, site: Site) -> bool:
        """Return whether a test fails for a mutant."""
        target, original = self._copy / site.module, self._copy / "original.py"
        target.rename(original)
        source = (ROOT / site.module).read_text()
        after = mutated(source, site.mutant)
        target.write_text(after)
        first = nearest_tests(site.module)
        files = self._scope.tests_of(site.module)
        chosen = self._covering.tests_of(site.module, source, site.mutant, files, first)
        if self._scope.is_quick:
            chosen = self._covering.within(chosen, files, first, _QUICK_S)
        max_cpu_s = 3 * chosen.seconds + 10
        try:
            if chosen.serves_all and self._scope.is_quick:
                return self._any_of(chosen.functions, max_cpu_s)
            if chosen.serves_all:
                return self._any_fails([first, files_of(chosen.functions), files])
            fails = self._collected.fails(
                Question(
                    name_of(site.module), unchanged(source), after, chosen.functions, max_cpu_s
                )
            )
            if fails is None:
                return self._any_of(chosen.functions, max_cpu_s)
            self._kills += fails
        finally:
            original.rename(target)
        if fails and self._kills % _TRUSTED_KILLS == 0:
            self._check(site.module, chosen.functions[:_CHECKED])
        return fails

    def _check(self, module: Path, functions: list[str]) -> None:
        source = unchanged((ROOT / module).read_text())
        question = Question(name_of(module), source, source, functions, _MAX_CPU_S)
        if self._collected.fails(question):
            raise RuntimeError(f"a test of {module} fails without a mutant")

    def _any_of(self, functions: list[str], max_cpu_s: float) -> bool:
        """Return whether one of some test functions fails in a new process."""
        return run_tests(
            self._copy, files_of(functions), max_cpu_s=max_cpu_s, functions=functions
        ).fails

    def _any_fails(self, stages: list[Sequence[str]]) -> bool:
        """Run the tests of some files, each once."""
        tried = set[str]()
        for stage in stages:
            files = [file for file in stage if file not in tried]
            tried.update(files)
            if files and run_tests(self._copy, files, max_cpu_s=_MAX_CPU_S).fails:
                return True
        return False


def check_copy(copy: Path, modules: list[Path], scope: Scope, jobs: int) -> Covering:
    """Make a copy of the project in which a test that fails is the fault of a mutant.

    Modules are written as their mutants are, so that these differ by their change alone.
    """
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(source, copy / name, ignore=ignore)
        else:
            shutil.copy(source, copy / name)
    for module in modules:
        (copy / module).write_text(unchanged((ROOT / module).read_text()))
    covering = _record(copy, modules, scope, jobs)
    for module in {scope.tests_of(module): module for module in modules}.values():
        original = copy / "original.py"
        (copy / module).rename(original)
        (copy / module).write_text("raise RuntimeError('this copy is what is tested')")
        result = run_tests(copy, scope.tests_of(module), max_cpu_s=_MAX_CPU_S)
        original.rename(copy / module)
        if not result.fails:
            raise SystemExit(f"no test fails without {module}")
    return covering


def _record(copy: Path, modules: list[Path], scope: Scope, jobs: int) -> Covering:
    """Run all tests of modules, and record which lines they run."""
    files = scope.files_for(modules)
    count = min(_PARTS * jobs, len(files))
    asked = [
        (copy, files[number::count], copy.with_name(f"recorded{number}")) for number in range(count)
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, result in enumerate(pool.imap_unordered(_record_part, asked), 1):
            if result.fails:
                raise SystemExit(f"a test fails without a mutant\n{result.output}")
            print(f"recorded which lines the tests run: part {number} of {count}", flush=True)
    return Covering.read(copy, modules, [file for _, _, file in asked])


def _record_part(asked: tuple[Path, list[str], Path]) -> Result:
    copy, files, recorded = asked
    return run_tests(copy, files, max_cpu_s=_MAX_CPU_S, recorded=recorded)


_Verdict: TypeAlias = tuple[Site, bool]
"""A mutant, and whether a test killed it."""

_judge: Judge  # of a process of the pool


def _start_judge(original: Path, covering: Covering, scope: Scope, files: list[str]) -> None:
    global _judge
    copy = original.with_name(str(os.getpid()))
    shutil.copytree(original, copy)
    _judge = Judge(copy, covering, scope, files)


def _judged(site: Site) -> _Verdict:
    return site, _judge.is_killed(site)


class Tried(NamedTuple):
    """The mutants of an area that were tried.

    Attributes:
        killed: Number of those that a test killed.
        survivors: Those that no test killed and no entry explains.
        explained: Number of survivors that an entry explains.
        stale: Entries whose mutant was killed, or does not exist.
    """

    killed: int
    survivors: list[Site]
    explained: int
    stale: list[Entry]

    @property
    def share(self) -> float:
        """Share of the killed among those that no entry explains."""
        return self.killed / max(self.killed + len(self.survivors), 1)


def try_mutants(
    every: list[Site], sample: int, seed: int, judged: Callable[[list[Site]], Iterable[_Verdict]]
) -> Tried:
    """Try a sample of mutants; print those that survive."""
    chosen = every
    if sample < len(every):
        chosen = random.Random(seed).sample(every, sample)  # noqa: S311 - no secret
    reasons = explained()
    killed, survivors, known = 0, list[Site](), 0
    modules = {str(site.module) for site in every}
    left = Counter(site.entry for module in modules for site in sites(module))
    for site, dead in judged(chosen):
        killed += dead
        left[site.entry] -= dead
        if not dead and site.entry in reasons:
            known += 1
        elif not dead:
            survivors.append(site)
            print(site, flush=True)
    # Of equal lines all must be killed.
    stale = sorted(each for each in reasons if each.module in modules and not left[each])
    return Tried(killed, survivors, known, stale)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="packages, modules or lines")
    parser.add_argument("--area", action="append", choices=AREAS, help="default: all areas")
    parser.add_argument("--list", action="store_true", help="list the areas and their mutants")
    parser.add_argument("--sample", type=int, default=200, help="mutants of each (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="ask the tests of own folders alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    by_area = modules_by_area()
    if unlisted := by_area[""]:
        parser.error(f"no area has {', '.join(map(str, unlisted))}")
    names = options.area or ([] if options.paths else [*AREAS])
    areas = {
        name: [site for module in by_area[name] for site in sites(str(module))] for name in names
    }
    areas |= {path: sites(path) for path in options.paths}
    if options.list:
        for name, every in areas.items():
            print(f"{name}: {len(every)} mutants of {' '.join(AREAS.get(name, ()))}")
        return 0
    modules = sorted({site.module for found in areas.values() for site in found})
    ends_well = True
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder, "original")
        original.mkdir()
        scope = Scope(options.quick)
        covering = check_copy(original, modules, scope, options.jobs)
        state = (original, covering, scope, scope.files_for(modules))
        with multiprocessing.get_context("fork").Pool(options.jobs, _start_judge, state) as pool:
            for name, every in areas.items():
                tried = try_mutants(
                    every, options.sample, options.seed, partial(pool.imap_unordered, _judged)
                )
                for entry in tried.stale:
                    print(f"stale: {entry.module}: {entry.change}: {entry.line}")
                count = tried.killed + len(tried.survivors)
                print(
                    f"{name}: {tried.killed} of {count} killed ({tried.share:.0%}), and "
                    f"{tried.explained} that change nothing visible; {len(every)} mutants in all",
                    flush=True,
                )
                ends_well &= tried.share >= _WANTED and not tried.stale
    return not ends_well


if __name__ == "__main__":
    raise SystemExit(main())
