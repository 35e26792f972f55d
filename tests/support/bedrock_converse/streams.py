"""The real Converse streams of the corpus."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["CorpusMessages", "corpus_messages"]


class CorpusMessages(NamedTuple):
    """A Converse stream of the corpus.

    Attributes:
        name: Name of its file, without the suffix.
        row: Its row of the index.
        body: Its bytes.
    """

    name: str
    row: dict[str, Any]
    body: bytes


@cache
def corpus_messages() -> tuple[CorpusMessages, ...]:
    """Return the Converse streams of the corpus; none without it."""
    folder = Path(os.environ.get("STREAMNORM_CORPUS", "absent")) / "bedrock"
    if not folder.is_dir():
        return ()
    rows = map(json.loads, (folder / "INDEX.jsonl").read_text().splitlines())
    return tuple(
        CorpusMessages(
            row["file"].removesuffix(".eventstream"), row, (folder / row["file"]).read_bytes()
        )
        for row in rows
        if row["operation"] == "converse-stream"
    )
