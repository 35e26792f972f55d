"""Watch over a running gateway: its process must not end, log a traceback or log a secret."""

from __future__ import annotations

import os
import re
from pathlib import Path

from support.gateway.processes import GatewayProcess

__all__ = ["GatewayWatch"]

# The name of the model is logged as the client wrote it.
_MODEL = re.compile(r'\bmodel=("(?:[^"\\]|\\.)*"|\S+)')
_FAULTS = (
    "Traceback",
    "fault of the gateway",
    "Exception in ",
    "never retrieved",
    "Task was destroyed",
)


class GatewayWatch:
    """Watch over a gateway's log and memory.

    Args:
        gateway: The gateway.
        log: The file that it logs to.
        secrets: What must not stand in the log.
    """

    def __init__(self, gateway: GatewayProcess, log: Path, secrets: tuple[str, ...]) -> None:
        self._gateway = gateway
        self._log = log
        self._secrets = secrets
        self._read_bytes = 0
        self._may_end = False

    def expect_end(self) -> None:
        """Accept the end of the process from now on."""
        self._may_end = True

    def problems(self) -> list[str]:
        """Return new problems since the last call."""
        found = []
        if self._gateway.process.returncode is not None and not self._may_end:
            found.append(f"the process ended with {self._gateway.process.returncode}")
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        self._read_bytes += len(data)
        text = data.decode("utf-8", "replace")
        found += [f"log: {line[:300]}" for line in text.splitlines() if _is_fault(line)]
        shown = _MODEL.sub("", text)
        found += ["a secret in the log" for secret in self._secrets if secret in shown]
        return found

    def resident_bytes(self) -> int:
        """Return the memory of the process and its children."""
        own = self._gateway.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (own, *children)]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _is_fault(line: str) -> bool:
    return any(fault in line for fault in _FAULTS)
