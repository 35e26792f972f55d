"""Distribution of test files to workers, each file to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

__all__ = ["FileScheduling"]


class _Names(list[str]):
    """A list of names that finds the position of one without looking through all."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._position = {name: position for position, name in enumerate(names)}

    def index(self, name: str, *_: SupportsIndex) -> int:
        return self._position[name]


class FileScheduling(LoadFileScheduling):
    """`--dist loadfile` whose work for a test does not grow with the number of tests.

    With 60,000 tests the original takes half a minute of the process that distributes them.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Names(collection)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        for file in [file for file, tests in workload.items() if all(tests.values())]:
            del workload[file]
        return super()._pending_of(workload)
