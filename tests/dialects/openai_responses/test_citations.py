"""Citations: the annotations of an `output_text` part."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Citation
from streamnorm.dialects.openai_responses.content import citation_from_wire


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 4},
            Citation("url_citation", "u", "t", None, 0, 4),
        ),
        ({"type": "url_citation", "url": "u", "title": None}, Citation("url_citation", "u")),
        (  # OpenRouter adds the words of the source
            {"type": "url_citation", "url": "u", "title": "t", "content": "words"},
            Citation("url_citation", "u", "t", "words"),
        ),
        (
            {"type": "container_file_citation", "file_id": "f", "start_index": 2, "end_index": 3},
            Citation("container_file_citation", start=2, end=3, extra={"file_id": "f"}),
        ),
        (
            {"type": "file_path", "file_id": "f", "index": 7},
            Citation("file_path", extra={"file_id": "f", "index": 7}),
        ),
        ({"url": 3, "start_index": True}, Citation("", extra={"url": 3, "start_index": True})),
        ({"type": None, "title": "\ud83d"}, Citation("", title="\ufffd")),
    ],
)
def test_fields_of_an_annotation_are_mapped(wire: dict[str, Any], expected: Citation) -> None:
    before = dict(wire)
    assert citation_from_wire(wire) == expected
    assert wire == before
