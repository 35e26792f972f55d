"""Citations, in both directions.

All clients read sources.  Only late releases of v7 read `citations` of a `text-end`, so what a
source has no field for stands in its `providerMetadata`.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean, count_of, is_object, string_of
from streamnorm.dialects.ui_message_stream.wire import OWN, Chunk, is_refused, with_metadata

URL = "source-url"
DOCUMENT = "source-document"

KINDS = frozenset(
    {URL, DOCUMENT}
    # Kinds of the vendors: of Anthropic, OpenAI, Gemini and Bedrock.
    | {"char_location", "page_location", "content_block_location", "search_result_location"}
    | {"web_search_result_location"}
    | {"url_citation", "file_citation", "container_file_citation", "file_path"}
    | {"citation", "image", "maps", "retrievedContext", "web"}
    | {"documentChar", "documentPage", "documentChunk", "searchResultLocation"}
    | {"citationsContent"}
)


def citation_to_wire(citation: Citation, source_id: str) -> Chunk:
    """Return the source of a citation: a document unless it has a URL."""
    own: dict[str, Any] = {
        "kind": citation.kind,
        "citedText": citation.cited_text,
        "startIndex": citation.start,
        "endIndex": citation.end,
        "extra": None if is_refused(citation.extra) else citation.extra,
    }
    metadata = {name: value for name, value in own.items() if value is not None}
    fields: Chunk
    if citation.url is None:
        # The title is required here, and optional of a URL.
        own_title = citation.title is None
        title = citation.kind if citation.title is None else citation.title
        fields = {
            "type": DOCUMENT,
            "sourceId": source_id,
            "mediaType": "text/plain",
            "title": title,
        }
        if own_title:
            metadata["untitled"] = True
    else:
        fields = {"type": URL, "sourceId": source_id, "url": citation.url}
        if citation.title is not None:
            fields["title"] = citation.title
    if metadata in ({"kind": URL}, {"kind": DOCUMENT}):
        metadata = {}
    return with_metadata(fields, {OWN: metadata} if metadata else {})


def citation_from_wire(value: Chunk) -> Citation:
    """Return the citation of a `source-url` or `source-document`."""
    metadata = value.get("providerMetadata")
    metadata = metadata if is_object(metadata) else {}
    own = metadata.get(OWN)
    own = own if is_object(own) else {}
    extra = own.get("extra")
    foreign = {name: item for name, item in metadata.items() if name != OWN}
    if not is_object(extra):
        extra = {"providerMetadata": foreign} if foreign else None
    title = value.get("title")
    if own.get("untitled") is True or not isinstance(title, str):
        title = None
    url = value.get("url")
    cited = own.get("citedText")
    return Citation(
        clean(string_of(own, "kind")) or string_of(value, "type"),
        clean(url) if isinstance(url, str) else None,
        None if title is None else clean(title),
        clean(cited) if isinstance(cited, str) else None,
        count_of(own.get("startIndex")),
        count_of(own.get("endIndex")),
        extra,
    )
