"""Files: the content is Base64, and of a type that the target has."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.projection_targets import Projection, assistant, call, own, request, user

from streamnorm import (
    Audio,
    Document,
    EncodeError,
    Image,
    OpaqueBlock,
    Text,
    ToolResult,
    Video,
    translate_request,
)

FORMATS = frozenset({"image/jpeg", "image/png"})
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")


@pytest.mark.parametrize(
    "block",
    [
        Image("image/png", "no base64"),
        Image("image/png", ""),
        Document("application/pdf", "%PDF"),
        Audio("audio/wav", "RIFF…"),
        Video("video/mp4", "é"),
    ],
)
def test_content_that_is_no_base64_is_an_error_that_names_the_place(block: Any) -> None:
    with pytest.raises(EncodeError, match="no Base64, expected the content of a file") as caught:
        Projection(request(user("Look:", block)))
    assert caught.value.path == "messages[0].blocks[1]"
    asked = request(own(user("Look:", block)))
    assert Projection(asked).request is asked
    with pytest.raises(EncodeError, match="no Base64"):
        Projection(asked, checks_files=True)


def test_error_quotes_no_content() -> None:
    with pytest.raises(EncodeError) as caught:
        Projection(request(user(Image("image/png", "secret!"))))
    assert caught.value.args[0] == "7 characters that are no Base64, expected the content of a file"


def test_data_url_in_another_form_is_an_error_that_names_the_place() -> None:
    image = Image(url="DATA:image/png,%89PNG")
    answer = ToolResult("a", (image,))
    with pytest.raises(EncodeError, match="data URL without Base64, expected Base64") as caught:
        Projection(request(assistant(call("a")), user(answer)))
    assert caught.value.path == "messages[1].blocks[0]"


@pytest.mark.parametrize(
    ("block", "read"),
    [
        (Image(url="data:image/png;base64,aGk="), Image("image/png", "aGk=")),
        (Image("image/jpeg", url="DATA:;BASE64,aGk"), Image("image/jpeg", "aGk=")),
        (Audio(url="data:audio/wav;base64,aGk="), Audio("audio/wav", "aGk=")),
        (
            Document(url="data:application/pdf;base64,aGk=", title="a"),
            Document("application/pdf", "aGk=", title="a"),
        ),
        (Document(url="data:text/plain;base64,aGk="), Document("text/plain", "hi")),
    ],
)
def test_data_url_that_a_program_gives_is_content(block: Any, read: Any) -> None:
    done = Projection(request(user(block)))
    assert done.messages == [("user", (read,))]
    assert done.lost == {}


def test_data_url_of_a_text_that_is_none_is_an_error() -> None:
    text = Document(url="data:text/plain;base64,/w==")
    with pytest.raises(EncodeError, match="no text in Base64, expected the content"):
        Projection(request(user(text)))


@pytest.mark.parametrize("block", [Image(), Document("application/pdf"), Audio(), Video(url="")])
def test_file_without_content_is_an_error_that_names_the_place(block: Any) -> None:
    with pytest.raises(EncodeError, match="file without content, expected data") as caught:
        Projection(request(user("Look:", block)))
    assert caught.value.path == "messages[0].blocks[1]"


def test_base64_is_written_in_the_standard_form() -> None:
    done = Projection(request(user(Image("image/png", "-_-_"), Document("application/pdf", "aGk"))))
    assert done.messages == [
        ("user", (Image("image/png", "+/+/"), Document("application/pdf", "aGk=")))
    ]
    assert done.lost == {}


def test_text_documents_are_no_base64() -> None:
    asked = request(user(Document("text/plain", "no base64")))
    assert Projection(asked).request is asked


@pytest.mark.parametrize(
    ("media_type", "written"),
    [("image/png", "image/png"), ("image/PNG", "image/png"), ("image/jpg", "image/jpeg")],
)
def test_type_of_an_image_is_written_as_registered(media_type: str, written: str) -> None:
    done = Projection(request(user(Image(media_type, "aGk="))), images=FORMATS)
    assert done.messages == [("user", (Image(written, "aGk="),))]
    assert done.lost == {}


@pytest.mark.parametrize("media_type", ["image/heic", "image/tiff", "", None])
def test_image_of_a_type_that_the_target_lacks_is_a_loss(media_type: str | None) -> None:
    done = Projection(request(user("Look:", Image(media_type, "aGk="))), images=FORMATS)
    assert done.messages == [("user", (Text("Look:"),))]
    assert done.lost == {"image_dropped": 1}


def test_blocks_of_the_dialect_that_a_server_lacks_are_a_loss() -> None:
    video = OpaqueBlock("target", "video_url", '{"type":"video_url"}')
    file = OpaqueBlock("target", "file", '{"type":"file"}')
    asked = request(own(user("Look:", video, file)))
    done = Projection(asked, opaque_kinds=frozenset({"file"}))
    assert done.messages == [("user", (Text("Look:"), file))]
    assert done.lost == {"opaque_block": 1}
    assert Projection(asked).request is asked


def test_file_ids_of_own_clients_are_refused_where_a_server_has_no_files() -> None:
    mine = request(own(user(Document(file_id="f", issuer="vendor"))))
    assert Projection(mine).request is mine
    with pytest.raises(EncodeError, match="file id of another vendor"):
        Projection(mine, file_issuer=None)


def heic(dialect: str) -> dict[str, Any]:
    url = "data:image/heic;base64,aGk="
    return {
        "anthropic": {
            "model": "m",
            "max_tokens": 99,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look:"},
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/heic",
                                "data": "aGk=",
                            },
                        },
                    ],
                }
            ],
        },
        "openai_chat": {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look:"},
                        {"type": "image_url", "image_url": {"url": url}},
                    ],
                }
            ],
        },
        "openai_responses": {
            "model": "m",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Look:"},
                        {"type": "input_image", "image_url": url, "detail": "auto"},
                    ],
                }
            ],
        },
        "gemini": {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "Look:"},
                        {"inlineData": {"mimeType": "image/heic", "data": "aGk="}},
                    ],
                }
            ]
        },
        "gemini_interactions": {
            "model": "m",
            "input": [
                {"type": "text", "text": "Look:"},
                {"type": "image", "mime_type": "image/heic", "data": "aGk="},
            ],
        },
    }[dialect]


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_heic_is_for_google_alone(source: str, target: str) -> None:
    path = "/v1beta/models/m:generateContent"
    encoded = translate_request(heic(source), dialect=source, to=target, path=path)
    lost = [loss.feature for loss in encoded.losses]
    is_kept = target in (source, "gemini", "gemini_interactions")
    assert ("image_dropped" in lost) is not is_kept
    assert ("heic" in str(encoded.body)) is is_kept


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("data", ["data:image/png,%89PNG", "data:image/png;base64,no base64"])
def test_broken_image_of_a_chat_client_reaches_its_own_vendor_alone(target: str, data: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": data}}]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    if target == "openai_chat":
        assert translate_request(body, dialect="openai_chat", to=target).body == body
        return
    with pytest.raises(EncodeError) as caught:
        translate_request(body, dialect="openai_chat", to=target)
    assert caught.value.path == "messages[0].blocks[0]"


def test_a_pdf_that_was_sent_as_an_image_is_a_document() -> None:
    pdf = Image("application/pdf", "JVBERi0=")
    done = Projection(request(user("Read:", pdf)), images=FORMATS)
    assert done.messages == [("user", (Text("Read:"), Document("application/pdf", "JVBERi0=")))]
    assert done.lost == {}
    none = Projection(request(user("Read:", pdf)), images=FORMATS, documents=False)
    assert none.lost == {"document_dropped": 1}
    for known in (None, FORMATS | {"application/pdf"}):
        kept = request(user("Read:", pdf))
        assert Projection(kept, images=known).request is kept


def test_media_of_the_dialect_go_where_the_server_takes_them() -> None:
    text = Document("text/plain", "a")
    linked = Document(url="https://example.com/a.pdf")
    image = Image(url="https://example.com/a.png", detail="new")
    asked = own(request(own(user(text, linked, image))))
    assert Projection(asked, only_refusals=True).request is asked
    target = {"text_documents": False, "document_urls": False}
    kept = Projection(asked, **target)
    assert kept.messages[0][1][:2] == (text, linked)
    done = Projection(asked, only_refusals=True, **target)
    assert done.messages == [("user", (Text("<document>\na\n</document>"), image))]
    assert done.lost == {"document_as_text": 1, "document_dropped": 1}


@pytest.mark.parametrize(
    ("media_type", "url", "kept"),
    [
        (None, "https://a.example/b.png", True),
        (None, "https://a.example/b", True),
        (None, "https://a.example/b.gif?size=1", False),
        (None, "https://a.example/b.GIF#1", False),
        (None, "https://b.gif", True),
        ("image/jpg", "https://a.example/b.gif", True),
        ("image/svg+xml", "https://a.example/b", False),
    ],
)
def test_image_by_url_of_a_type_that_the_target_refuses_is_a_loss(
    media_type: str | None, url: str, kept: bool
) -> None:
    """Gemini refuses image/gif (microsoft/vscode#286628)."""
    image = Image(media_type, url=url)
    done = Projection(request(user("Look:", image)), images=FORMATS)
    assert done.lost == ({} if kept else {"image_dropped": 1})
    assert Projection(request(user("Look:", image)), images=None).lost == {}


@pytest.mark.parametrize(
    ("media_type", "url", "readers"),
    [
        (None, "https://a.example/b.pdf", {"any", "pdf", "pdf and text"}),
        (None, "https://a.example/b", {"any", "pdf", "pdf and text"}),
        ("application/pdf", "https://a.example/b.docx", {"any", "pdf", "pdf and text"}),
        (None, "https://a.example/b.txt", {"any", "pdf and text"}),
        ("text/csv", "https://a.example/b", {"any", "pdf and text"}),
        (None, "https://a.example/b.docx?download=1", {"any"}),
    ],
)
def test_document_by_url_of_a_type_that_the_target_refuses_is_a_loss(
    media_type: str | None, url: str, readers: set[str]
) -> None:
    """Anthropic loads PDF alone by URL, Gemini text, too, and OpenAI office files."""
    pdf = frozenset({"application/pdf"})
    targets: dict[str, dict[str, Any]] = {
        "any": {},
        "pdf": {"document_types": pdf, "document_urls": "pdf"},
        "pdf and text": {"document_types": pdf},
    }
    asked = request(user("Read:", Document(media_type, url=url)))
    for name, target in targets.items():
        lost = {} if name in readers else {"document_dropped": 1}
        assert Projection(asked, **target).lost == lost, name


OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX = f"{OFFICE}.wordprocessingml.document"


def test_document_of_a_type_that_the_target_lacks_is_a_loss() -> None:
    pdfs = (Document("application/PDF; x=1", "aGk="), Document(None, "aGk="))
    asked = request(user("Read:", *pdfs, Document(DOCX, "aGk="), Document("text/csv", "a,b")))
    done = Projection(asked, document_types=frozenset({"application/pdf"}))
    assert done.messages == [("user", (Text("Read:"), *pdfs, Document("text/csv", "a,b")))]
    assert done.lost == {"document_dropped": 1}


@pytest.mark.parametrize(
    ("media_type", "data"),
    [("application/json", "eyJhIjoxfQ=="), ("application/vnd.api+json;v=1", "eyJhIjoxfQ==")],
)
def test_document_of_a_textual_type_that_the_target_lacks_is_plain_text(
    media_type: str, data: str
) -> None:
    asked = request(user("Read:", Document(media_type, data, title="a")))
    types = frozenset({"application/pdf"})
    done = Projection(asked, document_types=types)
    text = Document("text/plain", '{"a":1}', title="a")
    assert done.messages == [("user", (Text("Read:"), text))]
    assert done.lost == {"media_type": 1}
    written = Projection(asked, document_types=types, text_documents=False)
    in_text = Text('<document title="a">\n{"a":1}\n</document>')
    assert written.messages == [("user", (Text("Read:"), in_text))]
    assert written.lost == {"document_as_text": 1, "media_type": 1}


@pytest.mark.parametrize("data", ["/w==", "IAo="])
def test_document_of_a_textual_type_that_is_no_text_is_a_loss(data: str) -> None:
    asked = request(user("Read:", Document("application/json", data)))
    done = Projection(asked, document_types=frozenset({"application/pdf"}))
    assert done.messages == [("user", (Text("Read:"),))]
    assert done.lost == {"document_dropped": 1}


def test_document_by_url_of_a_type_that_the_target_lacks_is_a_loss() -> None:
    csv = Document("text/csv", url="https://e.org/a.csv")
    asked = request(user("Read:", csv, Document(DOCX, url="https://e.org/a.docx")))
    done = Projection(asked, document_types=frozenset({"application/pdf"}))
    assert done.messages == [("user", (Text("Read:"), csv))]
    assert done.lost == {"document_dropped": 1}


def test_document_of_the_dialect_is_left_to_its_own_server() -> None:
    asked = own(request(own(user("Read:", Document(DOCX, "aGk=")))))
    types = frozenset({"application/pdf"})
    assert Projection(asked, document_types=types).request is asked
    named = Projection(asked, document_types=types, only_refusals=True)
    assert named.lost == {"document_dropped": 1}


@pytest.mark.parametrize("kind", ["wordprocessingml.document", "spreadsheetml.sheet"])
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "bedrock_converse"])
def test_office_file_is_for_targets_that_read_it(kind: str, target: str) -> None:
    file = {"filename": "a", "file_data": f"data:{OFFICE}.{kind};base64,aGk="}
    content = [{"type": "input_text", "text": "Read:"}, {"type": "input_file", **file}]
    body = {"model": "m", "input": [{"role": "user", "content": content}]}
    encoded = translate_request(body, dialect="openai_responses", to=target)
    lost = [loss.feature for loss in encoded.losses]
    assert ("document_dropped" in lost) is (target == "openai_chat")
    assert ("aGk=" in str(encoded.body)) is (target != "openai_chat")


def test_text_file_is_written_as_text_for_chat() -> None:
    file = {"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"}
    body = {"model": "m", "input": [{"role": "user", "content": [{"type": "input_file", **file}]}]}
    encoded = translate_request(body, dialect="openai_responses", to="openai_chat")
    written = '<document title="a.csv">\na,b\n</document>'
    assert encoded.body["messages"] == [{"role": "user", "content": written}]
    assert [loss.feature for loss in encoded.losses] == ["document_as_text"]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://a.example/b.png", True),
        ("HTTPS://a.example/b.png", True),
        ("http://a.example/b.png", False),
        ("gs://bucket/b.png", False),
    ],
)
def test_target_may_load_images_by_https_alone(url: str, kept: bool) -> None:
    asked = request(user("Look:", Image(url=url)))
    assert Projection(asked).request is asked
    done = Projection(asked, image_urls="https")
    assert done.messages == [("user", (Text("Look:"), *([Image(url=url)] if kept else ())))]
    assert done.lost == ({} if kept else {"image_dropped": 1})


@pytest.mark.parametrize("target", ["anthropic", "openai_responses", "gemini"])
def test_image_by_http_does_not_reach_anthropic(target: str) -> None:
    linked = {"type": "image_url", "image_url": {"url": "http://a.example/b.png"}}
    content = [{"type": "text", "text": "Look:"}, linked]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    encoded = translate_request(body, dialect="openai_chat", to=target)
    lost = [loss.feature for loss in encoded.losses]
    assert ("image_dropped" in lost) is (target == "anthropic")
    assert ("http://a.example" in str(encoded.body)) is (target != "anthropic")
