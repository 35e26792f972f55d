"""The corpus of real streams and the hand-written recordings, as test parameters.

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
from hypothesis import settings

from streamnorm.recording import Recording
from streamnorm.recording.format import own_framing

__all__ = [
    "CorpusStream",
    "corpus",
    "each_provider",
    "each_provider_of",
    "each_recording",
    "each_recording_of",
    "each_stream",
    "each_stream_of",
    "needs_corpus",
    "payloads",
    "pieces",
    "recordings",
]

T = TypeVar("T", bound=Callable[..., object])

_ROOT = Path(__file__).parents[3] / "recordings"
_CORPUS = os.environ.get("STREAMNORM_CORPUS")

_FOLDERS = {
    "openai_chat": "chat",
    "anthropic": "anthropic",
    "openai_responses": "responses",
    "gemini": "gemini",
    "gemini_interactions": "interactions",
}

_OWN_INDEX = {"gemini_interactions": "google"}
"""Provider of the streams whose folder has an index of its own, by dialect."""

_WITHOUT_DONE = frozenset({"perplexity", "writer"})
"""Of the providers whose payloads were kept without their framing, those that never
send `[DONE]`."""


class CorpusStream:
    """A stream of the corpus.

    Attributes:
        name: Path of its file without the dialect and the suffix.
        dialect: Its dialect.
        provider: Name of the provider.
        bytes: Size of its file.
        chunk_sizes: Sizes of the recorded reads; empty if unknown.
    """

    def __init__(self, root: Path, entry: dict[str, Any], dialect: str) -> None:
        self.dialect = dialect
        self.name: str = entry["file"].partition("/")[2].rpartition(".")[0]
        self.provider: str = entry["provider"]
        self.bytes: int = entry["bytes"]
        self.chunk_sizes: list[int] = entry.get("transport_chunk_sizes") or []
        self._path = root / entry["file"]

    def __str__(self) -> str:
        return self.name

    @cached_property
    def body(self) -> bytes:
        """The bytes of the stream."""
        data = self._path.read_bytes()
        if self._path.suffix != ".jsonl":
            return data
        # Only the payloads were kept, one a line.  Those who kept them mostly left out
        # the terminal too, which all but a few of their providers send.
        lines = [line for line in data.split(b"\n") if line.strip()]
        if self.dialect == "gemini":
            return b"".join(b"data: %b\r\n\r\n" % line for line in lines)
        if self.dialect in ("anthropic", "openai_responses"):
            names = [json.loads(line)["type"].encode() for line in lines]
            pairs = zip(names, lines, strict=True)
            return b"".join(b"event: %b\ndata: %b\n\n" % pair for pair in pairs)
        if lines[-1] != b"[DONE]" and self.provider not in _WITHOUT_DONE:
            lines.append(b"[DONE]")
        return b"".join(b"data: %b\n\n" % line for line in lines)


def corpus(dialect: str = "openai_chat") -> tuple[CorpusStream, ...]:
    """Return the corpus's streams of a dialect; [] without a corpus."""
    return _corpus(dialect)


@cache
def _corpus(dialect: str) -> tuple[CorpusStream, ...]:
    if _CORPUS is None:
        return ()
    root, folder = Path(_CORPUS), _FOLDERS[dialect]
    if dialect in _OWN_INDEX:
        provider = _OWN_INDEX[dialect]
        entries = [
            {**entry, "file": f"{folder}/{entry['file']}", "provider": provider}
            for entry in _read_index(root / folder)
        ]
    else:
        entries = [entry for entry in _read_index(root) if entry["dialect"] == folder]
    streams = [CorpusStream(root, entry, dialect) for entry in entries]
    return tuple(sorted(streams, key=lambda stream: (stream.provider, stream.name)))


def _read_index(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "INDEX.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def recordings(
    *dialects: str, arrays: bool = False, framings: bool = False
) -> tuple[Recording, ...]:
    """Return the hand-written recordings of some dialects, by default of Chat Completions.

    Args:
        dialects: The dialects.
        arrays: Whether those that are a JSON array, as Gemini sends too, are among them.
        framings: Whether those in another framing than that of their dialect are among them.
    """
    suffixes = (".sse", ".eventstream", ".ws.jsonl", *((".body.json",) if arrays else ()))
    found = [
        Recording.load(path)
        for dialect in dialects or ("openai_chat",)
        for path in sorted(_ROOT.glob(f"{dialect}/*/*"))
        if path.name.endswith(suffixes)
    ]
    return tuple(
        each for each in found if framings or each.framing is own_framing(each.dialect, ".sse")
    )


def needs_corpus(test: T) -> T:
    """Skip a test if there is no corpus."""
    skipped = pytest.mark.skipif(_CORPUS is None, reason="STREAMNORM_CORPUS names no corpus")
    marked: T = pytest.mark.outside(skipped(test))
    return marked


def each_stream_of(dialect: str, *, one_in: int = 1) -> Callable[[T], T]:
    """Parametrize a test with the corpus's streams of a dialect, as `stream`."""
    streams = corpus(dialect)[::one_in] or [None]
    return lambda test: needs_corpus(pytest.mark.parametrize("stream", streams, ids=str)(test))


def each_provider_of(*dialects: str, one_in: int = 1) -> Callable[[T], T]:
    """Parametrize a test with each provider's streams in some dialects, as `streams`.

    Args:
        dialects: The dialects.
        one_in: How many there are to each that is taken; a release takes all.
    """
    stride = 1 if settings().max_examples >= 500 else one_in
    groups = [
        list(group)[::stride]
        for dialect in dialects
        for _, group in groupby(corpus(dialect), lambda stream: stream.provider)
    ]
    names = [f"{group[0].dialect}-{group[0].provider}" for group in groups]
    each = pytest.mark.parametrize("streams", groups or [None], ids=names or None)
    return lambda test: needs_corpus(each(test))


def each_recording_of(
    *dialects: str, arrays: bool = False, framings: bool = False
) -> Callable[[T], T]:
    """Parametrize a test with each hand-written recording of some dialects, as `recording`."""
    found = recordings(*dialects, arrays=arrays, framings=framings)
    ids = [recording.name for recording in found]
    return lambda test: pytest.mark.parametrize("recording", found, ids=ids)(test)


each_stream = each_stream_of("openai_chat")
each_provider = each_provider_of("openai_chat")
each_recording = each_recording_of("openai_chat")


def payloads(body: bytes) -> Iterator[str]:
    """Yield the data of each frame, by the simplest rule that fits the corpus."""
    for frame in body.replace(b"\r\n", b"\n").decode().split("\n\n"):
        fields = (line.partition(":") for line in frame.split("\n"))
        data = [value.removeprefix(" ") for field, _, value in fields if field == "data"]
        if data:
            yield "\n".join(data)


def pieces(body: bytes, sizes: list[int] | int) -> list[bytes]:
    """Return a body in chunks of given sizes."""
    if isinstance(sizes, int):
        sizes = [sizes] * -(-len(body) // sizes)
    chunks, start = [], 0
    for size in sizes:
        chunks.append(body[start : start + size])
        start += size
    return [*chunks, body[start:]] if start < len(body) else chunks
