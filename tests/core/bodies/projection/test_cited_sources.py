"""Which documents an answer may cite."""

from __future__ import annotations

from msgspec import structs
from support.bodies.projection_targets import EVERYTHING, assistant, user

from streamnorm import Citation, Document, ServerToolResult
from streamnorm._core.bodies.projection.citations import CitedSources

FIRST = Citation("char_location", extra={"document_index": 0})
SECOND = structs.replace(FIRST, extra={"document_index": 1})
FETCHED = {"content": {"type": "document"}}


def test_results_of_a_search_are_no_documents() -> None:
    searched = assistant(ServerToolResult("s", "web_search_tool_result", {"content": []}))
    messages = (user(Document("text/plain", "é")), searched, assistant("So."))
    assert CitedSources(messages, EVERYTHING).known((FIRST, SECOND), 2) == (FIRST,)


def test_documents_behind_a_fetched_one_have_moved() -> None:
    fetched = assistant(ServerToolResult("s", "web_fetch_tool_result", FETCHED))
    messages = (user(Document("text/plain", "é")), fetched, user(Document("text/plain", "è")))
    assert CitedSources(messages, EVERYTHING).known((FIRST, SECOND), 3) == (FIRST,)
