"""Projection of citations: the citations, and their fields, that a target accepts.

Anthropic refuses a citation of a source that the request lacks ("Could not find search result
for citation index").  Search results and documents are cited by their position in the request.
"""

from __future__ import annotations

from itertools import islice

from msgspec import structs

from streamnorm._core.blocks import (
    Citation,
    Document,
    InputBlock,
    OpaqueBlock,
    ServerToolResult,
    Text,
    ToolResult,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, is_same_dialect
from streamnorm._core.json import count_of, is_object
from streamnorm._core.losses import Losses

_OF_RESULTS = frozenset({"search_result_location", "web_search_result_location"})
_OF_DOCUMENTS = frozenset({"char_location", "page_location", "content_block_location"})
_INDEX = "document_index"
_CITED_TEXT = "cited_text"


class CitedSources:
    """The sources that answers of a history cite by their position in the request.

    Args:
        messages: The history.
        target: Capabilities of the target.
    """

    def __init__(self, messages: tuple[InputMessage, ...], target: BodyCapabilities) -> None:
        self._target = target
        self._uncounted = iter(messages)
        self._position = 0  # of the first message whose documents are not counted
        self._count = 0
        self._is_final = False

    def known(self, citations: tuple[Citation, ...], position: int) -> tuple[Citation, ...]:
        """Return the citations of an answer whose source is in the request.

        The results of the provider's tools in the answer are not: neither results of a search
        nor documents that a tool has fetched.

        Args:
            citations: Citations of a text of the answer.
            position: Position of the answer, not before that of the last call.
        """
        known = tuple(cited for cited in citations if cited.kind not in _OF_RESULTS)
        if not any(cited.kind in _OF_DOCUMENTS for cited in known):
            return known
        count = self._count_before(position)
        return tuple(cited for cited in known if not _is_behind(cited, count))

    def _count_before(self, position: int) -> int:
        """Return how many documents have the position that an answer knows them by.

        A fetched document that the target does not get moves those behind it.
        """
        before, self._position = self._position, max(position, self._position)
        for message in islice(self._uncounted, self._position - before):
            if not self._is_final:
                self._count_documents(message)
        return self._count

    def _count_documents(self, message: InputMessage) -> None:
        keeps_results = self._target.server_history and is_same_dialect(
            message, self._target.dialect
        )
        for block in message.blocks:
            if isinstance(block, ToolResult):
                self._count += sum(map(_is_document, block.content))
            elif not isinstance(block, ServerToolResult):
                self._count += _is_document(block)
            elif _holds_document(block):
                if not keeps_results:
                    self._is_final = True
                    return
                self._count += 1


def _is_behind(cited: Citation, count: int) -> bool:
    """Return whether a citation is of another document than the first `count` ones."""
    index = count_of((cited.extra or {}).get(_INDEX))
    return cited.kind in _OF_DOCUMENTS and index is not None and index >= count


def _is_document(block: InputBlock) -> bool:
    return isinstance(block, Document) or (
        isinstance(block, OpaqueBlock) and block.kind == "document"
    )


def _holds_document(result: ServerToolResult) -> bool:
    """Return whether a tool of the provider has fetched a document."""
    content = result.content.get("content") if is_object(result.content) else None
    return is_object(content) and content.get("type") == "document"


def fit_citations(
    block: Text, target: BodyCapabilities, losses: Losses, *, is_foreign: bool
) -> Text:
    """Return a text of another dialect whose citations have only fields that the target knows.

    Args:
        block: The text.
        target: Capabilities of the target.
        losses: Counter of `citation_fields`.
        is_foreign: Whether all fields of the citations are of another vendor; a program or a page
            may have those of the target's.
    """
    fitted = tuple(_fit(cited, target, is_foreign=is_foreign) for cited in block.citations)
    if fitted == block.citations:
        return block
    losses.add("citation_fields", "messages", "dropped")
    return structs.replace(block, citations=fitted)


def _fit(cited: Citation, target: BodyCapabilities, *, is_foreign: bool) -> Citation:
    if cited.kind not in target.citations:
        return cited
    extra, known = cited.extra or {}, target.citation_fields.get(cited.kind)
    if known is not None and _CITED_TEXT not in known:
        cited = structs.replace(cited, cited_text=None)
    if is_foreign:
        return structs.replace(cited, extra=None)
    if known is not None and extra.keys() - known:
        extra = {name: value for name, value in extra.items() if name in known}
        return structs.replace(cited, extra=extra or None)
    return cited
