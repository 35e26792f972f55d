"""Mutation testing: are there lines that no test holds?

    python tests/mutation/run.py [--sample 200] [--seed 1] [streamnorm/_core/codec …]

Each mutant is a copy of the project with one small change; it is killed if a test fails.  The
tests of the changed module's own folder run first, then those of the laws if they concern it.
Survivors are printed with their line: some change nothing that can be seen, all others are
missing tests.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from mutants import Mutant, mutants

_ROOT = Path(__file__).parents[2]
_COPIED = ("streamnorm", "tests", "recordings", "docs", "pyproject.toml", "README.md")
_DEFAULT = (
    *("streamnorm/_core/codec", "streamnorm/_core/ordering.py", "streamnorm/_transcoder.py"),
    "streamnorm/dialects",
)
_LAWS = ("tests/laws", "tests/transcoder", "tests/test_adversarial.py", "tests/test_cost.py")
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Site:
    """A mutant and the module that it is of."""

    module: Path
    mutant: Mutant


def sites(paths: list[str]) -> list[Site]:
    """Return all mutants of some modules and packages."""
    found = []
    for path in map(_ROOT.__truediv__, paths):
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            relative = module.relative_to(_ROOT)
            found += [Site(relative, mutant) for mutant in mutants(module.read_text())]
    return found


def tests_of(module: Path) -> list[tuple[str, ...]]:
    """Return the tests to run, one group after the other."""
    parts = module.parts[1:]
    if parts[0] == "dialects":
        own = (f"tests/dialects/{parts[1]}",)
    elif parts[0] == "_core":
        own = ("tests/core",)
    elif (_ROOT / "tests" / parts[0]).is_dir():
        # A layer that neither rooms nor laws import.
        folder = Path("tests", *parts[:-1])
        while not (_ROOT / folder).is_dir():
            folder = folder.parent
        return [(str(folder),)]
    else:
        own = ("tests/transcoder", "tests/test_registry.py", "tests/test_projection.py")
    return [own, ("tests/dialects",), _LAWS]


def is_killed(copy: Path, site: Site) -> bool:
    """Return whether a test fails for a mutant."""
    target = copy / site.module
    original = target.read_text()
    target.write_text(site.mutant.source)
    try:
        return any(_fails(copy, group) for group in tests_of(site.module))
    finally:
        target.write_text(original)


def _fails(copy: Path, paths: tuple[str, ...]) -> bool:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("STREAMNORM_")},
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "quick",
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *paths]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode > 1 and b"error" not in done.stdout.lower():
        raise RuntimeError(done.stdout[-500:].decode() + done.stderr[-500:].decode())
    return done.returncode != 0


@contextmanager
def copies(count: int) -> Iterator[Queue[Path]]:
    """Make copies of the project, and remove them at the end."""
    queue: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            copy = Path(folder, str(number))
            for name in _COPIED:
                source = _ROOT / name
                if source.is_dir():
                    ignore = shutil.ignore_patterns("__pycache__", "node_modules")
                    shutil.copytree(source, copy / name, ignore=ignore)
                else:
                    shutil.copy(source, copy / name)
            queue.put(copy)
        yield queue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=_DEFAULT)
    parser.add_argument("--sample", type=int, default=200, help="mutants to try (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    every = sites(list(options.modules))
    chosen = every
    if options.sample < len(every):
        chosen = random.Random(options.seed).sample(every, options.sample)  # noqa: S311
    print(f"{len(chosen)} of {len(every)} mutants", flush=True)
    killed = tried = 0
    with copies(options.jobs) as free, ThreadPoolExecutor(options.jobs) as pool:

        def judge(site: Site) -> tuple[Site, bool]:
            copy = free.get()
            try:
                return site, is_killed(copy, site)
            finally:
                free.put(copy)

        for site, dead in pool.map(judge, chosen):
            tried += 1
            killed += dead
            if not dead:
                print(f"{site.module}:{site.mutant.line}: {site.mutant.change}", flush=True)
            if tried % 20 == 0:
                print(f"… {killed} of {tried} killed", flush=True)
    print(f"{killed} of {tried} killed ({killed / max(tried, 1):.0%})")
    return killed < tried * 0.9


if __name__ == "__main__":
    raise SystemExit(main())
