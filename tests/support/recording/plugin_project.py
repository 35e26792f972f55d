"""A temporary project whose tests use the pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

# Loaded here, as each run drops the modules that it loads itself.
from streamnorm.testing import fixture, plugin
from streamnorm.transports import httpx, httpx2

__all__ = ["Project", "fixture", "httpx", "httpx2"]

PROVIDER = '''
import json
import os
import httpx
import httpx2

URL = "https://api.example.com/v1/chat/completions"

def answer(package, request):
    """Say what the environment wants, and note that somebody asked."""
    asked = json.loads(request.content)["messages"][0]["content"]
    with open("asked.txt", "a") as log:
        log.write(asked + "\\n")
    said = os.environ.get("SAYS", "one")
    chunks = [f"data: {said}\\n\\n".encode(), f"data: to {asked}\\n\\n".encode()]
    headers = {"content-type": "text/event-stream"}
    return package.Response(200, headers=headers, content=iter(chunks))

def network(package):
    return package.MockTransport(lambda request: answer(package, request))

def body(text):
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}

def client(recording, kind=httpx2.Client, **options):
    package = httpx2 if issubclass(kind, (httpx2.Client, httpx2.AsyncClient)) else httpx
    return recording.client(kind, transport=network(package), **options)

def ask(recording, *texts, **options):
    with client(recording, **options) as http:
        return [http.post(URL, json=body(text)).text for text in texts]
'''


class Project:
    """A folder with tests, and functions to run them.

    Attributes:
        path: The folder.
        recordings: Folder of the recordings of `test_it.py`.
    """

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.path = pytester.path
        self.recordings = self.path / "recordings" / "test_it"
        self._pytester = pytester
        self.configure()
        pytester.makepyfile(provider=PROVIDER)

    def configure(self, *lines: str) -> None:
        """Write the configuration, with further lines."""
        fixed = ("filterwarnings = error", "addopts = --strict-markers", "pythonpath = .")
        self._pytester.makeini("\n".join(["[pytest]", *fixed, *lines]))

    def write(self, source: str, **files: str) -> None:
        """Write `test_it.py`."""
        head = "import httpx, httpx2, pytest\nfrom provider import URL, ask, body, client\n\n"
        self._pytester.makepyfile(test_it=head + source, **files)

    def run(self, *args: str) -> pytest.RunResult:
        """Run the tests in this process, without other plugins."""
        return self._pytester.runpytest_inprocess("-p", "no:cacheprovider", *args, plugins=[plugin])

    def run_alone(self, *args: str) -> pytest.RunResult:
        """Run the tests in a process of their own."""
        return self._pytester.runpytest_subprocess(*args)

    def record(self, *args: str, mode: str = "new") -> None:
        """Run the tests in a recording mode; all should pass."""
        result = self.run(f"--streamnorm-record={mode}", *args)
        assert result.ret == 0, result.stdout.str()

    def asked(self) -> list[str]:
        """Return the provider's requests since the last call."""
        log = self.path / "asked.txt"
        if not log.exists():
            return []
        lines = log.read_text().split()
        log.unlink()
        return lines

    def files(self, folder: Path | None = None) -> list[str]:
        """Return all files in a folder of recordings."""
        folder = folder or self.recordings
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
