"""Distribution of test files to workers, each file to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import SupportsIndex

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

__all__ = ["FileScheduling", "spread_waiting_files"]

_TESTS = Path(__file__).parents[1]
# Folders whose tests wait for processes, sockets and times for most of their time.
_WAITING = frozenset({"cli", "gateway", "log", "testing"})


def spread_waiting_files(items: list[pytest.Item]) -> None:
    """Order the files so that those that wait are spread evenly among those that compute.

    Some files in the folder of all tests take long, and would run alone at the end: they are the
    first of theirs.
    """
    waiting: dict[Path, None] = {}
    computing: dict[Path, None] = {}
    paths = sorted({item.path for item in items})
    for path in sorted(paths, key=lambda path: path.parent != _TESTS):
        is_waiting = path.relative_to(_TESTS).parts[0] in _WAITING
        (waiting if is_waiting else computing)[path] = None
    places = {
        path: place / len(files)
        for files in (waiting, computing)
        for place, path in enumerate(files)
    }
    items.sort(key=lambda item: places[item.path])


class _Names(list[str]):
    """A list of names that finds the position of one without looking through all."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._position = {name: position for position, name in enumerate(names)}

    def index(self, name: str, *_: SupportsIndex) -> int:
        return self._position[name]


class FileScheduling(LoadFileScheduling):
    """`--dist loadfile` whose work for a test does not grow with the number of tests.

    With 60,000 tests the original takes half a minute of the process that distributes them.  Files
    are distributed in the order of the collection.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Names(collection)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        for file in [file for file, tests in workload.items() if all(tests.values())]:
            del workload[file]
        return super()._pending_of(workload)
