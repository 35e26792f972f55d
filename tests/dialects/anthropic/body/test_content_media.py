"""Images, documents and search results, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.anthropic.bodies import Body, block_in, read, rewritten, write

from streamnorm import (
    DecodeError,
    Document,
    EncodeError,
    Image,
    InputMessage,
    OpaqueBlock,
    Request,
    Text,
    ToolResult,
)

PNG: Body = {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
PDF: Body = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
NOTE: Body = {"type": "text", "media_type": "text/plain", "data": "A note"}
URL: Body = {"type": "url", "url": "https://a.org/f"}
FILE: Body = {"type": "file", "file_id": "file_1"}
PAGES: Body = {
    "type": "content",
    "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}],
}
RESULT: Body = {
    "type": "search_result",
    "source": "https://a.org",
    "title": "A",
    "content": [{"type": "text", "text": "It rains"}],
    "citations": {"enabled": True},
}

FILES: list[tuple[Body, Any]] = [
    ({"type": "image", "source": PNG}, Image("image/png", "iVBORw0=")),
    ({"type": "image", "source": URL}, Image(url="https://a.org/f")),
    ({"type": "image", "source": FILE}, Image(file_id="file_1", issuer="anthropic")),
    (
        {"type": "image", "source": PNG, "transformations": {"oversized_image": "downsize"}},
        Image(
            "image/png",
            "iVBORw0=",
            extra={"anthropic": {"transformations": {"oversized_image": "downsize"}}},
        ),
    ),
    ({"type": "document", "source": PDF}, Document("application/pdf", "JVBERi0=")),
    ({"type": "document", "source": NOTE}, Document("text/plain", "A note")),
    ({"type": "document", "source": URL}, Document(url="https://a.org/f")),
    ({"type": "document", "source": FILE}, Document(file_id="file_1", issuer="anthropic")),
    (
        {"type": "document", "source": PDF, "title": "T", "context": "C"},
        Document("application/pdf", "JVBERi0=", title="T", extra={"anthropic": {"context": "C"}}),
    ),
    (
        {"type": "document", "source": PAGES, "citations": {"enabled": True}},
        Document(
            "text/plain",
            "One\nTwo",
            extra={"anthropic": {"citations": {"enabled": True}, "source": PAGES}},
        ),
    ),
    (
        {"type": "document", "source": {"type": "content", "content": "One"}},
        Document(
            "text/plain",
            "One",
            extra={"anthropic": {"source": {"type": "content", "content": "One"}}},
        ),
    ),
    (
        RESULT,
        Document(
            "text/plain",
            "It rains",
            title="A",
            extra={
                "anthropic": {
                    "search_result": {
                        "source": "https://a.org",
                        "content": RESULT["content"],
                        "citations": {"enabled": True},
                    }
                }
            },
        ),
    ),
]


@pytest.mark.parametrize(("block", "expected"), FILES)
def test_file_is_read_and_written_again(block: Body, expected: Any) -> None:
    marked = {**block, "cache_control": {"type": "ephemeral"}}
    assert block_in(block) == expected
    assert block_in({"type": "tool_result", "tool_use_id": "t", "content": [block]}).content == (
        expected,
    )
    body = rewritten(messages=[{"role": "user", "content": [block, marked]}])
    assert body["messages"][0]["content"] == [block, marked]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "satellite"}},
        {"type": "image"},
        {"type": "document", "source": {"type": "satellite"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}},
        {"type": "document", "source": {"type": "content", "content": ["One"]}},
        {"type": "document", "source": {"type": "content"}},
        {"type": "search_result", "content": [{"type": "text"}], "source": "a", "title": "b"},
    ],
)
def test_file_of_an_unknown_form_is_opaque(block: Body) -> None:
    found = block_in(block)
    assert isinstance(found, OpaqueBlock)
    assert found.kind == block["type"]
    body = rewritten(messages=[{"role": "user", "content": [block]}])
    assert body["messages"][0]["content"] == [block]


def test_unknown_fields_of_a_source_are_kept() -> None:
    block = {"type": "image", "source": {**PNG, "detail": "fine"}}
    assert block_in(block).extra == {"anthropic": {"source": {"detail": "fine"}}}
    body = rewritten(messages=[{"role": "user", "content": [block]}])
    assert body["messages"][0]["content"] == [block]


@pytest.mark.parametrize("block", [RESULT, {"type": "document", "source": PAGES, "title": "A"}])
def test_text_that_was_replaced_is_not_written_as_it_was_read(block: Body) -> None:
    changed = structs.replace(block_in(block), data="Gone")
    (written,) = write(Request(messages=(InputMessage("user", (changed,)),))).body["messages"]
    assert written["content"] == [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Gone"},
            "title": "A",
        }
    ]


def document(block: Document) -> tuple[Any, list[tuple[str, str]]]:
    """Return the content that a document after a text is written as, and the losses."""
    wrote = write(Request(messages=(InputMessage("user", (Text("See"), block)),)))
    return wrote.body["messages"][0]["content"][1:], wrote.losses


def test_text_of_another_type_is_plain_text() -> None:
    written, losses = document(Document("text/markdown", "# A"))
    assert written == [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "# A"},
        }
    ]
    assert losses == [("media_type", "written as text/plain")]


@pytest.mark.parametrize(
    "block",
    [
        Document("application/zip", "UEsD"),
        Document("text/html", url="https://a.org"),
        Document("application/msword", url="https://a.org/a.doc"),
    ],
)
def test_document_that_is_neither_text_nor_pdf_is_dropped(block: Document) -> None:
    assert document(block) == ([], [("document_dropped", "neither text nor PDF")])


@pytest.mark.parametrize(
    "block", [Document("application/pdf", url="https://a.org/f"), Document(url="https://a.org/f")]
)
def test_pdf_by_url_is_written(block: Document) -> None:
    assert document(block) == ([{"type": "document", "source": URL}], [])


def test_message_of_which_nothing_is_written_is_dropped() -> None:
    zipped = InputMessage("user", (Document("application/zip", "UEsD"),))
    wrote = write(Request(messages=(zipped, InputMessage("user", (Text("a"),)))))
    assert wrote.body["messages"] == [{"role": "user", "content": "a"}]
    assert wrote.losses == [
        ("document_dropped", "neither text nor PDF"),
        ("empty_message_dropped", "nothing in it was written"),
    ]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Image(data="iVBORw0="), "file without a media type, expected one"),
        (Image("image/png"), "file without content, expected data, a URL or an id"),
        (Document(data="A"), "file without a media type, expected one"),
    ],
)
def test_file_without_a_legal_form_is_refused(block: Any, message: str) -> None:
    result = ToolResult("t", (Text("a"), block))
    with pytest.raises(EncodeError, match=message) as error:
        write(Request(messages=(InputMessage("user", (result,)),)))
    assert error.value.path == "messages[0].blocks[0].blocks[1]"


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "image", "source": "a"}, ".source"),
        ({"type": "image", "source": {"type": "url"}}, ".source.url"),
        ({"type": "document", "source": {"type": "base64", "data": "a"}}, ".source.media_type"),
        ({"type": "document", "source": NOTE, "title": 1}, ".title"),
        ({"type": "document", "source": NOTE, "cache_control": 1}, ".cache_control"),
        ({**RESULT, "title": 1}, ".title"),
    ],
)
def test_broken_file_is_refused_with_its_path(block: Body, path: str) -> None:
    with pytest.raises(DecodeError) as error:
        read(messages=[{"role": "user", "content": [block]}])
    assert error.value.path == f"$.messages[0].content[0]{path}"
