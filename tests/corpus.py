"""The corpus of real streams, and the written recordings, as bytes for the tests.

The corpus is read in place, from the directory that `STREAMNORM_CORPUS` names; without
it the tests that need it are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import pytest

from streamnorm.recording import Recording

__all__ = [
    "CorpusStream",
    "corpus",
    "each_provider",
    "each_recording",
    "each_stream",
    "needs_corpus",
    "payloads",
    "pieces",
    "recordings",
]

T = TypeVar("T", bound=Callable[..., object])

_ROOT = Path(__file__).parent.parent / "recordings"
_CORPUS = os.environ.get("STREAMNORM_CORPUS")

_WITHOUT_DONE = frozenset({"perplexity", "writer"})
"""Of the providers whose payloads were kept without their framing, those that never
send `[DONE]`."""


class CorpusStream:
    """One stream of the corpus.

    Attributes:
        name: Its file without the dialect and the suffix.
        provider: Who sent it.
        bytes: Size of its file.
        chunk_sizes: Sizes of the reads it arrived in, where they are known.
    """

    def __init__(self, root: Path, entry: dict[str, Any]) -> None:
        self.name: str = entry["file"].partition("/")[2].rpartition(".")[0]
        self.provider: str = entry["provider"]
        self.bytes: int = entry["bytes"]
        self.chunk_sizes: list[int] = entry.get("transport_chunk_sizes") or []
        self._path = root / entry["file"]

    def __str__(self) -> str:
        return self.name

    @cached_property
    def body(self) -> bytes:
        """The bytes of the wire."""
        data = self._path.read_bytes()
        if self._path.suffix != ".jsonl":
            return data
        # Only the payloads were kept, one a line.  Those who kept them mostly left out
        # the terminal too, which all but a few of their providers send.
        lines = [line for line in data.split(b"\n") if line.strip()]
        if lines[-1] != b"[DONE]" and self.provider not in _WITHOUT_DONE:
            lines.append(b"[DONE]")
        return b"".join(b"data: %b\n\n" % line for line in lines)


@cache
def corpus() -> tuple[CorpusStream, ...]:
    """Return the Chat Completions streams of the corpus; none where there is no corpus."""
    if _CORPUS is None:
        return ()
    root = Path(_CORPUS)
    entries = map(json.loads, (root / "INDEX.jsonl").read_text("utf-8").splitlines())
    streams = [CorpusStream(root, entry) for entry in entries if entry["dialect"] == "chat"]
    return tuple(sorted(streams, key=lambda stream: (stream.provider, stream.name)))


@cache
def recordings() -> tuple[Recording, ...]:
    """Return the written recordings of Chat Completions."""
    return tuple(Recording.load(path) for path in sorted(_ROOT.glob("openai_chat/*/*.sse")))


needs_corpus = pytest.mark.skipif(_CORPUS is None, reason="STREAMNORM_CORPUS names no corpus")


def each_stream(test: T) -> T:
    """Run a test with each stream of the corpus, as `stream`."""
    return needs_corpus(pytest.mark.parametrize("stream", corpus() or [None], ids=str)(test))


def each_provider(test: T) -> T:
    """Run a test with all streams of each provider, as `streams`."""
    groups = [list(group) for _, group in groupby(corpus(), lambda stream: stream.provider)]
    names = [group[0].provider for group in groups]
    return needs_corpus(
        pytest.mark.parametrize("streams", groups or [None], ids=names or None)(test)
    )


def each_recording(test: T) -> T:
    """Run a test with each written recording, as `recording`."""
    ids = [f"{recording.path.parent.name}/{recording.path.stem}" for recording in recordings()]
    return pytest.mark.parametrize("recording", recordings(), ids=ids)(test)


def payloads(body: bytes) -> Iterator[str]:
    """Yield the data of each frame, told apart by the plainest rule that fits the corpus."""
    for frame in body.replace(b"\r\n", b"\n").decode().split("\n\n"):
        fields = (line.partition(":") for line in frame.split("\n"))
        data = [value.removeprefix(" ") for field, _, value in fields if field == "data"]
        if data:
            yield "\n".join(data)


def pieces(body: bytes, sizes: list[int] | int) -> list[bytes]:
    """Return a body in chunks of one size, or of the sizes given."""
    if isinstance(sizes, int):
        sizes = [sizes] * -(-len(body) // sizes)
    chunks, start = [], 0
    for size in sizes:
        chunks.append(body[start : start + size])
        start += size
    return [*chunks, body[start:]] if start < len(body) else chunks
