"""Where cache points stand in a message."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import CacheMark, Document, InputMessage, Request, Text, encode_request

CSV = Document("text/csv", "a,b", title="a")
PDF = Document("application/pdf", "aGk=", title="b")
MARK = CacheMark()


@pytest.mark.parametrize(
    ("given", "kinds", "lost"),
    [
        (["q", PDF], ["text", "document", "cachePoint"], []),
        (["q", CSV], ["text", "cachePoint", "document"], ["cache_mark_moved"]),
        (
            ["q", PDF, CSV, structs.replace(CSV, title="c")],
            ["text", "document", "cachePoint", "document", "document"],
            ["cache_mark_moved"],
        ),
        ([Text("q", cache=MARK), CSV], ["text", "cachePoint", "document"], ["cache_mark_dropped"]),
        ([CSV], ["document", "text"], ["cache_mark_dropped", "document_text_added"]),
    ],
)
def test_cache_point_never_stands_behind_a_document_that_is_read_as_text(
    given: list[Any], kinds: list[str], lost: list[str]
) -> None:
    *before, last = [Text(block) if isinstance(block, str) else block for block in given]
    blocks = (*before, structs.replace(last, cache=MARK))
    encoded = encode_request(Request(messages=(InputMessage("user", blocks),)), "bedrock_converse")
    content = encoded.body["messages"][0]["content"]
    assert [kind for item in content for kind in item] == kinds
    assert [loss.feature for loss in encoded.losses] == lost
